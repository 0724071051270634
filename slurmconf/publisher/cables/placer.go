package cables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// Placer gives the nodes of one publication the switches that their cables show. It can be lost:
// the next one makes the same answer. Its zero value is ready.
type Placer struct {
	// Described are adapters of nodes by Node, as their descriptions in the texts say. They count for
	// nodes whose report has none. The publisher sets none, because a description may be wrong.
	Described map[string][]switches.Adapter

	adapters map[*topology.Node]computing
	last     placed
}

// computing are the adapters of a node that jobs compute with, and the doubt about them.
type computing struct {
	adapters []switches.Adapter
	doubt    []topology.Finding
}

// placed is an answer, and what it was made from.
type placed struct {
	fabrics []*switches.Fabric
	nodes   []switches.Node
	before  []switches.Group
	result  *switches.Result
}

// Place returns the facts with the switches above each node, the groups of switches to remember, and what
// is wrong with groups. texts are what was read, compute the patterns of adapters that jobs compute with. prev is the published
// plan, or nil, and before are the remembered groups.
func (p *Placer) Place(texts []inputs.FabricText, compute []string, facts []topology.Facts, prev *topology.Plan, before []switches.Group) ([]topology.Facts, []switches.Group, []topology.Finding) {
	fabrics := fabricsOf(texts)
	switch {
	case len(fabrics) == 0 && len(texts) > 0: // none can be read now
		return facts, before, nil
	case len(fabrics) == 0 && !haveNeighbors(facts, compute):
		return facts, nil, nil
	}
	nodes, doubts := p.nodes(facts, compute, prev)
	if !p.last.same(fabrics, nodes, before) {
		p.last = placed{fabrics, nodes, before, switches.Place(fabrics, nodes, before)}
	}
	missing := make(map[string]string, len(p.last.result.Unplaced))
	for _, u := range p.last.result.Unplaced {
		missing[u.Node] = u.Reason
	}
	out := slices.Clone(facts)
	for i := range out {
		f := &out[i]
		f.Cables = p.last.cables(f.Name)
		switch {
		case len(f.Cables.Tiers) > 0:
		case f.Report == nil && p.Described == nil:
			f.Cables.Missing = "no report says its adapters"
		case f.Report == nil && len(p.Described[f.Name]) == 0:
			f.Cables.Missing = "no report says its adapters, and no adapter is described with its name"
		default:
			f.Cables.Missing = missing[f.Name]
		}
	}
	return out, p.last.result.Groups, append(cutOff(p.last.result.Cut), doubts...)
}

// maxCut is how many switches the finding about missing cables upwards names.
const maxCut = 3

// cutOff says that no cable leads up from groups of switches.
func cutOff(names []string) []topology.Finding {
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names[:min(len(names), maxCut)], ", ")
	if more := len(names) - maxCut; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return []topology.Finding{{Reason: placement.ReasonCablesMissing, Message: "no cable leads up from " + list + "; the switches published above stay"}}
}

// Last returns the switches that the last answer has above a node. If the texts have changed since, it
// returns none.
func (p *Placer) Last(texts []inputs.FabricText, node string) topology.Cables {
	if p.last.result == nil || !slices.Equal(p.last.fabrics, fabricsOf(texts)) {
		return topology.Cables{}
	}
	return p.last.cables(node)
}

// cables returns the switches that the answer has above a node. Beside texts, LLDP counts for nodes that no
// text has.
func (l *placed) cables(node string) topology.Cables {
	tiers := l.result.Tiers[node]
	if len(tiers) == 0 {
		return topology.Cables{}
	}
	source := topology.SourceCables
	if len(l.fabrics) == 0 {
		source = topology.SourceLLDP
	}
	return topology.Cables{SourceTiers: topology.SourceTiers{TierSource: source, Tiers: tiers}, ByLLDP: l.result.ByLLDP[node]}
}

func fabricsOf(texts []inputs.FabricText) (fabrics []*switches.Fabric) {
	for i := range texts {
		if f := texts[i].Fabric; f != nil && !slices.Contains(fabrics, f) {
			fabrics = append(fabrics, f)
		}
	}
	return fabrics
}

// haveNeighbors reports whether LLDP names a switch at an adapter that jobs compute with.
func haveNeighbors(facts []topology.Facts, compute []string) bool {
	for i := range facts {
		r := facts[i].Report
		if r == nil || !slices.ContainsFunc(r.Adapters, func(a topology.Adapter) bool { return a.HasNeighbor() }) {
			continue
		}
		if slices.ContainsFunc(adaptersOf(r, compute).adapters, func(a switches.Adapter) bool { return a.Switch != "" }) {
			return true
		}
	}
	return false
}

// nodes returns the nodes as Place takes them, and a finding for each node whose adapters for compute are doubtful.
func (p *Placer) nodes(facts []topology.Facts, compute []string, prev *topology.Plan) (nodes []switches.Node, doubts []topology.Finding) {
	published := publishedPaths(prev)
	known := make(map[*topology.Node]computing, len(facts))
	nodes = make([]switches.Node, len(facts))
	for i := range facts {
		f := &facts[i]
		n := switches.Node{Name: f.Name, Published: published[f.SlurmName]}
		if f.Report != nil {
			of, found := p.adapters[f.Report]
			if !found {
				of = adaptersOf(f.Report, compute)
			}
			known[f.Report], n.Adapters = of, of.adapters
			for _, d := range of.doubt {
				d.Node = f.Name
				doubts = append(doubts, d)
			}
		}
		if len(n.Adapters) == 0 {
			n.Adapters = p.Described[f.Name]
		}
		nodes[i] = n
	}
	p.adapters = known
	return nodes, doubts
}

// adaptersOf returns the adapters of a node that jobs compute with. An adapter that had no link since
// the boot has no cable, and is left out if another had a link: the second ports of many machines have
// none, and would count as cables that are missing.
func adaptersOf(n *topology.Node, names []string) computing {
	var linked, idle []switches.Adapter
	compute := n.ComputeAdapters(names)
	for _, a := range compute.Adapters {
		of, hasLink := switches.Adapter{}, false
		if a.NodeGUID != "" {
			of.GUIDs = append(of.GUIDs, a.NodeGUID)
		}
		for i := range a.Ports {
			port := &a.Ports[i]
			if port.GUID != "" {
				of.GUIDs = append(of.GUIDs, port.GUID)
			}
			if of.Switch == "" {
				of.Switch = port.Neighbor.ChassisID
			}
			hasLink = hasLink || port.RateGbps > 0
		}
		if hasLink {
			linked = append(linked, of)
		} else {
			idle = append(idle, of)
		}
	}
	if len(linked) == 0 {
		return computing{idle, compute.Doubt}
	}
	return computing{linked, compute.Doubt}
}

// publishedPaths returns by Slurm name the switches above each node in the published plan, nearest first,
// without a root that Quoin put there.
func publishedPaths(prev *topology.Plan) map[string][]string {
	if prev == nil {
		return nil
	}
	named := topology.NamedSwitches(prev.Switches())
	above := topology.ParentsOf(named)
	paths := map[string][]string{}
	for i := range named {
		if len(named[i].Nodes) == 0 {
			continue
		}
		var path []string
		for at := named[i].Name; at != "" && len(path) < topology.MaxTiers; at = above[at] {
			path = append(path, at)
		}
		for _, n := range named[i].Nodes {
			paths[n] = path
		}
	}
	return paths
}

// same reports whether the answer was made from the same. An answer that is given its own groups is the
// same too.
func (l *placed) same(fabrics []*switches.Fabric, nodes []switches.Node, before []switches.Group) bool {
	return l.result != nil && slices.Equal(l.fabrics, fabrics) && slices.EqualFunc(l.nodes, nodes, sameNode) &&
		(SameGroups(l.before, before) || SameGroups(l.result.Groups, before))
}

func sameNode(a, b switches.Node) bool {
	return a.Name == b.Name && slices.Equal(a.Published, b.Published) && slices.EqualFunc(a.Adapters, b.Adapters, sameAdapter)
}

func sameAdapter(a, b switches.Adapter) bool {
	return a.Switch == b.Switch && slices.Equal(a.GUIDs, b.GUIDs)
}

// SameGroups reports whether groups of switches are the same.
func SameGroups(a, b []switches.Group) bool {
	return slices.EqualFunc(a, b, func(a, b switches.Group) bool {
		return a.Name == b.Name && a.Tier == b.Tier && slices.Equal(a.Switches, b.Switches)
	})
}
