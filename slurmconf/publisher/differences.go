package publisher

import (
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// foundPlan records what a plan says of the nodes. Until the pass comes to the annotations,
// what conditions say of them stays.
func (p *Publisher) foundPlan(s *state, made *Rendered, nodes map[string]*inputs.Node) {
	s.found.Plan, s.found.Problems = made.Plan, made.Problems
	for _, n := range nodes {
		if n.Conditions[nodestatus.ConditionDrift].True && s.pub.Annotates && p.otherAnnotates(s, n) == "" {
			s.annotationUnjudged(n)
		}
	}
}

// filesDiffer records the nodes whose place in the published files differs from specs.
// Without published files nothing differs.
func (s *state) filesDiffer(prev *Previous, specs map[string]string, nodes map[string]*inputs.Node, why nodestatus.Difference) {
	if prev.Topology == nil {
		return
	}
	why.Reason = nodestatus.ReasonPublishedDiffers
	published := prev.specs(s.pub)
	for name, n := range nodes {
		if published[name] != specs[name] {
			why.Node, why.Is, why.Want = n, published[name], specs[name]
			s.found.Differences = append(s.found.Differences, why)
		}
	}
}

// heldFor is the cause for held files. The whole reason counts nodes and has a digest, so
// each change of one node would be written to all of them.
func heldFor(p *publication.Cluster, reason string) nodestatus.Difference {
	return nodestatus.Difference{Cause: fmt.Sprintf("the files of publication %s are held back for %s, see the annotation %s of %s", p.Name, reason, published.AnnotationHeldReason, p.Place())}
}

// unwritten is the cause for files that could not be written.
func unwritten(p *publication.Cluster, err error) nodestatus.Difference {
	return nodestatus.Difference{Cause: fmt.Sprintf("the files of publication %s cannot be written to %s", p.Name, p.Place()), Detail: err.Error()}
}

// foreignDiffer compares files of somebody else, theirs, with a plan that continues from
// prev. It returns when to come back.
func (p *Publisher) foreignDiffer(s *state, snap *inputs.Snapshot, prev, theirs *Previous, why nodestatus.Difference) time.Time {
	g, made, wake, err := p.plan(s, snap, prev, time.Now())
	if err != nil {
		return wake
	}
	if theirs != prev {
		s.nodes.rename(&g, theirs)
	}
	p.foundPlan(s, made, g.Nodes)
	s.filesDiffer(theirs, made.Specs, g.Nodes, why)
	return wake
}

// annotationDiffers records a node whose annotation is not as wanted because of err.
func (s *state) annotationDiffers(n *inputs.Node, is, want string, err error) {
	s.found.Differences = append(s.found.Differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers,
		Is: is, Want: want, Cause: "it cannot be written", Detail: err.Error()})
}

// annotationUnjudged records a node whose annotation may still be written in time.
func (s *state) annotationUnjudged(n *inputs.Node) {
	s.found.Differences = append(s.found.Differences, nodestatus.Difference{Node: n, Reason: nodestatus.ReasonAnnotationDiffers, Unjudged: true})
}

// places are those of the nodes in the files.
func (m *Rendered) places() map[string]placement.Place {
	var names slurmconf.Names
	for i := range m.topologies {
		names.Add(&m.topologies[i])
	}
	out := make(map[string]placement.Place, len(m.Specs))
	for i := range m.Plan.Placements {
		pl := &m.Plan.Placements[i]
		if m.Specs[pl.SlurmName] == "" {
			continue
		}
		var place placement.Place
		if names.Blocks != "" {
			place.Block = pl.Block
		}
		if names.Tree != "" {
			place.Leaf = pl.Switch
		}
		out[pl.SlurmName] = place
	}
	return out
}
