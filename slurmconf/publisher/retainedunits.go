package publisher

import (
	"fmt"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// ReasonTopologyInUse names a topology that stays in the file although the
// publication has it no more, and is why files are held that would change what
// the Nodes' annotations name.
const ReasonTopologyInUse = "TopologyInUse"

// names are what annotations name: "topology:", or a unit.
type names map[string]bool

// namedBy returns what the annotations of Nodes name.
func namedBy(all ...map[string]*inputs.Node) names {
	named, read := names{}, map[string]bool{}
	for _, nodes := range all {
		for _, n := range nodes {
			spec := n.Annotations[SpecAnnotation]
			if read[spec] {
				continue
			}
			read[spec] = true
			for _, unit := range slurmconf.Units(spec) {
				named[unit] = true
			}
			for _, name := range slurmconf.TopologyNames(spec) {
				named[name+":"] = true
			}
		}
	}
	return named
}

// keepNamed notes which topologies, blocks and leaf switches of the files Slurm's
// nodes may be in by name: those that Nodes' annotations name, and for
// AnnotateAfter those that none names any more, while Slinky tells Slurm of it. A
// slurmd that registers with one that slurmctld does not know is drained, and one
// that has registered keeps slurmctld from starting, so they stay in the files
// until then. It returns when to come back.
func (s *state) keepNamed(prev *Previous, g *gathered, now time.Time) (wake time.Time) {
	if prev.Topology == nil || !s.pub.release.DynamicTopology() {
		return wake
	}
	named := namedBy(g.All, g.Nodes)
	unnamed := map[string]time.Time{}
	for _, name := range prev.units() {
		if named[name] {
			continue
		}
		since, ok := s.unnamed[name]
		if !ok {
			since = now
		}
		unnamed[name] = since
		if until := since.Add(s.pub.AnnotateAfter.Duration); now.Before(until) {
			named[name] = true
			wake = earlier(wake, until)
		}
	}
	s.unnamed = unnamed
	prev.Topology.InUse = named
	return wake
}

// units are the topologies, blocks and switches of the files.
func (prev *Previous) units() []string {
	var out []string
	for i := range prev.topologies {
		t := &prev.topologies[i]
		out = append(out, t.Name+":")
		if t.Block != nil {
			for k := range t.Block.Blocks {
				out = append(out, t.Block.Blocks[k].Name)
			}
		}
		if t.Tree != nil {
			for k := range t.Tree.Switches {
				out = append(out, t.Tree.Switches[k].Name)
			}
		}
	}
	return out
}

// inUse reports whether the published topology t may still be named.
func (prev *Previous) inUse(t *slurmconf.Topology) bool {
	return (t.Block != nil || t.Tree != nil) && prev.Topology.InUse[t.Name+":"]
}

// keepTopologies adds to those of a plan the published ones that have gone and
// that Nodes' annotations still name, as they were. Those of a topology.conf, which
// has room for one, are then in a topology.yaml beside it.
func (m *Rendered) keepTopologies(p *Publication, prev *Previous, topologies []slurmconf.Topology) []slurmconf.Topology {
	if prev.Topology == nil || !*p.Annotate || !p.release.DynamicTopology() {
		return topologies
	}
	out := topologies
	for _, t := range prev.topologies {
		if !prev.inUse(&t) || slices.ContainsFunc(topologies, func(is slurmconf.Topology) bool { return is.Name == t.Name }) {
			continue
		}
		t.Default = false
		out = append(out[:len(out):len(out)], t)
		m.Problems = append(m.Problems, topology.Problem{Reason: ReasonTopologyInUse,
			Message: fmt.Sprintf("topology %s is no longer configured; it stays in the file until no Node annotation has named it for %s", t.Name, p.AnnotateAfter.Duration)})
	}
	return out
}

// changesKind says which published topology that annotations name has turned from
// blocks to switches or back, empty for none: its units cannot be kept.
func (prev *Previous) changesKind(made *Rendered) string {
	for i := range prev.topologies {
		was := &prev.topologies[i]
		for k := range made.topologies {
			is := &made.topologies[k]
			if is.Name == was.Name && (is.Block == nil) != (was.Block == nil) && prev.inUse(was) {
				return was.Name
			}
		}
	}
	return ""
}

// names are those of the published topologies that the configuration has too; where
// it has none of them, of all. The others are on their way out of the file.
func (prev *Previous) names(p *Publication) slurmconf.Names {
	var all, wanted slurmconf.Names
	for i := range prev.topologies {
		t := &prev.topologies[i]
		kind := slurmconf.KindTree
		if t.Block != nil {
			kind = slurmconf.KindBlock
		}
		all.Add(t)
		if (t.Name == slurmconf.ConfTopology) == (p.Format == "conf") && (p.Topology == string(slurmconf.KindAuto) || p.Topology == string(kind)) {
			wanted.Add(t)
		}
	}
	if wanted == (slurmconf.Names{}) {
		return all
	}
	return wanted
}
