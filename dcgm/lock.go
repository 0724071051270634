package dcgm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Lock holds the run directory's lock, which every writer of the mapping takes.
// It waits no longer than wait. The kernel lets go of a killed holder's lock.
func Lock(ctx context.Context, runDir string, wait time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(runDir, 0o755); err != nil {
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	// Without O_NONBLOCK opening a named pipe of that name would hang.
	l := flock.New(filepath.Join(runDir, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK))
	if ok, err := l.TryLock(); err == nil && ok {
		return func() { _ = l.Unlock() }, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// A hundred that wait must not take the time of the one that works.
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

// mappingWait bounds how long the writers of other run directories are waited
// for: each holds the mapping's lock for one change of its files.
const mappingWait = time.Second

// lock holds the mapping directory's own lock, by which the writers of several
// run directories change its files one after another. Where none can be made
// there is nothing to wait for: the change itself will say what is wrong.
func (m Mapping) lock() (unlock func(), err error) {
	path := filepath.Join(m.Dir, stagingFolder, lockFile)
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return func() {}, nil //nolint:nilerr // see above
	}
	for end := time.Now().Add(mappingWait); ; time.Sleep(time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			_ = f.Close()
			return func() {}, nil // a file system without locks
		case time.Now().After(end):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s for %s: %w", path, mappingWait, err)
		}
	}
}

// writerPrefix begins the marks of the run directories that write a mapping.
const writerPrefix = "run-"

// writer is the mark of the caller's run directory: a path would not do, for the
// containers of two slurmds have two directories at one.
func (m Mapping) writer() string {
	var st unix.Stat_t
	if m.RunDir == "" || unix.Stat(m.RunDir, &st) != nil {
		return ""
	}
	return fmt.Sprintf("%s%x-%x", writerPrefix, st.Dev, st.Ino)
}

// Mark leaves a mark that the caller's run directory writes here.
func (m Mapping) Mark() error {
	name := m.writer()
	if name == "" {
		return nil
	}
	path := filepath.Join(m.Dir, stagingFolder, name)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make mapping directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return fmt.Errorf("mark the mapping directory: %w", err)
	}
	return f.Close()
}

// Shared says whether another run directory's hook has written here in this
// boot: a line without a record in the caller's may then be its job's.
func (m Mapping) Shared() bool {
	own := m.writer()
	for _, name := range m.writers() {
		if name != own {
			return true
		}
	}
	return false
}

func (m Mapping) writers() (names []string) {
	entries, err := os.ReadDir(filepath.Join(m.Dir, stagingFolder))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), writerPrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func (m Mapping) forgetWriters() {
	for _, name := range m.writers() {
		_ = os.Remove(filepath.Join(m.Dir, stagingFolder, name)) // it is made again
	}
}
