package computedomain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// Snapshot is what one that nothing was kept for would be, however much has changed
// since the last; and that those before stay as they were.
func TestSnapshotKept(t *testing.T) {
	var met mixes
	for range 50 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		c := listedCluster(t, []string{imex.JoinHolder, imex.JoinSlurmd}[r.IntN(2)])
		crowded := r.IntN(60)
		var last *imex.Seen
		var text string
		for step := range 60 {
			for range 1 + r.IntN(5) {
				change(r, c)
			}
			if step == crowded {
				crowd(r, c)
			}
			met.see(c, last)
			if r.IntN(8) == 0 {
				unsynced(t, r, c)
			}
			if last != nil && fmt.Sprintf("%+v", last) != text {
				t.Fatalf("seed %d, step %d: the snapshot before has changed", seed, step)
			}
			got := snapshot(t, c)
			if diff := cmp.Diff(anew(t, c), got); diff != "" {
				t.Fatalf("seed %d, step %d (-anew +kept):\n%s", seed, step, diff)
			}
			last, text = got, fmt.Sprintf("%+v", got)
		}
	}
	if met != (mixes{true, true, true}) {
		t.Errorf("not all mixes of changes were met: %+v", met)
	}
}

// anew returns a Snapshot for which nothing was kept, and leaves what is kept.
func anew(tb testing.TB, c *Cluster) *imex.Seen {
	tb.Helper()
	cliques, claims, workers := c.keptCliques, c.keptClaims, c.keptWorkers
	c.keptCliques, c.keptWorkers = kept[[]imex.Clique]{}, kept[map[string]bool]{}
	c.claims.since, c.joining.since, c.waiting.since, c.claims.keys, c.clique.keys = nil, nil, nil, nil, nil
	defer func() { c.keptCliques, c.keptClaims, c.keptWorkers = cliques, claims, workers }()
	return snapshot(tb, c)
}

// mixes says what has come between two Snapshots: claims that come, go and change at
// once, changes of claims and of pods of both sources, and some of pods alone.
type mixes struct{ claims, sources, pods bool }

func (m *mixes) see(c *Cluster, last *imex.Seen) {
	if last == nil {
		return
	}
	had := map[types.NamespacedName]bool{}
	for i := range last.Claims {
		had[types.NamespacedName{Namespace: last.Claims[i].Namespace, Name: last.Claims[i].Name}] = true
	}
	var come, gone, changed bool
	for key := range c.claims.since {
		_, is := c.claims.facts[key]
		come, gone, changed = come || is && !had[key], gone || !is && had[key], changed || is && had[key]
	}
	claims, joining, waiting := c.claims.since, c.joining.since, c.waiting.since
	m.claims = m.claims || come && gone && changed
	m.sources = m.sources || len(claims) > 0 && len(joining) > 0 && len(waiting) > 0
	m.pods = m.pods || claims != nil && len(claims) == 0 && len(joining) > 0 && waiting != nil && len(waiting) == 0
}

// change has one source read something else, or all again.
func change(r *rand.Rand, c *Cluster) {
	name := func(kind string) types.NamespacedName {
		return types.NamespacedName{Namespace: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprintf("%s%d", kind, r.IntN(5))}
	}
	keep, node, uid := r.IntN(4) > 0, fmt.Sprintf("n%d", r.IntN(5)), types.UID(fmt.Sprintf("u%d", r.IntN(2)))
	switch r.IntN(30) {
	case 0:
		s := sources(c)[r.IntN(4)]
		_ = s.Replace(s.list(r), "2") // what was kept once has nothing wrong
	case 1, 2, 3, 4:
		key := name("d.")
		c.clique.put(key, imex.Clique{Domain: "d", ID: key.String(), Daemons: []imex.Member{{Node: node, Index: r.IntN(3)}}}, keep)
	case 5, 6, 7, 8, 9, 10, 11, 12, 13:
		facts := claimFacts{domain: "d", allocated: r.IntN(2) == 0, node: node}
		if r.IntN(2) == 0 {
			facts.madeFor = podRef{name("p").Name, uid}
		}
		if r.IntN(2) == 0 {
			facts.reserved = []podRef{{name("p").Name, uid}}
		}
		c.claims.put(name("c"), facts, keep)
	case 14, 15, 16, 17, 18, 19, 20:
		c.joining.put(name("p"), podFacts{uid: uid, owner: []string{imex.OwnerHolder, imex.OwnerSlurmd}[r.IntN(2)], node: node, claims: []string{name("c").Name}}, keep)
	case 21, 22, 23, 24, 25, 26:
		c.waiting.put(name("p"), podFacts{uid: uid, owner: imex.OwnerOther, claims: []string{name("c").Name}}, keep)
	default:
		facts := domainFacts{uid: "d", spec: c.wanted(), members: map[string]imex.Member{node: {Node: node, Index: r.IntN(3)}}}
		c.domain.put(c.key(), facts, keep)
	}
}

// listed is a source of what Snapshots keep something of.
type listed interface {
	Replace(list []any, version string) error
	forget()
	list(r *rand.Rand) []any
	crowd(most int)
}

func sources(c *Cluster) []listed { return []listed{c.clique, c.claims, c.joining, c.waiting} }

// list returns the objects of the source, all or some.
func (s *source[T]) list(r *rand.Rand) []any {
	all := r.IntN(2) == 0
	var out []any
	for _, key := range slices.SortedFunc(maps.Keys(s.facts), compareKeys) {
		if all || r.IntN(4) > 0 {
			out = append(out, &slimmed[T]{metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, s.facts[key], true})
		}
	}
	return out
}

// crowd has objects come and go.
func (s *source[T]) crowd(most int) {
	var none T
	for i := range most {
		key := types.NamespacedName{Namespace: "b", Name: fmt.Sprintf("many%d", i)}
		s.put(key, none, true)
		s.put(key, none, false)
	}
}

// crowd has about as many changes of one source come as are told apart.
func crowd(r *rand.Rand, c *Cluster) {
	sources(c)[1+r.IntN(3)].crowd(mostSince - 2 + r.IntN(4))
	change(r, c)
}

// unsynced forgets a source, and has any go on before it is listed again.
func unsynced(tb testing.TB, r *rand.Rand, c *Cluster) {
	tb.Helper()
	s := sources(c)[r.IntN(4)]
	list := s.list(r)
	s.forget()
	if _, err := c.Snapshot(); err == nil {
		tb.Fatal("a Snapshot of what is not listed")
	}
	change(r, c)
	if err := s.Replace(list, "3"); err != nil {
		tb.Fatal(err)
	}
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
