package imex

import (
	"slices"
	"strings"
)

// Peers says which of a gate's members a job is waiting for.
type Peers struct {
	// Known says that the clique's names and the job's can be compared: the node
	// has one name in Kubernetes and in Slurm. Without it NotReady alone is set.
	Known bool
	// Missing are the job's nodes in this clique that are not ready, this node
	// among them, by their names in Slurm.
	Missing []string
	// Alone says that this node has joined, and none of the job's other nodes has
	// joined in this clique: the job needs no IMEX here. A node that has not joined
	// yet sees the others, and its own gate is shut.
	Alone bool
	// NotReady counts the members that are not ready.
	NotReady int
}

// Peers compares a gate that is shut with a job's nodes. node is this node's name
// in Slurm, nodeList the job's host list.
func (g *Gate) Peers(node, nodeList string) Peers {
	var p Peers
	ready := make(map[string]bool, len(g.Members))
	for _, m := range g.Members {
		ready[shortName(m.Node)] = m.Ready
		if !m.Ready {
			p.NotReady++
		}
	}
	own := shortName(node)
	names, err := hostNames(nodeList)
	if err != nil || own == "" || own != shortName(g.Node) {
		return p
	}
	others := false
	for _, name := range names {
		short := shortName(name)
		is, member := ready[short]
		switch {
		case short == own:
			p.Known = true
			p.Missing = append(p.Missing, name)
		case member:
			others = true
			if !is {
				p.Missing = append(p.Missing, name)
			}
		}
	}
	if !p.Known {
		return Peers{NotReady: p.NotReady}
	}
	_, joined := ready[own]
	p.Alone = joined && !others
	slices.Sort(p.Missing)
	p.Missing = slices.Compact(p.Missing)
	return p
}

// shortName is a node's name without its domain. Kubernetes has lower case alone.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return strings.ToLower(short)
}
