package publisher

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// The kinds of decisions about the kind of a topology in the file.
const (
	// reasonKindChange is why the first blocks wait where a tree is published.
	reasonKindChange = "KindChange"
	// reasonTopologyInUse is why a topology waits that would change between blocks and switches
	// while Node annotations name its units. It also names a topology that is no longer configured
	// and stays in the file.
	reasonTopologyInUse = "TopologyInUse"
)

// decision is one that waits for people, and what to say of it.
type decision struct {
	placement.Decision
	message string
}

// same reports whether both are about the same, whatever they turn it to.
func (d decision) same(other decision) bool {
	return d.Kind == other.Kind && d.Subject == other.Subject
}

// decisions returns what people look at first, of what was made. A further kind of decision is a
// further line here. While a decision is held, withAnswers or the plan's policy (Keep) makes the
// published answer.
func decisions(p *publication.Cluster, in *gathered, made *Rendered) []decision {
	if in.prev.Plan == nil || made.Plan == nil {
		return nil
	}
	var out []decision
	for _, find := range []func(*publication.Cluster, *gathered, *Rendered) []decision{
		rootsJoin,
		topologiesChange,
		kindChange,
		baseSizeChange,
		repartitioned,
		blockOverfull,
	} {
		out = append(out, find(p, in, made)...)
	}
	return out
}

// withAnswers returns the publication with the published answers that its configuration can give.
func withAnswers(p *publication.Cluster, keep []placement.Decision) *publication.Cluster {
	for _, d := range keep {
		if d.Kind == reasonKindChange || d.Kind == reasonTopologyInUse {
			as := *p
			as.Topology = d.From
			return &as
		}
	}
	return p
}

// rootsJoin finds published root switches that would be joined below one that no label names.
func rootsJoin(_ *publication.Cluster, in *gathered, made *Rendered) (out []decision) {
	for _, d := range placement.Joins(in.prev.Plan, made.Plan) {
		out = append(out, decision{d, fmt.Sprintf("switch %s would be put above the published root switches, because nothing says that they are separate fabrics: then a job may use nodes of all; "+
			"configure fabrics: separate if no link joins them", d.Subject)})
	}
	return out
}

// topologiesChange finds the published block topologies that would go. slurmctld does not start
// while a partition names one.
func topologiesChange(p *publication.Cluster, in *gathered, made *Rendered) (out []decision) {
	if c := p.Choice(); !c.YAML || c.Kind == slurmconf.KindTree {
		return nil
	}
	for _, d := range placement.Divisions(in.prev.Plan, made.Plan) {
		out = append(out, decision{d, slurmconf.TopologyGoes(d.Subject, made.Plan)})
	}
	return out
}

// baseSizeChange finds the topologies that would get another base block size, because domains came or
// grew. A configured size is people's own word.
func baseSizeChange(p *publication.Cluster, in *gathered, made *Rendered) (out []decision) {
	if in.prev.Plan == nil || made.Plan == nil || p.BaseBlockSize > 0 || len(p.SizeClasses) > 0 || p.Topology == string(slurmconf.KindTree) {
		return nil
	}
	for _, d := range placement.BaseChanges(in.prev.Plan, made.Plan) {
		out = append(out, decision{d, placement.BaseChangeText(&d, made.Plan, p.Policy())})
	}
	return out
}

// blockOverfull finds the blocks that nodes would join beyond what the blocks can have.
func blockOverfull(_ *publication.Cluster, _ *gathered, made *Rendered) (out []decision) {
	for i := range made.overfull {
		o := &made.overfull[i]
		out = append(out, decision{o.Decision(), fmt.Sprintf("%s: %s; until it is approved these nodes stay where they are; find out why they name this NVLink domain, and delete the Nodes that are gone for good", o, hostlist.Compress(o.Joins))})
	}
	return out
}

// kindChange finds a topology of the file that would change between switches and blocks: one that
// Node annotations name, or the default topology of a site whose first blocks are known.
func kindChange(p *publication.Cluster, in *gathered, made *Rendered) []decision {
	prev := &in.prev
	if from, to := prev.changesKind(in.inUse, made); from != nil && p.Annotates {
		return []decision{{placement.Decision{Kind: reasonTopologyInUse, Subject: from.Name, From: from.Kind, To: to.Kind},
			fmt.Sprintf("topology %s would change between switches and blocks while Node annotations still name its blocks or switches, and topology.conf holds one topology; "+
				"configure format: yaml, which holds both, and format: conf again when no annotation names the old ones; if approved now, slurmctld does not start while nodes are registered with the old ones", from.Name)}}
	}
	followsBlocks := p.DefaultTopology != topology.FabricTopology && p.DefaultTopology != topology.FlatTopology
	blocks := slices.ContainsFunc(made.topologies, func(t topology.Topology) bool { return t.Kind == topology.KindBlock })
	if p.Topology != string(slurmconf.KindAuto) || !followsBlocks || !blocks || len(prev.Plan.Blocks()) > 0 || len(prev.Plan.Switches()) == 0 {
		return nil
	}
	return []decision{{placement.Decision{Kind: reasonKindChange, Subject: "default topology", From: topology.KindTree, To: topology.KindBlock},
		"the first NVLink domains are known: the default topology would change from tree to block, and slurm.conf's TopologyPlugin and the partitions must follow; configure topology: tree to keep the tree"}}
}
