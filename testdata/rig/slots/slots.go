// Package slots lets only as many heavy tests run at once as the machine can bear: those
// that start an API server, a Slurm, a kubelet or a browser. A slot is a locked file in the
// user's cache, so all test processes of a machine share the slots, and the kernel frees the
// slot of a process that dies.
package slots

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/quoin-hpc/quoin/testdata/rig/cache"
)

// perCore is the number of slots of each core. A heavy test waits for most of its time.
const perCore = 4

// What a test takes. An API server needs many times the processor time of the others.
const (
	Slurm     = 1
	Browser   = 1
	APIServer = 2
)

// poll is the time between two looks for a free slot.
const poll = 50 * time.Millisecond

var held struct {
	sync.Mutex
	tests map[string]bool
}

// Take waits for so many slots, which the test has until its other cleanups have run. A test
// shares the slots of the test that it is a subtest of, so no test waits for a slot while it
// has one. Take is called before a test measures time: waiting for slots says nothing of the
// test.
func Take(t testing.TB, count int) {
	t.Helper()
	if shared(t.Name()) {
		return
	}
	dir := cache.Path("slots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	locks := wait(t, dir, count)
	held.Lock()
	held.tests[t.Name()] = true
	held.Unlock()
	t.Cleanup(func() {
		held.Lock()
		delete(held.tests, t.Name())
		held.Unlock()
		free(locks)
	})
}

func free(locks []*flock.Flock) {
	for _, lock := range locks {
		_ = lock.Close()
	}
}

// shared reports whether the test, or one that it is a subtest of, has a slot.
func shared(name string) bool {
	held.Lock()
	defer held.Unlock()
	if held.tests == nil {
		held.tests = map[string]bool{}
	}
	for end := len(name); end > 0; end = strings.LastIndexByte(name[:end], '/') {
		if held.tests[name[:end]] {
			return true
		}
	}
	return false
}

// wait returns the locks of slots that were free. It takes all of them at once or none: two
// tests that have a part each would wait for each other.
func wait(t testing.TB, dir string, count int) []*flock.Flock {
	t.Helper()
	all := perCore * runtime.GOMAXPROCS(0)
	for count = min(count, all); ; time.Sleep(poll) {
		var locks []*flock.Flock
		for i := range all {
			lock := flock.New(filepath.Join(dir, strconv.Itoa(i)))
			locked, err := lock.TryLock()
			if err != nil {
				t.Fatalf("take a slot: %v", err)
			}
			if !locked {
				_ = lock.Close() // it is open
				continue
			}
			if locks = append(locks, lock); len(locks) == count {
				return locks
			}
		}
		free(locks)
	}
}
