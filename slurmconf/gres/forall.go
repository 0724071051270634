package gres

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Detection returns how slurmd of all nodes detects their GPUs, or "" if lines list them. undetected are the nodes
// whose GPUs lines must list nevertheless, by Slurm name, each with the reason.
func (o *Options) Detection(facts []topology.Facts) (way string, undetected map[string]string) {
	switch o.AutoDetect {
	case AutoDetectOff:
		return "", nil
	case "":
		return AutoDetectNvidia, o.allUndetected(facts)
	}
	return o.AutoDetect, nil
}

// ForAll returns lines without NodeName for nodes of which not all names are known: what lets each slurmd detect
// its GPUs. If slurmd can't find the GPUs as the reports show them, the lines list them, if all nodes with GPUs have
// the same. Then slurmd of a node without GPUs does not start.
func (o *Options) ForAll(facts []topology.Facts) []Line {
	if len(o.LeaveOut) > 0 { // lines for all nodes would give slurmd what one node leaves out
		return nil
	}
	facts = slices.DeleteFunc(slices.Clone(facts), func(f topology.Facts) bool { return f.GPUCount() == 0 })
	way, undetected := o.Detection(facts)
	if way == "" || len(undetected) > 0 {
		lines, _ := FromFacts(facts, nil, *o)
		if same := Alike(ByNode(lines, nil)); same != nil {
			return same
		}
	}
	allMIG := len(facts) > 0 && !slices.ContainsFunc(facts, func(f topology.Facts) bool { return !f.HasMIG() })
	if way == "" || allMIG && o.AutoDetect == "" { // AutoDetect=nvidia finds no MIG instances
		return nil
	}
	return []Line{{AutoDetect: way}}
}

// Alike returns the nodes' lines without NodeName, or nil if these do not suit each of them. A node without
// a report detects its GPUs, and may have the GPUs that the others list.
func Alike(byNode map[string][]Line) []Line {
	lines := Nameless(ByName(byNode))
	all := Listed(lines)
	for _, own := range byNode {
		if all.Unknown != "" || own[0].AutoDetect == "" && !all.SuitsNode(Listed(own)) {
			return nil
		}
	}
	return lines
}

// Nameless returns lines of nodes that are alike without NodeName. Lines of nodes that only
// detect their GPUs are left out if there are others.
func Nameless(lines []Line) []Line {
	out := slices.Clone(lines)
	if slices.ContainsFunc(lines, func(l Line) bool { return l.AutoDetect == "" }) {
		out = slices.DeleteFunc(out, func(l Line) bool { return l.AutoDetect != "" })
	}
	for i := range out {
		out[i].Nodes = ""
	}
	return out
}

// SuitsNode reports whether lines without NodeName, which give r, are right for a node that has own GPUs.
// slurmd does not start on a node that lacks a listed device.
func (r Registration) SuitsNode(own Registration) bool {
	return r.Unknown+own.Unknown == "" && slices.EqualFunc(r.GPUs, own.GPUs, func(a, b RegisteredGPU) bool {
		return a.Device == b.Device && a.Type == b.Type && a.Cores == b.Cores && slices.Equal(a.Links, b.Links)
	})
}

// allUndetected returns the nodes whose GPUs slurmd does not find by AutoDetect=nvidia as their reports show
// them, by Slurm name, each with the reason. Of a node without a report nobody knows.
func (o *Options) allUndetected(facts []topology.Facts) map[string]string {
	lister := *o
	lister.AutoDetect = AutoDetectOff
	signs := newGroups(lister)
	signs.near = true
	bySign, out := map[string]string{}, map[string]string{}
	for i := range facts {
		f := facts[i].Listed()
		if f.Report == nil || f.Shared || f.GPUCount() == 0 {
			continue
		}
		whole := signs.sign(f)
		why, met := bySign[string(signs.buf)]
		if !whole || !met {
			why = lister.undetected(f)
		}
		if whole {
			bySign[string(signs.buf)] = why
		}
		if why != "" {
			out[f.SlurmName] = why
		}
	}
	return out
}

// undetected says why detection does not stand for the lines of a node with a report, or "".
func (o *Options) undetected(f *topology.Facts) string {
	if len(o.LeaveOut[f.Name]) > 0 {
		return "gres.leaveOut names GPUs of it"
	}
	lines, _ := o.linesOf(f)
	found := o.Found(f)
	switch {
	case Same(Listed(lines), found):
		return ""
	case found.Drains != "":
		return found.Drains + ", and slurmctld drains a node that detects such a GPU"
	case found.Unknown != "":
		return found.Unknown
	}
	return "slurmd finds its GPUs otherwise than they are listed: their Types, Cores or Links differ"
}
