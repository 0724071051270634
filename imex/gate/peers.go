package gate

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Peers says for which members of the gate's clique a job is waiting.
type Peers struct {
	// Known says that the job's node names can be compared with the members' names:
	// this node has the same name in Slurm and in Kubernetes. Otherwise only NotReady
	// is set.
	Known bool
	// Missing are the job's nodes in this clique that are not ready, by their names in
	// Slurm. This node is always among them.
	Missing []string
	// Alone says that the job needs no IMEX here: this node has an entry in the clique,
	// and no other node of the job has. It is false while this node has no entry,
	// because the other nodes may be joining too.
	Alone bool
	// NotReady counts the members that are not ready.
	NotReady int
}

// Peers compares a gate that is shut with a job's nodes. node is this node's name in
// Slurm, nodeList the job's host list.
func (s *State) Peers(node, nodeList string) Peers {
	unknown := Peers{}
	ready := make(map[string]bool, len(s.Members))
	for _, m := range s.Members {
		ready[shortName(m.Node)] = m.Ready
		if !m.Ready {
			unknown.NotReady++
		}
	}
	own := shortName(node)
	if own == "" || own != shortName(s.Node) {
		return unknown
	}
	p, others := unknown, false
	err := hostlist.Walk(nodeList, func(bytes []byte) {
		name := string(bytes)
		short := shortName(name)
		isReady, member := ready[short]
		switch {
		case short == own:
			p.Known = true
			p.Missing = append(p.Missing, name)
		case member:
			others = true
			if !isReady {
				p.Missing = append(p.Missing, name)
			}
		}
	})
	if err != nil || !p.Known {
		return unknown
	}
	_, joined := ready[own]
	p.Alone = joined && !others
	slices.Sort(p.Missing)
	p.Missing = slices.Compact(p.Missing)
	return p
}

// shortName is a node's name without its domain, in lower case as in Kubernetes.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, ".")
	return strings.ToLower(short)
}
