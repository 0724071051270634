package liveness

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stepGroups is a directory of control groups in which a slurmd keeps its jobs.
type stepGroups struct {
	path string
	// node is the slurmd's name if the directory's name has it.
	node string
	// byUser says that the groups are of version 1, which has jobs below their users.
	byUser bool
}

const (
	// maxGroups and maxGroupDepth bound the search: the tree of a Kubernetes node
	// has some thousand groups, eight deep in a slurmd's pod.
	maxGroups     = 50_000
	maxGroupDepth = 14
	// A search that finds nothing new is repeated after twice the time.
	firstWalkPause, lastWalkPause = 10 * time.Second, 2 * time.Minute
)

// findGroups searches the control groups of slurmds. A search that finds nothing new
// makes searches rarer.
func (s *stepScanner) findGroups(at time.Duration) {
	if s.cgroupRoot == "" || at < s.nextWalk {
		return
	}
	found := searchGroups(s.cgroupRoot)
	if slices.Equal(found, s.groups) && s.walkPause > 0 {
		s.walkPause = min(2*s.walkPause, lastWalkPause)
	} else {
		s.walkPause = firstWalkPause
	}
	s.groups, s.lastWalk, s.nextWalk = found, at, at+s.walkPause
}

// hurry brings the next search forward. Before a job that was never seen is given up,
// the groups of a slurmd that was started meanwhile must be known.
func (s *stepScanner) hurry() { s.nextWalk = min(s.nextWalk, s.lastWalk+firstWalkPause) }

// searchGroups walks the tree of control groups, wide before deep.
func searchGroups(root string) []stepGroups {
	var found []stepGroups
	level := []string{root}
	for depth, seen := 0, 0; depth < maxGroupDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			entries, err := os.ReadDir(dir)
			if err != nil {
				continue // gone, or not ours to read
			}
			for _, e := range entries {
				if !e.IsDir() || seen > maxGroups {
					continue
				}
				seen++
				path := filepath.Join(dir, e.Name())
				if g, is := groupsOf(path); is {
					found = append(found, g)
				} else {
					next = append(next, path)
				}
			}
		}
		level = next
	}
	slices.SortFunc(found, func(a, b stepGroups) int { return strings.Compare(a.path, b.path) })
	return found
}

// groupsOf says whether a directory is where a slurmd keeps its jobs:
// slurmstepd.scope in version 2, slurm in version 1. Each name has the node's name in
// it if several slurmds can run on one host.
func groupsOf(path string) (stepGroups, bool) {
	name := filepath.Base(path)
	if node, is := strings.CutSuffix(name, "slurmstepd.scope"); is {
		return stepGroups{path: path, node: strings.TrimSuffix(node, "_")}, true
	}
	if name == "slurm" {
		return stepGroups{path: path, byUser: true}, true
	}
	node, is := strings.CutPrefix(name, "slurm_")
	return stepGroups{path: path, node: node, byUser: true}, is
}

// scan adds what is seen of the jobs, and reports whether it could be read.
func (g *stepGroups) scan(jobs []string, e *evidence) bool {
	parents := []string{g.path}
	entries, err := os.ReadDir(g.path)
	if err != nil {
		return false
	}
	if g.byUser {
		parents = parents[:0]
		for _, entry := range entries {
			if strings.HasPrefix(entry.Name(), "uid_") {
				parents = append(parents, filepath.Join(g.path, entry.Name()))
			}
		}
	}
	for _, parent := range parents {
		for _, job := range jobs {
			dir := filepath.Join(parent, "job_"+job)
			if !isDir(dir) {
				continue
			}
			extern := isDir(filepath.Join(dir, "step_extern"))
			e.jobs[job] = append(e.jobs[job], sighting{source: g.path, node: g.node, alive: populated(dir),
				lasting: extern || isDir(filepath.Join(dir, "step_batch")), extern: extern})
		}
	}
	return true
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// populated says whether a control group, or one below it, has a process. A group
// without the files of either version counts as populated.
func populated(dir string) bool {
	events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if err == nil {
		return bytes.Contains(events, []byte("populated 1"))
	}
	known, found := false, errors.New("found")
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return nil //nolint:nilerr // a step that has just ended
		}
		known = true
		if text, err := os.ReadFile(path); err == nil && len(bytes.TrimSpace(text)) > 0 {
			return found
		}
		return nil
	})
	return errors.Is(err, found) || !known
}
