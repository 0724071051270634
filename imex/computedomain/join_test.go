package computedomain

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

func TestJoinClaim(t *testing.T) {
	key := types.NamespacedName{Namespace: "slurm", Name: "c"}
	pods := map[types.NamespacedName]podFacts{
		{Namespace: "slurm", Name: "holder"}: {uid: "u1", owner: imex.OwnerHolder, node: "n1"},
		{Namespace: "slurm", Name: "slurmd"}: {uid: "u2", owner: imex.OwnerSlurmd, node: "n2", claims: []string{"c"}},
		{Namespace: "slurm", Name: "alone"}:  {uid: "u3", owner: imex.OwnerOther},
	}
	tests := []struct {
		name  string
		facts claimFacts
		want  imex.Claim
	}{
		{"in use", claimFacts{domain: "d", allocated: true, node: "n1", madeFor: podRef{"holder", "u1"}, reserved: []podRef{{"holder", "u1"}}},
			imex.Claim{Domain: "d", Node: "n1", Owner: imex.OwnerHolder, Pods: []string{"slurm/holder"}}},
		{"waiting for its node", claimFacts{madeFor: podRef{"holder", "u1"}}, imex.Claim{Node: "n1", Owner: imex.OwnerHolder, Waiting: "slurm/holder"}},
		{"of a pod before the one of this name", claimFacts{madeFor: podRef{"holder", "u0"}}, imex.Claim{}},
		{"waiting for any node", claimFacts{madeFor: podRef{"alone", "u3"}}, imex.Claim{Owner: imex.OwnerOther, Waiting: "slurm/alone"}},
		{"in use by a pod of no interest", claimFacts{allocated: true, node: "n9", reserved: []podRef{{"other", "u9"}}}, imex.Claim{Node: "n9", Owner: imex.OwnerOther, Pods: []string{"slurm/other"}}},
		{"made by hand, named by a pod", claimFacts{}, imex.Claim{Node: "n2", Owner: imex.OwnerSlurmd, Waiting: "slurm/slurmd"}},
		{"allocated, and used by nobody", claimFacts{allocated: true, node: "n1", madeFor: podRef{"holder", "u0"}}, imex.Claim{Node: "n1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Namespace, tt.want.Name = key.Namespace, key.Name
			got := joinClaims(map[types.NamespacedName]claimFacts{key: tt.facts}, pods)
			if diff := cmp.Diff([]imex.Claim{tt.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// BenchmarkSnapshot takes what is seen of 10,000 nodes in 600 cliques.
func BenchmarkSnapshot(b *testing.B) {
	c := &Cluster{config: imex.Config{Namespace: "quoin-system", Name: "quoin", ClaimTemplate: "channel", AllocationMode: imex.AllocateAll}, health: apihealth.New(nil)}
	none := func() {}
	c.domain, c.clique = newSource(readDomain, none), newSource(readClique, none)
	c.claims, c.joining, c.waiting = newSource(readClaim, none), newSource(readPod, none), newSource(readPod, none)
	c.domains, c.cliques = &defined{source: newSource(func(any) (struct{}, bool) { return struct{}{}, true }, none)}, &defined{source: newSource(func(any) (struct{}, bool) { return struct{}{}, true }, none)}
	c.domains.source.facts[types.NamespacedName{Name: domainsCRD}], c.cliques.source.facts[types.NamespacedName{Name: cliquesCRD}] = struct{}{}, struct{}{}
	facts := domainFacts{uid: "d", spec: c.wanted()}
	for n := range 10000 {
		clique := fmt.Sprintf("8a61c302-0000-4000-8000-000000000001.%d", n%600)
		m := imex.Member{Node: fmt.Sprintf("n%05d", n), Address: fmt.Sprintf("10.0.%d.%d", n/256, n%256), Clique: clique, Index: n / 600, Ready: true}
		facts.members = append(facts.members, m)
		key := types.NamespacedName{Namespace: "driver", Name: "d." + clique}
		one := c.clique.facts[key]
		one.Domain, one.ID, one.Daemons = "d", clique, append(one.Daemons, m)
		c.clique.facts[key] = one
		pod := podRef{"quoin-imex-" + m.Node, types.UID(m.Node)}
		c.joining.facts[types.NamespacedName{Namespace: "quoin-system", Name: pod.name}] = podFacts{uid: pod.uid, owner: imex.OwnerHolder, node: m.Node, claims: []string{pod.name + "-channel"}}
		c.claims.facts[types.NamespacedName{Namespace: "quoin-system", Name: pod.name + "-channel"}] = claimFacts{domain: "d", allocated: true, node: m.Node, madeFor: pod, reserved: []podRef{pod}}
	}
	c.domain.facts[c.key()] = facts
	for _, synced := range []*bool{&c.domain.synced, &c.clique.synced, &c.claims.synced, &c.joining.synced, &c.waiting.synced, &c.domains.source.synced, &c.cliques.source.synced} {
		*synced = true
	}
	b.ReportAllocs()
	for b.Loop() {
		if seen, err := c.Snapshot(); err != nil || len(seen.Claims) != 10000 || len(seen.Cliques) != 600 {
			b.Fatalf("%v", err)
		}
	}
}
