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

// reads gives the node's GPUs the NVLink domain of a rack, without a word of what
// was confirmed.
func reads(f *topology.Facts, number int) {
	give(f, inClique(number, uint32(number)))
	f.Report.Domain = topology.NVLinkDomain{}
}

// readsNone has the node's GPUs say that they have no NVLink between nodes.
func readsNone(f *topology.Facts) {
	give(f, topology.Fabric{State: topology.FabricNotSupported})
	f.Report.Domain = topology.NVLinkDomain{}
}

func cliqueOf(number int) topology.Clique {
	return topology.Clique{ClusterUUID: clusterUUID(number), ID: uint32(number)}
}

func domainOf(number int) topology.NVLinkDomain {
	return topology.NVLinkDomain{Clique: cliqueOf(number)}
}

// TestPlanConfirms has nodes of the first rack of three name the second, or a
// domain that nobody knows: what places them is a reading that was confirmed.
func TestPlanConfirms(t *testing.T) {
	const unknown = 9
	move := func(to int, confirmed bool, nodes ...int) func([]topology.Facts) {
		return func(facts []topology.Facts) {
			for _, n := range nodes {
				reads(&facts[n], to)
				if confirmed {
					confirm(&facts[n])
				}
			}
		}
	}
	leave := func(confirmed bool, nodes ...int) func([]topology.Facts) {
		return func(facts []topology.Facts) {
			for _, n := range nodes {
				if readsNone(&facts[n]); confirmed {
					confirm(&facts[n])
				}
			}
		}
	}
	both := func(all ...func([]topology.Facts)) func([]topology.Facts) {
		return func(facts []topology.Facts) {
			for _, change := range all {
				change(facts)
			}
		}
	}
	whole := []int{0, 1, 2, 3}
	tests := []struct {
		name        string
		change      func([]topology.Facts)
		want        string // nodes of the blocks
		unconfirmed []string
		missing     []string // nodes whose fabric is missing: they stay, whatever was confirmed
	}{
		{"read once", move(2, false, 0), "4 4 4", []string{"r001n01"}, nil},
		{"confirmed", move(2, true, 0), "4 5 3", nil, nil},
		{"another was confirmed in this boot", func(f []topology.Facts) { reads(&f[0], 2); f[0].Report.Domain = domainOf(1) }, "4 4 4", []string{"r001n01"}, nil},
		{"a third was", func(f []topology.Facts) { reads(&f[0], 2); f[0].Report.Domain = domainOf(3) }, "4 4 4", []string{"r001n01"}, nil},
		{"an older agent, which confirms nothing", func(f []topology.Facts) { reads(&f[0], 1) }, "4 4 4", nil, nil},
		{"older agents on all", func(f []topology.Facts) {
			for i := range f {
				f[i].Report.Domain = topology.NVLinkDomain{}
			}
		}, "4 4 4", nil, nil},
		{"a rack to another, read once", move(2, false, whole...), "4 4 4", []string{"r001n01", "r001n02", "r001n03", "r001n04"}, nil},
		{"a rack to another", move(2, true, whole...), "4 8 0", nil, nil},
		{"two racks change places, read once", both(move(2, false, whole...), move(1, false, 4, 5, 6, 7)), "4 4 4",
			[]string{"r001n01", "r001n02", "r001n03", "r001n04", "r002n01", "r002n02", "r002n03", "r002n04"}, nil},
		{"two racks change places", both(move(2, true, whole...), move(1, true, 4, 5, 6, 7)), "4 4 4", nil, nil},
		{"a rack's cluster UUID changes, read once", move(unknown, false, whole...), "4 4 4", []string{"r001n01", "r001n02", "r001n03", "r001n04"}, nil},
		{"the first of them is confirmed", both(move(unknown, false, whole...), move(unknown, true, 2)), "4 4 4", []string{"r001n01", "r001n02", "r001n03", "r001n04"}, nil},
		{"the second is", both(move(unknown, false, whole...), move(unknown, true, 0, 2)), "4 4 2 2", []string{"r001n02", "r001n04"}, nil},
		{"all are", move(unknown, true, whole...), "4 4 0 4", nil, nil},
		{"one alone is, and nobody follows", move(unknown, true, 0), "4 4 3", nil, nil},
		{"no NVLink, read once", leave(false, 0), "4 4 4", nil, []string{"r001n01"}},
		{"no NVLink, confirmed", leave(true, 0), "4 4 4", nil, []string{"r001n01"}},
		{"no NVLink, a clique was confirmed in this boot", func(f []topology.Facts) { leave(false, 0)(f); f[0].Report.Domain = domainOf(1) }, "4 4 4", nil, []string{"r001n01"}},
		{"no NVLink on a rack, read once", leave(false, whole...), "4 4 4", nil, []string{"r001n01", "r001n02", "r001n03", "r001n04"}},
		{"no NVLink on a rack", leave(true, whole...), "4 4 4", nil, []string{"r001n01", "r001n02", "r001n03", "r001n04"}},
		{"some to another rack, others have none, all read once", both(move(2, false, 0, 1), leave(false, 2, 3)), "4 4 4", []string{"r001n01", "r001n02"}, []string{"r001n03", "r001n04"}},
		{"none was confirmed first, and another clique is read once", func(f []topology.Facts) { reads(&f[0], 2); f[0].Report.Domain.None = true }, "4 4 4", []string{"r001n01"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old := mustPlan(t, site(3, 4), nil, short)
			facts := site(3, 4)
			tt.change(facts)
			current := mustPlan(t, facts, fromFile(old), short)
			var sizes []string
			for _, b := range current.Blocks() {
				sizes = append(sizes, fmt.Sprint(len(b.Nodes)))
			}
			if got := strings.Join(sizes, " "); got != tt.want {
				t.Errorf("blocks of %s nodes, want %s: %v", got, tt.want, lines(current))
			}
			if diff := cmp.Diff(tt.unconfirmed, problemsOf(current, placement.ReasonUnconfirmed)); diff != "" {
				t.Errorf("named (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.missing, problemsOf(current, topology.ReasonFabricMissing)); diff != "" {
				t.Errorf("without a fabric (-want +got):\n%s", diff)
			}
			at := current.Places()
			for _, pl := range current.Nodes {
				if stays := pl.Reason == placement.ReasonUnconfirmed; stays != slices.Contains(tt.unconfirmed, pl.Node) || stays && (pl.Source != "previous" || at[pl.SlurmName].Block == "") {
					t.Errorf("%+v", pl)
				}
			}
		})
	}
}

// TestPlanReadsOnce places nodes that are published nowhere by one reading, in a
// published block and in a new one, and takes the blocks of labels for those of
// the cliques that agents come to report.
func TestPlanReadsOnce(t *testing.T) {
	facts := slices.Concat(rack(1, 4), rack(2, 4))
	old := mustPlan(t, facts[:3], nil, short)
	for i := range facts {
		facts[i].Report.Domain = topology.NVLinkDomain{}
	}
	current := mustPlan(t, facts, fromFile(old), placement.Policy{BaseBlockSize: 4})
	if len(current.Blocks()) != 2 || len(current.Blocks()[0].Nodes) != 4 || len(current.Blocks()[1].Nodes) != 4 || len(current.Problems) > 0 {
		t.Errorf("%v, problems %v", lines(current), current.Problems)
	}
	for _, labelled := range []bool{true, false} {
		old, facts := mustPlan(t, named(2, 4), nil, short), named(2, 4)
		for i := range facts {
			report(&facts[i], site(2, 4))
			facts[i].Report.Domain = topology.NVLinkDomain{}
			if !labelled {
				facts[i].Labels = topology.Labels{}
			}
			current := mustPlan(t, facts, fromFile(old), short)
			if diff := cmp.Diff(lines(old), lines(current)); diff != "" || len(current.Problems) > 0 {
				t.Errorf("%d agents have come, labels %t (-old +new):\n%s\nproblems %v", i+1, labelled, diff, current.Problems)
			}
		}
	}
}

// TestPlanMovesConfirmed lets much happen to nodes at random: reboots, readings
// in progress, wrong ones, agents that fall silent or are older, other cliques in
// the same boot. None of it moves a node, and then one moves that two readings of
// a new boot put elsewhere.
func TestPlanMovesConfirmed(t *testing.T) {
	const racks, nodes = 4, 6
	home := func(i int) int { return 1 + i/nodes }
	happens := []func(f *topology.Facts, home, other int){
		func(f *topology.Facts, home, _ int) { reads(f, home); confirm(f) },
		func(f *topology.Facts, home, _ int) { reads(f, home) }, // an older agent, or the first reading
		func(f *topology.Facts, _, _ int) { f.Report = nil },
		func(f *topology.Facts, _, _ int) { f.Report, f.ReportUnreadable = nil, true },
		func(f *topology.Facts, _, _ int) { f.Report, f.Labels, f.Gone = nil, topology.Labels{}, true },
		func(f *topology.Facts, home, _ int) {
			f.Report.GPUs[0].Fabric = topology.Fabric{}
			f.Report.Domain = domainOf(home)
		},
		func(f *topology.Facts, _, _ int) {
			give(f, topology.Fabric{State: topology.FabricInProgress})
			f.Report.Domain = topology.NVLinkDomain{}
		},
		func(f *topology.Facts, home, _ int) { // in the same boot
			give(f, topology.Fabric{State: topology.FabricCompleted, Status: "ERROR_UNKNOWN"})
			f.Report.Domain = domainOf(home)
		},
	}
	wrong := []func(f *topology.Facts, home, other int){
		func(f *topology.Facts, _, other int) { reads(f, other) },
		func(f *topology.Facts, home, other int) { reads(f, other); f.Report.Domain = domainOf(home) },
		func(f *topology.Facts, _, other int) { reads(f, racks+other) }, // a domain of its own
		func(f *topology.Facts, _, _ int) { readsNone(f) },
		func(f *topology.Facts, home, _ int) { readsNone(f); f.Report.Domain = domainOf(home) },
		func(f *topology.Facts, _, other int) { f.Report.GPUs[1].Fabric.CliqueID = uint32(other) },
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		byLabel := seed%2 == 1
		fresh := func() []topology.Facts {
			facts := site(racks, nodes)
			if byLabel {
				for i, f := range named(racks, nodes) {
					facts[i].Labels = f.Labels
				}
			}
			return facts
		}
		old := mustPlan(t, fresh(), nil, short)
		if byLabel {
			old = mustPlan(t, named(racks, nodes), nil, short)
		}
		for range 20 {
			facts := fresh()
			for i := range facts {
				f := &facts[i]
				if i%nodes > nodes/2 {
					wrong[rng.IntN(len(wrong))](f, home(i), 1+rng.IntN(racks))
				} else if i%nodes > 0 || !byLabel { // a block of a label is known by a node that is sure
					happens[rng.IntN(len(happens))](f, home(i), 0)
				}
			}
			current := mustPlan(t, facts, fromFile(old), short)
			if diff := cmp.Diff(lines(old), lines(current)); diff != "" {
				t.Fatalf("seed %d (-old +new):\n%s", seed, diff)
			}
			old = current
		}
		facts := fresh()
		mover, to := rng.IntN(len(facts)), 1+rng.IntN(racks)
		reads(&facts[mover], to)
		confirm(&facts[mover])
		current := mustPlan(t, facts, fromFile(old), short)
		if at, want := placeOf(current, mover).Block, placeOf(old, (to-1)*nodes).Block; at != want {
			t.Errorf("seed %d: %s has moved to rack %d and is in block %s, want %s", seed, facts[mover].Name, to, at, want)
		}
		if gone, added := changed(lines(old), lines(current)); (gone != 2 || added != 2) && to != home(mover) {
			t.Errorf("seed %d: %d lines changed into %d, want 2 into 2", seed, gone, added)
		}
	}
}
