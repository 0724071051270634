package switches

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
)

// newRand returns numbers that are the same in each run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// read reads a network.
func (l *lab) read(t testing.TB, rng *rand.Rand) *Fabric {
	t.Helper()
	text := l.text(rng)
	f, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatalf("Read: %v\n%s", err, text)
	}
	return f
}

// again places nodes a second time: they are published where they were placed.
func again(r *Result, nodes []Node) []Node {
	for i := range nodes {
		nodes[i].Published = r.Tiers[nodes[i].Name]
	}
	return nodes
}

// split returns how many racks have nodes on two leaves, and how many leaves have nodes of two racks.
func split(r *Result) (racks, mixed int) {
	leaves, holds := map[string]map[string]bool{}, map[string]map[string]bool{}
	put := func(m map[string]map[string]bool, a, b string) {
		if m[a] == nil {
			m[a] = map[string]bool{}
		}
		m[a][b] = true
	}
	for node, tiers := range r.Tiers {
		put(leaves, rackOf(node), tiers[0])
		put(holds, tiers[0], rackOf(node))
	}
	for _, l := range leaves {
		if len(l) > 1 {
			racks++
		}
	}
	for _, h := range holds {
		if len(h) > 1 {
			mixed++
		}
	}
	return racks, mixed
}

// TestNoRackIsSplit takes down cables at random, of nodes and between switches, and places the nodes
// without any memory. If a fifth of the cables is down, 1 of about 30,000 racks is split by chance:
// the sample has none.
func TestNoRackIsSplit(t *testing.T) {
	trials, seed := oracle.Rounds(200, 1000), oracle.SeedOf(t)
	for _, site := range []struct {
		name                        string
		racks, nodes, rails, spines int
	}{
		{"HGX, 8 rails of 32 nodes", 4, 32, 8, 8},
		{"GB200, 4 rails of 18 nodes", 8, 18, 4, 9},
		{"small, 8 rails of 8 nodes", 4, 8, 8, 2},
	} {
		l := racks(site.racks, site.nodes, site.rails, site.spines)
		nodes := l.nodes()
		for _, percent := range []int{5, 20} {
			var torn, mixed, tops int
			for trial := range trials {
				rng := newRand(seed + uint64(trial))
				for i := range l.wires {
					l.wires[i].down = rng.IntN(100) < percent
				}
				r := Place([]*Fabric{l.fabric()}, nodes, nil)
				s, m := split(r)
				torn, mixed = torn+s, mixed+m
				top := map[string]bool{}
				for _, tiers := range r.Tiers {
					top[tiers[len(tiers)-1]] = true
					if len(tiers) != 2 {
						t.Fatalf("%s, %d %% down, trial %d: tiers %q, want two", site.name, percent, trial, tiers)
					}
				}
				if len(top) != 1 {
					tops++
				}
			}
			t.Logf("%s, %d %% of cables down, %d trials: %d racks split, %d leaves with two racks, %d fabrics apart", site.name, percent, trials, torn, mixed, tops)
			most := 0
			if percent == 20 {
				most = trials / 1000 * site.racks // 0 in the sample
			}
			if torn > most || mixed+tops > 0 {
				t.Errorf("%s, %d %% of cables down: %d racks split, %d leaves with two racks, %d fabrics apart; want %d, 0 and 0 at most", site.name, percent, torn, mixed, tops, most)
			}
		}
	}
}

// TestOrderAndForm: neither the order of a text nor its form nor a second text of the same fabric
// changes a place or a name.
func TestOrderAndForm(t *testing.T) {
	l := racks(3, 4, 4, 3)
	for i := range l.wires {
		l.wires[i].down = i%17 == 3
	}
	want := Place([]*Fabric{l.fabric()}, l.nodes(), nil)
	for trial := range 20 {
		rng := newRand(uint64(trial))
		fabrics := []*Fabric{l.read(t, rng)}
		if rng.IntN(2) == 0 {
			fabrics = append(fabrics, l.read(t, rng))
		}
		nodes := l.nodes()
		rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		got := Place(fabrics, nodes, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("trial %d (-want +got):\n%s", trial, diff)
		}
	}
}

// TestChangesThatMoveNobody breaks and mends cables and swaps switches. Nobody moves, and no group gets another name. What
// loses all its cables upwards stays below what is published above it, whoever else is still there. That is so if all
// switches of the tier above are off, too.
func TestChangesThatMoveNobody(t *testing.T) {
	rails, three := func() *lab { return racks(3, 4, 8, 4) }, func() *lab { return pods(2, 2, 2, 2) }
	swap := func(names ...string) func(*lab) {
		return func(l *lab) {
			for _, name := range names {
				l.boxes[name].guid += 0xabcd0000000
			}
		}
	}
	// pull takes down all cables of switches and adapters whose names begin so.
	pull := func(ends ...string) func(*lab) {
		return func(l *lab) {
			for i := range l.wires {
				w := &l.wires[i]
				w.down = w.down || slices.ContainsFunc(ends, func(end string) bool { return strings.HasPrefix(w.a, end) || strings.HasPrefix(w.b, end) })
			}
		}
	}
	numbered := func(prefix string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint(prefix, i+1))
		}
		return names
	}
	// up takes down the cables from one tier up to the next.
	up := func(below, above string) func(*lab) {
		return func(l *lab) {
			for i := range l.wires {
				w := &l.wires[i]
				w.down = w.down || strings.HasPrefix(w.a, below) && strings.HasPrefix(w.b, above)
			}
		}
	}
	for _, test := range []struct {
		name   string
		build  func() *lab
		change func(l *lab)
		cut    int // groups without a cable upwards
	}{
		{"nothing", rails, func(*lab) {}, 0},
		{"one cable of a node", rails, pull("r1n1 mlx5_7"), 0},
		{"all cables of a node but one", rails, pull(numbered("r1n1 mlx5_", 7)...), 0},
		{"a leaf is off", rails, pull("leaf1-1"), 0},
		{"five of a rack's leaves are off", rails, pull(numbered("leaf1-", 5)...), 0},
		{"a spine is off", rails, pull("spine1"), 0},
		{"a leaf is swapped", rails, swap("leaf1-1"), 0},
		{"all leaves of a rack are swapped", rails, swap(numbered("leaf1-", 8)...), 0},
		{"a spine is swapped", rails, swap("spine1"), 0},
		{"all spines are swapped", rails, swap(numbered("spine", 4)...), 0},
		{"a rack has no cable to a spine", rails, up("leaf2-", "spine"), 1},
		{"two of three racks have none", rails, func(l *lab) { up("leaf1-", "spine")(l); up("leaf2-", "spine")(l) }, 2},
		{"all spines are off", rails, pull("spine"), 3},
		{"a pod has no cable to a core", three, up("spine1-", "core"), 1},
		{"all cores are off", three, pull("core"), 2},
		{"a rack of a pod has no cable to a spine", three, up("leaf1-1-", "spine"), 1},
		{"all spines of a pod are off", three, pull("spine1-"), 2},
		{"one spine of a pod has one rack in common with the others", func() *lab { return pods(2, 5, 2, 2) }, func(l *lab) {
			for _, spine := range numbered("spine1-", 3) {
				up("leaf1-1-", spine)(l)
				up("leaf1-2-", spine)(l)
			}
			up("leaf1-4-", "spine1-4")(l)
			up("leaf1-5-", "spine1-4")(l)
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := test.build()
			first := Place([]*Fabric{l.fabric()}, l.nodes(), nil)
			test.change(l)
			second := Place([]*Fabric{l.fabric()}, again(first, l.nodes()), first.Groups)
			if diff := cmp.Diff(first.Tiers, second.Tiers); diff != "" {
				t.Errorf("tiers (-before +after):\n%s", diff)
			}
			third := Place([]*Fabric{test.build().fabric()}, again(second, l.nodes()), second.Groups)
			if diff := cmp.Diff(first.Tiers, third.Tiers); diff != "" {
				t.Errorf("tiers after it was as before (-before +after):\n%s", diff)
			}
			if len(first.Cut) != 0 || len(second.Cut) != test.cut || len(third.Cut) != 0 {
				t.Errorf("cut off: %q, then %q and at last %q, want none, %d and none", first.Cut, second.Cut, third.Cut, test.cut)
			}
		})
	}
}

// TestLLDP places nodes by the switches that they see. Nothing says what is above these. A text goes
// before LLDP.
func TestLLDP(t *testing.T) {
	node := func(name string, chassis ...string) Node {
		n := Node{Name: name}
		for _, c := range chassis {
			n.Adapters = append(n.Adapters, Adapter{GUIDs: []string{"00000000000000aa"}, Switch: c})
		}
		return n
	}
	l := racks(2, 2, 2, 2)
	both := l.node("r1n1")
	for i := range both.Adapters {
		both.Adapters[i].Switch = "0c:42:a1:00:00:01"
	}
	nodes := []Node{
		node("e1", "0C:42:A1:00:00:01", "0c:42:a1:00:00:02"), node("e2", "0c:42:a1:00:00:01", "0c:42:a1:00:00:02"),
		node("e3", "0c:42:a1:00:00:03", "0c:42:a1:00:00:04"), node("e4", "0c:42:a1:00:00:03", ""),
		node("e5", "", ""), node("e6"),
		both, l.node("r1n2"), l.node("r2n1"), l.node("r2n2"),
	}
	r := Place([]*Fabric{l.fabric()}, nodes, nil)
	want := map[string]string{"e1": "leaf1", "e2": "leaf1", "e3": "leaf2", "e4": "leaf2",
		"r1n1": "leaf3 spine1", "r1n2": "leaf3 spine1", "r2n1": "leaf4 spine1", "r2n2": "leaf4 spine1"}
	if diff := cmp.Diff(want, shape(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"e1": true, "e2": true, "e3": true, "e4": true}, r.ByLLDP); diff != "" {
		t.Errorf("by LLDP (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Unplaced{
		{"e5", "no cable of its adapters (2) is in a text of ibnetdiscover, and LLDP names no neighbour of them"},
		{"e6", "no adapter of the node is known"},
	}, r.Unplaced); diff != "" {
		t.Errorf("unplaced (-want +got):\n%s", diff)
	}
	if got := slices.Concat(r.Tiers["e1"], r.Tiers["r1n1"]); !slices.Equal(got, []string{"leaf-0c42a1000001", "leaf-2c5eab0300000300", "spine-2c5eab0300000100"}) {
		t.Errorf("names %q", got)
	}
	nodes = again(r, nodes)
	for i := range nodes[0].Adapters {
		nodes[0].Adapters[i].Switch = ""
	}
	for i := range nodes[1].Adapters {
		nodes[1].Adapters[i].Switch = ""
	}
	second := Place([]*Fabric{l.fabric()}, nodes, r.Groups)
	if diff := cmp.Diff(r.Groups, second.Groups); diff != "" {
		t.Errorf("groups while their nodes see no switch (-before +after):\n%s", diff)
	}
}

// TestStaysByLLDP: LLDP names the published leaf of a node, and most adapters of the node see no switch now.
// The node stays at its leaf. What labels put above the leaf goes, because LLDP shows nothing above a leaf.
func TestStaysByLLDP(t *testing.T) {
	for _, test := range []struct {
		name, id string
		want     []string
	}{
		{"an address with colons", "0c:42:a1:00:00:01", []string{"leaf"}},
		{"an address without colons", "0c42a1000001", []string{"leaf"}},
		{"a name of 16 letters", "leaf-switch-0001", []string{"leaf"}},
		{"a GUID, so a text named the leaf", "2c5eab0300000500", []string{"leaf", "root"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			published := []string{"leaf", "root"}
			nodes := []Node{{Name: "n1", Adapters: []Adapter{{Switch: "other"}, {}, {}}, Published: published},
				{Name: "quiet1", Published: published}, {Name: "quiet2", Published: published}}
			r := Place(nil, nodes, []Group{{Name: "leaf", Switches: []string{test.id}}})
			if diff := cmp.Diff(map[string][]string{"n1": test.want}, r.Tiers); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoPodIsSplit is TestNoRackIsSplit for three tiers. If a fifth of the cables is down, 2 or 3 of 1,000
// trials have a pod or a rack that is split by chance: the sample has none.
func TestNoPodIsSplit(t *testing.T) {
	trials, seed := oracle.Rounds(200, 1000), oracle.SeedOf(t)
	l := pods(3, 4, 16, 4)
	nodes := l.nodes()
	for _, percent := range []int{5, 20} {
		wrong := 0
		for trial := range trials {
			rng := newRand(seed + uint64(trial))
			for i := range l.wires {
				l.wires[i].down = rng.IntN(100) < percent
			}
			r := Place([]*Fabric{l.fabric()}, nodes, nil)
			pod, groups := map[string]string{}, map[string]bool{}
			for node, tiers := range r.Tiers {
				groups[strings.Join(tiers, " ")] = true
				if len(tiers) != 3 || pod[node[:2]] != "" && pod[node[:2]] != tiers[1] {
					wrong++
					break
				}
				pod[node[:2]] = tiers[1]
			}
			if len(groups) != 12 {
				wrong++
			}
		}
		t.Logf("three tiers, %d %% of cables down: %d of %d trials with a pod or rack that is split", percent, wrong, trials)
		most := 0
		if percent == 20 {
			most = trials / 1000 * 15 // 0 in the sample
		}
		if wrong > most {
			t.Errorf("three tiers, %d %% of cables down: %d of %d trials are wrong, want %d at most", percent, wrong, trials, most)
		}
	}
}

// TestChurn breaks and mends cables at random, round after round, as a site does, 20 % down at a time.
// The nodes are published where each round puts them. Nobody moves, and no group gets another name.
func TestChurn(t *testing.T) {
	for _, l := range []*lab{racks(4, 8, 8, 4), racks(6, 18, 4, 9), pods(3, 3, 4, 4), racks(4, 4, 2, 2)} {
		nodes := l.nodes()
		first := Place([]*Fabric{l.fabric()}, nodes, nil)
		nodes, last := again(first, nodes), first
		for round := range 50 {
			rng := newRand(uint64(round))
			for i := range l.wires {
				l.wires[i].down = rng.IntN(100) < 20
			}
			r := Place([]*Fabric{l.fabric()}, nodes, last.Groups)
			for node, tiers := range first.Tiers {
				if got := r.Tiers[node]; got != nil && strings.Join(got, " ") != strings.Join(tiers, " ") {
					t.Fatalf("round %d: %s moves from %q to %q", round, node, tiers, got)
				}
			}
			last = r
		}
	}
}

// TestFromLabels: a site that had its leaves and its spine named by labels keeps these names.
func TestFromLabels(t *testing.T) {
	l := racks(2, 4, 8, 4)
	nodes := l.nodes()
	for i := range nodes {
		nodes[i].Published = []string{"su" + nodes[i].Name[1:2], "hall"}
	}
	nodes[0].Published = []string{"su2", "hall"} // a label was wrong
	r := Place([]*Fabric{l.fabric()}, nodes, nil)
	for _, n := range nodes {
		if want := "su" + n.Name[1:2] + " hall"; strings.Join(r.Tiers[n.Name], " ") != want {
			t.Errorf("%s is at %q, want %s", n.Name, r.Tiers[n.Name], want)
		}
	}
}

// TestOneBadReport: a node that claims adapters of many others, or sees switches that it is not on, costs
// nobody but itself.
func TestOneBadReport(t *testing.T) {
	l := racks(8, 8, 8, 4)
	want := Place([]*Fabric{l.fabric()}, l.nodes(), nil)
	bad := Node{Name: "bad"}
	for rack := range 8 {
		for rail := range 4 {
			host := l.node(fmt.Sprintf("r%dn%d", rack+1, rail+1))
			bad.Adapters = append(bad.Adapters, Adapter{GUIDs: host.Adapters[rail].GUIDs})
		}
	}
	saw := Node{Name: "saw"}
	for _, leaf := range []string{"leaf1-1", "leaf2-1", "leaf3-1", "spine1", "spine2"} {
		saw.Adapters = append(saw.Adapters, Adapter{Switch: switchID(l.boxes[leaf].guid)})
	}
	saw.Adapters = append(saw.Adapters, Adapter{Switch: "\x00 [1-4],\n"}, Adapter{Switch: strings.Repeat("9", 200)}, Adapter{GUIDs: []string{"", "zz", "0", strings.Repeat("f", 40)}})
	got := Place([]*Fabric{l.fabric()}, append(l.nodes(), bad, saw), nil)
	checkResult(t, append(l.nodes(), bad, saw), got)
	for node, path := range want.Tiers {
		if diff := cmp.Diff(path, got.Tiers[node]); diff != "" {
			t.Errorf("%s (-without +with the bad reports):\n%s", node, diff)
		}
	}
}
