package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// Unowned is how much memory programs have on a device that no job and no Pod holds.
type Unowned struct {
	// UUID is the device's.
	UUID string `json:"uuid"`
	GiB  uint64 `json:"gib"`
}

const (
	unownedFile = "unowned.json"
	unownedKind = "UnownedMemory"
)

type unownedDocument struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Devices    []Unowned `json:"devices"`
}

// WriteUnowned tells Prologs of memory that is in use before their jobs.
func (d Dir) WriteUnowned(devices []Unowned) error {
	path := filepath.Join(string(d), unownedFile)
	if len(devices) > 0 {
		return writeJSON(path, unownedDocument{topology.APIVersion, unownedKind, devices}, 0o644, 0o755)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// UnownedOn reads what is known of these devices.
func (d Dir) UnownedOn(uuids []string) ([]Unowned, error) {
	path := filepath.Join(string(d), unownedFile)
	data, err := atomicfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read memory without a job: %w", err)
	}
	var doc unownedDocument
	if err := decode(data, unownedKind, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return slices.DeleteFunc(doc.Devices, func(u Unowned) bool { return !slices.Contains(uuids, u.UUID) }), nil
}
