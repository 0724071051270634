// Package slots lets only as many heavy tests run at once as the machine can bear.
// A heavy test starts an API server, a Slurm or a browser. A slot is a locked file in the
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

	"github.com/quoin-hpc/quoin/test/rig/cache"
)

// perCore is the number of slots of a kind for each core. A heavy test waits for most of its
// time, but when it works, ten or more of its processes do.
const perCore = 1

// Kind is what a test starts. Each kind has slots of its own, so that many cheap tests do not
// keep the few expensive ones waiting.
type Kind string

// The kinds. A browser takes a slot of a Slurm.
const (
	APIServer Kind = "api-server"
	Slurm     Kind = "slurm"
	Browser        = Slurm
)

// poll is the time between two looks for a free slot.
const poll = 200 * time.Millisecond

var held struct {
	sync.Mutex
	tests map[string]bool
}

// Take waits for a slot, which the test has until its other cleanups have run. A test that has
// a slot, or is a subtest of one that has, waits for none: so no test waits for a slot while it
// has one. Take is called before a test measures time: waiting for a slot says nothing of the
// test.
func Take(t testing.TB, kind Kind) {
	t.Helper()
	if shared(t.Name()) {
		return
	}
	dir := cache.Path("slots", string(kind))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock := wait(t, dir)
	held.Lock()
	held.tests[t.Name()] = true
	held.Unlock()
	t.Cleanup(func() {
		held.Lock()
		delete(held.tests, t.Name())
		held.Unlock()
		_ = lock.Close() // this frees the slot
	})
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

// wait returns the lock of a slot that was free.
func wait(t testing.TB, dir string) *flock.Flock {
	t.Helper()
	for n := perCore * runtime.GOMAXPROCS(0); ; time.Sleep(poll) {
		for i := range n {
			lock := flock.New(filepath.Join(dir, strconv.Itoa(i)))
			locked, err := lock.TryLock()
			if err != nil {
				t.Fatalf("take a slot: %v", err)
			}
			if locked {
				return lock
			}
			_ = lock.Close() // it is open
		}
	}
}
