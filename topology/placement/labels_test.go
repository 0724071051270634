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
)

const tierZero = "topology.nebius.com/tier-0"

// named returns a site whose domains only labels name.
func named(racks, nodes int) []topology.Facts {
	facts := site(racks, nodes)
	for i := range facts {
		facts[i].Report = nil
		facts[i].Labels = topology.Labels{GPUs: 4, Domains: []topology.Domain{{Key: tierZero, Value: fmt.Sprintf("rack.%d", 1+i/nodes)}}}
	}
	return facts
}

// byClique returns a site whose cliques only labels name.
func byClique(racks, nodes int) []topology.Facts {
	facts := site(racks, nodes)
	for i := range facts {
		facts[i].Labels.Clique, facts[i].Report = facts[i].Report.Domain.Clique, nil
	}
	return facts
}

// report gives a node of a named site its report.
func report(f *topology.Facts, all []topology.Facts) {
	at := slices.IndexFunc(all, func(a topology.Facts) bool { return a.Name == f.Name })
	r := *all[at].Report
	f.Report = &r
}

func blockOf(p *topology.Plan, node string) string {
	at := p.Places()
	for _, pl := range p.Nodes {
		if pl.Node == node {
			return at[pl.SlurmName].Block
		}
	}
	return ""
}

func problemsOf(p *topology.Plan, reason string) (nodes []string) {
	for _, pr := range p.Problems {
		if pr.Reason == reason {
			nodes = append(nodes, pr.Node)
		}
	}
	return nodes
}

func TestDomainWitnesses(t *testing.T) {
	all := site(2, 4)
	one := func(i int) topology.Clique {
		return topology.Clique{ClusterUUID: all[i].Report.GPUs[0].Fabric.ClusterUUID, ID: all[i].Report.GPUs[0].Fabric.CliqueID}
	}
	other := func(value string) topology.Domain { return topology.Domain{Key: "other", Value: value} }
	for name, tt := range map[string]struct {
		change    func(facts []topology.Facts)
		blocks    []int // sizes
		conflicts int
		differ    []string
	}{
		"labels alone":            {func([]topology.Facts) {}, []int{4, 4}, 0, nil},
		"one report":              {func(f []topology.Facts) { report(&f[0], all) }, []int{4, 4}, 0, nil},
		"one clique label":        {func(f []topology.Facts) { f[0].Labels.Clique = one(0) }, []int{4, 4}, 0, nil},
		"reports of all":          {func(f []topology.Facts) { eachReports(f, all) }, []int{4, 4}, 0, nil},
		"a label of another rack": {func(f []topology.Facts) { eachReports(f, all); f[0].Labels.Domains = f[7].Labels.Domains }, []int{4, 4}, 0, []string{"r001n01"}},
		"such a node among silent": {func(f []topology.Facts) {
			report(&f[0], all)
			report(&f[5], all)
			report(&f[6], all)
			f[0].Labels.Domains = f[7].Labels.Domains
		}, []int{3, 4}, 0, []string{"r001n01"}},
		"as many nodes of either rack": {func(f []topology.Facts) {
			report(&f[0], all)
			report(&f[7], all)
			f[0].Labels.Domains = f[7].Labels.Domains
		}, []int{3}, 1, nil},
		"one node of them is confirmed": {func(f []topology.Facts) {
			report(&f[0], all)
			report(&f[7], all)
			f[0].Report.Domain = topology.NVLinkDomain{}
			f[0].Labels.Domains = f[7].Labels.Domains
		}, []int{3, 4}, 0, []string{"r001n01"}},
		"two values in one clique":     {func(f []topology.Facts) { report(&f[0], all); report(&f[4], all); f[4].Report.GPUs = f[0].Report.GPUs }, []int{2}, 1, nil},
		"NVML before the clique label": {func(f []topology.Facts) { report(&f[0], all); f[1].Labels.Clique = one(4) }, []int{3, 4}, 0, []string{"r001n02"}},
		"another label on more nodes": {func(f []topology.Facts) {
			for i := range f {
				if d := other(fmt.Sprint("o", i/4)); i%4 == 0 {
					f[i].Labels.Domains = append(slices.Clone(f[i].Labels.Domains), d)
				} else if i%4 > 1 {
					f[i].Labels.Domains = []topology.Domain{d}
				}
			}
		}, []int{3, 3}, 0, nil},
		"another label on as many nodes": {func(f []topology.Facts) {
			for i := range f {
				f[i].Labels.Domains = append(slices.Clone(f[i].Labels.Domains), other("o"))
			}
		}, []int{4, 4}, 0, nil},
		"another label on fewer nodes, and a report": {func(f []topology.Facts) {
			f[0].Labels.Domains = append(slices.Clone(f[0].Labels.Domains), other("o"))
			f[1].Labels.Domains = []topology.Domain{other("o")}
			report(&f[2], all)
		}, []int{3, 4}, 0, nil},
		"labels in two orders": {func(f []topology.Facts) {
			f[0].Labels.Domains = []topology.Domain{f[0].Labels.Domains[0], other("o")}
			f[1].Labels.Domains = []topology.Domain{other("o"), f[0].Labels.Domains[0]}
		}, nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			facts := named(2, 4)
			tt.change(facts)
			plan := mustPlan(t, facts, nil, short)
			var sizes []int
			for _, b := range plan.Blocks() {
				sizes = append(sizes, len(b.Nodes))
			}
			slices.Sort(sizes)
			if tt.blocks != nil && !slices.Equal(sizes, tt.blocks) {
				t.Errorf("blocks %v, want sizes %v; %v", lines(plan), tt.blocks, plan.Problems)
			}
			if got := len(slices.DeleteFunc(problemsOf(plan, placement.ReasonLabelConflict), func(n string) bool { return n != "" })); got != tt.conflicts {
				t.Errorf("%d conflicts, want %d: %v", got, tt.conflicts, plan.Problems)
			}
			if diff := cmp.Diff(tt.differ, problemsOf(plan, topology.ReasonLabelDiffers)); diff != "" {
				t.Errorf("nodes that differ (-want +got):\n%s", diff)
			}
			for range 5 {
				rand.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] })
				if diff := cmp.Diff(plan, mustPlan(t, facts, nil, short)); diff != "" {
					t.Fatalf("another order gives another plan (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func eachReports(facts, all []topology.Facts) {
	for i := range facts {
		report(&facts[i], all)
	}
}

// TestDomainLabelUnused says of a node that only a label names its domain, and that the site has another label.
func TestDomainLabelUnused(t *testing.T) {
	facts := named(2, 4)
	facts[1].Labels.Domains = []topology.Domain{{Key: "other", Value: "o"}}
	for name, f := range map[string]*topology.Node{"no report": nil, "a fabric that says nothing": {Name: facts[1].Name, GPUs: []topology.GPU{{Product: "NVIDIA GB200"}}}} {
		facts[1].Report = f
		plan := mustPlan(t, facts, nil, short)
		at := slices.IndexFunc(plan.Nodes, func(pl topology.Placement) bool { return pl.Node == facts[1].Name })
		if n := plan.Nodes[at]; n.Reason != placement.ReasonNoFacts || !strings.Contains(n.Message, "label other is not used, because more nodes have label "+tierZero) {
			t.Errorf("%s: %s: %s", name, n.Reason, n.Message)
		}
	}
}

// TestDomainDenied has NVML report that there is no NVLink between nodes.
func TestDomainDenied(t *testing.T) {
	facts := named(1, 4)
	eachReports(facts, site(1, 4))
	for i := range facts {
		readsNone(&facts[i])
	}
	plan := mustPlan(t, facts, nil, short)
	if len(plan.Blocks()) > 0 || len(problemsOf(plan, topology.ReasonLabelDiffers)) != 4 {
		t.Errorf("%v, problems %v", lines(plan), plan.Problems)
	}
}

// TestDomainsGetAgents publishes blocks from labels, then rolls agents out node
// by node, takes labels and reports away and brings racks: no known block and no
// node moves.
func TestDomainsGetAgents(t *testing.T) {
	const racks, nodes = 6, 6
	all := site(racks+3, nodes)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		facts := named(racks+3, nodes)
		plan := mustPlan(t, facts[:racks*nodes], nil, short)
		home := map[string]string{}
		at := plan.Places()
		for _, pl := range plan.Nodes {
			home[pl.Node] = at[pl.SlurmName].Block
		}
		seen := racks * nodes
		for step := range 25 {
			for range rng.IntN(5) {
				f := &facts[rng.IntN(seen)]
				report(f, all)
				if rng.IntN(4) == 0 {
					f.Labels.Clique = topology.Clique{ClusterUUID: f.Report.GPUs[0].Fabric.ClusterUUID, ID: f.Report.GPUs[0].Fabric.CliqueID}
				}
			}
			if step == 12 {
				seen = len(facts) // racks are added
			}
			var now []topology.Facts
			for _, f := range facts[:seen] {
				switch n := rng.IntN(12); {
				case n == 0: // away
					continue
				case n == 1: // its labels are lost
					f.Labels = topology.Labels{GPUs: 4}
				case n == 2 && f.Report != nil: // its report cannot be read
					f.Report, f.ReportUnreadable = nil, true
				case n == 3 && f.Report != nil: // it reboots
					give(&f, topology.Fabric{State: topology.FabricInProgress})
				}
				now = append(now, f)
			}
			rng.Shuffle(len(now), func(i, j int) { now[i], now[j] = now[j], now[i] })
			next := mustPlan(t, now, fromFile(plan), short)
			old, current := blockNames(plan.Blocks()), blockNames(next.Blocks())
			if !slices.Equal(old, slices.DeleteFunc(slices.Clone(current), func(n string) bool { return !slices.Contains(old, n) })) {
				t.Fatalf("seed %d, step %d: known blocks moved:\nwas %v\nis  %v", seed, step, old, current)
			}
			at := next.Places()
			for _, pl := range next.Nodes {
				if want := home[pl.Node]; want != "" && at[pl.SlurmName].Block != "" && at[pl.SlurmName].Block != want {
					t.Fatalf("seed %d, step %d: node %s moved from %s to %s", seed, step, pl.Node, want, at[pl.SlurmName].Block)
				} else if want == "" && at[pl.SlurmName].Block != "" {
					home[pl.Node] = at[pl.SlurmName].Block
				}
			}
			if diff := cmp.Diff(lines(next), lines(mustPlan(t, now, fromFile(next), short))); diff != "" {
				t.Fatalf("seed %d, step %d: the same facts once more give another plan (-want +got):\n%s", seed, step, diff)
			}
			plan = next
		}
		for r := range racks + 3 { // a rack is one block to the end
			block := home[all[r*nodes].Name]
			for i := range nodes {
				if got := home[all[r*nodes+i].Name]; got != block && got != "" && block != "" {
					t.Fatalf("seed %d: rack %d is in blocks %s and %s", seed, r+1, block, got)
				}
			}
		}
	}
}
