package dcgm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// replace stages data in folder, which is on the same mount, and puts it in the
// place of path in one step. It is not synced to disk: none of these files means
// anything after a reboot.
func replace(folder, path string, data []byte) error {
	f, err := os.CreateTemp(folder, ".new-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = swap(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // it is of no use
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// swap renames from over to. Where to exists it exchanges the two and removes
// the old one: no moment is without the name either way, but ext4 writes a file
// to disk when it is renamed over another, and not when it is exchanged.
func swap(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if err == nil {
		return os.Remove(from)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return os.Rename(from, to)
	}
	return err
}
