package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// allWait is a Policy.Waits of people who approve nothing.
func allWait(placement.Decision) bool { return true }

// decisionsText writes decisions as FROM -> TO.
func decisionsText(all []placement.Decision) string {
	var out []string
	for _, d := range all {
		out = append(out, d.From+" -> "+d.To)
	}
	return strings.Join(out, "; ")
}

// fabricOf returns the fabric of a plan's topology.
func fabricOf(plan *topology.Plan, name string) (fabric string) {
	for _, t := range plan.Topologies {
		if t.Name == name {
			fabric = t.Fabric
		}
	}
	return fabric
}

// TestPlanKeepsTopologies publishes racks and changes facts or policy, so that topologies would go.
// These decisions wait while racks come: the topologies stay, and all racks that fit are in
// them. When nothing waits, the plan is the wanted one.
func TestPlanKeepsTopologies(t *testing.T) {
	mixed := inFabric("a", 1, 6, 6, 3, 3)
	two := slices.Concat(inFabric("a", 1, 6), inFabric("b", 2, 6))
	gone := mustPlan(t, mixed, nil, short).Places()["r001n01"].Block
	far := mustPlan(t, two, nil, divided).Places()["r002n01"].Block
	four := slices.Concat(inFabric("a", 1, 6, 6, 6, 3, 3), inFabric("b", 6, 6, 6, 6, 3, 3))
	base := with(func(p *placement.Policy) { p.BaseBlockSize = 6 })
	for _, tt := range []struct {
		name      string
		published []topology.Facts
		by        placement.Policy // of the published plan
		facts     []topology.Facts
		policy    placement.Policy
		decisions string
		waits     []string // subjects, or all
		want      string
		waiting   string // the rack that has no place
	}{
		{"classes are set", mixed, short, mixed, classes(6, 3), "nvl -> nvl-3, nvl-6", nil, "nvl[6]* 01 02 03 04", ""},
		{"a large rack comes", mixed, short, slices.Concat(mixed, inFabric("a", 5, 6)), classes(6, 3), "nvl -> nvl-3, nvl-6", nil, "nvl[6]* 01 02 03 04 05", ""},
		{"a small rack comes", mixed, short, slices.Concat(mixed, inFabric("a", 5, 3)), classes(6, 3), "nvl -> nvl-3, nvl-6", nil, "nvl[6]* 01 02 03 04 05", ""},
		{"a block is to be forgotten", mixed, short, mixed[6:], with(func(p *placement.Policy) { p.SizeClasses, p.Forget = []int{6, 3}, []string{gone} }), "nvl -> nvl-3, nvl-6", nil, "nvl[6]* - 02 03 04", ""},
		{"all blocks of a topology are to be forgotten", two, divided, two[:6], with(func(p *placement.Policy) { *p = divided; p.Forget = []string{far} }), "nvl-b -> ", nil, "nvl-a[6]* 01; nvl-b[6] -", ""},
		{"a second fabric comes", mixed, short, slices.Concat(mixed, inFabric("b", 5, 6)), divided, "nvl -> nvl-a, nvl-b", nil, "nvl[6]* 01 02 03 04", "r005"},
		{"a second fabric and a rack of the first come", mixed, short, slices.Concat(mixed, inFabric("b", 5, 6), inFabric("a", 6, 6)), divided, "nvl -> nvl-a, nvl-b", nil, "nvl[6]* 01 02 03 04 06", "r005"},
		{"two fabrics in one topology", two, short, slices.Concat(two, inFabric("b", 3, 6)), divided, "nvl -> nvl-a, nvl-b", nil, "nvl[6]* 01 02 03", ""},
		{"two fabrics are joined", two, divided, belowCore("core", slices.Concat(two, inFabric("b", 3, 6))), divided, "nvl-b -> nvl-a", nil, "nvl-a[6]* 01 03; nvl-b[6] 02", ""},
		{"one base for two classes of two fabrics", four, classes(6, 3), four, base, "nvl-a-3 -> nvl-a-6; nvl-b-3 -> nvl-b-6", nil, "nvl-a-6[6]* 01 02 03; nvl-a-3[3] 04 05; nvl-b-6[6] 06 07 08; nvl-b-3[3] 09 10", ""},
		{"one base, and most racks are small", inFabric("a", 1, 6, 3, 3, 3), classes(6, 3), inFabric("a", 1, 6, 3, 3, 3), base, "nvl-3 -> nvl-6", nil, "nvl-6[6] 01; nvl-3[3]* 02 03 04", ""},
		{"two of another fabric", four, classes(6, 3), slices.Concat(four, inFabric("c", 11, 6)), base, "nvl-a-3 -> nvl-a-6; nvl-b-3 -> nvl-b-6", nil,
			"nvl-a-6[6]* 01 02 03; nvl-a-3[3] 04 05; nvl-b-6[6] 06 07 08; nvl-b-3[3] 09 10; nvl-c[6] 11", ""},
		{"one of the two is approved", four, classes(6, 3), slices.Concat(four, inFabric("b", 11, 6), inFabric("a", 12, 6)), base, "nvl-a-3 -> nvl-a-6; nvl-b-3 -> nvl-b-6", []string{"nvl-b-3"},
			"nvl-a-6[6]* 01 02 03 04 05 12; nvl-b-6[6] 06 07 08 11; nvl-b-3[3] 09 10", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := mustPlan(t, tt.published, nil, tt.by)
			wanted := mustPlan(t, tt.facts, previous(old), tt.policy)
			decisions := choicesOf(t, placement.TopologiesChange, tt.facts, previous(old), tt.policy)
			if diff := cmp.Diff(tt.decisions, decisionsText(decisions)); diff != "" {
				t.Fatalf("decisions (-want +got):\n%s", diff)
			}
			policy := tt.policy
			policy.Waits = func(d placement.Decision) bool {
				return d.Kind == placement.TopologiesChange && (tt.waits == nil || slices.Contains(tt.waits, d.Subject))
			}
			kept := slices.DeleteFunc(slices.Clone(decisions), func(d placement.Decision) bool { return !policy.Waits(d) })
			for range 2 { // a plan that waits is the start of the next one
				plan := mustPlan(t, tt.facts, previous(old), policy)
				if diff := cmp.Diff(sortRacks(tt.want), sortRacks(topologies(plan))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				for _, name := range plan.LostTopologies(old) {
					if slices.ContainsFunc(kept, func(d placement.Decision) bool { return d.Subject == name }) {
						t.Errorf("topology %s is kept and gone", name)
					}
				}
				for _, d := range kept {
					if diff := cmp.Diff(fabricOf(old, d.Subject), fabricOf(plan, d.Subject)); diff != "" {
						t.Errorf("fabric of topology %s (-want +got):\n%s", d.Subject, diff)
					}
				}
				for _, f := range plan.Problems {
					if strings.Contains(f.Message, "annotations") {
						t.Errorf("no annotation names a block: %s", f.Message)
					}
				}
				placed := plan.Places()
				for _, n := range plan.Nodes {
					waits := tt.waiting != "" && strings.HasPrefix(n.SlurmName, tt.waiting)
					if waits != (n.Reason == placement.ReasonHeld) || waits == (placed[n.SlurmName].Block != "") {
						t.Errorf("node %+v is in %+v", n, placed[n.SlurmName])
					}
					if waits && !strings.HasSuffix(n.Message, "(digest "+decisions[0].Digest()+")") {
						t.Errorf("node %s: %s", n.SlurmName, n.Message)
					}
				}
				old = plan
			}
			after := mustPlan(t, tt.facts, previous(old), tt.policy)
			for i, d := range choicesOf(t, placement.TopologiesChange, tt.facts, previous(old), tt.policy) {
				if want := kept[i]; d != want {
					t.Errorf("decision %+v when nothing waits, was %+v", d, want)
				}
			}
			if tt.waits == nil {
				if diff := cmp.Diff(sortRacks(strings.ReplaceAll(topologies(wanted), "*", "")), sortRacks(strings.ReplaceAll(topologies(after), "*", ""))); diff != "" {
					t.Errorf("when nothing waits (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestMovedToHeldRack has published nodes join a new rack of a fabric that waits, one of them or all of a rack. The nodes
// stay, the new nodes of the rack have no block, and each node names the change that people can approve.
func TestMovedToHeldRack(t *testing.T) {
	before := inFabric("a", 1, 4, 4)
	old := mustPlan(t, before, nil, short)
	policy := with(func(p *placement.Policy) { p.Waits = allWait })
	for _, moves := range []int{1, 4} {
		after := slices.Concat(before[:8-moves], inFabric("b", 3, 4))
		for i := 8 - moves; i < 8; i++ {
			after[i].Name, after[i].SlurmName, after[i].Report.Name = before[i].Name, before[i].SlurmName, before[i].Name
		}
		held, plan := choicesOf(t, placement.TopologiesChange, after, previous(old), policy), mustPlan(t, after, previous(old), policy)
		if moved := placement.Moved(old, plan); len(held) != 1 || len(moved) > 0 {
			t.Fatalf("%d nodes join: held %v, moved %v", moves, held, moved)
		}
		_, found, err := makePlan(after, previous(old), policy)
		if err != nil || len(found.Held) != 4 {
			t.Errorf("%d nodes join: held nodes %v, %v", moves, found.Held, err)
		}
		for _, n := range plan.Nodes[8-moves:] {
			if _, stays := old.Places()[n.SlurmName]; !strings.Contains(n.Message, held[0].Digest()) || stays == (plan.Places()[n.SlurmName].Block == "") || !found.Held[n.SlurmName] {
				t.Errorf("%d nodes join: node %s is in block %q: %s", moves, n.SlurmName, plan.Places()[n.SlurmName].Block, n.Message)
			}
		}
	}
}

// TestDigest wants digests that differ in each field.
func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range []placement.Decision{{Kind: "A"}, {Subject: "A"}, {From: "A"}, {To: "A"}, {}, {Kind: "A", Subject: "B", From: "C", To: "D"}} {
		if digest := d.Digest(); seen[digest] || len(digest) != 16 {
			t.Errorf("digest %q of %+v", digest, d)
		} else {
			seen[digest] = true
		}
	}
}

// TestNobodyRelies changes what no partition and no job relies on: then nobody is asked.
func TestNobodyRelies(t *testing.T) {
	conf, tree := with(func(p *placement.Policy) { p.OneTopology = true }), with(func(p *placement.Policy) { p.TreeOnly = true })
	two := slices.Concat(inFabric("a", 1, 6), inFabric("b", 2, 6))
	small, large := inFabric("a", 1, 3, 3), inFabric("a", 1, 6, 6)
	for _, tt := range []struct {
		name             string
		published, facts []topology.Facts
		by, policy       placement.Policy
		want             int // decisions
	}{
		{"a topology gives way", inFabric("a", 1, 6), two, short, divided, 1},
		{"a topology that is not published gives way", inFabric("a", 1, 6), two, short, tree, 0},
		{"a topology of topology.conf gives way", inFabric("a", 1, 6), two, conf, divided, 0},
		{"the racks grow", small, large, divided, divided, 1},
		{"the racks grow, and blocks are not published", small, large, divided, tree, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old := mustPlan(t, tt.published, nil, tt.by)
			if tt.by.OneTopology {
				old.Topologies[0].Name = topology.ConfTopology
			}
			_, found, err := makePlan(tt.facts, previous(old), tt.policy)
			if err != nil || len(found.Choices) != tt.want {
				t.Errorf("decisions %+v, %v, want %d", found.Choices, err, tt.want)
			}
		})
	}
}

// TestHeldKind has a topology change between switches and blocks, and nobody approves that: the plan is as if the
// published kind was configured.
func TestHeldKind(t *testing.T) {
	published := mustPlan(t, inFabric("a", 1, 4, 4), nil, divided)
	blocks, tree := *published, *published
	blocks.Topologies = []topology.Topology{published.Topologies[0]}
	blocks.Topologies[0].Name = topology.ConfTopology
	tree.Topologies = published.Topologies[1:]
	inUse := map[string]bool{topology.ConfTopology + ":": true}
	for _, tt := range []struct {
		name  string
		prev  given
		racks []int
		want  string                    // the decision about the kind
		wants func(p *placement.Policy) // what is configured
		keeps func(p *placement.Policy) // what would give the same plan
		base  int
	}{
		{"blocks in use", given{Plan: &blocks, InUse: inUse}, []int{8, 8, 8}, placement.TopologyInUse,
			func(p *placement.Policy) { p.OneTopology, p.Annotates, p.TreeOnly = true, true, true }, func(p *placement.Policy) { p.OneTopology = true }, 4},
		{"the first blocks", given{Plan: &tree}, []int{4, 4, 8, 8, 8, 3}, placement.KindChange, func(*placement.Policy) {}, func(p *placement.Policy) { p.TreeOnly = true }, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after, wanted, kept := inFabric("a", 1, tt.racks...), divided, divided
			wanted.Waits, kept.Waits = allWait, allWait
			tt.wants(&wanted)
			tt.keeps(&kept)
			if got := choicesOf(t, tt.want, after, &tt.prev, wanted); len(got) != 1 {
				t.Errorf("decisions %+v", got)
			}
			got, want := mustPlan(t, after, &tt.prev, wanted), mustPlan(t, after, &tt.prev, kept)
			if diff := cmp.Diff(want, got); diff != "" || got.BaseBlockSize() != tt.base {
				t.Errorf("base %d (-want +got):\n%s", got.BaseBlockSize(), diff)
			}
		})
	}
}

// TestHeldJoiners has four nodes of a full block move to a rack that waits, and four new nodes name that block: the
// first four stay, so the block has no room for the others.
func TestHeldJoiners(t *testing.T) {
	before := inFabric("a", 1, 18, 4)
	old := mustPlan(t, before, nil, short)
	after := slices.Concat(before, inFabric("b", 3, 4))
	for i, to := range after[22:] {
		name := before[i].Name
		after[i], after[i].Name, after[i].SlurmName = to, name, name
	}
	for i := range after[22:] {
		f := rack(1, 18+i+1)[18+i]
		after[22+i] = f
		after[22+i].Labels = before[17].Labels
	}
	for i := range after {
		report := *after[i].Report
		report.GPUs = slices.Clone(report.GPUs)
		for g := range report.GPUs {
			report.GPUs[g].Product = "NVIDIA GB200"
		}
		report.Name, after[i].Report = after[i].Name, &report
	}
	policy := divided
	policy.Waits = allWait
	plan, found, err := makePlan(after, previous(old), policy)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range plan.Nodes {
		if (n.Reason == placement.BlockOverfull) != (n.SlurmName > "r001n18" && n.SlurmName < "r002") {
			t.Errorf("node %+v", n)
		}
		if n.Reason == placement.BlockOverfull && !found.Held[n.SlurmName] {
			t.Errorf("node %s does not count as held", n.SlurmName)
		}
	}
	if len(found.Held) != 8 {
		t.Errorf("held nodes %v", found.Held)
	}
}
