package rundir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	useFolder = "use"
	useKind   = "JobUse"
)

// Uses are the uses of jobs in a run directory.
type Uses struct{ folder }

// Uses returns the directory's uses of jobs.
func (d Dir) Uses() Uses { return Uses{d.folder(useFolder)} }

// Write writes the use of the job whose record has this key.
func (f Uses) Write(key string, u *Use) error {
	out := *u
	out.APIVersion, out.Kind = topology.APIVersion, useKind
	return f.write(key, u.JobID, out)
}

// Read reads a job's use, nil without one.
func (f Uses) Read(key string) (*Use, error) {
	var u Use
	_, err := f.read(key, useKind, &u)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case u.JobID != jobOfKey(key):
		return nil, fmt.Errorf("use %s of job %q: want a key of the job", key, u.JobID)
	}
	return &u, nil
}

// Of reads the use of a record's run, nil without one. key is the record's.
func (f Uses) Of(key string, r *Record) (*Use, error) {
	u, err := f.Read(key)
	if u == nil || u.JobID != r.JobID || u.Run != r.Run {
		return nil, err // of another run
	}
	return u, nil
}

// Remove removes a job's use, which may be missing.
func (f Uses) Remove(key string) error { return f.remove(key) }

// Keys lists the keys for which there is a use.
func (f Uses) Keys() ([]string, error) { return f.keys() }

// Tidy removes files that killed writers left.
func (f Uses) Tidy() { atomicfile.Tidy(string(f.folder)) }
