package imex

import (
	"cmp"
	"slices"
	"strings"
)

// judge is what is seen, by node and by clique.
type judge struct {
	*Seen
	nodes   []node
	at      map[string]*node // by name
	cliques map[cliqueKey]*clique
	// byID are the cliques of all domains by the clique's own name.
	byID map[string][]*clique
	// byStatus: there are no cliques, so that the domain's status has the entries.
	byStatus bool
}

// node is one node and what concerns it.
type node struct {
	Node
	// wanted is the domain that it is to join.
	wanted string
	// own is the wanted domain in the node's clique, nil if that is not known.
	own *clique
	// entry is the node's in own, strays are those under other cliques of the domain.
	entry  *Member
	strays []stray
	holds  []*Claim
	// member says that it has a label, an entry in a clique or a claim.
	member bool
	found  finding
}

// stray is an entry under another clique than its node's.
type stray struct {
	*Member
	in *clique
}

type cliqueKey struct{ domain, id string }

// clique is one domain in one clique.
type clique struct {
	cliqueKey
	entries []*Member
	// foreign are entries of nodes that are not known, or whose own it is not.
	foreign []*Member
	// nodes are those whose own it is, labelled those of them, and of nodes in other
	// domains, that have this domain's label.
	nodes    []*node
	labelled []string
	// behind are those that are not ready, in words, and counted once it is set.
	behind  []string
	counted bool
}

// gather sorts what is seen, so that its order says nothing.
func gather(s *Seen) *judge {
	j := &judge{
		Seen:     s,
		byStatus: len(s.Cliques) == 0,
		nodes:    make([]node, 0, len(s.Nodes)),
		at:       make(map[string]*node, len(s.Nodes)),
		cliques:  make(map[cliqueKey]*clique, len(s.Cliques)),
		byID:     make(map[string][]*clique, len(s.Cliques)),
	}
	for name, n := range s.Nodes {
		n.Name = name
		j.nodes = append(j.nodes, node{Node: n})
		j.at[name] = &j.nodes[len(j.nodes)-1]
	}
	j.gatherNodes()
	j.gatherEntries()
	for i := range s.Claims {
		c := &s.Claims[i]
		if n := j.at[c.Node]; n != nil {
			n.member, n.holds = true, append(n.holds, c)
		}
	}
	j.sort()
	return j
}

// gatherNodes finds each node's own clique.
func (j *judge) gatherNodes() {
	for i := range j.nodes {
		n := &j.nodes[i]
		n.member = n.DomainLabel != ""
		n.wanted = j.Domain.UID
		if j.domainUnread() {
			n.wanted = n.DomainLabel
		}
		id := n.CliqueID()
		if n.Fabric == FabricNone || id == "" {
			continue
		}
		n.own = j.of(n.wanted, id)
		n.own.nodes = append(n.own.nodes, n)
		if n.DomainLabel != "" {
			c := j.of(n.DomainLabel, id)
			c.labelled = append(c.labelled, n.Name)
		}
	}
}

// CliqueID names the node's clique, empty where that is not known.
func (n *Node) CliqueID() string { return cmp.Or(n.Clique, n.CliqueLabel) }

// domainUnread reports whether the domain is not this observer's to read.
func (s *Seen) domainUnread() bool { return s.Domain.UID == "" && s.Domain.Problem.Reason == "" }

// gatherEntries finds each node's entries.
func (j *judge) gatherEntries() {
	add := func(c *clique, m *Member) {
		c.entries = append(c.entries, m)
		n := j.at[m.Node]
		if n == nil || n.own != c {
			c.foreign = append(c.foreign, m)
		}
		switch {
		case n == nil:
			return
		case n.own == c:
			// Of two entries of one node, which no server keeps, the worse counts.
			if n.entry == nil || compareMembers(m, n.entry) < 0 {
				n.entry = m
			}
		case n.wanted == c.domain:
			n.strays = append(n.strays, stray{m, c})
		}
		n.member = true
	}
	for i := range j.Cliques {
		c := j.of(j.Cliques[i].Domain, j.Cliques[i].ID)
		for m := range j.Cliques[i].Daemons {
			add(c, &j.Cliques[i].Daemons[m])
		}
	}
	if !j.byStatus {
		return
	}
	for name, m := range j.Members {
		m.Node = name
		add(j.of(j.Domain.UID, m.Clique), &m)
	}
}

// of returns the domain's clique, and makes it.
func (j *judge) of(domain, id string) *clique {
	key := cliqueKey{domain, id}
	c := j.cliques[key]
	if c == nil {
		c = &clique{cliqueKey: key}
		j.cliques[key] = c
		j.byID[id] = append(j.byID[id], c)
	}
	return c
}

func (j *judge) sort() {
	for i := range j.nodes {
		slices.SortFunc(j.nodes[i].holds, compareClaims)
		slices.SortFunc(j.nodes[i].strays, func(a, b stray) int {
			return cmp.Or(strings.Compare(a.in.id, b.in.id), compareMembers(a.Member, b.Member))
		})
	}
	for _, c := range j.cliques {
		slices.SortFunc(c.entries, compareMembers)
		slices.SortFunc(c.nodes, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	}
}

// compareMembers puts one that is not ready before one that is.
func compareMembers(a, b *Member) int {
	if a.Ready != b.Ready {
		if b.Ready {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.Node, b.Node), strings.Compare(a.Address, b.Address))
}

// compareClaims puts one that a pod holds first, and one that nobody has last.
func compareClaims(a, b *Claim) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Waiting, b.Waiting),
		strings.Compare(a.Owner, b.Owner), strings.Compare(a.Domain, b.Domain), strings.Compare(a.pods(), b.pods()))
}

// How far a claim has come.
const (
	claimHeld  = iota // by a pod
	claimWaits        // for the channel
	claimIdle         // allocated, and reserved for no pod
)

func (c *Claim) rank() int {
	switch {
	case c.Waiting != "":
		return claimWaits
	case len(c.Pods) == 0:
		return claimIdle
	}
	return claimHeld
}
