package liveness

import (
	"bytes"
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
}

const (
	// maxGroups and maxGroupDepth bound the search: the tree of a Kubernetes node
	// has some thousand groups, eight deep in a slurmd's pod.
	maxGroups     = 50_000
	maxGroupDepth = 14
	// walkPause is the least time between two searches.
	walkPause = 10 * time.Second
)

// findGroups searches the control groups of slurmds, unless it has just done so.
func (s *stepScanner) findGroups(at time.Duration) {
	if s.cgroupRoot != "" && at >= s.nextWalk {
		s.groups, s.nextWalk = searchGroups(s.cgroupRoot), at+walkPause
	}
}

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
				// The name has the slurmd's in it if several slurmds can run on one host.
				if node, is := strings.CutSuffix(e.Name(), "slurmstepd.scope"); is {
					if info, err := e.Info(); err != nil || !trusted(info) {
						continue
					}
					found = append(found, stepGroups{path, strings.TrimSuffix(node, "_")})
				} else {
					next = append(next, path)
				}
			}
		}
		level = next
	}
	return found
}

// scan adds what is seen of the jobs, and reports whether it could be read.
func (g *stepGroups) scan(wanted wantedJobs, e *evidence) bool {
	entries, err := os.ReadDir(g.path)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(g.path, entry.Name())
		job, is := wanted[entry.Name()]
		if !is {
			e.nameless = e.nameless || !strings.HasPrefix(entry.Name(), "job_") && hasSteps(dir) && populated(dir)
			continue
		}
		extern := isDir(filepath.Join(dir, "step_extern"))
		e.jobs[job] = append(e.jobs[job], sighting{source: g.path, node: g.node, alive: populated(dir),
			lasting: extern || isDir(filepath.Join(dir, "step_batch")), extern: extern})
	}
	return true
}

// hasSteps says whether a control group is a job's. slurmd has groups of its own beside these.
func hasSteps(dir string) bool {
	entries, _ := os.ReadDir(dir) // what cannot be read has none
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "step_") })
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// populated says whether a control group, or one below it, has a process. A group that
// does not say it counts as populated.
func populated(dir string) bool {
	events, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err != nil || bytes.Contains(events, []byte("populated 1"))
}
