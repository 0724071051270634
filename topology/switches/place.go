package switches

import (
	"cmp"
	"fmt"
	"slices"
)

// Node is a node as Place takes it.
type Node struct {
	Name string
	// Adapters are the adapters that jobs compute with. Others, such as those of storage, would
	// say that the node belongs to the switches of the storage.
	Adapters []Adapter
	// Published are the switches above the node in the published plan, nearest first.
	Published []string
}

// Adapter is an adapter of a node.
type Adapter struct {
	// GUIDs are the adapter's own and those of its ports, in up to 16 hexadecimal digits.
	GUIDs []string
	// Switch is the chassis id of the switch by LLDP, empty if it is not known. A text that has
	// one of the GUIDs goes before it.
	Switch string
}

// Group is a number of switches that Slurm sees as one: the leaves that the same nodes use, the
// switches that join the same leaves, or the top of a fabric.
type Group struct {
	Name string `json:"name"`
	// Tier is 0 for leaves.
	Tier int `json:"tier"`
	// Switches are GUIDs in 16 hexadecimal digits, or chassis ids, sorted.
	Switches []string `json:"switches"`
}

// Unplaced is a node whose cables say no place, and why.
type Unplaced struct{ Node, Reason string }

// Result is what Place says.
type Result struct {
	// Tiers are the names of the groups above each node, nearest first, beside the node's name. A
	// tier that the node's fabric does not have is empty. The last stands for the whole fabric: two
	// nodes with the same last tier reach each other. Nodes in Unplaced have none.
	Tiers map[string][]string
	// ByLLDP are the nodes that are known by LLDP alone. They have their leaf as their only tier,
	// because nothing says what is above it.
	ByLLDP map[string]bool
	// Groups are to be remembered until the next call, sorted by tier and name. Those that are not seen
	// now stay as long as a node is published there.
	Groups []Group
	// Cut are the names of groups that no cable leads up from now. Their nodes keep what is published
	// above them.
	Cut []string
	// Unplaced are sorted by name.
	Unplaced []Unplaced
}

// Place says where nodes are by their cables. before are the groups that the last call returned,
// nil for none.
func Place(fabrics []*Fabric, nodes []Node, before []Group) *Result {
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	g := newGraph(fabrics, nodes)
	m := newMemory(before, nodes)
	tree := g.tiers(m)
	r := &Result{Tiers: map[string][]string{}, ByLLDP: map[string]bool{}}
	for i := range nodes {
		if path := tree.path(m, i); path != nil {
			r.Tiers[nodes[i].Name] = path
			if tree.byLLDP(g, m, i) {
				r.ByLLDP[nodes[i].Name] = true
			}
			continue
		}
		r.Unplaced = append(r.Unplaced, Unplaced{nodes[i].Name, why(fabrics, &nodes[i])})
	}
	r.Groups, r.Cut = tree.groups(g, m), tree.cut()
	return r
}

// why says why a node has no place.
func why(fabrics []*Fabric, n *Node) string {
	switch {
	case len(n.Adapters) == 0:
		return "no adapter of the node is known"
	case len(fabrics) == 0:
		return fmt.Sprintf("there is no text of ibnetdiscover, and LLDP names no neighbour of its adapters (%d)", len(n.Adapters))
	}
	return fmt.Sprintf("no cable of its adapters (%d) is in a text of ibnetdiscover, and LLDP names no neighbour of them", len(n.Adapters))
}
