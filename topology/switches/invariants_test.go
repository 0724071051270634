package switches

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/topology"
)

// anyLab builds a network without a plan: switches with any cables, and hosts on any switches.
func anyLab(rng *rand.Rand) *lab {
	l := newLab()
	var names []string
	for i := range 2 + rng.IntN(8) {
		name := fmt.Sprintf("s%d", i)
		l.leaf(name)
		names = append(names, name)
	}
	for range rng.IntN(20) {
		if a, b := names[rng.IntN(len(names))], names[rng.IntN(len(names))]; a != b {
			l.join(a, b, 1+rng.IntN(2))
		}
	}
	for i := range 1 + rng.IntN(12) {
		var on []string
		for range 1 + rng.IntN(4) {
			on = append(on, names[rng.IntN(len(names))])
		}
		l.host(fmt.Sprintf("n%d", i), on...)
	}
	return l
}

// checkResult holds what is so of every result: each node is placed or not, names are those of Slurm,
// and the groups are a tree.
func checkResult(t *testing.T, nodes []Node, r *Result) {
	t.Helper()
	if len(r.Tiers)+len(r.Unplaced) != len(nodes) {
		t.Errorf("%d nodes: %d are placed, and %d are not", len(nodes), len(r.Tiers), len(r.Unplaced))
	}
	parent := map[string]string{}
	for node, path := range r.Tiers {
		if len(path) == 0 || path[0] == "" || path[len(path)-1] == "" {
			t.Fatalf("%s has path %q", node, path)
		}
		below := ""
		for _, name := range path {
			if name == "" {
				continue
			}
			if topology.SlurmName(name) != name {
				t.Errorf("%s is no name of Slurm", name)
			}
			if below != "" {
				if p := parent[below]; p != "" && p != name {
					t.Errorf("%s is below %s and below %s", below, p, name)
				}
				parent[below] = name
			}
			below = name
		}
	}
	seen := map[string]bool{}
	for _, g := range r.Groups {
		if seen[g.Name] {
			t.Errorf("two groups are called %s", g.Name)
		}
		seen[g.Name] = true
		if !slices.IsSorted(g.Switches) {
			t.Errorf("group %s: switches are not sorted: %q", g.Name, g.Switches)
		}
	}
	for node, path := range r.Tiers {
		for _, name := range path {
			if name != "" && !seen[name] {
				t.Errorf("%s is below %s, which is not remembered", node, name)
			}
		}
	}
}

// published is a tree as a plan has one: the leaf of each node, and what is above each switch.
type published struct{ leaves, above map[string]string }

// follow puts the nodes where they are placed. Others stay at their leaf.
func (p *published) follow(nodes []Node, r *Result) {
	for node, path := range r.Tiers {
		path = slices.DeleteFunc(slices.Clone(path), func(s string) bool { return s == "" })
		p.leaves[node] = path[0]
		for i, name := range path {
			p.above[name] = strings.Join(path[i+1:min(i+2, len(path))], "")
		}
	}
	for i := range nodes {
		nodes[i].Published = nil
		for at := p.leaves[nodes[i].Name]; at != "" && !slices.Contains(nodes[i].Published, at); at = p.above[at] {
			nodes[i].Published = append(nodes[i].Published, at)
		}
	}
}

// TestInvariants breaks, mends and rebuilds any networks at random, round after round.
func TestInvariants(t *testing.T) {
	trials, seed := oracle.Rounds(500, 5000), oracle.SeedOf(t)
	most := 0
	for trial := range trials {
		rng := newRand(seed + uint64(trial))
		l := anyLab(rng)
		nodes := l.nodes()
		last, plan := &Result{}, published{map[string]string{}, map[string]string{}}
		for round := range 6 {
			for i := range l.wires {
				l.wires[i].down = rng.IntN(5) == 0
			}
			if w := &l.wires[rng.IntN(len(l.wires))]; rng.IntN(3) == 0 && strings.Contains(w.a, " ") { // the host moves
				l.leaf("new")
				w.b, w.bPort = "new", l.boxes["new"].used+1
				l.boxes["new"].used++
			}
			fabrics := []*Fabric{l.fabric()}
			r := Place(fabrics, nodes, last.Groups)
			checkResult(t, nodes, r)
			if t.Failed() {
				t.Fatalf("trial %d, round %d:\n%v", trial, round, r.Tiers)
			}
			plan.follow(nodes, r)
			for again := 1; ; again++ {
				next := Place(fabrics, nodes, r.Groups)
				diff := cmp.Diff(r.Tiers, next.Tiers)
				if diff == "" {
					break
				}
				if again == 5 {
					t.Fatalf("trial %d, round %d: nothing comes to rest (-fourth +fifth time):\n%s", trial, round, diff)
				}
				plan.follow(nodes, next)
				r, most = next, max(most, again)
			}
			last = r
		}
	}
	t.Logf("the most changes until a network came to rest: %d", most)
}
