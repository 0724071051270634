package liveness

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// prologs is what the node's processes show of Prologs and Epilogs. slurmd starts
// these itself, and the job has no step while they run.
type prologs struct {
	// all says that a slurmd is seen, and that the job of each of its children is
	// known. A pod with a process namespace of its own sees no slurmd. An agent without
	// root's capabilities cannot read the job of a child.
	all bool
	// jobs has the jobs that a child of slurmd works for.
	jobs map[string]bool
}

// findPrologs reads the children of all slurmds in a proc file system. Between two
// scripts a slurmd has no child for some milliseconds. A child named slurmstepd runs
// neither a Prolog nor an Epilog.
func findPrologs(proc string) prologs {
	p := prologs{jobs: make(map[string]bool)}
	entries, _ := os.ReadDir(proc) // without proc nothing is seen
	slurmds, parents := make(map[string]bool), make(map[string]string)
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(proc, e.Name(), "stat")) // empty if it has ended
		name, parent := parseStat(stat)
		if name != "slurmstepd" {
			parents[e.Name()] = parent
		}
		if (name == "slurmd" || name == "slurmd-wlm") && ofRoot(filepath.Join(proc, e.Name())) { // the second is Debian's name for the file
			slurmds[e.Name()] = true
		}
	}
	p.all = len(slurmds) > 0
	for pid, parent := range parents {
		if !slurmds[parent] {
			continue
		}
		job, err := jobOfProcess(filepath.Join(proc, pid))
		p.all = p.all && err == nil
		if job != "" {
			p.jobs[job] = true
		}
	}
	return p
}

// ofRoot says whether a process is root's. The owner of its folder would not do: it is
// root for a process that lets nobody look into it.
func ofRoot(dir string) bool {
	status, _ := os.ReadFile(filepath.Join(dir, "status"))
	_, after, _ := bytes.Cut(status, []byte("\nUid:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	users := strings.Fields(string(line))
	return len(users) == 4 && !slices.ContainsFunc(users, func(text string) bool {
		uid, err := strconv.ParseUint(text, 10, 32)
		return err != nil || !trustedUser(uint32(uid))
	})
}

// parseStat reads "17 (name) S 1 ..."; a name may have blanks and brackets.
func parseStat(text []byte) (name, parent string) {
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return "", ""
	}
	fields := strings.Fields(string(text[to+1:]))
	if len(fields) < 2 {
		return "", ""
	}
	return string(text[from+1 : to]), fields[1]
}

// jobOfProcess returns the job that a process was started for. It is empty if there is
// none, or if the process has ended.
func jobOfProcess(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "environ"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		if job, is := bytes.CutPrefix(entry, []byte("SLURM_JOB_ID=")); is {
			return string(job), nil
		}
	}
	return "", nil
}
