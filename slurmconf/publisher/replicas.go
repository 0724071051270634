package publisher

import (
	"maps"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// podOwners has the NodeSet of the worker pod of each Slurm name, or of the last pod that
// had the name.
type podOwners struct{ sets map[string]inputs.Owner }

// missing notes whose worker pods there are. It returns what the NodeSets want of the
// published names that no Node has.
func (o *podOwners) missing(g *gathered, snap *inputs.Snapshot, pub *publication.Cluster, names []string) *inputs.Missing {
	if !pub.Rules.BySlinky() {
		return &inputs.Missing{}
	}
	if o.sets == nil {
		o.sets = make(map[string]inputs.Owner, len(g.Nodes))
	}
	for name, n := range g.Nodes {
		if owner := pub.Rules.OwnerOf(n, name); o.sets[name] != owner {
			o.sets[name] = owner
		}
	}
	owners := make(map[string]inputs.Owner, len(names))
	for _, name := range names {
		if owner, known := o.sets[name]; known {
			owners[name] = owner
		}
	}
	if len(o.sets) > len(g.Nodes)+len(owners) {
		maps.DeleteFunc(o.sets, func(name string, _ inputs.Owner) bool {
			_, missing := owners[name]
			return g.Nodes[name] == nil && !missing
		})
	}
	return pub.Rules.Missing(snap, owners)
}
