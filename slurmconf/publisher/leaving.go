package publisher

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// leave notes that a Node outside the publication loses its annotation once its Slurm
// name is out of the files.
func (p *Publisher) leave(s *state, g *gathered, name string, n *inputs.Node) {
	if n != nil && !p.annotatedByAnother(s, n) {
		g.leaving[name] = n
	}
}

// leaveOn adds the nodes that were leaving before: those that wait for their annotation,
// and those that AnnotationLeaving names.
func (p *Publisher) leaveOn(s *state, g *gathered, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, leaving []string) {
	for name := range s.waiting {
		p.leave(s, g, name, elsewhere[name])
	}
	left := make(map[string]bool, len(leaving))
	for _, node := range leaving {
		left[node] = true
	}
	for _, n := range g.leaving {
		delete(left, n.Name)
	}
	if len(left) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; left[n.Name] && !s.pub.Rules.Takes(n) {
			p.leave(s, g, "/"+n.Name, n) // no Slurm name has a slash
		}
	}
}

// leaving lists the nodes with an annotation to take back, for AnnotationLeaving, so that
// the next publisher knows them.
func (s *state) leaving(g *gathered, specs map[string]string) string {
	if !s.pub.Annotates {
		return ""
	}
	var nodes []string
	for name, n := range g.leaving {
		if have := n.Annotations[published.SpecAnnotation]; have != "" && specs[name] == "" && s.tried[n.Name] != have+"\n" {
			nodes = append(nodes, n.Name)
		}
	}
	return hostlist.Compress(nodes)
}

// movedOn reports whether another publication began to take the node after this one
// stopped.
func (p *Publisher) movedOn(s *state, n *inputs.Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool {
		return other != s && other.pub.Rules.Takes(n) && !slices.Contains(s.nodes.others[n.Name], other)
	})
}

// annotatedByAnother reports whether another publication writes the node's
// annotation now.
func (p *Publisher) annotatedByAnother(s *state, n *inputs.Node) bool {
	return slices.ContainsFunc(p.states, func(other *state) bool {
		return other != s && other.pub.Annotates && other.pub.Rules.Takes(n)
	})
}
