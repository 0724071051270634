// Package reportdir is the reports of nodes as files of a directory store: DIR/reports/<node>.json.
// Each agent writes the file of its node, by rename. A publisher reads them all.
package reportdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// Folder has the reports, in the directory of the store.
const Folder = "reports"

const suffix = ".json"

// File is the report of one node.
type File struct{ path string }

// New returns the file of a node in the store dir. It reads and writes nothing.
func New(dir, node string) *File { return &File{filepath.Join(dir, Folder, node+suffix)} }

// Get returns the stored report, or nil if there is none.
func (f *File) Get(context.Context) ([]byte, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read stored report: %w", err)
	}
	return data, nil
}

// Put stores the report. The report is not synced to disk: a report that a power failure
// takes is missed by its agent, which writes it again, and until then the publisher
// leaves the node where it is.
func (f *File) Put(_ context.Context, report []byte) error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	if err := atomicfile.Write(f.path, report); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	return nil
}
