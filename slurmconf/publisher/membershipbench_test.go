package publisher

import (
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// BenchmarkVerdicts measures what the publisher does for 10,008 nodes in 556 cliques
// once it knows what is seen of their membership, and when one entry has changed:
// verdicts and series, and then the comparison with what is on the Nodes.
func BenchmarkVerdicts(b *testing.B) {
	c, err := simulated.Parse("large.yaml", []byte(`
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144}
`))
	if err != nil {
		b.Fatal(err)
	}
	snap := snapshotOf(c)
	store := newMemory(snap)
	p := newPublisher(store, complete(b, Publication{}))
	p.conditions.setter = store
	p.conditions.drift = map[string]map[string][]topology.Problem{p.states[0].pub.Name: nil}
	m := &members{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"}, seen: imex.Observation{Join: imex.JoinHolder, Members: map[string]imex.Member{}}}
	p.conditions.membership = m
	cliques := largeCliques(snap, m)
	judge := func(b *testing.B, i int) map[string]imex.Verdict {
		b.Helper()
		m.seen.Cliques = cliques[i%2]
		verdicts := p.judge(b.Context(), snap)
		if len(verdicts) != len(snap.Nodes) || !verdicts[snap.Nodes[0].Name].Ready() {
			b.Fatalf("%d verdicts, one of them %+v", len(verdicts), verdicts[snap.Nodes[0].Name])
		}
		return verdicts
	}
	b.Run("judge", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			judge(b, i)
		}
	})
	b.Run("compare", func(b *testing.B) {
		verdicts := judge(b, 0)
		if err := p.writeConditions(b.Context(), snap, verdicts, time.Now()); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Snapshot(b.Context()); err != nil { // has them now
			b.Fatal(err)
		}
		writes := store.conditionWrites
		b.ReportAllocs()
		for b.Loop() {
			if err := p.writeConditions(b.Context(), snap, verdicts, time.Now()); err != nil || store.conditionWrites != writes {
				b.Fatalf("%d writes, %v", store.conditionWrites-writes, err)
			}
		}
	})
}

// largeCliques has all nodes join, and returns their cliques when they are ready and
// when the last one is not.
func largeCliques(snap *inputs.Snapshot, m *members) (out [2][]imex.Clique) {
	entries := map[string][]imex.Member{}
	var last string
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		report := snap.Reports[n.Name]
		major := 235
		report.IMEX = &topology.IMEX{ChannelMajor: &major}
		last = report.Domain.Clique.String()
		entry := imex.Member{Node: n.Name, Address: "of " + n.Name, Clique: last, Index: len(entries[last]), Ready: true}
		entries[last], m.seen.Members[n.Name] = append(entries[last], entry), entry
		m.seen.Claims = append(m.seen.Claims, imex.Claim{Namespace: "quoin-system", Name: n.Name, Domain: "u1", Node: n.Name, Owner: imex.OwnerHolder, Pods: []string{"quoin-system/" + n.Name}})
		n.Labels = map[string]string{domainLabel: "u1"}
	}
	for id, daemons := range entries {
		ready := imex.Clique{Domain: "u1", ID: id, Daemons: daemons}
		late := ready
		if id == last {
			late.Daemons = append([]imex.Member(nil), daemons...)
			late.Daemons[len(daemons)-1].Ready = false
		}
		out[0], out[1] = append(out[0], ready), append(out[1], late)
	}
	return out
}
