package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/topology"
)

// Places says in which blocks a job runs. A Prolog writes it for the job's tasks, if
// slurm.conf has a TaskProlog. It goes when the job's record goes.
type Places struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	JobID      string `json:"jobID"`
	// Blocks are in Slurm's order. It is empty if the blocks are not known.
	Blocks []JobBlock `json:"blocks,omitempty"`
}

// JobBlock is a block that a job has nodes in. Nodes are the job's, as a host list.
type JobBlock struct {
	Name  string `json:"name"`
	Nodes string `json:"nodes"`
}

const (
	placesKind  = "JobPlaces"
	tasksFolder = "tasks"
	// A job's tasks run as its user, who reads the job's file and no other.
	taskFile fs.FileMode = 0o400
	tasksDir fs.FileMode = 0o711
)

// WritePlaces writes what the tasks of a job with a record read, for the job's user.
func WritePlaces(d Dir, key string, uid int, p Places) error {
	if err := dcgm.CheckJobID(p.JobID); err != nil {
		return err
	}
	path, err := d.folder(tasksFolder).path(key)
	if err != nil {
		return err
	}
	p.APIVersion, p.Kind = topology.APIVersion, placesKind
	if err := writeJSON(path, p, taskFile, tasksDir); err != nil {
		return err
	}
	if err := os.Lchown(path, uid, -1); err != nil {
		return fmt.Errorf("write places of a job: %w", err)
	}
	return nil
}

// FindPlaces reads what a job's Prolog wrote for its tasks. The error is fs.ErrNotExist if
// it wrote nothing.
func FindPlaces(d Dir, id JobIdentity) (*Places, error) {
	if err := dcgm.CheckJobID(id.JobID); err != nil {
		return nil, err
	}
	p, err := readPlaces(d, id.longKey())
	if errors.Is(err, fs.ErrNotExist) {
		p, err = readPlaces(d, id.JobID)
	}
	return p, err
}

func readPlaces(d Dir, key string) (*Places, error) {
	var p Places
	if _, err := d.folder(tasksFolder).read(key, placesKind, &p); err != nil {
		return nil, err
	}
	if p.JobID != JobOfKey(key) {
		return nil, fmt.Errorf("%s: it is of job %q", filepath.Join(string(d), tasksFolder, key+".json"), p.JobID)
	}
	return &p, nil
}
