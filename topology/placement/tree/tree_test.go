package tree_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement/tree"
)

// node returns the facts of a node that names switches, written "leaf spine".
func node(name, tiers string) *topology.Facts {
	return &topology.Facts{Name: name, SlurmName: name, Labels: topology.Labels{Tiers: strings.Fields(tiers)}}
}

// pair is a published spine with two leaves of one node each.
var pair = []topology.Switch{{Name: "l1", Nodes: []string{"a"}}, {Name: "l2", Nodes: []string{"b"}}, {Name: "s1", Children: []string{"l1", "l2"}}}

func TestMake(t *testing.T) {
	tests := []struct {
		name string
		site tree.Site
		want string
		// problems are their reasons and nodes.
		problems []string
	}{
		{"nothing is named or published", tree.Site{Facts: []*topology.Facts{node("a", "")}}, "", nil},
		{"two roots stay apart", tree.Site{Facts: []*topology.Facts{node("a", "l1 s1"), node("b", "l2 s2")}}, "l1=a l2=b s1(l1) s2(l2)", nil},
		{"one value for a leaf and a spine", tree.Site{Facts: []*topology.Facts{node("a", "x x")}}, "x=a tier1-x(x)", nil},
		{"all labels lost", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", ""), node("b", "")}}, "l1=a l2=b s1(l1,l2)", nil},
		{"the spine's label lost", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l1"), node("b", "l2")}}, "l1=a l2=b s1(l1,l2)", nil},
		{"a node moves", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l2=a,b s1(l2)", nil},
		{"a node moves from a leaf in use", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}, InUse: func(leaf string) bool { return leaf == "l1" }},
			"l1= l2=a,b s1(l1,l2)", nil},
		{"a node moves and its leaf stays", tree.Site{EmptyLeaves: true, Published: pair, Facts: []*topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l1= l2=a,b s1(l1,l2)", nil},
		{"a leaf that is forgotten", tree.Site{EmptyLeaves: true, Forget: []string{"l1"}, Published: pair, Facts: []*topology.Facts{node("a", "l2 s1"), node("b", "l2 s1")}}, "l2=a,b s1(l2)", nil},
		{"switches that are forgotten and stay", tree.Site{EmptyLeaves: true, Forget: []string{"l1", "s1", "l9"}, Published: pair, Facts: []*topology.Facts{node("a", "l1 s1")}}, "l1=a l2= s1(l1,l2)",
			[]string{"ForgottenSwitchInUse ", "ForgottenSwitchInUse "}},
		{"the empty leaves of other switches", tree.Site{EmptyLeaves: true, Published: pair, Facts: []*topology.Facts{node("a", "m1 t1"), node("b", "m1 t1")}}, "l1= l2= m1=a,b s1(l1,l2) t1(m1)", nil},
		{"leaves become spines", tree.Site{EmptyLeaves: true, Published: pair, Facts: []*topology.Facts{node("a", "r1 l1"), node("b", "r2 l2")}}, "r1=a r2=b l1(r1) l2(r2)", nil},
		{"spines become leaves", tree.Site{EmptyLeaves: true, Published: pair, Facts: []*topology.Facts{node("a", "s1"), node("b", "s1")}}, "s1=a,b", nil},
		{"a leaf moves", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l1 s2"), node("b", "l2 s1")}}, "l1=a l2=b s1(l2) s2(l1)", nil},
		{"the site has one tier", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l1"), node("b", "l2")}, Tiers: 1}, "l1=a l2=b", nil},
		{"a tier is put below the leaves", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "r1 l1"), node("b", "r2 l2")}}, "r1=a r2=b l1(r1) l2(r2)", nil},
		{"the published parent wins a tie", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l1 s1"), node("c", "l1 s0")}}, "l1=a,c s1(l1)", []string{"TierConflict "}},
		{"most nodes win", tree.Site{Published: pair, Facts: []*topology.Facts{node("a", "l1 s1"), node("c", "l1 s0"), node("d", "l1 s0")}}, "l1=a,c,d s0(l1)", []string{"TierConflict "}},
		{"a node without a label", tree.Site{Facts: []*topology.Facts{node("a", "l1"), node("b", "")}}, "l1=a", []string{"TierLabelsMissing b"}},
		{"a loop in an edited file", tree.Site{Published: []topology.Switch{{Name: "l", Nodes: []string{"a"}}, {Name: "s", Children: []string{"l", "t"}}, {Name: "t", Children: []string{"s"}}},
			Facts: []*topology.Facts{node("a", "l z")}}, "l=a z(l)", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.site.HasGPUs = func(int) bool { return true }
			if tt.site.InUse == nil {
				tt.site.InUse = func(string) bool { return false }
			}
			got, found := tree.Make(&tt.site)
			var problems []string
			for _, p := range found {
				problems = append(problems, p.Reason+" "+p.Node)
			}
			if diff := cmp.Diff(tt.want, text(got.Switches)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			for _, s := range got.Switches {
				for i, f := range tt.site.Facts {
					if below := strings.Contains(","+strings.Join(s.Nodes, ",")+",", ","+f.SlurmName+","); below != (got.Leaf(i) == s.Name) {
						t.Errorf("the leaf of %s is %q, the tree has %+v", f.Name, got.Leaf(i), s)
					}
				}
			}
		})
	}
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

// TestMakeFromOneSource makes the tree from one of two sources of labels.
func TestMakeFromOneSource(t *testing.T) {
	cloud, site := topology.TierSource{Rank: 1, Name: "cloud"}, topology.TierSource{Rank: 2, Name: "site"}
	only := func(name string, source topology.TierSource, leaf string) *topology.Facts {
		f := node(name, leaf)
		f.Labels.TierSource = source
		return f
	}
	both := func(name, first, second string) *topology.Facts {
		f := only(name, cloud, first)
		f.Labels.MoreTiers = []topology.SourceTiers{{TierSource: site, Tiers: []string{second}}}
		return f
	}
	tests := []struct {
		name      string
		facts     []*topology.Facts
		published []topology.Switch
		want      string
	}{
		{"by rank", []*topology.Facts{both("a", "c1", "s1"), both("b", "c1", "s1")}, nil, "c1=a,b"},
		{"by what most nodes carry", []*topology.Facts{both("a", "c1", "s1"), only("b", site, "s1"), only("c", site, "s2")}, nil, "s1=a,b s2=c"},
		{"by what is published", []*topology.Facts{both("a", "c1", "s1"), both("b", "c1", "s1")}, []topology.Switch{{Name: "s1", Nodes: []string{"a", "b"}}}, "s1=a,b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := tree.Make(&tree.Site{Facts: tt.facts, Published: tt.published, HasGPUs: func(int) bool { return true }, InUse: func(string) bool { return false }})
			if diff := cmp.Diff(tt.want, text(got.Switches)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
