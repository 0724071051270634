// Package atomicfile reads and writes small files that others read and write at
// any moment: a file is whole or not there.
//
// Nothing is synced to disk, because none of these files means anything after a
// reboot. That is why renameio, which syncs each file, is not used here: the job
// hook writes such files while a job waits.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file, in bytes.
const maxFile = 8 << 20

// Read reads a regular file of limited size. Opening a named pipe would wait until
// somebody writes.
func Read(path string) ([]byte, error) {
	data, _, err := ReadTime(path)
	return data, err
}

// ReadTime reads a file and says when it was modified.
func ReadTime(path string) ([]byte, time.Time, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, fmt.Errorf("%s is of mode %s: want a regular file", path, info.Mode())
	}
	data := make([]byte, 0, info.Size()%maxFile+1) // one byte more, to see the end without growing
	for len(data) <= maxFile {
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, info.ModTime(), nil
		} else if err != nil {
			return nil, time.Time{}, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
	return nil, time.Time{}, fmt.Errorf("%s has more than %d bytes", path, maxFile)
}

// staged begins the names of files that are being written.
const staged = ".new-"

// Tidy removes files that killed writers left in a folder.
func Tidy(folder string) {
	f, err := os.Open(folder)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if !strings.HasPrefix(name, staged) {
			continue
		}
		path := filepath.Join(folder, name)
		// Somebody may be writing a younger one just now.
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()).Abs() > time.Minute {
			_ = os.Remove(path) // the next one tries again
		}
	}
}

// Replace stages data in folder, which must be on the same mount, and puts it in the
// place of path in one step.
func Replace(folder, path string, data []byte) error {
	from, err := Stage(folder, path, data)
	if err != nil {
		return err
	}
	return Put(from, path)
}

// Stage writes data, which is for path, into a new file in folder.
func Stage(folder, path string, data []byte) (string, error) {
	f, err := fresh(folder)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	// Only if a umask has removed a bit, because chmod makes ext4 write.
	if info, e := f.Stat(); e != nil || info.Mode().Perm() != 0o644 {
		if e := f.Chmod(0o644); err == nil {
			err = e
		}
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(f.Name()) // nobody needs it
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return f.Name(), nil
}

// fresh makes a file with a new name.
func fresh(folder string) (*os.File, error) {
	for {
		name := filepath.Join(folder, staged+strconv.FormatUint(rand.Uint64(), 36)) //nolint:gosec // no secret
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// Put puts a staged file in the place of path.
func Put(from, path string) error {
	if err := swap(from, path); err != nil {
		_ = os.Remove(from) // nobody needs it
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// swap renames from over to. If to exists, swap exchanges the two and removes the old
// file. There is no moment without the name either way, but ext4 writes a file to disk
// when it is renamed over another, and not when it is exchanged.
func swap(from, to string) error {
	if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE) != nil {
		// to does not exist, or the file system or a sandbox does not know the call.
		return os.Rename(from, to)
	}
	if err := os.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be tidied away
		return err
	}
	return nil
}
