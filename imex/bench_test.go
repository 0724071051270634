package imex

import (
	"fmt"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// largeCases are what 10,000 nodes in 600 cliques may be like.
var largeCases = []struct {
	name  string
	spoil func(s *Observation)
}{
	{"ready", func(*Observation) {}},
	{"one of each clique late", func(s *Observation) {
		for i := range s.Cliques {
			s.Cliques[i].Daemons[0].Ready = false
		}
	}},
	{"no domain", func(s *Observation) {
		s.Domain = Domain{Problem: topology.Finding{Reason: NoDomain, Message: "there is none"}}
	}},
	{"all in conflict", func(s *Observation) {
		for i := range 10000 {
			s.Claims = append(s.Claims, Claim{Namespace: "slurm", Name: fmt.Sprintf("worker-%d", i), Domain: testUID,
				Node: s.Claims[i].Node, Owner: OwnerSlurmd, Waiting: fmt.Sprintf("slurm/worker-%d", i)})
		}
	}},
}

// BenchmarkJudge judges all of 10,000 nodes in 600 cliques with a claim each, as
// at first and after a change that concerns them all.
func BenchmarkJudge(b *testing.B) {
	for _, c := range largeCases {
		b.Run(c.name, func(b *testing.B) {
			s := largeSeen()
			c.spoil(s)
			b.ReportAllocs()
			for b.Loop() {
				if got := Judge(s); len(got) != 10000 {
					b.Fatalf("%d verdicts", len(got))
				}
			}
		})
	}
}

// largeSeen returns 10,000 nodes that are all ready.
func largeSeen() *Observation {
	s := &Observation{
		Join:    JoinHolder,
		Domain:  Domain{Namespace: "quoin-system", Name: "quoin", UID: testUID},
		Nodes:   map[string]Node{},
		Members: map[string]Member{},
	}
	for i := range 600 {
		s.Cliques = append(s.Cliques, Clique{Domain: testUID, ID: fmt.Sprintf("%08x-7d4f-4a6b-9d3e-5f0123456789.%d", i, i)})
	}
	for i := range 10000 {
		name, c := fmt.Sprintf("gb200-%05d", i), &s.Cliques[i%600]
		major := 235
		s.Nodes[name] = Node{Name: name, GPUs: true, Fabric: FabricClique, Clique: c.ID, CliqueLabel: c.ID, DomainLabel: testUID,
			Local: &topology.IMEX{ChannelMajor: &major, DaemonState: "READY"}}
		m := Member{Node: name, Address: fmt.Sprintf("10.%d.%d.7", i/256, i%256), Clique: c.ID, Index: i / 600, Ready: true}
		c.Daemons = append(c.Daemons, m)
		s.Members[name] = m
		s.Claims = append(s.Claims, Claim{Namespace: "quoin-system", Name: "imex-" + name, Domain: testUID, Node: name, Owner: OwnerHolder, Pods: []string{"quoin-system/quoin-imex-" + name}})
	}
	return s
}
