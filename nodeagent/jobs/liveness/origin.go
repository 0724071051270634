package liveness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// JobOf returns the job whose step a process descends from. It is empty if no step is seen above
// the process, such as for a daemon, whose parent has ended.
func JobOf(proc string, pid uint32) string {
	const deepest = 64
	id := strconv.FormatUint(uint64(pid), 10)
	for range deepest {
		dir := filepath.Join(proc, id)
		stat, _ := os.ReadFile(filepath.Join(dir, "stat")) // empty if it has ended
		name, parent := parseStat(stat)
		if name == "slurmstepd" && ofRoot(dir) {
			title, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // empty if it has ended
			return jobOfTitle(string(title))
		}
		if !isNumber(parent) || parent == "0" {
			return ""
		}
		id = parent
	}
	return ""
}

// jobOfTitle reads the job in the command line of a step, such as "slurmstepd: [17.extern]".
func jobOfTitle(title string) string {
	text, is := strings.CutPrefix(title, "slurmstepd: [")
	job, _, named := strings.Cut(text, ".")
	if !is || !named || !isNumber(job) {
		return ""
	}
	return job
}
