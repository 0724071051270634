package publisher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// differences returns the nodes whose place in the published files differs from specs.
// Without published files nothing differs.
func differences(p *publication.Cluster, prev *Previous, specs map[string]string, nodes map[string]*inputs.Node, why nodestatus.Difference) (out []nodestatus.Difference) {
	if prev.Plan == nil {
		return nil
	}
	why.Reason = nodestatus.ReasonPublishedDiffers
	old := prev.specs(p)
	for name, n := range nodes {
		if old[name] != specs[name] {
			why.Node, why.Is, why.Want = n, old[name], specs[name]
			out = append(out, why)
		}
	}
	return out
}

// heldMoves returns the nodes that held decisions would put elsewhere than made has them.
func heldMoves(p *publication.Cluster, made *Rendered, held hold, nodes map[string]*inputs.Node) (out []nodestatus.Difference) {
	var reasons []string
	for i := range held.why {
		reasons = append(reasons, held.why[i].Reason)
	}
	why := nodestatus.Difference{Reason: nodestatus.ReasonPublishedDiffers, Cause: fmt.Sprintf("the move is held back in publication %s, for %s, see the annotation %s of %s",
		p.Name, strings.Join(slices.Compact(reasons), " and "), plandoc.AnnotationHeldReason, p.Place())}
	// The plan has the blocks and the switches too that wait for a decision about the kind of the topology.
	topologies, _ := slurmconf.FromPlan(made.Plan, p.Choice()) // an empty plan has no places
	specs := topology.SpecsOf(topologies)
	is, want := made.places(), (&topology.Plan{Topologies: topologies}).Places()
	for name, n := range nodes {
		why.Node, why.Is, why.Want = n, made.Specs[name], specs[name]
		if made.found.Held[name] {
			why.Want = "another place"
		}
		if made.found.Held[name] || is[name] != want[name] {
			out = append(out, why)
		}
	}
	return out
}

// heldFor is the cause for held files. The whole reason counts nodes and has a digest, so
// each change of one node would be written to all of them.
func heldFor(p *publication.Cluster, reason string) nodestatus.Difference {
	return nodestatus.Difference{Cause: fmt.Sprintf("the files of publication %s are held back for %s, see the annotation %s of %s", p.Name, reason, plandoc.AnnotationHeldReason, p.Place())}
}

// unwritten is the cause for files that could not be written.
func unwritten(p *publication.Cluster, err error) nodestatus.Difference {
	return nodestatus.Difference{Cause: fmt.Sprintf("the files of publication %s cannot be written to %s", p.Name, p.Place()), Detail: err.Error()}
}

// places returns the place of each node in the files.
func (m *Rendered) places() map[string]topology.Place {
	return (&topology.Plan{Topologies: m.topologies}).Places()
}
