package nodestatus

import (
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// BenchmarkReconcile measures what a Keeper does for 10,008 nodes in 556 cliques after one
// entry of a clique has changed: verdicts and series, and the comparison with what is on
// the Nodes.
func BenchmarkReconcile(b *testing.B) {
	d := &domain{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"}, seen: imex.Observation{Join: imex.JoinHolder, Members: map[string]imex.Member{}}}
	s := newBenchSite(b, 10008, d)
	cliques := largeCliques(s, d)
	d.seen.Cliques = cliques[0]
	s.pass(b.Context(), time.Hour)
	s.keeper.Touch(s.now)
	s.pass(b.Context(), time.Hour)
	b.Run("judge", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			d.seen.Cliques = cliques[i%2]
			if verdicts := s.keeper.members.reconcile(b.Context(), s.snap, Fabrics(s.snap, new(fabric.Site))); len(verdicts) != len(s.snap.Nodes) || !verdicts["n00000"].Ready() {
				b.Fatalf("%d verdicts, one of them %+v", len(verdicts), verdicts["n00000"])
			}
		}
	})
	b.Run("compare", func(b *testing.B) {
		d.seen.Cliques = cliques[0]
		verdicts := s.keeper.members.reconcile(b.Context(), s.snap, Fabrics(s.snap, new(fabric.Site)))
		b.ReportAllocs()
		for b.Loop() {
			if updates := s.keeper.compare(s.snap, Fabrics(s.snap, new(fabric.Site)), verdicts, true, s.now); len(updates) != 0 {
				b.Fatalf("%d of %d nodes differ, one by %+v", len(updates), len(s.snap.Nodes), updates[0])
			}
		}
	})
}

// largeCliques has all nodes join, and returns their cliques when they are ready and
// when the last one is not.
func largeCliques(s *site, d *domain) (out [2][]imex.Clique) {
	entries := map[string][]imex.Member{}
	var last string
	for i := range s.snap.Nodes {
		n := &s.snap.Nodes[i]
		report := s.snap.Reports[n.Name]
		major := 235
		report.IMEX = &topology.IMEX{ChannelMajor: &major}
		last = report.Domain.Clique.String()
		entry := imex.Member{Node: n.Name, Address: "of " + n.Name, Clique: last, Index: len(entries[last]), Ready: true}
		entries[last], d.seen.Members[n.Name] = append(entries[last], entry), entry
		d.seen.Claims = append(d.seen.Claims, imex.Claim{Namespace: "quoin-system", Name: n.Name, Domain: "u1", Node: n.Name, Owner: imex.OwnerHolder, Pods: []string{"quoin-system/" + n.Name}})
		n.Labels = map[string]string{imex.DomainLabel: "u1"}
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

// BenchmarkFound measures what a Keeper does with a pass in which each of 10,008 nodes
// differs.
func BenchmarkFound(b *testing.B) {
	s := newBenchSite(b, 10008, nil)
	pass := &Pass{Plan: &topology.Plan{}}
	for i := range s.snap.Nodes {
		pass.Differences = append(pass.Differences, Difference{Node: &s.snap.Nodes[i], Reason: ReasonPublishedDiffers, Is: "nvl:nvl-1", Want: "nvl:nvl-2", Cause: "held"})
	}
	b.ReportAllocs()
	for b.Loop() {
		var d drift
		all := map[string][]topology.Finding{}
		d.found(pass, s.now)
		d.found(pass, s.now.Add(driftAfter))
		if d.addTo(all, s.now.Add(driftAfter)); len(all) != 10008 {
			b.Fatal(len(all))
		}
	}
}
