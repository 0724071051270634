package publisher

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// The reasons of problems of publications whose nodes annotations place.
const (
	// ReasonMembershipWaits says that published nodes stay in the file until their Nodes have annotations.
	ReasonMembershipWaits = "MembershipWaits"
	// ReasonGresNamesNodes says that gres.conf names nodes, so each node that joins changes it.
	ReasonGresNamesNodes = "GresNamesNodes"
)

// placedByAnnotation reports whether Node annotations alone place the nodes of m.
func (m *Rendered) placedByAnnotation(p *publication.Cluster, g *gathered) bool {
	inFile := map[string]string{}
	if g.prev.Plan != nil && !g.prev.Plan.ByAnnotation {
		inFile = g.prev.specs(p)
	}
	is, waiting := p.ByAnnotation(g.Nodes, m.Specs, func(name string) bool { return inFile[name] != "" })
	if len(waiting) > 0 {
		m.Problems = append(m.Problems, topology.Finding{Reason: ReasonMembershipWaits, Message: fmt.Sprintf("all nodes stay in the topology file until these nodes of it have an annotation: %s",
			hostlist.Shorten(hostlist.Compress(waiting)))})
	}
	return is
}

// unfiled are the published nodes that leave the topology file because annotations are to place them,
// and of which nobody knows that they take their place from an annotation. Nodes of Slinky's worker
// pods do.
func unfiled(p *publication.Cluster, in *gathered, made *Rendered) (nodes []string) {
	if in.prev.Plan == nil || in.prev.Plan.ByAnnotation || !made.ByAnnotation {
		return nil
	}
	for name := range in.prev.Plan.Places() {
		if n := in.Nodes[name]; !p.Rules.BySlinky() || n != nil && p.Rules.ByBridge(n) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// linesByAnnotation returns the lines of gres.conf without nodes, if there are such lines for all
// nodes. A node without GPUs may read gres.conf, such as one of a NodeSet that the publication does
// not select. So slurmd detects the GPUs if it finds them as the reports show them. A published file
// that lists devices goes on listing them, because nobody knows yet whether each slurmd finds them.
func (m *Rendered) linesByAnnotation(p *publication.Cluster, prev *Previous) []gres.Line {
	o := p.GresOptions()
	if line, ok := o.Detected(m.gres); ok && !prev.lists() {
		m.detect = line.AutoDetect
		return []gres.Line{line}
	}
	lines, alike := o.ForAll(m.gres, len(m.Plan.Nodes))
	switch {
	case len(m.gres) == 0:
		return nil
	case !alike:
		m.Problems = append(m.Problems, topology.Finding{Reason: ReasonGresNamesNodes,
			Message: "nodes differ in GPUs, so gres.conf names them, and each node that joins changes it; with gres.autoDetect no node does"})
		return m.gres
	case slices.ContainsFunc(lines, func(l gres.Line) bool { return l.AutoDetect == "" }):
		m.Problems = append(m.Problems, topology.Finding{Reason: ReasonGresForAll,
			Message: "gres.conf lists devices and names no nodes, because all nodes are alike: slurmd does not start on a node of this Slurm that lacks one of them"})
	}
	return lines
}
