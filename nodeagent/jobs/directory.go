package jobs

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

// mapping is what the mapping directory holds.
type mapping struct {
	// Boot is the boot of its lines, empty if it is not known.
	Boot string
	// Files are by the exporter's id of a device. They are nil without a directory.
	Files map[string]mappingFile
}

// mappingFile is one file of a mapping directory.
type mappingFile struct {
	// Jobs are the ids that its lines name.
	Jobs []string
	// Odd says that the entry is no file, or that a line of the file is no job's id. The
	// exporter may fail on such an entry.
	Odd bool
}

// readMapping reads the mapping directory. A missing one is no error.
func readMapping(dir string) (mapping, error) {
	if dir == dcgm.NoMapping {
		return mapping{}, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return mapping{}, nil
	} else if err != nil {
		return mapping{}, fmt.Errorf("read mapping directory: %w", err)
	}
	boot, _ := atomicfile.Read(dcgm.Mapping{Dir: dir}.BootMarker()) // empty if it cannot be read
	d := mapping{Boot: strings.TrimSpace(string(boot)), Files: make(map[string]mappingFile)}
	var failed error
	for _, e := range entries {
		if !dcgm.IsExporterID(e.Name()) {
			continue
		}
		f, err := readMappingFile(filepath.Join(dir, e.Name()), e)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by hand just now
		}
		d.Files[e.Name()], failed = f, errors.Join(failed, err)
	}
	return d, failed
}

func readMappingFile(path string, e fs.DirEntry) (mappingFile, error) {
	if !e.Type().IsRegular() {
		return mappingFile{Odd: true}, fmt.Errorf("%s is no file: the exporter may fail on it; remove it", path)
	}
	data, err := atomicfile.Read(path)
	if err != nil {
		return mappingFile{Odd: true}, fmt.Errorf("read mapping: %w", err)
	}
	var f mappingFile
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
