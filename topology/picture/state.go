package picture

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// state is the state of a node, the worst last.
type state int

const (
	healthy    state = iota
	gpuless          // nobody knows of a GPU there, and nothing is wrong
	unreported       // known from its labels or a file alone
	warned           // healthy, but somebody says that something is wrong
	kept             // its facts are missing or in the making; it stays where it was
	degraded
	missing // an empty place
)

var looks = [...]struct{ cell, color, name, short string }{
	healthy:    {"■", "\x1b[32m", "healthy", "healthy"},
	gpuless:    {"▫", "\x1b[90m", "no GPU known", "without GPU"},
	unreported: {"□", "\x1b[32m", "no report, known from labels or a file", "without report"},
	warned:     {"△", "\x1b[33m", "healthy, but Slurm, IMEX or its place has a problem", "with warning"},
	kept:       {"◌", "\x1b[36m", "stays, its facts are missing or in progress", "waiting"},
	degraded:   {"▲", "\x1b[33m", "GPU or fabric unhealthy, failed or lost", "degraded"},
	missing:    {"·", "\x1b[90m", "no node", "missing"},
}

// statesOf returns the state of each node. A node in a block has GPUs, whatever is known of them now.
func statesOf(s *Site, places map[string]topology.Place) map[string]state {
	plan, facts := s.Plan, s.Facts
	out := make(map[string]state, len(facts))
	for i := range facts {
		f := &facts[i]
		switch {
		case f.Gone:
			out[f.SlurmName] = kept
		case f.Report == nil && (f.Computes() || f.Labels.NamesDomain()):
			out[f.SlurmName] = unreported
		case f.GPUCount() == 0 && places[f.SlurmName].Block == "":
			out[f.SlurmName] = gpuless
		default:
			out[f.SlurmName] = healthy
		}
		if says := s.Said[f.SlurmName]; says.wrong() && out[f.SlurmName] < warned {
			out[f.SlurmName] = warned
		}
	}
	for i := range plan.Nodes {
		switch pl := &plan.Nodes[i]; {
		case pl.Source == "previous" && !s.Said[pl.SlurmName].Drift.Wrong: // a wrong place waits for people, not for facts
			out[pl.SlurmName] = kept
		case pl.Source == topology.SourceFile && out[pl.SlurmName] <= gpuless:
			out[pl.SlurmName] = unreported
		}
	}
	for i := range facts {
		if f := &facts[i]; f.Report != nil {
			out[f.SlurmName] = max(out[f.SlurmName], hardware(f, s.Said[f.SlurmName].Fabric))
		}
	}
	return out
}

// hardware returns the state of the GPUs of a node with a report, and of their fabric. What the node's condition says
// of the fabric goes before the verdict.
func hardware(f *topology.Facts, said Verdict) state {
	lost := func(p topology.Finding) bool {
		return p.LosesGPU() || p.Reason == topology.ReasonGPUMissing || fabric.NeedsRepair(p)
	}
	v := &f.Fabric
	switch {
	case slices.ContainsFunc(f.Report.Problems, lost), said.Wrong, said.Reason == "" && v.Faulty():
		return degraded
	case len(f.Report.GPUs) > 0 && v.Reason == topology.ReasonFabricUnread && v.IMEX != topology.IMEXNone: // which may join it with others
		return kept
	}
	return healthy
}

// stateOf returns the state of a node. A name without facts is an empty place.
func (d *drawer) stateOf(name string) state {
	s, ok := d.states[name]
	if !ok {
		return missing
	}
	return s
}

// chassisOf returns the serial number of the chassis of each node that reports it.
func chassisOf(facts []topology.Facts) map[string]string {
	out := map[string]string{}
	for i := range facts {
		if r := facts[i].Report; r != nil && r.Platform != nil && r.Platform.ChassisSerial != "" {
			out[facts[i].SlurmName] = r.Platform.ChassisSerial
		}
	}
	return out
}

// traysOf returns the tray in the rack, from 0, of each node that reports it.
func traysOf(facts []topology.Facts) map[string]int {
	out := make(map[string]int, len(facts))
	for i := range facts {
		if r := facts[i].Report; r != nil && r.Platform != nil && r.Platform.Tray >= 0 {
			out[facts[i].SlurmName] = r.Platform.Tray
		}
	}
	return out
}
