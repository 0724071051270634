package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/quoin-hpc/quoin/dcgm"
)

// bootMarker, in the mapping directory, names the boot of its lines. The hook writes
// it.
const bootMarker = ".quoin/boot"

// Directory is what a mapping directory holds.
type Directory struct {
	// There says that the directory exists.
	There bool
	// Boot is the boot of its lines, empty if it is not known.
	Boot string
	// Files are by the exporter's id of a device.
	Files map[string]File
}

// File is one file of a mapping directory.
type File struct {
	// Jobs are the ids that its lines name.
	Jobs []string
	// Odd says that it is no file, or has a line that is no job's id: the exporter may
	// fail on it.
	Odd   bool
	stamp stamp
}

// stamp changes when a file is replaced.
type stamp struct {
	device, inode uint64
	size, written int64
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), written: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = stat.Dev, stat.Ino
	}
	return s
}

// Directories are mapping directories by path.
type Directories map[string]*Directory

// Read reads these directories, and forgets others. Of known ones it reads files that
// have changed.
func (d Directories) Read(dirs map[string]bool) error {
	for dir := range d {
		if !dirs[dir] {
			delete(d, dir)
		}
	}
	var failed error
	for dir := range dirs {
		if d[dir] == nil {
			d[dir] = &Directory{}
		}
		failed = errors.Join(failed, d[dir].read(dir))
	}
	return failed
}

// read reads a directory. A missing one is no error.
func (d *Directory) read(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		*d = Directory{}
		return nil
	} else if err != nil {
		return fmt.Errorf("read mapping directory: %w", err)
	}
	boot, _ := os.ReadFile(filepath.Join(dir, bootMarker)) // empty if it cannot be read
	before := d.Files
	d.There, d.Boot, d.Files = true, strings.TrimSpace(string(boot)), make(map[string]File, len(before))
	var failed error
	for _, e := range entries {
		if !dcgm.IsExporterID(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand just now
		} else if err != nil || !info.Mode().IsRegular() {
			d.Files[e.Name()] = File{Odd: true}
			failed = errors.Join(failed, fmt.Errorf("%s is no file: the exporter may fail on it; remove it", path))
			continue
		}
		f, known := before[e.Name()]
		if now := stampOf(info); !known || f.stamp != now {
			if f, err = readFile(path, now); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		d.Files[e.Name()] = f
	}
	return failed
}

// readFile reads a file, which may have been replaced since it had the stamp. It is
// never written in place.
func readFile(path string, at stamp) (File, error) {
	f := File{stamp: at}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return File{}, nil
	} else if err != nil {
		return File{Odd: true}, fmt.Errorf("read mapping: %w", err)
	}
	if int64(len(data)) != at.size {
		f.stamp = stamp{} // replaced in between: it is read again
	}
	if string(data) == "\n" {
		return f, nil // released
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if dcgm.CheckJobID(line) != nil {
			f.Odd = true
			continue
		}
		f.Jobs = append(f.Jobs, line)
	}
	return f, nil
}
