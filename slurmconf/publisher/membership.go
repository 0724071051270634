package publisher

import (
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// placedByAnnotation reports whether Node annotations alone place the nodes of m.
func (m *Rendered) placedByAnnotation(p *publication.Cluster, g *gathered) bool {
	inFile := map[string]string{}
	if g.prev.Plan != nil && !g.prev.stored.ByAnnotation {
		inFile = g.prev.specs(p)
	}
	is, waiting := p.ByAnnotation(g.Nodes, m.Specs, func(name string) bool { return inFile[name] != "" })
	if len(waiting) > 0 {
		m.FilePlan.Problems = append(m.FilePlan.Problems, topology.Finding{Reason: ReasonMembershipWaits, Message: fmt.Sprintf("all nodes stay in the topology file until these nodes of it have an annotation: %s",
			plandoc.ShortList(waiting))})
	}
	return is
}

// unfiled are the published nodes that leave the topology file because annotations are to place them,
// and of which nobody knows that they take their place from an annotation. Nodes of Slinky's worker
// pods do.
func unfiled(p *publication.Cluster, in *gathered, made *Rendered) (nodes []string) {
	if in.prev.Plan == nil || in.prev.stored.ByAnnotation || !made.FilePlan.ByAnnotation {
		return nil
	}
	for name := range in.prev.Plan.Places() {
		if n := in.Nodes[name]; !p.Rules.BySlinky() || n != nil && p.Rules.ByBridge(n) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}
