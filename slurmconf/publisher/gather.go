package publisher

import (
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// gathered are the inputs of a publication in one pass.
type gathered struct {
	inputs.Inputs
	// leaving are nodes that the publication no longer takes, by Slurm name.
	leaving map[string]*inputs.Node
}

// gather returns the inputs of one publication, with published nodes that are missing now
// and stay for a while. It gives the names in prev the names that the nodes have now.
func (l *loop) gather(snap *inputs.Snapshot, prev *Previous, now time.Time) gathered {
	g := gathered{l.pub.Rules.Gather(snap), map[string]*inputs.Node{}}
	names := l.nodes.see(&g, l.nodes.rename(&g, prev))
	l.nodes.seeOthers(l.others, &g, names)
	elsewhere := l.unselected(snap, names)
	gone := make(map[string]time.Time)
	kept := make(map[string]string) // Node -> the name under which it stays
	for _, m := range l.missing(&g, snap, elsewhere, names) {
		f, why := m.fate()
		if f == leavesLater || m.movedOn {
			l.annotations.leave(&g, m.name, m.elsewhere) // its annotation goes after it
		}
		if f == leavesNow {
			continue
		}
		if f == leavesLater {
			since, ok := l.nodes.gone[m.name]
			if !ok {
				since = now
			}
			gone[m.name] = since
			until := since.Add(l.pub.GoneAfter.Duration)
			if !now.Before(until) {
				continue
			}
			l.At(until)
		}
		if m.nameless != nil {
			kept[m.owner] = m.name
		} else {
			g.Facts = append(g.Facts, topology.Facts{Name: m.name, SlurmName: m.name, Stays: why, Gone: f == leavesLater})
		}
	}
	l.nodes.gone = gone
	l.annotations.leaveOn(&g, snap, elsewhere, prev.leaving)
	maps.Copy(g.Nodes, g.leaving)
	g.keep(kept)
	return g
}

// keep lets nodes without a Slurm name stay published under the names that they had.
func (g *gathered) keep(names map[string]string) {
	if len(names) == 0 {
		return
	}
	g.Unnamed = slices.DeleteFunc(g.Unnamed, func(pr topology.Problem) bool {
		name, ok := names[pr.Node]
		if ok {
			g.Facts = append(g.Facts, topology.Facts{Name: pr.Node, SlurmName: name, Stays: pr.Message})
			g.Nodes[name] = g.Nameless[pr.Node]
			pr.Message += "; it stays published as " + name
			g.Problems = append(g.Problems, pr)
		}
		return ok
	})
}
