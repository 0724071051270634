package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// node is one node: its facts, where it is published, and what findPlaces finds of the node.
type node struct {
	*topology.Facts
	// label is its NVLink domain by the one label whose values name NVLink domains. It is zero without that
	// label. unused is why another label of the node is not used, or "".
	label  topology.Domain
	unused string
	// reports: some node has a report, or the node's published devices came from one. Labels alone move it
	// nowhere then.
	reports bool
	old     *oldBlock // the published block, or nil
	// held is why the node stays in its block while a change of NVLink partitions waits for people, or "".
	held string
	placing
}

// placing is what findPlaces finds of a node: makeTree finds tiers, path and leaf, and the later stages find the rest.
type placing struct {
	// tiers are what the node calls the switches above it, by the source of the tree, the nearest first. A tier that
	// it does not name is "". path are the switches that it names.
	tiers []string
	path  []step
	leaf  string // the leaf switch above it in the tree, or ""
	// unit is what the node makes a block with by its facts. It is zero if they name nothing, or are not followed.
	unit unit
	// clique is zero if no clique is known. If a label names the domain by a value of its own, source is
	// fromLabel all the same.
	clique topology.Clique
	source source
	block  *domain // the block of the plan that the node is in, or nil
	// reason and message say why the node has no block or stays. A node in the block of its unit has none.
	reason, message string
}

// source says where a node's block is known from.
type source uint8

// The sources of a block. NVML goes before labels. fromPrevious: the node stays.
const (
	unknown source = iota
	fromNVML
	fromLabel
	fromSwitch // the leaf switch, if blocks are made by leaf
	fromPrevious
)

func (s source) String() string { return [...]string{"", "nvml", "label", "switch", "previous"}[s] }

// stay lets a node stay in its published block, whatever its facts name. A node that is published in no block
// stays out of all blocks.
func (n *node) stay(reason, message string) {
	n.clique, n.source, n.block, n.reason, n.message = topology.Clique{}, fromPrevious, nil, reason, message
}

// leaveOut leaves nodes without a block.
func leaveOut(nodes []*node, reason, message string) {
	for _, n := range nodes {
		n.source, n.block, n.reason, n.message = unknown, nil, reason, message
	}
}

// namedLeaf returns what the node itself calls its leaf switch, or "".
func (n *node) namedLeaf() string {
	if len(n.tiers) == 0 {
		return ""
	}
	return n.tiers[0]
}

func compareNodes(a, b *node) int {
	return cmp.Or(strings.Compare(a.SlurmName, b.SlurmName), strings.Compare(a.Name, b.Name))
}

func slurmNames(nodes []*node) []string {
	names := slices.Grow([]string(nil), len(nodes))
	for _, n := range nodes {
		names = append(names, n.SlurmName)
	}
	return names
}

// readNodes returns the nodes in the order of their Slurm names, and those without a name in Slurm. It finds
// where each is published. Two nodes of one Slurm name are an error.
func readNodes(o *Observed, old *published) (nodes, unnamed []*node, err error) {
	all := make([]node, len(o.Facts)+len(o.Unnamed))
	nodes, unnamed = make([]*node, len(o.Facts)), make([]*node, len(o.Unnamed))
	for i := range o.Facts {
		all[i].Facts, nodes[i] = &o.Facts[i], &all[i]
	}
	slices.SortFunc(nodes, compareNodes)
	for i := range o.Unnamed {
		unnamed[i] = &all[len(o.Facts)+i]
		unnamed[i].Facts = &o.Unnamed[i]
	}
	agents := slices.ContainsFunc(nodes, func(n *node) bool { return n.Report != nil || n.ReportUnreadable })
	for i, n := range nodes {
		if n.SlurmName == "" {
			return nil, nil, fmt.Errorf("node %q has no Slurm name", n.Name)
		}
		if i > 0 && nodes[i-1].SlurmName == n.SlurmName {
			return nil, nil, fmt.Errorf("nodes %q and %q both have the Slurm name %q: give one of them another", nodes[i-1].Name, n.Name, n.SlurmName)
		}
		n.old, n.reports = old.blockOf[n.SlurmName], agents || old.reported[n.SlurmName]
		if n.old != nil {
			n.old.nodes = append(n.old.nodes, n)
		}
	}
	chooseDomainLabel(slices.Concat(nodes, unnamed))
	return nodes, unnamed, nil
}

// indexOrAdd returns the index of the element of a list that is the wanted one. Without one it adds fresh.
func indexOrAdd[L ~[]T, T any](list *L, is func(T) bool, fresh T) int {
	at := slices.IndexFunc(*list, is)
	if at < 0 {
		at = len(*list)
		*list = append(*list, fresh)
	}
	return at
}

// problems is what a stage found to be wrong.
type problems []topology.Finding

func (p *problems) add(node, reason, message string) {
	*p = append(*p, topology.Finding{Subject: topology.Subject{Node: node}, Reason: reason, Message: message})
}
