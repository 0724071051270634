package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/placement/names"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// rack returns the facts of n nodes of one NVLink domain.
func rack(number, n int, options ...func(i int, f *topology.Facts)) []topology.Facts {
	var out []topology.Facts
	for i := range n {
		name := fmt.Sprintf("r%03dn%02d", number, i+1)
		f := topology.Facts{Name: name, SlurmName: name, Report: &topology.Node{Name: name}}
		for g := range 4 {
			f.Report.GPUs = append(f.Report.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", name, g), Minor: &g,
				Fabric: topology.Fabric{ClusterUUID: clusterUUID(number), CliqueID: uint32(number), State: topology.FabricCompleted}})
		}
		for _, o := range options {
			o(i, &f)
		}
		confirm(&f)
		out = append(out, f)
	}
	return out
}

// confirm has the agent have read twice what the report says.
func confirm(f *topology.Facts) {
	if f.Report != nil {
		f.Report.Domain = f.Report.Joined()
	}
}

// clusterUUID spreads the numbers so that racks do not sort in their order.
func clusterUUID(number int) topology.UUID {
	var u topology.UUID
	v := uint32(number) * 2654435761
	u[0], u[1], u[2], u[3], u[15] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24), 1
	return u
}

func site(racks, nodes int) []topology.Facts {
	var out []topology.Facts
	for r := range racks {
		out = append(out, rack(r+1, nodes)...)
	}
	return out
}

func mustPlan(t testing.TB, facts []topology.Facts, prev *placement.Previous, policy placement.Policy) *placement.Plan {
	t.Helper()
	plan, err := placement.MakePlan(facts, prev, policy)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func previous(p *placement.Plan) *placement.Previous {
	return &placement.Previous{ByLeaf: p.ByLeaf, BaseBlockSize: p.BaseBlockSize, Topologies: p.Topologies, Blocks: p.Blocks, Switches: p.Switches}
}

// fromFile returns the plan as a file holds it: without the cliques and the sizes.
func fromFile(p *placement.Plan) *placement.Previous {
	prev := previous(p)
	prev.Blocks = slices.Clone(prev.Blocks)
	for i := range prev.Blocks {
		prev.Blocks[i].Clique, prev.Blocks[i].Size = topology.Clique{}, 0
	}
	return prev
}

// lines is the plan as text, a line a block, for counting what changed.
func lines(p *placement.Plan) []string {
	out := []string{fmt.Sprint("sizes ", p.BlockSizes)}
	for _, b := range p.Blocks {
		out = append(out, b.Name+" "+strings.Join(b.Nodes, ","))
	}
	for _, s := range p.Switches {
		out = append(out, s.Name+" "+strings.Join(s.Nodes, ",")+" "+strings.Join(s.Children, ","))
	}
	return out
}

// changed counts the lines of want that got does not have, and the reverse.
func changed(old, current []string) (gone, added int) {
	for _, l := range old {
		if !slices.Contains(current, l) {
			gone++
		}
	}
	for _, l := range current {
		if !slices.Contains(old, l) {
			added++
		}
	}
	return gone, added
}

var short = placement.Policy{ShortBlocks: true}

func TestPlanIsDeterministic(t *testing.T) {
	facts := site(12, 18)
	want := mustPlan(t, facts, nil, short)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		rng.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
		if diff := cmp.Diff(want, mustPlan(t, facts, nil, short)); diff != "" {
			t.Fatalf("another order of the same facts gives another plan (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(want, mustPlan(t, facts, fromFile(want), short)); diff != "" {
		t.Errorf("the same facts after publishing give another plan (-want +got):\n%s", diff)
	}
}

func TestPlanSmallChanges(t *testing.T) {
	facts := site(57, 18)
	before := mustPlan(t, facts[:56*18], nil, short)
	prev := fromFile(before)
	t.Run("one node lost", func(t *testing.T) {
		after := mustPlan(t, slices.Delete(slices.Clone(facts[:56*18]), 40, 41), prev, short)
		if gone, added := changed(lines(before), lines(after)); gone != 1 || added != 1 {
			t.Errorf("a lost node changed %d lines into %d, want 1 into 1", gone, added)
		}
	})
	t.Run("one rack added", func(t *testing.T) {
		after := mustPlan(t, facts, prev, short)
		if gone, added := changed(lines(before), lines(after)); gone != 0 || added != 1 {
			t.Errorf("an added rack removed %d lines and added %d, want 0 and 1", gone, added)
		}
	})
	t.Run("one rack lost", func(t *testing.T) {
		after := mustPlan(t, facts[18:56*18], prev, short)
		if gone, added := changed(lines(before), lines(after)); gone != 1 || added != 1 {
			t.Errorf("a lost rack changed %d lines into %d, want 1 into its placeholder", gone, added)
		}
		again := mustPlan(t, facts[:56*18], fromFile(after), short)
		if diff := cmp.Diff(lines(before), lines(again)); diff != "" {
			t.Errorf("the rack did not return to its place (-want +got):\n%s", diff)
		}
	})
}

// TestPlanKnownBlocksStay lets nodes and racks come and go at random and checks
// that no published block ever moves or changes its name or the base size.
func TestPlanKnownBlocksStay(t *testing.T) {
	all := site(10, 6)
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		plan := mustPlan(t, all[:24], nil, short)
		for range 15 {
			var facts []topology.Facts
			for _, f := range all {
				if rng.IntN(10) > 2 {
					facts = append(facts, f)
				}
			}
			next := mustPlan(t, facts, fromFile(plan), short)
			old, current := blockNames(plan.Blocks), blockNames(next.Blocks)
			if !slices.Equal(old, slices.DeleteFunc(slices.Clone(current), func(n string) bool { return !slices.Contains(old, n) })) {
				t.Fatalf("seed %d: known blocks moved:\nwas %v\nis  %v", seed, old, current)
			}
			if next.BaseBlockSize != plan.BaseBlockSize {
				t.Fatalf("seed %d: base block size went from %d to %d", seed, plan.BaseBlockSize, next.BaseBlockSize)
			}
			plan = next
		}
	}
}

func blockNames(blocks []placement.Block) []string {
	var out []string
	for _, b := range blocks {
		out = append(out, b.Name)
	}
	return out
}

func TestPlanBlockNames(t *testing.T) {
	set := func(u topology.UUID, clique uint32) func(int, *topology.Facts) {
		return func(_ int, f *topology.Facts) {
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Fabric.ClusterUUID, f.Report.GPUs[g].Fabric.CliqueID = u, clique
			}
		}
	}
	a, b := topology.UUID{0x8a, 0x61, 0xc3, 0x02, 1}, topology.UUID{0x8a, 0x61, 0xc3, 0x02, 2}
	one := rack(1, 2, set(a, 4294967295))
	plan := mustPlan(t, one, nil, short)
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295"}, blockNames(plan.Blocks)); diff != "" {
		t.Error(diff)
	}
	both := slices.Concat(one, rack(2, 2, set(b, 4294967295)))
	if diff := cmp.Diff([]string{"nvl-8a61c30201000000-4294967295", "nvl-8a61c30202000000-4294967295"}, blockNames(mustPlan(t, both, nil, short).Blocks)); diff != "" {
		t.Error("two new domains with one short name:", diff)
	}
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295", "nvl-8a61c30202000000-4294967295"}, blockNames(mustPlan(t, both, fromFile(plan), short).Blocks)); diff != "" {
		t.Error("the published name did not stay:", diff)
	}

	// Whichever comes first or falls silent, no block is renamed or merged.
	old := mustPlan(t, both, fromFile(plan), short)
	want := lines(old)
	for range 3 {
		old = mustPlan(t, both, fromFile(old), short)
		if diff := cmp.Diff(want, lines(old)); diff != "" {
			t.Fatal("unchanged facts change the plan:", diff)
		}
	}
	silent := slices.Clone(both)
	for i := range 2 {
		silent[i].Report = nil
	}
	if diff := cmp.Diff(want, lines(mustPlan(t, silent, fromFile(old), short))); diff != "" {
		t.Error("the first domain fell silent:", diff)
	}
	if got := mustPlan(t, silent, fromFile(plan), short); len(got.Blocks) != 2 || len(got.Blocks[0].Nodes) != 2 || len(got.Blocks[1].Nodes) != 2 {
		t.Errorf("the second domain came while the first was silent: %v", lines(got))
	}
	// A rack whose nodes have all been renamed is still that rack.
	renamed := rack(3, 2, set(a, 4294967295))
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295"}, blockNames(mustPlan(t, renamed, fromFile(plan), short).Blocks)); diff != "" {
		t.Error("a rack with new names for its nodes:", diff)
	}
}

func TestPlanWhy(t *testing.T) {
	fabric := func(state topology.FabricState, status string) func(int, *topology.Facts) {
		return func(i int, f *topology.Facts) {
			if i == 0 {
				for g := range f.Report.GPUs {
					f.Report.GPUs[g].Fabric = topology.Fabric{State: state, Status: status}
				}
			}
		}
	}
	first := func(change func(f *topology.Facts)) func(int, *topology.Facts) {
		return func(i int, f *topology.Facts) {
			if i == 0 {
				change(f)
			}
		}
	}
	tests := []struct {
		name                string
		change              func(int, *topology.Facts)
		reason, kept        string // without and with a published plan
		source              string
		blockWithoutHistory bool
	}{
		{"placed by NVML", first(func(*topology.Facts) {}), placement.ReasonPlaced, placement.ReasonPlaced, "nvml", true},
		{"fabric in progress", fabric(topology.FabricInProgress, ""), placement.ReasonFabricInProgress, placement.ReasonFabricInProgress, "previous", false},
		{"fabric not started", fabric(topology.FabricNotStarted, ""), placement.ReasonFabricInProgress, placement.ReasonFabricInProgress, "previous", false},
		{"fabric failed", fabric(topology.FabricCompleted, "ERROR_UNKNOWN"), placement.ReasonFabricFailed, placement.ReasonFabricFailed, "previous", false},
		{"no multi-node NVLink", fabric(topology.FabricNotSupported, ""), placement.ReasonNoDomain, placement.ReasonNoDomain, "", false},
		{"no cluster", fabric(topology.FabricCompleted, ""), placement.ReasonNoDomain, placement.ReasonNoDomain, "", false},
		{"fabric absent", fabric("", ""), placement.ReasonNoDomain, placement.ReasonNoDomain, "previous", false},
		{"no GPU", first(func(f *topology.Facts) { f.Report.GPUs = nil }), placement.ReasonNoGPUs, placement.ReasonNoGPUs, "previous", false},
		{"no facts at all", first(func(f *topology.Facts) { f.Report = nil; f.Labels.GPUs = 4 }), placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"clique by label", first(func(f *topology.Facts) {
			f.Report = nil
			f.Labels.Clique = topology.Clique{ClusterUUID: clusterUUID(1), ID: 1}
		}), placement.ReasonPlaced, placement.ReasonPlaced, "label", true},
		{"two cliques", first(func(f *topology.Facts) { f.Report.GPUs[3].Fabric.CliqueID = 9 }), placement.ReasonTwoCliques, placement.ReasonTwoCliques, "previous", false},
		{"unhealthy GPU stays", first(func(f *topology.Facts) { f.Report.GPUs[3].Fabric.Health = topology.HealthUnhealthy }), placement.ReasonPlaced, placement.ReasonPlaced, "nvml", true},
	}
	published := fromFile(mustPlan(t, site(1, 4), nil, short))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts := rack(1, 4, tt.change)
			got := mustPlan(t, facts, nil, short).Placements[0]
			if got.Reason != tt.reason || (got.Block != "") != tt.blockWithoutHistory {
				t.Errorf("first plan: %+v, want reason %s, in a block %t", got, tt.reason, tt.blockWithoutHistory)
			}
			got = mustPlan(t, facts, published, short).Placements[0]
			if got.Reason != tt.kept || got.Source != tt.source || (got.Block != "") != (tt.source != "") {
				t.Errorf("after publishing: %+v, want reason %s, source %q", got, tt.kept, tt.source)
			}
		})
	}
}

func TestPlanBaseBlockSize(t *testing.T) {
	facts := slices.Concat(rack(1, 18), rack(2, 17), rack(3, 18))
	tests := []struct {
		name   string
		policy placement.Policy
		want   []int
		blocks int
	}{
		{"largest where short blocks are taken", short, []int{18}, 3},
		{"smallest where they are fatal", placement.Policy{}, []int{17}, 3},
		{"configured, and further sizes", placement.Policy{ShortBlocks: true, BaseBlockSize: 18, BlockSizes: []int{36, 144}}, []int{18, 36, 144}, 3},
		{"configured, and a short block left out", placement.Policy{BaseBlockSize: 18}, []int{18}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan := mustPlan(t, facts, nil, tt.policy)
			if diff := cmp.Diff(tt.want, plan.BlockSizes); diff != "" || len(plan.Blocks) != tt.blocks {
				t.Errorf("%d blocks, want %d; sizes (-want +got):\n%s", len(plan.Blocks), tt.blocks, diff)
			}
		})
	}
	for _, sizes := range [][]int{{35}, {72, 36}, {18 << 16}, {54}} {
		if _, err := placement.MakePlan(facts, nil, placement.Policy{ShortBlocks: true, BaseBlockSize: 18, BlockSizes: sizes}); err == nil {
			t.Errorf("block sizes %v on base 18 were taken", sizes)
		}
	}
}

// TestPlanStragglers publishes racks for 24.11 while one of them is not up: it sets
// no base, is left out by name, and joins when it is whole.
func TestPlanStragglers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		racks []int
		base  int
		out   int // nodes that are left out
	}{
		{"one node of the last rack is missing", []int{18, 18, 17}, 17, 0},
		{"one rack is hardly up", []int{18, 18, 18, 2}, 18, 2},
		{"one of two racks is hardly up", []int{18, 2}, 18, 2},
		{"half racks", []int{18, 18, 18, 9}, 9, 0},
		{"most racks are small", []int{4, 4, 4, 18}, 4, 0},
		{"one rack alone", []int{2}, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var facts, whole []topology.Facts
			for i, n := range tt.racks {
				facts, whole = append(facts, rack(i+1, n)...), append(whole, rack(i+1, max(n, tt.base))...)
			}
			plan := mustPlan(t, facts, nil, placement.Policy{})
			out := 0
			for _, p := range plan.Placements {
				if p.Reason == placement.ReasonBelowBase {
					out++
				}
			}
			if plan.BaseBlockSize != tt.base || out != tt.out {
				t.Errorf("base %d and %d nodes left out, want %d and %d", plan.BaseBlockSize, out, tt.base, tt.out)
			}
			if after := mustPlan(t, whole, fromFile(plan), placement.Policy{}); len(after.Blocks) != len(tt.racks) || after.BaseBlockSize != tt.base {
				t.Errorf("%d blocks of base %d once all are up", len(after.Blocks), after.BaseBlockSize)
			}
		})
	}
}

// TestPlanOldRelease checks that a lost node never makes a block that Slurm
// 24.11 would not start with.
func TestPlanOldRelease(t *testing.T) {
	facts := site(2, 4)
	plan := mustPlan(t, facts, nil, placement.Policy{})
	after := mustPlan(t, facts[1:], fromFile(plan), placement.Policy{})
	if diff := cmp.Diff(lines(plan), lines(after)); diff != "" {
		t.Errorf("a lost node changed the plan (-old +new):\n%s", diff)
	}
	if len(after.Problems) != 1 || after.Problems[0].Reason != placement.ReasonKeptGone {
		t.Errorf("problems %v, want one %s", after.Problems, placement.ReasonKeptGone)
	}
}

func TestPlanRefuses(t *testing.T) {
	facts := []topology.Facts{{Name: "a.one", SlurmName: "a"}, {Name: "a.two", SlurmName: "a"}}
	_, err := placement.MakePlan(facts, nil, short)
	if err == nil || !strings.Contains(err.Error(), `"a.one" and "a.two"`) {
		t.Errorf("two nodes of one Slurm name: error %v, want one that names both", err)
	}
	plan := mustPlan(t, nil, nil, short)
	if len(plan.Blocks) != 0 || plan.BaseBlockSize != 0 {
		t.Errorf("an empty cluster gave %+v", plan)
	}
}

func TestPlanTree(t *testing.T) {
	node := func(name string, tiers ...string) topology.Facts {
		return topology.Facts{Name: name, SlurmName: name, Report: &topology.Node{Name: name, Tiers: tiers, GPUs: []topology.GPU{{UUID: "GPU-" + name}}}}
	}
	facts := []topology.Facts{
		node("a1", "leaf-1", "spine-1"), node("a2", "leaf-1", "spine-1"), node("a3", "leaf-2", "spine-1"),
		node("b1", "leaf-3", "spine-2"), node("b2", "leaf-3", "spine-1"), node("b3", "leaf-3", "spine-2"),
		node("c1", "same", "same"), node("d1", "leaf.with.dots/and:colons", "s12345678901234567890"),
	}
	plan := mustPlan(t, facts, nil, short)
	want := []tree.Switch{
		{Name: "leaf-1", Nodes: []string{"a1", "a2"}},
		{Name: "leaf-2", Nodes: []string{"a3"}},
		{Name: "leaf-3", Nodes: []string{"b1", "b2", "b3"}},
		{Name: names.Slurm("leaf.with.dots/and:colons"), Nodes: []string{"d1"}},
		{Name: "same", Nodes: []string{"c1"}},
		{Name: names.Slurm("s12345678901234567890"), Children: []string{names.Slurm("leaf.with.dots/and:colons")}},
		{Name: "tier1-same", Children: []string{"same"}},
		{Name: "spine-1", Children: []string{"leaf-1", "leaf-2"}},
		{Name: "spine-2", Children: []string{"leaf-3"}},
	}
	slices.SortFunc(want[5:], func(a, b tree.Switch) int { return strings.Compare(a.Name, b.Name) })
	got := slices.Clone(plan.Switches)
	slices.SortFunc(got[5:], func(a, b tree.Switch) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
	if len(plan.Problems) != 1 || plan.Problems[0].Reason != placement.ReasonTierConflict {
		t.Errorf("problems %v, want one %s", plan.Problems, placement.ReasonTierConflict)
	}
	lost := slices.Clone(facts)
	lost[0].Report = &topology.Node{Name: "a1", GPUs: []topology.GPU{{UUID: "GPU-a1"}}}
	if diff := cmp.Diff(plan.Switches, mustPlan(t, lost, previous(plan), short).Switches); diff != "" {
		t.Errorf("a node without its labels left its switch (-want +got):\n%s", diff)
	}
}

// TestPlanKeepsUnreadNodes takes facts away and puts doubtful ones in their
// place: no node may leave or move for that.
func TestPlanKeepsUnreadNodes(t *testing.T) {
	tiered := func(i int, f *topology.Facts) {
		f.Report.Tiers = []string{"leaf-" + f.Name[:4], "spine", "core"}
	}
	facts := append(append(rack(1, 4, tiered), rack(2, 4, tiered)...), rack(3, 4, tiered)...)
	want := mustPlan(t, facts, nil, short)
	tests := map[string]func(*topology.Facts){
		"gone":      func(f *topology.Facts) { *f = topology.Facts{Name: f.Name, SlurmName: f.SlurmName, Gone: true} },
		"no report": func(f *topology.Facts) { f.Report = nil },
		"no GPU":    func(f *topology.Facts) { f.Report.GPUs, f.Report.Tiers = nil, nil },
		"no GPU, problems": func(f *topology.Facts) {
			f.Report.GPUs, f.Report.Problems = nil, []topology.Problem{{Reason: "GPUUnreadable"}}
		},
		"no report, the label of another rack": func(f *topology.Facts) {
			f.Report, f.Labels.Clique = nil, topology.Clique{ClusterUUID: clusterUUID(3), ID: 3}
		},
		"fabric of some GPUs unread": func(f *topology.Facts) {
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Fabric = topology.Fabric{State: topology.FabricNotSupported}
			}
			f.Report.GPUs[2].Fabric = topology.Fabric{}
			f.Report.Problems = []topology.Problem{{Reason: "FactUnreadable", Message: "fabric"}}
		},
		"fabric absent, with no problem": func(f *topology.Facts) {
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Fabric = topology.Fabric{}
			}
		},
		"fabric of one GPU absent, the others without a cluster": func(f *topology.Facts) {
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Fabric = topology.Fabric{State: topology.FabricCompleted}
			}
			f.Report.GPUs[1].Fabric = topology.Fabric{}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			now := append(append(rack(1, 4, tiered), rack(2, 4, tiered)...), rack(3, 4, tiered)...)
			for i := range now[:8] { // two whole racks, with their leaves
				change(&now[i])
			}
			got := mustPlan(t, now, fromFile(want), short)
			if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
				t.Errorf("(-old +new):\n%s", diff)
			}
		})
	}
}

// TestPlanForgets takes a block out only when none of its nodes could be in it.
func TestPlanForgets(t *testing.T) {
	facts := site(3, 4)
	plan := mustPlan(t, facts, nil, short)
	forget := short
	forget.Forget = []string{plan.Placements[4].Block}
	tests := map[string]struct {
		change func(*topology.Facts)
		stays  bool
	}{
		"living": {func(*topology.Facts) {}, true},
		"power cycled": {func(f *topology.Facts) {
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Fabric = topology.Fabric{State: topology.FabricInProgress}
			}
		}, true},
		"no report":      {func(f *topology.Facts) { f.Report = nil }, true},
		"gone for now":   {func(f *topology.Facts) { f.Report, f.Gone = nil, true }, true},
		"another domain": {func(f *topology.Facts) { f.Report.GPUs = facts[0].Report.GPUs; confirm(f) }, false},
		"another domain, read once": {func(f *topology.Facts) {
			f.Report.GPUs, f.Report.Domain = facts[0].Report.GPUs, topology.NVLinkDomain{}
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := site(3, 4)
			for i := range now[4:8] {
				tt.change(&now[4+i])
			}
			got := mustPlan(t, now, fromFile(plan), forget)
			if has := slices.Contains(blockNames(got.Blocks), forget.Forget[0]); has != tt.stays {
				t.Errorf("the block stays: %t, want %t: %v", has, tt.stays, lines(got))
			}
			named := slices.ContainsFunc(got.Problems, func(p topology.Problem) bool { return p.Reason == placement.ReasonForgottenInUse })
			if named != tt.stays {
				t.Errorf("problems %v", got.Problems)
			}
		})
	}
	t.Run("all gone", func(t *testing.T) {
		if got := mustPlan(t, slices.Delete(slices.Clone(facts), 4, 8), fromFile(plan), forget); len(got.Blocks) != 2 || len(got.Problems) > 0 {
			t.Errorf("%v, problems %v", lines(got), got.Problems)
		}
	})
}

// TestPlanLabelsAlone gives one node the label of another rack. It moves only
// where labels are all that has ever been known.
func TestPlanLabelsAlone(t *testing.T) {
	tests := map[string]struct {
		change func(facts []topology.Facts, prev *placement.Previous)
		moves  bool
	}{
		"no agents": {func([]topology.Facts, *placement.Previous) {}, true},
		"another node has a report": {func(facts []topology.Facts, _ *placement.Previous) {
			facts[3].Report = site(1, 4)[3].Report
		}, false},
		"no report can be read": {func(facts []topology.Facts, _ *placement.Previous) {
			for i := range facts {
				facts[i].ReportUnreadable = true
			}
		}, false},
		"one report, which cannot be read": {func(facts []topology.Facts, _ *placement.Previous) {
			facts[6].ReportUnreadable = true
		}, false},
		"its report was deleted": {func(facts []topology.Facts, prev *placement.Previous) {
			prev.Reported = map[string]bool{facts[0].SlurmName: true}
		}, false},
		"another's was, and it never had one": {func(facts []topology.Facts, prev *placement.Previous) {
			prev.Reported = map[string]bool{facts[1].SlurmName: true}
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			facts := site(2, 4)
			for i := range facts {
				f := facts[i].Report.GPUs[0].Fabric
				facts[i].Report, facts[i].Labels.Clique = nil, topology.Clique{ClusterUUID: f.ClusterUUID, ID: f.CliqueID}
			}
			old := mustPlan(t, facts, nil, short)
			prev := fromFile(old)
			facts[0].Labels.Clique = facts[7].Labels.Clique
			tt.change(facts, prev)
			current := mustPlan(t, facts, prev, short)
			if moved := current.Placements[0].Block == current.Placements[7].Block; moved != tt.moves || current.Placements[0].Block == "" {
				t.Errorf("moved: %t, want %t: %+v", moved, tt.moves, current.Placements[0])
			}
		})
	}
}

func BenchmarkPlan10008(b *testing.B) {
	facts := site(556, 18)
	for b.Loop() {
		mustPlan(b, facts, nil, short)
	}
	b.ReportAllocs()
}

func BenchmarkReplan10008(b *testing.B) {
	facts := site(556, 18)
	prev := fromFile(mustPlan(b, facts, nil, short))
	for b.Loop() {
		mustPlan(b, facts, prev, short)
	}
	b.ReportAllocs()
}
