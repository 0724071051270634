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

// Exists returns an error if a store is not there. Quoin makes no store: a share that is not mounted, or
// another name, would look like a store without nodes.
func Exists(store string) error {
	if _, err := os.Stat(store + "/"); err != nil {
		return fmt.Errorf("open store: %w: give the directory of agents and publisher; mount its share, or make it once: install -d %s", err, store)
	}
	return nil
}

// MakeFolder makes a folder in a store that is there.
func MakeFolder(store string, path ...string) error {
	if err := Exists(store); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(append([]string{store}, path...)...), 0o755); err != nil {
		return fmt.Errorf("make folder in store: %w", err)
	}
	return nil
}

// File is the report of one node.
type File struct{ store, path string }

// New returns the file of a node in the store dir. It reads and writes nothing.
func New(dir, node string) *File { return &File{dir, filepath.Join(dir, Folder, node+suffix)} }

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
	if err := MakeFolder(f.store, Folder); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	if err := atomicfile.Write(f.path, report); err != nil {
		return fmt.Errorf("store report: %w", err)
	}
	return nil
}
