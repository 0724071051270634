package guard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

func compile(t *testing.T, p publication.Publication) *publication.Cluster {
	t.Helper()
	all, err := publication.Compile([]publication.Publication{p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// nodes returns n01 to n20, without the nodes of a list.
func nodes(without ...string) []string {
	var out []string
	for i := range 20 {
		if name := fmt.Sprintf("n%02d", i+1); !strings.Contains(strings.Join(without, " "), name) {
			out = append(out, name)
		}
	}
	return out
}

func published(names []string) *topology.Plan {
	return blocks(topology.Block{Name: "b1", Nodes: names})
}

func blocks(all ...topology.Block) *topology.Plan {
	return &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{18}, Blocks: all}}}
}

// planned returns a plan with the nodes in their block, and all others in another block.
func planned(stay []string, move ...string) *topology.Plan {
	plan := blocks(topology.Block{Name: "b1", Nodes: stay}, topology.Block{Name: "b2", Nodes: move})
	for _, n := range slices.Concat(stay, move) {
		plan.Nodes = append(plan.Nodes, topology.Placement{Node: n, SlurmName: n})
	}
	return plan
}

func set(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// lines returns lines of gres.conf by node, with devices of a type.
func lines(t *testing.T, kind string, names ...string) (map[string][]gres.Line, []gres.Line) {
	t.Helper()
	var text strings.Builder
	for _, n := range names {
		fmt.Fprintf(&text, "NodeName=%s Name=gpu Type=%s File=/dev/nvidia0\n", n, kind)
	}
	all, err := gres.Parse("gres.conf", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	by, err := gres.ByNode(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	return by, all
}

func TestWaits(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	five := []string{"n01", "n02", "n03", "n04", "n05"}
	h100, _ := lines(t, "h100", nodes()...)
	_, h200 := lines(t, "h200", nodes()...)
	_, fewer := lines(t, "h100", nodes(five...)...)
	leaf := &topology.Plan{Topologies: []topology.Topology{{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "leaf", Nodes: nodes()}}}}}
	first := &topology.Plan{Topologies: slices.Concat(published(nodes()).Topologies, leaf.Topologies)}
	for _, tt := range []struct {
		name   string
		change Change
		pub    publication.Publication
		before []string // nodes that moved half an hour ago
		want   string
	}{
		{name: "nothing is published", change: Change{New: planned(nodes())}},
		{name: "nothing changes", change: Change{Old: published(nodes()), New: planned(nodes())}},
		{name: "a fifth moves", change: Change{Old: published(nodes()), New: planned(nodes(five[:4]...), five[:4]...)}},
		{name: "more than a fifth moves", change: Change{Old: published(nodes()), New: planned(nodes(five...), five...)}, want: "BigChange: 5 of 20 nodes would move or leave, more than 20 %"},
		{name: "more than a fifth leaves", change: Change{Old: published(nodes()), New: planned(nodes(five...))}, want: "BigChange: 5 of 20 nodes would move or leave, more than 20 %"},
		{name: "those that leave are gone", change: Change{Old: published(nodes()), New: planned(nodes(five...)), Gone: set(five...)}},
		{name: "all but one are gone", change: Change{Old: published(nodes()), New: planned([]string{"n20"}), Gone: set(nodes("n20")...)}},
		{name: "four of nine that leave are gone", change: Change{Old: published(nodes()), New: planned(nodes("n06", "n07", "n08", "n09", "n01 n02 n03 n04 n05")), Gone: set("n06", "n07", "n08", "n09")},
			want: "BigChange: 5 of 20 nodes would move or leave, more than 20 %"},
		{name: "others left before", change: Change{Old: published(nodes()), New: planned(nodes("n06", "n07"))}, before: five[:3], want: "BigChange: 5 of 20 nodes would move or leave, with 3 that did within the hour, more than 20 %"},
		{name: "others left before, and those that leave are gone", change: Change{Old: published(nodes()), New: planned(nodes("n06", "n07")), Gone: set("n06", "n07")}, before: five},
		{name: "the same moved before", change: Change{Old: published(nodes()), New: planned(nodes(five[:3]...), five[:3]...)}, before: five[:3]},
		{name: "one node may always move", change: Change{Old: published(nodes()), New: planned(nodes("n01"), "n01")}, pub: publication.Publication{MaxChange: new(0.0)}},
		{name: "names change", change: Change{Old: published(nodes()), New: planned(nodes()), Renamed: 5}, want: "BigChange: 5 of 20 nodes would get another Slurm name, more than 20 %"},
		{name: "pods change the names", change: Change{Old: published(nodes()), New: planned(nodes()), Renamed: 5}, pub: publication.Publication{SlurmNames: "slinky"}},
		{name: "devices change", change: Change{Old: published(nodes()), New: planned(nodes()), OldGres: h100, NewGres: h200}, want: "BigChange: the lines of 20 of 20 nodes in gres.conf would change or be removed, more than 20 %"},
		{name: "gres.conf stays", change: Change{Old: published(nodes()), New: planned(nodes()), OldGres: h100, NewGres: h200, SameGres: true}},
		{name: "lines are removed", change: Change{Old: published(nodes()), New: planned(nodes()), OldGres: h100, NewGres: fewer}, want: "BigChange: the lines of 5 of 20 nodes in gres.conf would change or be removed, more than 20 %"},
		{name: "lines of nodes that are gone are removed", change: Change{Old: published(nodes()), New: planned(nodes(five...)), OldGres: h100, NewGres: fewer, Gone: set(five...)}},
		{name: "the first blocks", change: Change{Old: leaf, New: first}, want: "KindChange: the first NVLink domains are known"},
		{name: "the first blocks of a tree", change: Change{Old: leaf, New: first}, pub: publication.Publication{Topology: "tree"}},
		{name: "a topology in use changes its kind", change: Change{Old: published(nodes()), New: planned(nodes()), InUse: "default"}, pub: publication.Publication{SlurmNames: "slinky", Annotate: new(true)}, want: "TopologyInUse: topology default would change"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := plandoc.New("default", "here")
			doc.Remember(now.Add(-30*time.Minute), tt.before, nil)
			reason, what := tt.change.Waits(compile(t, tt.pub), doc, now)
			if got := strings.TrimPrefix(reason+": "+what, ": "); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("waits for %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRemember(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h100, _ := lines(t, "h100", "n01", "n02", "n03", "n04")
	_, changed := lines(t, "h200", "n03", "n04")
	// n01 and n02 leave, n03 moves, and the devices of all four change or go.
	of := func(gone map[string]bool) *Change {
		return &Change{Old: published(nodes()), New: planned(nodes("n01", "n02", "n03"), "n03"), OldGres: h100, NewGres: changed, Gone: gone}
	}
	before := plandoc.Step{Time: now.Add(-30 * time.Minute), Places: "n10"}
	step := func(places, devices string) []plandoc.Step {
		return []plandoc.Step{before, {Time: now, Places: places, Devices: devices}}
	}
	for _, tt := range []struct {
		name     string
		change   *Change
		approved bool
		want     []plandoc.Step
	}{
		{"nobody can tell what is gone", of(nil), false, step("n03", "n[03-04]")},
		{"none is gone", of(set()), false, step("n[01-03]", "n[01-04]")},
		{"one is gone", of(set("n01")), false, step("n[02-03]", "n[02-04]")},
		{"approved", of(set()), true, nil},
		{"the first publication", &Change{New: planned(nodes())}, false, nil},
		{"nothing changes", &Change{Old: published(nodes()), New: planned(nodes())}, false, []plandoc.Step{before}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc := plandoc.New("default", "here")
			doc.Moves = []plandoc.Step{before}
			tt.change.Remember(doc, tt.approved, now)
			if diff := cmp.Diff(tt.want, doc.Moves); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
