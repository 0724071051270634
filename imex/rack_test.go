package imex

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

const (
	testUID    = "7c2f0c5e-1111-4a6b-9d3e-0123456789ab"
	otherUID   = "e6d1b0aa-2222-4c1d-8f00-ba9876543210"
	testClique = "b3a10c5e-7d4f-4a6b-9d3e-5f0123456789.7"
	oldClique  = "b3a10c5e-7d4f-4a6b-9d3e-5f0123456789.6"
)

// rack returns four nodes, n0 to n3, which are all members: by a holder, with all
// that can be seen of them.
func rack() *Observation {
	s := &Observation{
		Join:    JoinHolder,
		Domain:  Domain{Namespace: "quoin-system", Name: "quoin", UID: testUID},
		Nodes:   map[string]Node{},
		Cliques: []Clique{{Domain: testUID, ID: testClique}},
		Members: map[string]Member{},
	}
	for i := range 4 {
		s.join(fmt.Sprintf("n%d", i), testClique, i)
	}
	return s
}

// join adds a node to the first clique.
func (s *Observation) join(name, clique string, i int) {
	major := 235
	s.Nodes[name] = Node{
		Name: name, GPUs: true, Fabric: FabricClique, Clique: clique, CliqueLabel: clique, DomainLabel: s.Domain.UID,
		Local: &topology.IMEX{ChannelMajor: &major, Channels: 1, DaemonState: "READY"},
	}
	m := Member{Node: name, Address: fmt.Sprintf("10.0.0.%d", i+1), Clique: clique, Index: i, Ready: true}
	s.Cliques[0].Daemons = append(s.Cliques[0].Daemons, m)
	s.Members[name] = m
	s.Claims = append(s.Claims, Claim{
		Namespace: s.Domain.Namespace, Name: "imex-" + name, Domain: s.Domain.UID, Node: name,
		Owner: OwnerHolder, Pods: []string{s.Domain.Namespace + "/quoin-imex-" + name},
	})
}

// node changes what is seen of a node.
func (s *Observation) node(name string, change func(*Node)) {
	n := s.Nodes[name]
	change(&n)
	s.Nodes[name] = n
}

// local changes what a node says of itself.
func (s *Observation) local(name string, change func(*topology.IMEX)) {
	s.node(name, func(n *Node) {
		l := *n.Local
		change(&l)
		n.Local = &l
	})
}

// entry changes node i's entry, and the domain's status with it.
func (s *Observation) entry(i int, change func(*Member)) {
	m := &s.Cliques[0].Daemons[i]
	change(m)
	s.Members[m.Node] = *m
}

// leave takes node i's entry away.
func (s *Observation) leave(i int) {
	d := s.Cliques[0].Daemons
	delete(s.Members, d[i].Node)
	s.Cliques[0].Daemons = append(d[:i:i], d[i+1:]...)
}

// claims returns those of a node.
func (s *Observation) claim(node string) *Claim {
	for i := range s.Claims {
		if s.Claims[i].Node == node {
			return &s.Claims[i]
		}
	}
	return &Claim{}
}

// unclaim takes the claims of a node away.
func (s *Observation) unclaim(node string) {
	var rest []Claim
	for _, c := range s.Claims {
		if c.Node != node {
			rest = append(rest, c)
		}
	}
	s.Claims = rest
}
