package switches_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// fabrics reads what the real ibnetdiscover says of a fabric.
func fabrics(t *testing.T, f *ibrig.Fabric) (read []*switches.Fabric) {
	t.Helper()
	for _, text := range ibrig.DiscoverTest(t, f) {
		r, err := switches.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, r)
	}
	return read
}

// nodes are what reports say: the compute adapters. places are where nodes are published.
func nodes(f *ibrig.Fabric, places map[string][]string) (all []switches.Node) {
	for _, n := range f.Nodes {
		node := switches.Node{Name: n.Name, Published: places[n.Name]}
		for _, a := range n.Adapters {
			if !a.Storage {
				node.Adapters = append(node.Adapters, switches.Adapter{GUIDs: []string{fmt.Sprintf("%016x", a.GUID), fmt.Sprintf("%016x", a.Port)}})
			}
		}
		all = append(all, node)
	}
	return all
}

// uncabled are the nodes that no cable of a compute adapter is left of. Place says nothing of them, so
// the publisher leaves them where they are.
func uncabled(f *ibrig.Fabric) (names []string) {
	for _, n := range f.Nodes {
		if !slices.ContainsFunc(n.Adapters, func(a *ibrig.Adapter) bool { return !a.Storage && a.Leaf() != 0 }) {
			names = append(names, n.Name)
		}
	}
	return names
}

// comparePlaces compares places with the truth: two nodes have the same leaf exactly if they are in
// the same group, and the same next and last tier exactly if they are in the same pod and part. With
// few cables left only the leaves are compared: what is above them is not certain then.
func comparePlaces(t *testing.T, f *ibrig.Fabric, r *switches.Result, leavesAlone bool) {
	t.Helper()
	var unplaced []string
	for _, u := range r.Unplaced {
		unplaced = append(unplaced, u.Node)
	}
	if diff := cmp.Diff(uncabled(f), unplaced); diff != "" {
		t.Errorf("nodes without a cable and nodes without a place (-want +got):\n%s", diff)
	}
	pairs := []map[string]string{{}, {}, {}, {}, {}, {}}
	for _, n := range f.Nodes {
		path := r.Tiers[n.Name]
		if len(path) == 0 {
			continue
		}
		part, _, _ := strings.Cut(n.Group, "-")
		same := [][2]string{{n.Group, path[0]}, {n.Pod, path[min(1, len(path)-1)]}, {part, path[len(path)-1]}}
		if leavesAlone {
			same = same[:1]
		}
		for i, p := range same {
			for j, pair := range [][2]string{p, {p[1], p[0]}} {
				seen := pairs[2*i+j]
				if seen[pair[0]] == "" {
					seen[pair[0]] = pair[1]
				}
				if seen[pair[0]] != pair[1] {
					t.Errorf("%s in %s has place %q: %s is with %s and with %s", n.Name, n.Group, path, pair[0], seen[pair[0]], pair[1])
				}
			}
		}
	}
}

// shapes are the fabrics of the sites that there are.
var shapes = map[string]ibrig.Shape{
	"two tiers":   {Groups: 6, Nodes: 16, Rails: 1, Spines: 4},
	"three tiers": {Pods: 3, Groups: 3, Nodes: 12, Rails: 2, Spines: 4, Cores: 2},
	"hgx":         {Groups: 2, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 4, Storage: true, Aggregation: true},
	"rails apart": {Groups: 3, Nodes: 16, Rails: 4, RailsApart: true, Spines: 3},
	"two fabrics": {Parts: 2, Groups: 3, Nodes: 16, Rails: 2, RailLeaves: true, Spines: 4},
	"gb200":       {Pods: 2, Groups: 2, Nodes: 36, Rails: 4, RailLeaves: true, Spines: 4, Cores: 1},
}

// TestRealFabrics places the nodes of each kind of fabric by what the real ibnetdiscover says. Then
// links go down: a node stays where it is published, and one that is not published is on the leaf
// that it would be on if all links were up.
func TestRealFabrics(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := ibrig.New(shape)
			whole := switches.Place(fabrics(t, f), nodes(f, nil), nil)
			comparePlaces(t, f, whole, false)
			for _, down := range []float64{0.05, 0.2} {
				f := ibrig.New(shape)
				f.PullCables(down)
				read := fabrics(t, f)
				comparePlaces(t, f, switches.Place(read, nodes(f, nil), nil), down > 0.1)
				got := switches.Place(read, nodes(f, whole.Tiers), whole.Groups).Tiers
				want := maps.Clone(whole.Tiers)
				for _, name := range uncabled(f) {
					delete(want, name)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v of the links are down: published nodes move (-want +got):\n%s", down, diff)
				}
			}
		})
	}
}

// TestRealNameless is a fabric of 139 nodes, of whose adapters 69 say no name of a node: by GUIDs all
// nodes have their place, and with 5 % of the cables out the same one, published or not.
func TestRealNameless(t *testing.T) {
	t.Parallel()
	f := ibrig.New(ibrig.Shape{Seed: 139, Groups: 4, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 8, Aggregation: true})
	f.AddGroup(11)
	f.TakeNames(69)
	read := fabrics(t, f)
	whole := switches.Place(read, nodes(f, nil), nil)
	comparePlaces(t, f, whole, false)
	if len(whole.Tiers) != 139 {
		t.Errorf("%d nodes have a place, want 139", len(whole.Tiers))
	}
	hosts, problems := switches.Hosts(read, nil)
	if len(hosts) != 139 || len(problems) != 1 || !strings.HasPrefix(problems[0].Message, "the nodes of 69 adapters are not known") {
		t.Errorf("%d hosts by name, want 139; want a problem of 69 adapters: %v", len(hosts), problems)
	}
	f.PullCables(0.05)
	read = fabrics(t, f)
	for _, published := range []bool{false, true} {
		places, before := map[string][]string(nil), []switches.Group(nil)
		if published {
			places, before = whole.Tiers, whole.Groups
		}
		if diff := cmp.Diff(whole.Tiers, switches.Place(read, nodes(f, places), before).Tiers); diff != "" {
			t.Errorf("with 5 %% of the cables out, published %t (-want +got):\n%s", published, diff)
		}
	}
}

// TestRealChanges is what happens to a site of 64 nodes with 8 rails: a cable that is pulled, and a
// switch in the place of another, move nobody and rename nothing. A rack that comes has a leaf of
// its own.
func TestRealChanges(t *testing.T) {
	t.Parallel()
	f := ibrig.New(ibrig.Shape{Seed: 64, Groups: 2, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 4, Storage: true})
	last := switches.Place(fabrics(t, f), nodes(f, nil), nil)
	comparePlaces(t, f, last, false)
	before := maps.Clone(last.Tiers)
	for _, change := range []struct {
		name string
		make func()
	}{
		{"a cable is pulled", func() { f.PullCable(f.Nodes[7].Adapters[3]) }},
		{"a leaf is swapped", func() { f.SwapSwitch(f.Nodes[7].Adapters[5]) }},
		{"a second leaf is swapped", func() { f.SwapSwitch(f.Nodes[40].Adapters[0]) }},
		{"a rack comes", func() { f.AddGroup(8) }},
	} {
		change.make()
		last = switches.Place(fabrics(t, f), nodes(f, last.Tiers), last.Groups)
		comparePlaces(t, f, last, false)
		old := maps.Clone(last.Tiers)
		maps.DeleteFunc(old, func(name string, _ []string) bool { return before[name] == nil })
		if diff := cmp.Diff(before, old); diff != "" {
			t.Errorf("%s (-want +got):\n%s", change.name, diff)
		}
	}
}
