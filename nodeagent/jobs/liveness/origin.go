package liveness

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/quoin-hpc/quoin/nodeagent/process"
)

// JobOf returns the job whose step a process descends from. It is empty if no step is seen above
// the process, such as for a daemon, whose parent has ended.
func JobOf(proc string, pid uint32) string {
	const deepest = 64
	id := strconv.FormatUint(uint64(pid), 10)
	for range deepest {
		dir, is := filepath.Join(proc, id), process.Read(proc, id)
		if is.Name == "slurmstepd" && ofRoot(dir) {
			job, _, _ := stepOf(dir)
			return job
		}
		if !isNumber(is.Parent) || is.Parent == "0" {
			return ""
		}
		id = is.Parent
	}
	return ""
}

// InOtherPod reports whether a process is in a Pod in which no slurmd runs. What is in slurmd's own
// Pod belongs to Slurm, as what is in no Pod may.
func InOtherPod(proc string, pid uint32) bool {
	pod := podOf(filepath.Join(proc, strconv.FormatUint(uint64(pid), 10)))
	if pod == "" {
		return false
	}
	entries, _ := os.ReadDir(proc) // without proc there is no Pod either
	for _, e := range entries {
		if process.Read(proc, e.Name()).IsSlurmd() && podOf(filepath.Join(proc, e.Name())) == pod {
			return false
		}
	}
	return true
}

// podOf returns the UID of the Pod that a process is in, by the name that the kubelet gives the
// Pod's control group. It is empty for a process in no Pod.
func podOf(dir string) string {
	groups, _ := os.ReadFile(filepath.Join(dir, "cgroup")) // empty if it has ended
	if m := podGroup.FindSubmatch(groups); m != nil {
		return string(m[1])
	}
	return ""
}

// podGroup finds names such as /kubepods/burstable/pod8fa9-…/ and kubepods-pod8fa9_….slice.
var podGroup = regexp.MustCompile(`[/-]pod([0-9a-f][0-9a-f_-]{7,})[/.]`)
