// Package atomicfile reads and writes small files that others read and write at
// any moment: a file is whole or not there. All files of Quoin are written by it.
//
// A library such as renameio syncs each file to disk. Here only WriteDurably does: the
// job hook writes while a job waits, and its files mean nothing after a reboot.
package atomicfile

import (
	"bytes"
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
	data, info, err := ReadInfo(path)
	if info == nil {
		return nil, time.Time{}, err
	}
	return data, info.ModTime(), err
}

// ReadInfo reads a file and returns what the file system says of it. For a file that is too large
// it returns that too, beside the error.
func ReadInfo(path string) ([]byte, fs.FileInfo, error) {
	f, err := Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is of mode %s: want a regular file", path, info.Mode())
	}
	text := bytes.NewBuffer(make([]byte, 0, min(info.Size(), maxFile)+bytes.MinRead)) // to be read at once
	_, err = text.ReadFrom(io.LimitReader(f, maxFile+1))
	data := text.Bytes()
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, info, err
}

// Open opens a file. It does not wait for the other end of a named pipe. os.OpenFile makes five more
// calls to wait for the file with epoll. A regular file needs no such wait, and each call delays the
// start of a job.
func Open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(mode.Perm()))
		switch {
		case errors.Is(err, unix.EINTR): // a slow file system was interrupted
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&unix.O_APPEND)
		f := os.NewFile(uintptr(fd), path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
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

// Write puts data in the place of path in one step. Everybody may read the file.
func Write(path string, data []byte) error {
	return Replace(filepath.Dir(path), path, data)
}

// WriteMode does the same. The new file has the mode.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	from, err := stage(filepath.Dir(path), path, data, mode, func(*os.File) error { return nil })
	if err != nil {
		return err
	}
	return Put(from, path)
}

// WriteDurably does the same and writes the data to disk first: after a power loss
// either the old or the new file is there. The new file has the mode.
func WriteDurably(path string, data []byte, mode fs.FileMode) error {
	from, err := stage(filepath.Dir(path), path, data, mode, (*os.File).Sync)
	if err != nil {
		return err
	}
	return Put(from, path)
}

// Replace does as Write, and stages the new file in folder, which must be on the same
// mount.
func Replace(folder, path string, data []byte) error {
	from, err := Stage(folder, path, data)
	if err != nil {
		return err
	}
	return Put(from, path)
}

// Stage writes data, which is for path, into a new file in folder.
func Stage(folder, path string, data []byte) (string, error) {
	return stage(folder, path, data, 0o644, func(*os.File) error { return nil })
}

// stage calls finish for the file once the data are in it.
func stage(folder, path string, data []byte, mode fs.FileMode, finish func(*os.File) error) (string, error) {
	name := filepath.Join(folder, staged+strconv.FormatUint(rand.Uint64(), 36)) //nolint:gosec // no secret
	f, err := Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, mode)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = setMode(f, mode)
	}
	if err == nil {
		err = finish(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(name) // nobody needs it
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return name, nil
}

// setMode sets the mode only if a umask has removed a bit: chmod makes ext4 write.
func setMode(f *os.File, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return f.Chmod(mode)
}

// Put puts a staged file in the place of path.
func Put(from, path string) error {
	if err := swap(from, path); err != nil {
		_ = os.Remove(from) // nobody needs it
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// swap renames from over to. An existing file is exchanged and then removed. There is no
// moment without the name either way, but ext4 writes a file to disk when it is renamed
// over another, and not when it is exchanged.
func swap(from, to string) error {
	if old, err := os.Lstat(to); err != nil || old.IsDir() { // a rename refuses a directory
		return os.Rename(from, to)
	}
	if unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE) != nil {
		return os.Rename(from, to) // the file system or a sandbox does not know the call
	}
	if err := os.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be tidied away
		return err
	}
	return nil
}
