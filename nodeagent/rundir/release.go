package rundir

import (
	"errors"
	"time"
)

// Releases are the marks of runs that are still to be released.
type Releases struct{ folder }

// Releases returns the directory's release marks.
func (d Dir) Releases() Releases { return Releases{d.folder(releaseFolder)} }

// Release marks a run that has ended and could not be released.
type Release struct {
	JobIdentity
	Run Run
	// Written is when the mark was left; the run had ended by then.
	Written time.Time
	key     string
}

// Write leaves a mark, without the lock. The next holder of the lock releases
// the run.
func (f Releases) Write(m Release) error {
	r := Record{JobID: m.JobID, Cluster: m.Cluster, Node: m.Node, Run: m.Run}
	return f.writeRecord(m.longKey(), r)
}

// All reads the marks of runs that are still to be released.
func (f Releases) All() ([]Release, error) {
	keys, failed := f.keys()
	var marks []Release
	for _, key := range keys {
		if r, err := f.readRecord(key); err != nil {
			failed = errors.Join(failed, err)
		} else if r != nil {
			marks = append(marks, Release{r.Identity(), r.Run, r.Written, key})
		}
	}
	return marks, failed
}

// Remove removes a mark that was read.
func (f Releases) Remove(m Release) error { return f.remove(m.key) }
