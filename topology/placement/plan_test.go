package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	fabrics "github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// rack returns the facts of n nodes of one NVLink domain.
func rack(number, n int, options ...func(i int, f *topology.Facts)) []topology.Facts {
	var out []topology.Facts
	for i := range n {
		name := fmt.Sprintf("r%03dn%02d", number, i+1)
		f := topology.Facts{Name: name, SlurmName: name, Report: &topology.Node{Name: name}}
		for g := range 4 {
			f.Report.GPUs = append(f.Report.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", name, g), Minor: &g,
				Fabric: inClique(number, uint32(number))})
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

// give gives all GPUs of a node one fabric. Another node may share its report with this one, so the report is a copy.
func give(f *topology.Facts, fabric topology.Fabric) {
	r := *f.Report
	r.GPUs = slices.Clone(r.GPUs)
	for g := range r.GPUs {
		r.GPUs[g].Fabric = fabric
	}
	f.Report = &r
}

// inClique is the fabric of a GPU in a clique of a rack.
func inClique(rack int, id uint32) topology.Fabric {
	return topology.Fabric{ClusterUUID: clusterUUID(rack), CliqueID: id, State: topology.FabricCompleted}
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

// given is what a plan is made from beside facts and policy.
type given struct {
	*topology.Plan
	Unnamed         []topology.Facts
	Reported, InUse map[string]bool
	Settling        *placement.Settling
}

func makePlan(facts []topology.Facts, prev *given, policy placement.Policy) (*topology.Plan, placement.Waiting, error) {
	if prev == nil {
		prev = &given{}
	}
	facts, unnamed := slices.Clone(facts), slices.Clone(prev.Unnamed)
	site := fabrics.Site{Bounds: policy.MaxDomainGPUs}
	if !policy.ByLeaf {
		site.Plan = prev.Plan
	}
	found := site.Judge(facts, unnamed)
	return placement.MakePlan(placement.Observed{Facts: facts, Unnamed: unnamed, OfFabrics: found, InUse: prev.InUse, Settling: prev.Settling}, placement.Previous{Plan: prev.Plan, Reported: prev.Reported}, policy)
}

func mustPlan(t testing.TB, facts []topology.Facts, prev *given, policy placement.Policy) *topology.Plan {
	t.Helper()
	plan, _, err := makePlan(facts, prev, policy)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// choicesOf makes a plan, and returns the decisions of a kind that the plan met.
func choicesOf(t testing.TB, kind string, facts []topology.Facts, prev *given, policy placement.Policy) (out []placement.Decision) {
	t.Helper()
	_, found, err := makePlan(facts, prev, policy)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found.Choices {
		if found.Choices[i].Kind == kind {
			out = append(out, found.Choices[i].Decision)
		}
	}
	return out
}

func previous(p *topology.Plan) *given { return &given{Plan: p} }

// fromFile returns the plan as a file holds it: without the sizes and the cliques of blocks, and the fabrics.
func fromFile(p *topology.Plan) *given {
	file := *p
	file.Topologies, file.Nodes = slices.Clone(p.Topologies), nil
	for i := range file.Topologies {
		t := &file.Topologies[i]
		t.Fabric, t.Blocks = "", slices.Clone(t.Blocks)
		for k := range t.Blocks {
			t.Blocks[k].Size, t.Blocks[k].Clique = 0, topology.Clique{}
		}
	}
	return &given{Plan: &file}
}

// placeOf returns the place of the i-th node.
func placeOf(p *topology.Plan, i int) topology.Place { return p.Places()[p.Nodes[i].SlurmName] }

// sizesOf returns the block sizes of the default topology.
func sizesOf(p *topology.Plan) []int {
	for _, t := range p.BlockTopologies() {
		if t.Default {
			return t.Sizes
		}
	}
	return nil
}

// lines is the plan as text, a line a block, for counting what changed.
func lines(p *topology.Plan) []string {
	out := []string{fmt.Sprint("sizes ", sizesOf(p))}
	for _, b := range p.Blocks() {
		out = append(out, b.Name+" "+strings.Join(b.Nodes, ","))
	}
	for _, s := range p.Switches() {
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

var short = placement.Policy{EmptyLeaves: true}

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

func blockNames(blocks []topology.Block) []string {
	var out []string
	for _, b := range blocks {
		out = append(out, b.Name)
	}
	return out
}

func TestPlanBlockNames(t *testing.T) {
	set := func(u topology.UUID, clique uint32) func(int, *topology.Facts) {
		return func(_ int, f *topology.Facts) {
			give(f, topology.Fabric{ClusterUUID: u, CliqueID: clique, State: topology.FabricCompleted})
		}
	}
	a, b := topology.UUID{0x8a, 0x61, 0xc3, 0x02, 1}, topology.UUID{0x8a, 0x61, 0xc3, 0x02, 2}
	one := rack(1, 2, set(a, 4294967295))
	plan := mustPlan(t, one, nil, short)
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295"}, blockNames(plan.Blocks())); diff != "" {
		t.Error(diff)
	}
	both := slices.Concat(one, rack(2, 2, set(b, 4294967295)))
	if diff := cmp.Diff([]string{"nvl-8a61c30201000000-4294967295", "nvl-8a61c30202000000-4294967295"}, blockNames(mustPlan(t, both, nil, short).Blocks())); diff != "" {
		t.Error("two new domains with one short name:", diff)
	}
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295", "nvl-8a61c30202000000-4294967295"}, blockNames(mustPlan(t, both, fromFile(plan), short).Blocks())); diff != "" {
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
	if got := mustPlan(t, silent, previous(plan), short); len(got.Blocks()) != 2 || len(got.Blocks()[0].Nodes) != 2 || len(got.Blocks()[1].Nodes) != 2 {
		t.Errorf("the second domain came while the first was silent: %v", lines(got))
	}
	// A rack whose nodes have all been renamed is still that rack.
	renamed := rack(3, 2, set(a, 4294967295))
	if diff := cmp.Diff([]string{"nvl-8a61c302-4294967295"}, blockNames(mustPlan(t, renamed, fromFile(plan), short).Blocks())); diff != "" {
		t.Error("a rack with new names for its nodes:", diff)
	}
}

// TestPlanWhy takes facts from one node of a rack, or puts doubtful ones in their place, and says where the node is and why.
// No node of a published rack leaves or moves for that, even if all nodes of two racks and of their leaves are so.
func TestPlanWhy(t *testing.T) {
	fabric := func(state topology.FabricState, status string) func(*topology.Facts) {
		return func(f *topology.Facts) { give(f, topology.Fabric{State: state, Status: status}) }
	}
	clique := func(number int) func(*topology.Facts) {
		return func(f *topology.Facts) { f.Report, f.Labels.Clique = nil, cliqueOf(number) }
	}
	tests := []struct {
		name                string
		change              func(*topology.Facts)
		reason, kept        string // without and with a published plan
		source              string
		blockWithoutHistory bool
	}{
		{"placed by NVML", func(*topology.Facts) {}, placement.ReasonPlaced, placement.ReasonPlaced, "nvml", true},
		{"fabric in progress", fabric(topology.FabricInProgress, ""), topology.ReasonFabricInProgress, topology.ReasonFabricInProgress, "previous", false},
		{"fabric not started", fabric(topology.FabricNotStarted, ""), topology.ReasonFabricNotReady, topology.ReasonFabricNotReady, "previous", false},
		{"fabric failed", fabric(topology.FabricCompleted, "ERROR_UNKNOWN"), topology.ReasonFabricNotReady, topology.ReasonFabricNotReady, "previous", false},
		{"no multi-node NVLink", fabric(topology.FabricNotSupported, ""), topology.ReasonFabricMissing, topology.ReasonFabricMissing, "previous", false},
		{"no cluster", fabric(topology.FabricCompleted, ""), topology.ReasonFabricMissing, topology.ReasonFabricMissing, "previous", false},
		{"fabric absent", fabric("", ""), placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"fabric absent of a product without one", func(f *topology.Facts) {
			give(f, topology.Fabric{})
			for g := range f.Report.GPUs {
				f.Report.GPUs[g].Product = "NVIDIA A100-SXM4-80GB"
			}
		}, placement.ReasonNoDomain, placement.ReasonNoDomain, "previous", false},
		{"fabric of some GPUs unread", func(f *topology.Facts) {
			give(f, topology.Fabric{State: topology.FabricNotSupported})
			f.Report.GPUs[2].Fabric = topology.Fabric{}
			f.Report.Problems = []topology.Finding{{Reason: "FactUnreadable", Message: "fabric"}}
		}, placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"fabric of one GPU absent, the others without a cluster", func(f *topology.Facts) {
			give(f, topology.Fabric{State: topology.FabricCompleted})
			f.Report.GPUs[1].Fabric = topology.Fabric{}
		}, placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"no GPU", func(f *topology.Facts) { f.Report.GPUs, f.Report.Tiers = nil, nil }, placement.ReasonNoGPUs, placement.ReasonNoGPUs, "previous", false},
		{"no GPU, problems", func(f *topology.Facts) {
			f.Report.GPUs, f.Report.Problems = nil, []topology.Finding{{Reason: "GPUUnreadable"}}
		}, placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"no facts at all", func(f *topology.Facts) { f.Report = nil; f.Labels.GPUs = 4 }, placement.ReasonNoFacts, placement.ReasonNoFacts, "previous", false},
		{"gone", func(f *topology.Facts) { *f = topology.Facts{Name: f.Name, SlurmName: f.SlurmName, Gone: true} }, placement.ReasonGone, placement.ReasonGone, "previous", false},
		{"clique by label", clique(1), placement.ReasonPlaced, placement.ReasonPlaced, "label", true},
		{"the clique of another rack by label", clique(3), placement.ReasonSmallDomain, placement.ReasonNoFacts, "previous", false},
		{"two cliques", func(f *topology.Facts) { f.Report.GPUs[3].Fabric.CliqueID = 9 }, topology.ReasonTwoCliques, topology.ReasonTwoCliques, "previous", false},
		{"unhealthy GPU stays", func(f *topology.Facts) { f.Report.GPUs[3].Fabric.Health = topology.HealthUnhealthy }, placement.ReasonPlaced, placement.ReasonPlaced, "nvml", true},
	}
	three := func() (facts []topology.Facts) {
		for r := range 3 {
			facts = append(facts, rack(r+1, 4, func(_ int, f *topology.Facts) { f.Report.Tiers = []string{fmt.Sprint("leaf-", r), "spine", "core"} })...)
		}
		return facts
	}
	published, racks := fromFile(mustPlan(t, site(1, 4), nil, short)), mustPlan(t, three(), nil, short)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			facts := rack(1, 4, func(i int, f *topology.Facts) {
				if i == 0 {
					tt.change(f)
				}
			})
			plan := mustPlan(t, facts, nil, short)
			got, in := plan.Nodes[0], placeOf(plan, 0).Block
			if got.Reason != tt.reason || (in != "") != tt.blockWithoutHistory {
				t.Errorf("first plan: %+v, want reason %s, in a block %t", got, tt.reason, tt.blockWithoutHistory)
			}
			plan = mustPlan(t, facts, published, short)
			got, in = plan.Nodes[0], placeOf(plan, 0).Block
			if got.Reason != tt.kept || got.Source != tt.source || (in != "") != (tt.source != "") {
				t.Errorf("after publishing: %+v, want reason %s, source %q", got, tt.kept, tt.source)
			}
			problem := tt.source == "previous" && tt.kept != topology.ReasonFabricInProgress && (facts[0].Report != nil || !facts[0].Labels.Clique.IsZero())
			if named := slices.ContainsFunc(plan.Problems, func(p topology.Finding) bool { return p.Node == "r001n01" }); named != problem {
				t.Errorf("after publishing: %v, want a problem of the node: %t", plan.Problems, problem)
			}
			all := three()
			for i := range all[:8] {
				tt.change(&all[i])
			}
			if diff := cmp.Diff(lines(racks), lines(mustPlan(t, all, fromFile(racks), short))); diff != "" && tt.source == "previous" {
				t.Errorf("all nodes of two racks (-old +new):\n%s", diff)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	facts := []topology.Facts{{Name: "a.one", SlurmName: "a"}, {Name: "a.two", SlurmName: "a"}}
	_, _, err := makePlan(facts, nil, short)
	if err == nil || !strings.Contains(err.Error(), `"a.one" and "a.two"`) {
		t.Errorf("two nodes of one Slurm name: error %v, want one that names both", err)
	}
	plan := mustPlan(t, nil, nil, short)
	if len(plan.Blocks()) != 0 || plan.BaseBlockSize() != 0 {
		t.Errorf("an empty cluster gave %+v", plan)
	}
}
