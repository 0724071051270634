package publication

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// The values of Membership.
const (
	MembershipFile       = "file"
	MembershipAnnotation = "annotation"
)

// checkMembership checks that nodes can be placed by annotations.
func (c *Cluster) checkMembership(bad func(key string, value any, want string)) {
	switch {
	case c.Membership != MembershipAnnotation:
	case c.named() && !c.Release.Does(slurmconf.DynamicTopology):
		bad("membership", c.Membership, "file with Slurm "+c.SlurmVersion+": nodes that name their place need 25.05 or newer")
	case !*c.Annotate:
		bad("membership", c.Membership, "file with annotate: false")
	}
}

// ByAnnotation reports whether Node annotations alone place the nodes. nodes and their places
// (Topology= strings) are by Slurm name. inFile are the nodes of the published file: while one of them
// waits for its annotation, the file keeps all nodes.
//
// Without the key it is so if Slinky's worker pods name the nodes. slurm-bridge makes nodes
// by labels, and gives them no place, so it is not so with such a node.
func (c *Cluster) ByAnnotation(nodes map[string]*inputs.Node, places map[string]string, inFile func(name string) bool) (is bool, waiting []string) {
	if c.Membership == MembershipFile || !c.Annotates || c.Membership == "" && !c.Rules.BySlinky() {
		return false, nil
	}
	for name, n := range nodes {
		switch {
		case places[name] == "":
		case c.Membership == "" && c.Rules.ByBridge(n):
			return false, nil
		case inFile(name) && n.Annotations[plandoc.SpecAnnotation] == "":
			waiting = append(waiting, name)
		}
	}
	slices.Sort(waiting)
	return len(waiting) == 0, waiting
}
