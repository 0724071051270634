package rundir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Lock takes the run directory's lock. Every writer of the mapping and of the
// records holds it. Lock waits no longer than wait. The kernel releases the lock of
// a process that was killed.
func (d Dir) Lock(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	path := filepath.Join(string(d), lockFile)
	closeLock(path)
	// Without O_NONBLOCK, opening a named pipe of that name would hang.
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW), flock.SetPermissions(ownFile))
	if ok, err := l.TryLock(); err == nil && ok {
		return func() { _ = l.Unlock() }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// A hundred waiting hooks must not take the processor from the one that works.
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		select {
		case <-ctx.Done():
			_ = l.Close() // nothing was locked
			return nil, fmt.Errorf("lock %s for %s: %w", l.Path(), wait, ctx.Err())
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // no secret
		}
		if ok, err := l.TryLock(); err != nil {
			return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
		} else if ok {
			return func() { _ = l.Unlock() }, nil
		}
	}
}

const (
	firstPause   = time.Millisecond
	longestPause = 8 * time.Millisecond
)

// closeLock closes an existing lock file to everybody but its owner: whoever can open the
// file can hold the lock.
func closeLock(path string) {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm() != ownFile {
		_ = os.Chmod(path, ownFile) // a file of another user still locks
	}
}
