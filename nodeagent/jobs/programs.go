package jobs

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/topology"
)

// programs knows the programs on the node's devices, and whose they are.
type programs struct {
	proc string
	on   map[string]map[uint32]program // by UUID of the device and PID
}

type program struct {
	// seen is since when a sample shows the program, since the boot.
	seen time.Duration
	// job is the job whose step the program descends from, empty if that is not known.
	job string
	// pod says that the program is in a Pod that is not Slurm's.
	pod bool
	// memory is in bytes, nil if it is not known.
	memory *uint64
}

// note notes what a sample shows.
func (p *programs) note(s topology.Sample, up time.Duration) {
	for uuid, list := range s.Programs {
		now := make(map[uint32]program, len(list))
		for _, of := range list {
			g, known := p.on[uuid][of.PID]
			if !known {
				g = program{seen: up, job: liveness.JobOf(p.proc, of.PID)}
				g.pod = g.job == "" && liveness.InOtherPod(p.proc, of.PID)
			}
			g.memory = of.Memory
			now[of.PID] = g
		}
		p.on[uuid] = now
	}
}

// before returns the programs that a sample has shown on a device before a time since the boot.
func (p *programs) before(uuid string, at time.Duration) (pids []uint32) {
	for pid, g := range p.on[uuid] {
		if g.seen < at {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// unowned returns how much memory programs have on a device that no job holds. Programs of Pods do not
// count. The answer is nil if it is not known.
func (p *programs) unowned(uuid string) *uint64 {
	all, known := p.on[uuid]
	if !known {
		return nil
	}
	var sum uint64
	for _, g := range all {
		switch {
		case g.pod:
		case g.memory == nil:
			return nil
		default:
			sum += *g.memory
		}
	}
	return &sum
}

// of returns what a sample says of a job. Programs that were there before the job, and programs of other
// jobs, are left out. If nothing is known of a program, the program is the job's.
func (p *programs) of(j *job, known map[string]int, s topology.Sample) topology.Sample {
	s.Devices = slices.Clone(s.Devices)
	for i := range s.Devices {
		d := &s.Devices[i]
		before := j.use.ProgramsBefore(d.UUID)
		for _, of := range s.Programs[d.UUID] {
			job := p.on[d.UUID][of.PID].job
			if slices.Contains(before, of.PID) || job != j.record.JobID && known[job] > 0 {
				d.Without(of)
			}
		}
	}
	return s
}
