package computedomain

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// listedCluster returns a Cluster that has read lists without a single object.
func listedCluster(tb testing.TB, join string) *Cluster {
	tb.Helper()
	config, err := imex.Config{Join: join, Namespace: "slurm"}.Complete()
	if err != nil {
		tb.Fatal(err)
	}
	definition := newSource(func(any) (struct{}, bool) { return struct{}{}, true }, nobody)
	definition.put(types.NamespacedName{Name: "a definition"}, struct{}{}, true)
	definition.synced = true
	c := &Cluster{config: config, health: apihealth.New(nil), domains: &defined{source: definition}, cliques: &defined{source: definition}}
	c.domain, c.clique = newSource(readDomain, nobody), newSource(readClique, nobody)
	c.claims, c.joining, c.waiting = newSource(readClaim, nobody), newSource(joiningReader(join), nobody), newSource(readPod, nobody)
	for _, s := range []interface{ Replace([]any, string) error }{c.domain, c.clique, c.claims, c.joining, c.waiting} {
		if err := s.Replace(nil, "1"); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// snapshot is one that must be possible.
func snapshot(tb testing.TB, c *Cluster) *imex.Seen {
	tb.Helper()
	seen, err := c.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	return seen
}

// TestSnapshotKept changes what a Cluster has read in any order, and holds that a
// Snapshot is what one that nothing was kept for would be; and that those before
// stay as they were.
func TestSnapshotKept(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		c := listedCluster(t, []string{imex.JoinHolder, imex.JoinSlurmd}[r.IntN(2)])
		var last *imex.Seen
		var text string
		for step := range 60 {
			if !change(r, c) {
				continue
			}
			if last != nil && fmt.Sprintf("%+v", last) != text {
				t.Fatalf("seed %d, change %d: the snapshot before has changed", seed, step)
			}
			got := snapshot(t, c)
			cliques, claims, workers := c.keptCliques, c.keptClaims, c.keptWorkers
			c.keptCliques, c.keptWorkers = kept[[]imex.Clique]{}, kept[map[string]bool]{}
			c.claims.since, c.joining.since, c.waiting.since, c.claims.keys, c.clique.keys = nil, nil, nil, nil, nil
			want := snapshot(t, c)
			c.keptCliques, c.keptClaims, c.keptWorkers = cliques, claims, workers
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, change %d (-anew +kept):\n%s", seed, step, diff)
			}
			last, text = got, fmt.Sprintf("%+v", got)
		}
	}
}

// change has one source read something else, and reports whether that was told.
func change(r *rand.Rand, c *Cluster) bool {
	name := func(kind string) types.NamespacedName {
		return types.NamespacedName{Namespace: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprintf("%s%d", kind, r.IntN(5))}
	}
	keep, node, uid := r.IntN(4) > 0, fmt.Sprintf("n%d", r.IntN(5)), types.UID(fmt.Sprintf("u%d", r.IntN(2)))
	switch r.IntN(15) {
	case 0:
		again(c.joining)
		return true
	case 1:
		again(c.claims)
		return true
	case 2, 3:
		key := name("d.")
		return c.clique.put(key, imex.Clique{Domain: "d", ID: key.String(), Daemons: []imex.Member{{Node: node, Index: r.IntN(3)}}}, keep)
	case 4, 5, 6, 7:
		facts := claimFacts{domain: "d", allocated: r.IntN(2) == 0, node: node}
		if r.IntN(2) == 0 {
			facts.madeFor = podRef{name("p").Name, uid}
		}
		if r.IntN(2) == 0 {
			facts.reserved = []podRef{{name("p").Name, uid}}
		}
		return c.claims.put(name("c"), facts, keep)
	case 8, 9, 10:
		return c.joining.put(name("p"), podFacts{uid: uid, owner: []string{imex.OwnerHolder, imex.OwnerSlurmd}[r.IntN(2)], node: node, claims: []string{name("c").Name}}, keep)
	case 11, 12:
		return c.waiting.put(name("p"), podFacts{uid: uid, owner: imex.OwnerOther, claims: []string{name("c").Name}}, keep)
	}
	facts := domainFacts{uid: "d", spec: c.wanted(), members: map[string]imex.Member{node: {Node: node, Index: r.IntN(3)}}}
	return c.domain.put(c.key(), facts, keep)
}

// again has a source be forgotten and listed again, when there is nothing.
func again[T any](s *source[T]) {
	s.forget()
	_ = s.Replace(nil, "2") // an empty list has no object that could be wrong
}

// TestSnapshotSame holds that nothing is made anew as long as nothing changes: what
// judges goes by that.
func TestSnapshotSame(t *testing.T) {
	c := largeCluster(t, 20)
	a, b := snapshot(t, c.Cluster), snapshot(t, c.Cluster)
	if &a.Claims[0] != &b.Claims[0] || &a.Cliques[0] != &b.Cliques[0] {
		t.Error("claims or cliques were made anew")
	}
	c.turnEntry(true)
	b = snapshot(t, c.Cluster)
	if &a.Claims[0] != &b.Claims[0] || &a.Cliques[0] == &b.Cliques[0] {
		t.Error("after a change of an entry not the cliques were made anew, and they alone")
	}
}
