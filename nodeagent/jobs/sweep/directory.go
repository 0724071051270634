package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// Mapping is what the mapping directory holds.
type Mapping struct {
	// Boot is the boot of its lines, empty if it is not known.
	Boot string
	// Files are by the exporter's id of a device. They are nil without a directory.
	Files map[string]File
}

// File is one file of a mapping directory.
type File struct {
	// Jobs are the ids that its lines name.
	Jobs []string
	// Odd says that the entry is no file, or that a line of the file is no job's id. The
	// exporter may fail on such an entry.
	Odd bool
}

// Read reads the mapping directory. A missing one is no error.
func Read(dir string) (Mapping, error) {
	if dir == dcgm.NoMapping {
		return Mapping{}, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Mapping{}, nil
	} else if err != nil {
		return Mapping{}, fmt.Errorf("read mapping directory: %w", err)
	}
	boot, _ := atomicfile.Read(dcgm.Mapping{Dir: dir}.BootMarker()) // empty if it cannot be read
	d := Mapping{Boot: strings.TrimSpace(string(boot)), Files: make(map[string]File)}
	var failed error
	for _, e := range entries {
		if !dcgm.IsExporterID(e.Name()) {
			continue
		}
		f, err := readFile(filepath.Join(dir, e.Name()), e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand just now
		}
		d.Files[e.Name()], failed = f, errors.Join(failed, err)
	}
	return d, failed
}

func readFile(path string, e fs.DirEntry) (File, error) {
	if !e.Type().IsRegular() {
		return File{Odd: true}, fmt.Errorf("%s is no file: the exporter may fail on it; remove it", path)
	}
	data, err := atomicfile.Read(path)
	if err != nil {
		return File{Odd: true}, fmt.Errorf("read mapping: %w", err)
	}
	var f File
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
