package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	fabrics "github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// keptPlan makes the plan that is published while nobody approves anything.
func keptPlan(t testing.TB, facts []topology.Facts, prev *given, policy placement.Policy) *topology.Plan {
	t.Helper()
	policy.Waits, policy.LookFirst = allWait, lookAtAll
	return mustPlan(t, facts, prev, policy)
}

// ofProduct gives nodes the GPUs of a product, so that a domain of a known one can have 18 nodes.
func ofProduct(product string, facts ...topology.Facts) {
	gpus := 4
	if _, most, known := fabrics.Bounds(nil).Of(product); known {
		gpus = most / 18
	}
	for i := range facts {
		r := facts[i].Report
		fabric := r.GPUs[0].Fabric
		r.GPUs = nil
		for g := range gpus {
			r.GPUs = append(r.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%s-%d", facts[i].Name, g), Minor: &g, Product: product, Fabric: fabric})
		}
	}
}

// TestMoversOverfillABlock has nodes of one rack, or new ones, name the domain of another.
func TestMoversOverfillABlock(t *testing.T) {
	const gb200 = "NVIDIA GB200"
	claims := func(count int) func([]topology.Facts) []topology.Facts {
		return func(facts []topology.Facts) []topology.Facts {
			for i := range count {
				reads(&facts[len(facts)-1-i], 1)
				confirm(&facts[len(facts)-1-i])
			}
			return facts
		}
	}
	joins := func(product string, count int) func([]topology.Facts) []topology.Facts {
		return func(facts []topology.Facts) []topology.Facts {
			fresh := rack(9, count)
			for i := range fresh {
				reads(&fresh[i], 1)
				confirm(&fresh[i])
			}
			ofProduct(product, fresh...)
			return append(facts, fresh...)
		}
	}
	exchange := func(facts []topology.Facts) []topology.Facts { // between racks 1 and 2 of 18 nodes
		reads(&facts[0], 2)
		reads(&facts[18], 1)
		confirm(&facts[0])
		confirm(&facts[18])
		return facts
	}
	for _, tt := range []struct {
		name    string
		product string
		sizes   []int // of the racks
		change  func([]topology.Facts) []topology.Facts
		want    string // nodes of the blocks
		held    int    // nodes
	}{
		{"14 of 72, by the product", gb200, []int{18, 18, 18, 18}, claims(14), "18 18 18 18", 14},
		{"one of 72", gb200, []int{18, 18, 18, 18}, claims(1), "18 18 18 18", 1},
		{"one of an unknown product", "", []int{18, 18, 18, 18}, claims(1), "17 18 18 19", 0},
		{"a rack has lost a tray", gb200, []int{17, 18, 18, 18}, claims(1), "17 18 18 18", 0},
		{"a rack has lost a tray, and two come", gb200, []int{17, 18, 18, 18}, claims(2), "17 18 18 18", 2},
		{"half a rack, by the product", gb200, []int{9, 18, 18}, claims(9), "09 18 18", 0},
		{"a node that is gone names no product", gb200, []int{2, 2}, func(facts []topology.Facts) []topology.Facts {
			facts[0] = topology.Facts{Name: facts[0].Name, SlurmName: facts[0].SlurmName, Gone: true}
			return claims(1)(facts)
		}, "01 03", 0},
		{"two full racks exchange a node", gb200, []int{18, 18}, exchange, "18 18", 0},
		{"the same beside a node too many", gb200, []int{18, 18, 18}, func(facts []topology.Facts) []topology.Facts { return claims(1)(exchange(facts)) }, "18 18 18", 3},
		{"new nodes beyond the product", gb200, []int{17, 18}, joins(gb200, 2), "17 18", 2},
		{"new nodes of a full rack", gb200, []int{18, 18}, joins(gb200, 1), "18 18", 1},
		{"the last new node", gb200, []int{17, 18}, joins(gb200, 1), "18 18", 0},
		{"new nodes of an unknown product", "", []int{18, 18}, joins("", 2), "18 20", 0},
		{"silent nodes count", gb200, []int{18, 18}, func(facts []topology.Facts) []topology.Facts {
			for i := range 18 {
				facts[i].Report = nil
			}
			return claims(2)(facts)
		}, "18 18", 2},
		{"new nodes beside silent nodes", gb200, []int{18, 18}, func(facts []topology.Facts) []topology.Facts {
			for i := range 18 {
				facts[i].Report = nil
			}
			return joins(gb200, 2)(facts)
		}, "18 18", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts := inFabric("", 1, tt.sizes...)
			ofProduct(tt.product, facts...)
			old := mustPlan(t, facts, nil, short)
			facts = tt.change(facts)
			plan := keptPlan(t, facts, previous(old), short)
			var sizes []string
			for _, b := range plan.Blocks() {
				sizes = append(sizes, fmt.Sprintf("%02d", len(b.Nodes)))
			}
			slices.Sort(sizes)
			if got := strings.Join(sizes, " "); got != tt.want {
				t.Errorf("blocks of %s nodes, want %s", got, tt.want)
			}
			places := plan.Places()
			for _, n := range plan.Nodes {
				if stays := strings.Contains(n.Message, "stays in its published block"); stays && places[n.SlurmName].Block == "" {
					t.Errorf("node %s is in no block, and its reason says: %s", n.SlurmName, n.Message)
				}
				if _, known := old.Places()[n.SlurmName]; n.Reason == placement.BlockOverfull && known == strings.Contains(n.Message, "; it is in no block until") {
					t.Errorf("node %s, published %t: %s", n.SlurmName, known, n.Message)
				}
			}
			// Reports beyond the product are the domain's own problem, if nobody is silent.
			if held := append(problemsOf(plan, placement.BlockOverfull), problemsOf(plan, "DomainImplausible")...); len(held) != tt.held {
				t.Errorf("held %v, want %d", held, tt.held)
			}
		})
	}
}

// TestLiarsPushNobodyOut has nodes claim cliques at random: confirmed after a boot, changed while they
// ran, new, or of another product. Others fall silent. No node that is right or silent leaves its block,
// and no block of a known product gets more nodes than it can have.
func TestLiarsPushNobodyOut(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		product := []string{"NVIDIA GB200", "", "NVIDIA GB300"}[rng.IntN(3)]
		var facts []topology.Facts
		racks := 2 + rng.IntN(4)
		for r := range racks {
			n := 18
			if rng.IntN(3) == 0 {
				n = 14 + rng.IntN(5)
			}
			facts = append(facts, rack(r+1, n)...)
		}
		ofProduct(product, facts...)
		old := mustPlan(t, facts, nil, short)
		prev := previous(old)
		liars := make(map[string]bool)
		for step := range 3 {
			for range 1 + rng.IntN(20) {
				i := rng.IntN(len(facts))
				f := &facts[i]
				if f.Report == nil {
					continue
				}
				r := *f.Report
				switch f.Report = &r; rng.IntN(6) {
				case 0:
					f.Report = nil // it falls silent
				case 1:
					liars[f.SlurmName] = true
					reads(f, 1+rng.IntN(racks))
					confirm(f)
				case 2:
					liars[f.SlurmName] = true
					reads(f, 1+rng.IntN(racks))
					confirm(f)
					f.Report.DomainChanged = true
				case 3:
					liars[f.SlurmName] = true
					ofProduct([]string{"NVIDIA GH200", "NVIDIA X1"}[rng.IntN(2)], *f)
				case 4:
					liars[f.SlurmName] = true
					reads(f, 90+rng.IntN(2)) // nobody knows this one
					confirm(f)
					f.Report.DomainChanged = product == "" || rng.IntN(2) == 0 // else it leaves its block, and is new then
				default:
					if product == "" { // then new nodes may join
						continue
					}
					fresh := rack(20+step, 1)
					fresh[0].Name += fmt.Sprint("-", len(facts))
					fresh[0].SlurmName = fresh[0].Name
					reads(&fresh[0], 1+rng.IntN(racks))
					confirm(&fresh[0])
					ofProduct(product, fresh...)
					facts = append(facts, fresh...)
					liars[fresh[0].SlurmName] = true
				}
			}
			plan := keptPlan(t, facts, prev, short)
			before, after := old.Places(), plan.Places()
			for n, at := range before {
				if !liars[n] && after[n].Block != at.Block {
					t.Fatalf("seed %d: %s is in block %q, and was in %q", seed, n, after[n].Block, at.Block)
				}
			}
			for _, b := range plan.Blocks() {
				if product != "" && len(b.Nodes) > 18 {
					t.Fatalf("seed %d: block %s has %d nodes, more than 18: %v", seed, b.Name, len(b.Nodes), b.Nodes)
				}
			}
			prev = previous(plan)
		}
	}
}
