package rundir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/dcgm/document"
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
	f, err := atomicfile.Open(path, unix.O_RDONLY|unix.O_CREAT|unix.O_NOFOLLOW, document.Own)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// A hundred waiting hooks must not take the processor from the one that works.
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // which unlocks it
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // nothing was locked
			return nil, fmt.Errorf("lock %s for %s: %w", path, wait, ctx.Err())
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // no secret
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
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm() != document.Own {
		_ = os.Chmod(path, document.Own) // a file of another user still locks
	}
}
