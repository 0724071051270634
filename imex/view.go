package imex

import (
	"cmp"
	"slices"
	"strings"
)

// view is an observation sorted by node and by clique.
type view struct {
	*Observation
	nodes []node
	at    map[string]*node // by name
	// cliques are those of all domains, by the clique's own name.
	cliques map[string][]*clique
	// byStatus: the wanted domain has no cliques, so the entries come from its status. A
	// driver may keep one domain by cliques and another one by status.
	byStatus bool
	// addresses has the entries of all domains by address.
	addresses map[string][]*Member
}

// node is one node and what concerns it.
type node struct {
	Node
	// wanted is the domain that it is to join.
	wanted string
	// own is the wanted domain in the node's clique, nil if the clique is not known.
	own *clique
	// entry is the node's entry in own. strays are its entries in other cliques of the
	// domain.
	entry  *Member
	strays []*Member
	claims []*Claim
	// member says that the node has a label, an entry or a claim, listed that the
	// domain's status has it.
	member, listed bool
	// aside is what others do wrong here, while the node is ready.
	aside finding
}

// clique is the part of one domain that lies in one clique.
type clique struct {
	domain, id string
	entries    []*Member
	// nodes counts the members of this clique. labelled are nodes of any domain that carry
	// this domain's label.
	nodes    int
	labelled []string
}

// newView sorts an observation, so that its order does not matter.
func newView(s *Observation) *view {
	v := &view{
		Observation: s,
		byStatus:    len(s.Cliques) == 0 || s.Domain.UID != "" && !slices.ContainsFunc(s.Cliques, func(c Clique) bool { return c.Domain == s.Domain.UID }),
		addresses:   make(map[string][]*Member, len(s.Nodes)),
		nodes:       make([]node, 0, len(s.Nodes)),
		at:          make(map[string]*node, len(s.Nodes)),
		cliques:     make(map[string][]*clique, len(s.Cliques)),
	}
	for name, n := range s.Nodes {
		n.Name = name
		v.nodes = append(v.nodes, node{Node: n})
		v.at[name] = &v.nodes[len(v.nodes)-1]
	}
	v.gatherNodes()
	v.gatherEntries()
	for i := range s.Claims {
		c := &s.Claims[i]
		if n := v.at[c.Node]; n != nil {
			n.member, n.claims = true, append(n.claims, c)
		}
	}
	v.sort()
	return v
}

// gatherNodes finds each node's own clique.
func (v *view) gatherNodes() {
	for i := range v.nodes {
		n := &v.nodes[i]
		n.member = n.DomainLabel != ""
		_, n.listed = v.Members[n.Name]
		n.wanted = v.Domain.UID
		if v.domainUnread() {
			n.wanted = n.DomainLabel
		}
		id := n.CliqueID()
		if n.Fabric == FabricNone || id == "" {
			continue
		}
		n.own = v.clique(n.wanted, id)
		n.own.nodes++
		if n.DomainLabel != "" {
			c := n.own
			if n.DomainLabel != n.wanted {
				c = v.clique(n.DomainLabel, id)
			}
			c.labelled = append(c.labelled, n.Name)
		}
	}
}

// CliqueID names the node's clique, empty if it is not known.
func (n *Node) CliqueID() string { return cmp.Or(n.Clique, n.CliqueLabel) }

// domainUnread reports whether the domain is not this observer's to read.
func (s *Observation) domainUnread() bool { return s.Domain.UID == "" && s.Domain.Problem.Reason == "" }

// gatherEntries finds each node's entries.
func (v *view) gatherEntries() {
	add := func(c *clique, m *Member) {
		c.entries = append(c.entries, m)
		if m.Address != "" {
			v.addresses[m.Address] = append(v.addresses[m.Address], m)
		}
		n := v.at[m.Node]
		switch {
		case n == nil:
			return
		case n.own == c:
			// If a node has two entries, which no API server accepts, the worse counts.
			if n.entry == nil || compareMembers(m, n.entry) < 0 {
				n.entry = m
			}
		case n.wanted == c.domain:
			n.strays = append(n.strays, m)
		}
		n.member = true
	}
	for i := range v.Cliques {
		c := v.clique(v.Cliques[i].Domain, v.Cliques[i].ID)
		for m := range v.Cliques[i].Daemons {
			add(c, &v.Cliques[i].Daemons[m])
		}
	}
	if !v.byStatus {
		return
	}
	for name, m := range v.Members {
		m.Node = name
		add(v.clique(v.Domain.UID, m.Clique), &m)
	}
}

// clique returns the part of a domain in a clique, which it adds if it is new.
func (v *view) clique(domain, id string) *clique {
	known := v.cliques[id]
	for _, c := range known {
		if c.domain == domain {
			return c
		}
	}
	c := &clique{domain: domain, id: id}
	v.cliques[id] = append(known, c)
	return c
}

func (v *view) sort() {
	for i := range v.nodes {
		slices.SortFunc(v.nodes[i].claims, compareClaims)
		slices.SortFunc(v.nodes[i].strays, func(a, b *Member) int {
			return cmp.Or(strings.Compare(a.Clique, b.Clique), compareMembers(a, b))
		})
	}
	for _, cliques := range v.cliques {
		for _, c := range cliques {
			slices.SortFunc(c.entries, compareMembers)
		}
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

// compareClaims puts claims that a pod holds first, and claims that no pod has last.
func compareClaims(a, b *Claim) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
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
