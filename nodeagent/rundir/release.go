package rundir

import (
	"errors"
	"fmt"
	"time"
)

// Release marks a run that has ended and could not be released.
type Release struct {
	JobIdentity
	Run        Run
	MappingDir string
	// Written is when the mark was left; the run had ended by then.
	Written time.Time
	key     string
}

// WriteRelease leaves a mark, without the lock. The next holder of the lock releases
// the run.
func WriteRelease(runDir string, m Release) error {
	r := Record{JobID: m.JobID, Cluster: m.Cluster, Node: m.Node, Run: m.Run, MappingDir: m.MappingDir}
	return r.write(runDir, releaseFolder, m.longKey())
}

// ReadReleases reads the marks of runs that are still to be released.
func ReadReleases(runDir string) ([]Release, error) {
	keys, failed := recordKeys(runDir, releaseFolder)
	if failed != nil {
		failed = fmt.Errorf("read marks of ended jobs: %w", failed)
	}
	var marks []Release
	for _, key := range keys {
		if r, err := readRecord(runDir, releaseFolder, key); err != nil {
			failed = errors.Join(failed, err)
		} else if r != nil {
			marks = append(marks, Release{r.Identity(), r.Run, r.MappingDir, r.Written, key})
		}
	}
	return marks, failed
}

// RemoveRelease removes a mark that was read.
func RemoveRelease(runDir string, m Release) error { return removeRecord(runDir, releaseFolder, m.key) }
