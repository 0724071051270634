package publisher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// randomPublication returns one of the many that a site can choose.
func randomPublication(t *testing.T, rng *rand.Rand) *publication.Cluster {
	t.Helper()
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	p := Publication{SlurmVersion: pick("24.11", "25.05", "26.05"), BlocksBy: pick("nvlink", "leaf"),
		BaseBlockSize: []int{0, 0, 2, 3}[rng.IntN(4)], Topology: pick("auto", "auto", "block", "tree"), Fabrics: pick("", "separate")}
	if p.Format = "conf"; p.SlurmVersion != "24.11" {
		p.Format = pick("conf", "yaml", "yaml")
		p.ParentBlocks = []int{0, 2, 4}[rng.IntN(3)]
	}
	if p.Format == "yaml" {
		p.FlatTopology = rng.IntN(2) > 0
		p.DefaultTopology = pick("", "flat")
	}
	return complete(t, p)[0]
}

// randomNode is a node that may have moved, lost its labels or report, or have
// gone since it was last seen. Racks without an NVLink fabric are of one product.
func randomNode(rng *rand.Rand, n int, withoutFabric string) topology.Facts {
	name := fmt.Sprintf("n%02d", n)
	rack := n / 3
	if rng.IntN(12) == 0 {
		rack = rng.IntN(8)
	}
	product, fabric := withoutFabric, topology.Fabric{State: topology.FabricNotSupported}
	if rack%4 != 3 {
		product = "NVIDIA GB200"
		fabric = topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{1, byte(rack)}, CliqueID: 1}
	}
	if rng.IntN(10) == 0 {
		fabric = topology.Fabric{State: topology.FabricInProgress}
	}
	f := topology.Facts{Name: name, SlurmName: name, Labels: topology.Labels{GPUs: 1, Product: product}}
	f.Report = &topology.Node{Name: name, GPUs: []topology.GPU{{UUID: "GPU-" + name, Product: product, Minor: new(int), Fabric: fabric}}}
	f.Report.Domain = f.Report.Joined()
	f.Labels.Tiers = []string{fmt.Sprintf("leaf-%d", rack), fmt.Sprintf("spine-%d", rack/3)}
	switch rng.IntN(12) {
	case 0:
		f.Labels.Tiers = f.Labels.Tiers[:rng.IntN(2)]
	case 1:
		f.Report = nil
	case 2:
		f = topology.Facts{Name: name, SlurmName: name}
	case 3:
		f = topology.Facts{Name: name, SlurmName: name, Gone: true}
	}
	return f
}

// TestMakeByAnyPolicy makes the files of random sites by random policies, again
// and again from what was published: what is written Slurm loads, the same
// facts in any order give the same files, and so do they once the plan is published. At every other
// site nobody approves anything.
func TestMakeByAnyPolicy(t *testing.T) {
	first := oracle.SeedOf(t)
	for seed := first; seed < first+uint64(oracle.Rounds(450, 10000)); seed++ { //nolint:gosec // neither has a sign
		if seed%2 == 0 {
			byAnyPolicy(t, seed, makeApproved, true)
		} else {
			byAnyPolicy(t, seed, Make, false)
		}
	}
}

// makeApproved is Make with all decisions approved but base sizes and divided racks.
func makeApproved(p *publication.Cluster, in inputs.Inputs, prev Previous) (*Rendered, error) {
	in.Facts = slices.Clone(in.Facts)
	g := &gathered{Inputs: in, prev: prev, ofFabrics: p.FabricSite(prev.Plan, nil).Judge(in.Facts, in.UnnamedFacts)}
	waits := func(d placement.Decision) bool {
		return d.Kind == placement.BaseSizeChange || d.Kind == placement.Repartitioned
	}
	return renderFiles(p, g, makePlan(p, g, nil, waits), anySize), nil
}

type maker func(*publication.Cluster, inputs.Inputs, Previous) (*Rendered, error)

// byAnyPolicy makes the files of one random site. If decisions wait for an approval, the plan comes to rest after
// a few publications: what is published may end a wait, such as a rack that shows how large racks can be.
// Files do not show that, so nodes that wait may move after the stored plan was lost.
func byAnyPolicy(t *testing.T, seed uint64, how maker, approved bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 4))
	pub := randomPublication(t, rng)
	withoutFabric := []string{"NVIDIA H200", "NVIDIA GB200"}[rng.IntN(2)]
	var prev Previous
	for step := range 6 {
		var g inputs.Inputs
		for n := range 24 {
			if rng.IntN(8) > 0 {
				g.Facts = append(g.Facts, randomNode(rng, n, withoutFabric))
			}
		}
		remake := func(prev Previous) *Rendered { return mustMake(t, how, pub, g, prev, seed, step) }
		made := remake(prev)
		if made == nil {
			continue
		}
		if moved := silentMoved(pub, &g, prev, made); moved != "" {
			t.Fatalf("seed %d, step %d, %+v: %s", seed, step, pub, moved)
		}
		rng.Shuffle(len(g.Facts), func(i, j int) { g.Facts[i], g.Facts[j] = g.Facts[j], g.Facts[i] })
		if diff := cmp.Diff(made.Files, remake(prev).Files); diff != "" {
			t.Fatalf("seed %d, step %d, %+v: in another order (-was +is):\n%s", seed, step, pub, diff)
		}
		if approved {
			fromFiles := previousOf(t, pub, made.Files) // as after the stored plan was lost
			if nodes := placement.Moved(fromFiles.Plan, remake(fromFiles).Plan); len(nodes) > 0 {
				t.Fatalf("seed %d, step %d: from the files, %v move though nothing changed", seed, step, nodes)
			}
		}
		for passes := 1; ; passes++ {
			prev = ReadPlan(pub, &made.FilePlan)
			again := remake(prev)
			if again == nil && !approved {
				break
			}
			nodes := placement.Moved(prev.Plan, again.Plan)
			diff := cmp.Diff(made.Files, again.Files)
			if len(nodes) == 0 && diff == "" {
				break
			}
			if approved || passes == 3 {
				t.Fatalf("seed %d, step %d, %+v: once published, %v move (-was +is):\n%s", seed, step, pub, nodes, diff)
			}
			made = again
		}
	}
}

// silentMoved names a published node that says nothing and was moved all the same.
func silentMoved(pub *publication.Cluster, g *inputs.Inputs, prev Previous, made *Rendered) string {
	if prev.Plan == nil {
		return ""
	}
	was := prev.Plan.Places()
	is := made.Plan.Places()
	for i := range g.Facts {
		f := &g.Facts[i]
		name := f.SlurmName
		silent := f.Report == nil
		if pub.BlocksBy == "leaf" {
			silent = len(f.Labels.Tiers) == 0
		}
		if silent && was[name].Block != "" && is[name].Block != was[name].Block {
			return fmt.Sprintf("%s says nothing, was in block %s and is in %q", name, was[name].Block, is[name].Block)
		}
		if len(f.Labels.Tiers) == 0 && was[name].Leaf != "" && is[name].Leaf != was[name].Leaf {
			return fmt.Sprintf("%s says nothing, was below %s and is below %q", name, was[name].Leaf, is[name].Leaf)
		}
	}
	return ""
}

// mustMake returns nil where there is nothing to write.
func mustMake(t *testing.T, how maker, pub *publication.Cluster, g inputs.Inputs, prev Previous, seed uint64, step int) *Rendered {
	t.Helper()
	made, err := how(pub, g, prev)
	if err != nil {
		t.Fatalf("seed %d, step %d: %v", seed, step, err)
	}
	switch made.Refused {
	case "":
		return made
	case "NothingToPublish":
		return nil
	}
	// Slurm 24.11 gets no blocks: held, and said so.
	if made.Refused != "LintFatal" || pub.Release != slurmconf.Release2411 {
		t.Fatalf("seed %d, step %d, %+v: %s: %s", seed, step, pub, made.Refused, made.Message)
	}
	return nil
}
