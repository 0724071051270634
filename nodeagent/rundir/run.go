// Package rundir reads and writes the files of the node's run directory, by which
// the agent and the job hook work together: the inventory and the hook's
// configuration, which the agent writes; the records of jobs, which the hook
// writes; and what both leave of a job's use of its GPUs.
//
// Each file is whole or not there. Readers take no lock.
package rundir

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// Run tells two runs of one job apart. SLURM_RESTART_COUNT would not: a requeued
// job's first Epilog already says 1.
type Run struct {
	// SLUID is Slurm's from 26.05; StartTime is in seconds since 1970.
	SLUID     string `json:"sluid,omitempty"`
	StartTime string `json:"startTime,omitempty"`
}

// After says whether r may be a later run than other, whose end must leave r alone. If
// both have a SLUID and the two differ, each counts as later than the other, because a
// clock that was set may have dated them the other way round. Without two SLUIDs the
// times tell.
func (r Run) After(other Run) bool {
	if r.SLUID != "" && other.SLUID != "" {
		return r.SLUID != other.SLUID
	}
	a, err1 := strconv.ParseInt(r.StartTime, 10, 64)
	b, err2 := strconv.ParseInt(other.StartTime, 10, 64)
	return err1 == nil && err2 == nil && a > b
}

// Started is when the run began by Slurm's word, or the zero time.
func (r Run) Started() time.Time {
	seconds, err := strconv.ParseInt(r.StartTime, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (r Run) String() string {
	if r.SLUID != "" {
		return r.SLUID
	}
	return r.StartTime
}

// BootID reads the id of the boot from the proc file system below root, such as "/".
func BootID(root string) (string, error) {
	boot, err := atomicfile.Read(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(boot)), nil
}

// SameBoot says whether two boots can be one. An empty one is not known and is equal to
// any other.
func SameBoot(a, b string) bool { return a == b || a == "" || b == "" }
