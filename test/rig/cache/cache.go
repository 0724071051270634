// Package cache keeps what is built or fetched for tests, once for all checkouts of a user. A test
// builds no rig (only this repository's programs and the fake NVML): a real test on a machine without it fails at once, and names the command.
package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

// Path returns a path in Quoin's folder of the user's cache, or of /var/cache for a user
// without a home.
func Path(elem ...string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = "/var/cache"
	}
	return filepath.Join(append([]string{dir, "quoin"}, elem...)...)
}

// Folder returns a folder of the cache, and lets build make it when it is not there. Processes that
// ask at the same time wait for one. A test gets an error instead of a build, which may take minutes.
func Folder(name string, build func(staging string) error) (string, error) {
	if testing.Testing() {
		build = nil
	}
	return folder(name, build)
}

func folder(name string, build func(staging string) error) (string, error) {
	dir := Path(name)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if build == nil {
		return "", fmt.Errorf("%s is not there: run make setup (the box needs make setup WITH=box)", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer lock.Unlock() //nolint:errcheck // the lock ends with the process
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	staging := dir + ".new"
	if err := os.RemoveAll(staging); err != nil {
		return "", err
	}
	if err := os.Mkdir(staging, 0o755); err != nil {
		return "", err
	}
	if err := build(staging); err != nil {
		return "", err
	}
	return dir, os.Rename(staging, dir)
}
