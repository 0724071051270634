package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// node returns the facts of a node that names switches, written "leaf spine". A dash is a tier that
// it does not name.
func node(name, tiers string) topology.Facts {
	named := strings.Fields(tiers)
	for i := range named {
		named[i] = strings.Trim(named[i], "-")
	}
	return below(name, named...)
}

// by returns the facts with labels of a writer.
func by(source topology.TierSource, facts ...topology.Facts) []topology.Facts {
	for i := range facts {
		facts[i].Labels.TierSource = source
	}
	return facts
}

// having returns the facts of a node that has GPUs of a product.
func having(product string, f topology.Facts) topology.Facts {
	f.Report.GPUs[0].Product = product
	return f
}

// treeSite is what a tree is made from.
type treeSite struct {
	facts     []topology.Facts
	published []topology.Switch
	policy    placement.Policy
	inUse     string // a leaf
}

// treeOf returns the switches of a plan, and what it says of them, by reason and node.
func treeOf(t *testing.T, s *treeSite) (switches []topology.Switch, found []topology.Finding) {
	t.Helper()
	prev := inFile(nil, s.published)
	prev.InUse = map[string]bool{s.inUse: s.inUse != ""}
	plan := mustPlan(t, s.facts, prev, s.policy)
	for _, f := range plan.Problems {
		switch f.Reason {
		case placement.ReasonLabelConflict, placement.ReasonNoSwitch, placement.ReasonForgottenInUse, placement.ReasonRootAssumed, placement.ReasonLeavesApart:
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b topology.Finding) int { return strings.Compare(a.Reason, b.Reason) })
	return plan.Switches(), found
}

// forgets is the policy of a site that forgets switches.
func forgets(switches ...string) placement.Policy {
	p := short
	p.ForgetSwitches = switches
	return p
}

// pair is a published spine with two leaves of one node each.
var pair = []topology.Switch{{Name: "l1", Nodes: []string{"a"}, Value: "l1"}, {Name: "l2", Nodes: []string{"b"}, Value: "l2"}, {Name: "s1", Children: []string{"l1", "l2"}, Value: "s1"}}

func TestTree(t *testing.T) {
	tests := []struct {
		name string
		site treeSite
		want string
		// problems are their reasons and nodes.
		problems []string
	}{
		{"nothing is named or published", treeSite{facts: []topology.Facts{node("a", "")}}, "", nil},
		{"two roots are separate", treeSite{policy: placement.Policy{SeparateFabrics: true}, facts: []topology.Facts{node("a", "l1 s1"), node("b", "l2 s2")}}, "l1=a l2=b s1(l1) s2(l2)", []string{"LeavesApart"}},
		{"one value for a leaf and a spine", treeSite{facts: []topology.Facts{node("a", "x x")}}, "x=a tier1-x(x)", nil},
		{"all labels lost", treeSite{published: pair, facts: []topology.Facts{node("a", ""), node("b", "")}}, "l1=a l2=b s1(l1,l2)", nil},
		{"the spine's label lost", treeSite{published: pair, facts: []topology.Facts{node("a", "l1"), node("b", "l2")}}, "l1=a l2=b s1(l1,l2)", nil},
		{"a node moves", treeSite{published: pair, facts: []topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l2=a,b s1(l2)", nil},
		{"a leaf that is forgotten and in use", treeSite{policy: forgets("l1"), inUse: "l1", published: pair, facts: []topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l1= l2=a,b s1(l1,l2)",
			[]string{"ForgottenInUse"}},
		{"a node moves and its leaf stays", treeSite{policy: short, published: pair, facts: []topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l1= l2=a,b s1(l1,l2)", nil},
		{"a leaf that is forgotten", treeSite{policy: forgets("l1"), published: pair, facts: []topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l2=a,b s1(l2)", nil},
		{"switches that are forgotten and stay", treeSite{policy: forgets("l1", "s1", "l9"), published: pair, facts: []topology.Facts{node("a", "l1 s1")}}, "l1=a l2= s1(l1,l2)",
			[]string{"ForgottenInUse", "ForgottenInUse"}},
		{"the empty leaves of other switches", treeSite{policy: short, published: pair, facts: []topology.Facts{node("a", "m1 t1"), node("b", "m1 t1")}}, "l1= l2= m1=a,b s1(l1,l2) t1(m1)", []string{"LeavesApart"}},
		{"leaves become spines", treeSite{policy: short, published: pair, facts: []topology.Facts{node("a", "r1 l1"), node("b", "r2 l2")}}, "r1=a r2=b l1(r1) l2(r2) fabric(l1,l2)", []string{"RootAssumed"}},
		{"spines become leaves", treeSite{policy: short, published: pair, facts: []topology.Facts{node("a", "s1"), node("b", "s1")}}, "s1=a,b", nil},
		{"a leaf moves", treeSite{published: pair, facts: []topology.Facts{node("a", "l1 s2"), node("b", "l2 s1")}}, "l1=a l2=b s1(l2) s2(l1) fabric(s1,s2)", []string{"RootAssumed"}},
		{"the site has one tier", treeSite{published: pair, facts: []topology.Facts{node("a", "l1"), node("b", "l2")}, policy: placement.Policy{Tiers: 1}}, "l1=a l2=b fabric(l1,l2)", []string{"RootAssumed"}},
		{"a tier is put below the leaves", treeSite{published: pair, facts: []topology.Facts{node("a", "r1 l1"), node("b", "r2 l2")}}, "r1=a r2=b l1(r1) l2(r2) fabric(l1,l2)", []string{"RootAssumed"}},
		{"the published parent wins a tie", treeSite{published: pair, facts: []topology.Facts{node("a", "l1 s1"), node("c", "l1 s0")}}, "l1=a,c s1(l1)", []string{"LabelConflict"}},
		{"most nodes win", treeSite{published: pair, facts: []topology.Facts{node("a", "l1 s1"), node("c", "l1 s0"), node("d", "l1 s0")}}, "l1=a,c,d s0(l1)", []string{"LabelConflict"}},
		{"a node without a label", treeSite{facts: []topology.Facts{node("a", "l1"), node("b", "")}}, "l1=a", []string{"NoSwitch b"}},
		{"a loop in an edited file", treeSite{published: []topology.Switch{{Name: "l", Nodes: []string{"a"}}, {Name: "s", Children: []string{"l", "t"}}, {Name: "t", Children: []string{"s"}}},
			facts: []topology.Facts{node("a", "l z")}}, "l=a z(l)", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			switches, found := treeOf(t, &tt.site)
			if diff := cmp.Diff(tt.want, text(switches)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.problems, reasonsOf(found, "")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// reasonsOf returns the reason of each problem, and its node if it has one. It leaves out one reason.
func reasonsOf(problems []topology.Finding, except string) (out []string) {
	for _, p := range problems {
		if p.Reason != except {
			out = append(out, strings.TrimSpace(p.Reason+" "+p.Node))
		}
	}
	return out
}

// text writes leaves as l=a,b and other switches as s(l,m).
func text(switches []topology.Switch) string {
	var all []string
	for _, s := range switches {
		if len(s.Children) > 0 {
			all = append(all, fmt.Sprintf("%s(%s)", s.Name, strings.Join(s.Children, ",")))
		} else {
			all = append(all, s.Name+"="+strings.Join(s.Nodes, ","))
		}
	}
	return strings.Join(all, " ")
}

// TestTreeOfChangedLabels has six nodes below three leaves, two spines and a core, and changes their labels. The tree follows
// what most nodes below a switch name, and keeps the rest.
func TestTreeOfChangedLabels(t *testing.T) {
	read := func(labels string) (facts []topology.Facts) {
		for i, tiers := range strings.Split(labels, ", ") {
			f := node(string(rune('a'+i)), tiers)
			if tiers == "gone" {
				f = topology.Facts{Name: f.Name, SlurmName: f.SlurmName, Gone: true}
			}
			facts = append(facts, f)
		}
		return facts
	}
	old, _ := treeOf(t, &treeSite{policy: short, facts: read("l1 s1 c1, l1 s1 c1, l1 s1 c1, l1 s1 c1, l2 s1 c1, l3 s2 c1")})
	const leaves = "l1=a,b,c,d l2=e l3=f "
	for _, tt := range []struct {
		name   string
		policy placement.Policy
		labels string
		want   string // above the leaves
	}{
		{"the core is lost", short, "l1 s1, l1 s1, l1 s1, l1 s1, l2 s1, l3 s2", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"spines and core are lost", short, "l1, l1, l1, l1, l2, l3", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"all are lost", short, ", , , , , ", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"all nodes are gone", short, "gone, gone, gone, gone, gone, gone", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"spines in the midst are lost", short, "l1 - c1, l1 - c1, l1 - c1, l1 - c1, l2 - c1, l3 - c1", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"leaves are lost", short, "- s1 c1, - s1 c1, - s1 c1, - s1 c1, - s1 c1, - s2 c1", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"all but one are lost in part", short, "l1, , l1 s1, , l2 s1 c1, l3", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"one is wrong, and all others are lost", short, "l1 s2 c2, l1, l1, l1, l2, l3", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"a leaf is below another spine", short, "l1 s2 c1, l1 s2 c1, l1 s2 c1, l1 s2 c1, l2 s1 c1, l3 s2 c1", "s1(l2) s2(l1,l3) c1(s1,s2)"},
		{"as most of its nodes say", short, "l1 s2 c1, l1 s2 c1, l1 s2 c1, l1, l2 s1 c1, l3 s2 c1", "s1(l2) s2(l1,l3) c1(s1,s2)"},
		{"half of its nodes do not suffice", short, "l1 s0 c1, l1 s0 c1, l1, l1, l2 s1 c1, l3 s2 c1", "s1(l1,l2) s2(l3) c1(s1,s2)"},
		{"a spine is below another core", short, "l1 s1 c2, l1 s1 c2, l1 s1 c2, l1 s1 c2, l2 s1 c2, l3 s2 c1", "s1(l1,l2) s2(l3) c1(s2) c2(s1) fabric(c1,c2)"},
		{"a spine has another name", short, "l1 s9 c1, l1 s9 c1, l1 s9 c1, l1 s9 c1, l2 s9 c1, l3 s2 c1", "s2(l3) s9(l1,l2) c1(s2,s9)"},
		{"the spines are taken out", short, "l1 c1, l1 c1, l1 c1, l1 c1, l2 c1, l3 c1", "c1(l1,l2,l3)"},
		{"the site has one tier less", placement.Policy{Tiers: 2}, "l1 s1, l1 s1, l1 s1, l1 s1, l2 s1, l3 s2", "s1(l1,l2) s2(l3) fabric(s1,s2)"},
		{"the site has two tiers less, and all labels are lost", placement.Policy{Tiers: 1}, ", , , , , ", "fabric(l1,l2,l3)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := treeSite{policy: tt.policy, facts: read(tt.labels), published: old}
			for range 3 { // the same labels change nothing more
				site.published, _ = treeOf(t, &site)
				if diff := cmp.Diff(leaves+tt.want, text(site.published)); diff != "" {
					t.Fatalf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestRoots joins tops, and keeps separate fabrics apart.
func TestRoots(t *testing.T) {
	coreweave := topology.TierSource{Rank: 4, Name: "CoreWeave", Fabrics: true}
	joined := []topology.Switch{{Name: "l1", Nodes: []string{"a"}, Value: "l1"}, {Name: "l2", Nodes: []string{"b"}, Value: "l2"},
		{Name: "s1", Children: []string{"l1"}, Joined: true, Value: "s1"}, {Name: "s2", Children: []string{"l2"}, Joined: true, Value: "s2"}, {Name: "fabric", Children: []string{"s1", "s2"}}}
	apart := []topology.Switch{{Name: "l1", Nodes: []string{"a"}}, {Name: "l2", Nodes: []string{"b"}}, {Name: "s1", Children: []string{"l1"}}, {Name: "s2", Children: []string{"l2"}}}
	inFile := []topology.Switch{apart[0], apart[1], apart[2], apart[3], joined[4]}
	held := short
	held.Waits = allWait
	decision := placement.Decision{Kind: placement.RootsJoin, Subject: "fabric", From: "several root switches", To: "fabric"}
	four := []topology.Facts{node("a", "l1"), node("b", "l2"), node("c", "l3"), node("d", "l4")}
	twoInFile := []topology.Switch{{Name: "l1", Nodes: []string{"a"}}, {Name: "l2", Nodes: []string{"b"}}, {Name: "l3", Nodes: []string{"c"}}, {Name: "l4", Nodes: []string{"d"}},
		{Name: "fabric", Children: []string{"l1", "l3"}}, {Name: "fabric-2", Children: []string{"l2", "l4"}}}
	twoRoots := slices.Clone(twoInFile)
	for i := range 4 {
		twoRoots[i].Joined = true
	}
	assumed, leavesApart := []string{"RootAssumed"}, []string{"LeavesApart"}
	type facts = []topology.Facts
	two := facts{node("a", "l1 s1"), node("b", "l2 s2")}
	for _, tt := range []struct {
		name     string
		site     treeSite
		want     string
		problems []string
		says     string // in one of the findings
	}{
		{"one tier", treeSite{facts: facts{node("a", "l1"), node("b", "l2")}}, "l1=a l2=b fabric(l1,l2)", assumed, "no label joins l1, l2: switch fabric is put above them"},
		{"one switch", treeSite{facts: facts{node("a", "l1"), node("b", "l1")}}, "l1=a,b", nil, ""},
		{"the site names the root", treeSite{policy: placement.Policy{RootSwitch: "core"}, facts: two}, "l1=a l2=b s1(l1) s2(l2) core(s1,s2)", nil, ""},
		{"the site names the root of fabrics", treeSite{policy: placement.Policy{RootSwitch: "core"}, facts: by(coreweave, node("a", "l1 f1"), node("b", "l2 f2"))}, "l1=a l2=b f1(l1) f2(l2) core(f1,f2)", nil, ""},
		{"the site names a top", treeSite{policy: placement.Policy{RootSwitch: "s1"}, facts: two}, "l1=a l2=b s2(l2) s1(l1,s2)", nil, ""},
		{"a leaf has the root's name", treeSite{facts: facts{node("a", "fabric s1"), node("b", "l2 s2")}}, "fabric=a l2=b s1(fabric) s2(l2) fabric-2(s1,s2)", assumed, "rootSwitch: fabric-2"},
		{"a spine has the root's name", treeSite{facts: facts{node("a", "l1 fabric c1"), node("b", "l2 s2 c2")}}, "l1=a l2=b fabric(l1) s2(l2) c1(fabric) c2(s2) fabric-2(c1,c2)", assumed, ""},
		{"a top has the root's name", treeSite{facts: facts{node("a", "l1 fabric"), node("b", "l2 s2")}}, "l1=a l2=b s2(l2) fabric(l1,s2)", assumed, ""},
		{"labels name fabrics", treeSite{facts: by(coreweave, node("a", "l1 f1"), node("b", "l2 f2"))}, "l1=a l2=b f1(l1) f2(l2)", leavesApart, "no job of more than 1 nodes can run in the switch tree: no switch joins f1, f2, because labels of CoreWeave name the fabric of each"},
		{"a node without labels of the writer", treeSite{facts: by(coreweave, node("a", "l1 f1"), node("b", ""))}, "l1=a f1(l1)", nil, "no label of CoreWeave names the switches above it"},
		{"other products", treeSite{facts: facts{having("H100", node("a", "l1 s1")), having("L40S", node("b", "l2 s2")), node("c", "l3 s3")}}, "l1=a l2=b l3=c s1(l1) s2(l2) s3(l3) fabric(s1,s2,s3)", assumed,
			"so a job may use all of them, with GPUs of H100, L40S; set rootSwitch"},
		{"one product in three spellings", treeSite{facts: facts{having("NVIDIA H100 80GB HBM3", node("a", "l1 s1")), having("nvidia h100 80gb", node("b", "l2 s2")), having("H100", node("c", "l2 s2"))}},
			"l1=a l2=b,c s1(l1) s2(l2) fabric(s1,s2)", assumed, "s1, s2: switch fabric is put above them, so a job may use all of them; set rootSwitch"},
		{"held", treeSite{published: apart, facts: two, policy: held}, "l1=a l2=b s1(l1) s2(l2)", leavesApart, "approves the change (digest " + decision.Digest() + ")"},
		{"published, and all labels lost", treeSite{published: joined, facts: facts{node("a", ""), node("b", "")}}, "l1=a l2=b s1(l1) s2(l2) fabric(s1,s2)", assumed, ""},
		{"published, and a new top", treeSite{published: joined, facts: append(two[:2:2], node("c", "l3 s3"))}, "l1=a l2=b l3=c s1(l1) s2(l2) s3(l3) fabric(s1,s2,s3)", assumed, ""},
		{"published, and one top goes", treeSite{published: joined, facts: two[:1]}, "l1=a s1(l1) fabric(s1)", nil, ""},
		{"published, and other tops come", treeSite{published: joined, facts: facts{node("a", "l1 s3"), node("b", "l2 s4")}}, "l1=a l2=b s3(l1) s4(l2) fabric(s3,s4)", assumed, ""},
		{"published, and one other top comes", treeSite{published: joined, facts: facts{node("a", "l7 s7"), node("b", "l7 s7")}}, "l7=a,b s7(l7) fabric(s7)", nil, ""},
		{"published, and labels name a core", treeSite{published: joined, facts: facts{node("a", "l1 s1 c1"), node("b", "l2 s2 c1")}}, "l1=a l2=b s1(l1) s2(l2) c1(s1,s2)", nil, ""},
		{"published, and some labels name a core", treeSite{published: joined, facts: facts{node("a", "l1 s1 c1"), node("b", "l2 s2")}}, "l1=a l2=b s1(l1) s2(l2) c1(s1) fabric(c1,s2)", assumed, ""},
		{"published, and the name is another's now", treeSite{published: joined, facts: facts{node("a", "fabric s1"), node("b", "l2 s2")}}, "l2=b tier0-fabric=a s1(tier0-fabric) s2(l2) fabric(s1,s2)", assumed, ""},
		{"published in a file, and a new top", treeSite{published: inFile, facts: append(two[:2:2], node("c", "l3 s3"))}, "l1=a l2=b l3=c s1(l1) s2(l2) s3(l3) fabric(s1,s2,s3)", assumed, ""},
		{"published with two roots", treeSite{published: twoRoots, facts: four}, "l1=a l2=b l3=c l4=d fabric(l1,l2,l3,l4)", assumed, ""},
		{"published with two roots, and held", treeSite{published: twoRoots, facts: append(four[:4:4], node("e", "l5")), policy: held}, "l1=a l2=b l3=c l4=d l5=e fabric(l1,l3) fabric-2(l2,l4)",
			[]string{"LeavesApart", "RootAssumed", "RootAssumed"}, "no switch joins fabric, fabric-2, l5, because they stay apart until somebody approves"},
		{"published with two roots, one of them empty, and held", treeSite{published: twoRoots, facts: facts{four[0], four[2]}, policy: held}, "l1=a l2= l3=c l4= fabric(l1,l3) fabric-2(l2,l4)",
			[]string{"LeavesApart", "RootAssumed"}, "roots without nodes, above l2, l4: these leaves stay"},
		{"published in a file with two roots", treeSite{published: twoInFile, facts: four}, "l1=a l2=b l3=c l4=d fabric-2(l2,l4) fabric(fabric-2,l1,l3)", assumed, ""},
		{"published in a file with two roots, and held", treeSite{published: twoInFile, facts: four, policy: held}, "l1=a l2=b l3=c l4=d fabric(l1,l3) fabric-2(l2,l4)",
			[]string{"LeavesApart", "RootAssumed"}, ""},
		{"published in a file, and separate now", treeSite{published: inFile, policy: placement.Policy{SeparateFabrics: true}, facts: two}, "l1=a l2=b s1(l1) s2(l2)", leavesApart, ""},
		{"published in a file, and labels name it", treeSite{published: inFile, facts: facts{node("a", "l1 s1 fabric"), node("b", "l2 s2")}}, "l1=a l2=b s1(l1) s2(l2) fabric(s1,s2)", nil, ""},
		{"published, and separate now", treeSite{published: joined, policy: placement.Policy{SeparateFabrics: true}, facts: two}, "l1=a l2=b s1(l1) s2(l2)", leavesApart, "the key fabrics is separate"},
		{"published, and other root names", treeSite{published: joined, policy: placement.Policy{RootSwitch: "core"}, facts: two}, "l1=a l2=b s1(l1) s2(l2) fabric(s1,s2)", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switches, found := treeOf(t, &tt.site)
			if diff := cmp.Diff(tt.want, text(switches)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			messages := ""
			for _, f := range found {
				messages += f.Message + "\n"
			}
			if diff := cmp.Diff(tt.problems, reasonsOf(found, placement.ReasonNoSwitch)); diff != "" || !strings.Contains(messages, tt.says) {
				t.Errorf("findings (-want +got):\n%s%s", diff, messages)
			}
			again := tt.site
			again.published = switches
			more, _ := treeOf(t, &again)
			if diff := cmp.Diff(switches, more); diff != "" {
				t.Errorf("once more gives another tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUniqueNames has labels of a writer whose values are unique over the tiers.
func TestUniqueNames(t *testing.T) {
	type facts = []topology.Facts
	for _, tt := range []struct {
		name     string
		facts    facts
		want     string // of a writer with unique values
		own      string // of a site's own keys
		problems []string
	}{
		{"depths differ", facts{node("a", "l1 s1 core1"), node("c", "l9 core1")}, "l1=a l9=c s1(l1) core1(l9,s1)", "l1=a l9=c core1(l9) s1(l1) tier2-core1(s1) fabric(core1,tier2-core1)", nil},
		{"row 1 and hall 1", facts{node("a", "r1 1 1"), node("b", "r2 2 1")}, "r1=a r2=b 2(r2) 1(2,r1) tier2-1(1)", "r1=a r2=b 1(r1) 2(r2) tier2-1(1,2)", nil},
		{"a tier is missing", facts{node("d", "l3 - core1")}, "l3=d core1(l3)", "l3=d core1(l3)", nil},
		{"a tier is missing, and others name it", facts{node("a", "l3 s1 core1"), node("b", "l3 - core1"), node("c", "l3 - core1")}, "l3=a,b,c s1(l3) core1(s1)", "l3=a,b,c s1(l3) core1(s1)", nil},
		{"no leaf", facts{node("a", "l1 s1 core1"), node("d", "- s1 core1"), node("e", "- s1 core1")}, "l1=a s1-leaf=d,e s1(l1,s1-leaf) core1(s1)", "l1=a s1-leaf=d,e s1(l1,s1-leaf) core1(s1)", []string{"NoSwitch d", "NoSwitch e"}},
		{"a leaf and a spine of one name", facts{node("a", "x s1"), node("b", "l2 x")}, "l2=b x=a s1(x) tier1-x(l2) fabric(s1,tier1-x)", "l2=b x=a s1(x) tier1-x(l2) fabric(s1,tier1-x)", nil},
		{"equal tiers", facts{node("a", "l1 i i"), node("b", "l2 i i")}, "l1=a l2=b i(l1,l2) tier2-i(i)", "l1=a l2=b i(l1,l2) tier2-i(i)", nil},
		{"a loop", facts{node("a", "l1 s1 s2"), node("b", "l1 s1 s2"), node("c", "l2 s2 s1")}, "l1=a,b l2=c s1(l1) s2(l2,s1)", "l1=a,b l2=c s1(l1) s2(l2) tier2-s1(s2) tier2-s2(s1) fabric(tier2-s1,tier2-s2)", []string{"LabelConflict"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, source := range []topology.TierSource{{Rank: 3, Name: "Soperator", Unique: true}, {}} {
				site := treeSite{facts: by(source, tt.facts...)}
				for range 2 {
					switches, found := treeOf(t, &site)
					want := tt.own
					if source.Unique {
						want = tt.want
					}
					if diff := cmp.Diff(want, text(switches)); diff != "" {
						t.Errorf("%q (-want +got):\n%s", source.Name, diff)
					}
					if diff := cmp.Diff(tt.problems, reasonsOf(found, placement.ReasonRootAssumed)); diff != "" && source.Unique {
						t.Errorf("problems (-want +got):\n%s", diff)
					}
					site.published = switches
				}
			}
		})
	}
}
