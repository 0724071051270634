package rundir

import (
	"errors"
	"fmt"
	"io/fs"

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

// slurmdKey is the key of a node's list.
func slurmdKey(node string) string { return "+" + keyPart(node) }

// ReadSlurmdList reads the list of a node's slurmd, nil without one.
func (d Dir) ReadSlurmdList(node string) (*SlurmdList, error) {
	var l SlurmdList
	_, err := d.folder(slurmdFolder).read(slurmdKey(node), slurmdListKind, &l)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case l.Node != node:
		return nil, fmt.Errorf("slurmd's list of node %.80q: want that of %q", l.Node, node)
	}
	return &l, nil
}

// WriteSlurmdList writes the list of a node's slurmd.
func (d Dir) WriteSlurmdList(l SlurmdList) error {
	l.APIVersion, l.Kind = topology.APIVersion, slurmdListKind
	key := slurmdKey(l.Node)
	return d.folder(slurmdFolder).write(key, key, l)
}
