package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// SlurmdList is the list of GPUs that a slurmd has loaded, as a hook knew it last.
type SlurmdList struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Node is slurmd's name: a machine may have several.
	Node string `json:"node"`
	// BootID and Start say which process: Start is in clock ticks since the boot.
	BootID string `json:"bootID,omitempty"`
	Start  uint64 `json:"start"`
	// Devices are the files of each place, with commas between those of one device.
	Devices []string `json:"devices"`
}

const (
	slurmdListKind = "SlurmdList"
	slurmdFolder   = "slurmd"
)

func (d Dir) slurmdPath(node string) string {
	return filepath.Join(string(d), slurmdFolder, "+"+keyPart(node)+".json")
}

// ReadSlurmdList reads the list of a node's slurmd, nil without one.
func (d Dir) ReadSlurmdList(node string) (*SlurmdList, error) {
	path := d.slurmdPath(node)
	data, err := atomicfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read slurmd's list: %w", err)
	}
	var l SlurmdList
	if err := decode(data, slurmdListKind, &l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.Node != node {
		return nil, fmt.Errorf("%s is of node %q: want %q", path, l.Node, node)
	}
	return &l, nil
}

// WriteSlurmdList writes the list of a node's slurmd.
func (d Dir) WriteSlurmdList(l SlurmdList) error {
	l.APIVersion, l.Kind = topology.APIVersion, slurmdListKind
	return writeJSON(d.slurmdPath(l.Node), l, privateFile, privateDir)
}
