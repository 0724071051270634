package liveness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/process"
)

// processes is what one look at the node's processes has shown.
type processes struct {
	// init is one more than when process 1 began, in clock ticks since the boot. It tells this PID
	// namespace from others. 0: no process is seen.
	init uint64
	// steps are the steps of jobs that live, by job.
	steps map[string]steps
	// slurmd is for how long after the boot the youngest slurmd began. 0: no slurmd is seen.
	slurmd time.Duration
	// quiet says that a slurmd is seen, and that no slurmd has a child but steps. Then no
	// Prolog and no Epilog runs, because slurmd starts these itself.
	quiet bool
}

// steps are the steps of one job.
type steps struct {
	// extern says that the external step is there (PrologFlags=Contain). batch is the batch step, on
	// the job's first node. Each lives as long as its job.
	extern, batch bool
}

// readProcesses reads the processes of a proc file system. What ends meanwhile is not seen.
func readProcesses(proc string) processes {
	p := processes{steps: make(map[string]steps)}
	if first := process.Read(proc, "1"); first != (process.Process{}) {
		p.init = first.Start + 1
	}
	entries, _ := os.ReadDir(proc) // without proc nothing is seen
	slurmds, parents := make(map[string]bool), make(map[string]bool)
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		dir := filepath.Join(proc, e.Name())
		is := process.Read(proc, e.Name())
		switch {
		case is.Name == "slurmstepd":
			if ofRoot(dir) {
				p.addStep(dir)
			}
			continue
		case is.IsSlurmd() && ofRoot(dir):
			slurmds[e.Name()] = true
			p.slurmd = max(p.slurmd, time.Duration(is.Start)*process.Tick)
		}
		parents[is.Parent] = true
	}
	p.quiet = len(slurmds) > 0
	for pid := range slurmds {
		p.quiet = p.quiet && !parents[pid]
	}
	return p
}

// stepOf returns the step that a slurmstepd names in its command line, such as
// "slurmstepd: [17.extern]". Until it does so, and at its end, it names none.
func stepOf(dir string) (job, step string, ok bool) {
	title, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // empty if it has ended
	return parseTitle(string(title))
}

// addStep adds the step of a slurmstepd.
func (p *processes) addStep(dir string) {
	job, step, is := stepOf(dir)
	if !is {
		return
	}
	s := p.steps[job]
	s.extern = s.extern || step == "extern"
	s.batch = s.batch || step == "batch"
	p.steps[job] = s
}

func parseTitle(title string) (job, step string, ok bool) {
	text, is := strings.CutPrefix(title, "slurmstepd: [")
	job, text, named := strings.Cut(text, ".")
	step, _, _ = strings.Cut(text, "]")
	if !is || !named || !isNumber(job) {
		return "", "", false
	}
	return job, step, true
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// ofRoot says whether a process is root's. Any user can give a program the name and the command
// line of a slurmstepd. The owner of the process's folder would not do: it is root for a process
// that lets nobody look into it.
func ofRoot(dir string) bool {
	status, _ := os.ReadFile(filepath.Join(dir, "status")) // empty if it has ended
	_, after, _ := strings.Cut(string(status), "\nUid:")
	line, _, _ := strings.Cut(after, "\n")
	return slices.Equal(strings.Fields(line), []string{"0", "0", "0", "0"})
}
