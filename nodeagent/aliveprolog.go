package nodeagent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// prologs is what the node's processes show of Prologs, which slurmd starts
// itself: no step of the job is there as long as they run.
type prologs struct {
	// all says that a slurmd is seen, and of each of its children for which job it
	// runs. So it is where this process may look at others: on the host, as root.
	all bool
	// jobs are those for which slurmd has a child.
	jobs map[string]bool
}

// lookForPrologs looks at the children of all slurmds in a proc file system.
func lookForPrologs(proc string) prologs {
	p := prologs{jobs: make(map[string]bool)}
	entries, _ := os.ReadDir(proc) // nothing is seen without
	slurmds, parents := make(map[string]bool), make(map[string]string)
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		name, state, parent := readStat(filepath.Join(proc, e.Name(), "stat"))
		if name == "slurmd" {
			slurmds[e.Name()] = true
		}
		if name != "slurmstepd" && state != "Z" { // steps are seen elsewhere
			parents[e.Name()] = parent
		}
	}
	p.all = len(slurmds) > 0
	for pid, parent := range parents {
		if !slurmds[parent] {
			continue
		}
		if job := jobOfProcess(filepath.Join(proc, pid)); job != "" {
			p.jobs[job] = true
		} else {
			p.all = false
		}
	}
	return p
}

// readStat reads "17 (name) S 1 ..."; a name may have blanks and brackets.
func readStat(path string) (name, state, parent string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", "", ""
	}
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return "", "", ""
	}
	fields := strings.Fields(string(text[to+1:]))
	if len(fields) < 2 {
		return "", "", ""
	}
	return string(text[from+1 : to]), fields[0], fields[1]
}

// jobOfProcess returns the job that a process was started for, empty where that
// cannot be told.
func jobOfProcess(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if job, is := bytes.CutPrefix(entry, []byte("SLURM_JOB_ID=")); is {
			return string(job)
		}
	}
	return ""
}
