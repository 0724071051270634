package liveness

import (
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// pods finds process 1 of slurmd's pods. When it ends, the kernel kills all processes of
// the pod, and with them the steps. On a host without pods it is process 1 of the host.
type pods struct {
	proc  string
	found map[uint64]string // the process by its start
}

// look says which of the processes that began at these times are there.
func (p *pods) look(starts map[uint64]bool) {
	lost := false
	for start := range starts {
		if pid, is := p.found[start]; !is || p.start(pid) != start {
			delete(p.found, start)
			lost = true
		}
	}
	if !lost {
		return
	}
	p.found = make(map[uint64]string, len(starts))
	entries, _ := os.ReadDir(p.proc) // without proc nothing is seen
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		if start := p.start(e.Name()); starts[start] {
			p.found[start] = e.Name()
		}
	}
}

func (p *pods) start(pid string) uint64 {
	stat, _ := os.ReadFile(filepath.Join(p.proc, pid, "stat")) // empty if it has ended
	return rundir.ProcessStart(stat)
}

// note notes in a run whether its slurmd's pod is there.
func (p *pods) note(j Job, up time.Duration) {
	if _, there := p.found[j.Record.InitStart]; there {
		j.Run.PodSeen, j.Run.PodGone = true, Absence{}
	} else if j.Run.PodSeen {
		j.Run.PodGone.Look(up)
	}
}
