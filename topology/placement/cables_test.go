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

// cabled is a policy of a site that has its cables read.
var cabled = placement.Policy{EmptyLeaves: true, Cables: true}

// byCables moves the switches of all labels to the cables.
func byCables(source topology.TierSource, facts []topology.Facts) []topology.Facts {
	for i := range facts {
		facts[i].Cables.SourceTiers = topology.SourceTiers{TierSource: source, Tiers: facts[i].Labels.Tiers}
		facts[i].Labels.Tiers = nil
	}
	return facts
}

// labelled gives eight nodes the labels of a writer, four for each leaf.
func labelled(facts []topology.Facts) []topology.Facts {
	for i := range facts {
		facts[i].Labels.Tiers, facts[i].Labels.TierSource = []string{fmt.Sprint("rack-", i/4), "core"}, topology.TierSource{Rank: 1, Name: "Topograph", Unique: true}
	}
	return facts
}

// eight are eight nodes below two leaves by their cables.
func eight() []topology.Facts {
	return byCables(topology.SourceCables, leaves([]string{"ib-top"}, []string{"ib-top"}))
}

// saidOf returns what the problems with a reason say, each with its node if it has one.
func saidOf(p *topology.Plan, reason string) (out []string) {
	for _, pr := range p.Problems {
		if pr.Reason == reason {
			out = append(out, strings.TrimPrefix(pr.Node+": ", ": ")+pr.Message)
		}
	}
	return out
}

func TestCablesGoBeforeLabels(t *testing.T) {
	facts := labelled(eight())
	facts[1].Labels.Tiers = []string{"rack-1", "core"}             // by its cables it is below the first leaf
	facts[7].Cables = topology.Cables{Missing: "no text names it"} // and has a label
	plan := mustPlan(t, facts, nil, cabled)
	if diff := cmp.Diff("leaf-1=n11,n12,n13,n14 leaf-2=n21,n22,n23 ib-top(leaf-1,leaf-2)", text(plan.Switches())); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
	if got := plan.SwitchSource(); got != "cables" {
		t.Errorf("source %q", got)
	}
	if diff := cmp.Diff([]string{"2 of 3 labels of Topograph differ from the cables: rack-1 is on 1 of 4 nodes below switch leaf-1 (n12 for example) and on 3 others; the cables are followed"}, saidOf(plan, placement.ReasonCablesDiffer)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n24: no text names it; the node is below no switch; labels of Topograph are not used, because the tree is made from one source"}, saidOf(plan, placement.ReasonCablesMissing)); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	t.Run("a label further up", func(t *testing.T) {
		facts := byCables(topology.SourceCables, leaves([]string{"ib-a", "ib-top"}, []string{"ib-a", "ib-top"}, []string{"ib-b", "ib-top"}, []string{"ib-b", "ib-top"}))
		for i := range facts {
			facts[i].Labels.TierSource = topology.TierSource{Rank: 1, Name: "Topograph", Unique: true}
			facts[i].Labels.Tiers = []string{fmt.Sprint("rack-", i/4), fmt.Sprint("spine-", i/12), "core"} // three racks and one
		}
		if diff := cmp.Diff([]string{"1 of 7 labels of Topograph differ from the cables: spine-0 is on 4 of 8 nodes below switch ib-b (n31 for example) and on 8 others; the cables are followed"},
			saidOf(mustPlan(t, facts, nil, cabled), placement.ReasonCablesDiffer)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for i := range facts {
			facts[i].Labels.Tiers = []string{fmt.Sprint("rack-", i/4), fmt.Sprint("spine-", i/8), fmt.Sprint("pod-", i/16), "core"} // one tier more
		}
		if got := saidOf(mustPlan(t, facts, nil, cabled), placement.ReasonCablesDiffer); got != nil {
			t.Errorf("%q", got)
		}
	})
	for name, tt := range map[string]struct {
		below int // nodes of one label
		want  string
	}{
		"a label of two leaves": {8, "1 of 2 labels of Topograph differ from the cables: rack-0 is on 4 of 4 nodes below switch leaf-1 (n11 for example) and on 4 others; the cables are followed"},
		"two labels of a leaf":  {2, "4 of 5 labels of Topograph differ from the cables: rack-0 is on 2 of 4 nodes below switch leaf-1 (n11 for example) and on 0 others; the cables are followed"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := labelled(eight())
			for i := range facts {
				facts[i].Labels.Tiers[0] = fmt.Sprint("rack-", i/tt.below)
			}
			if diff := cmp.Diff([]string{tt.want}, saidOf(mustPlan(t, facts, nil, cabled), placement.ReasonCablesDiffer)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("labels under other names agree", func(t *testing.T) {
		if got := saidOf(mustPlan(t, labelled(eight()), nil, cabled), placement.ReasonCablesDiffer); got != nil {
			t.Errorf("%q", got)
		}
	})
}

// TestCablesUnread takes the cables from a published site that has labels too.
func TestCablesUnread(t *testing.T) {
	old := mustPlan(t, labelled(eight()), nil, cabled)
	unread := labelled(eight())
	for i := range unread {
		unread[i].Cables = topology.Cables{}
	}
	current := mustPlan(t, unread, previous(old), cabled)
	if diff := cmp.Diff(old.Topologies, current.Topologies); diff != "" {
		t.Errorf("the tree follows labels while the cables can't be read (-old +new):\n%s", diff)
	}
	if got := saidOf(current, placement.ReasonCablesMissing); got != nil {
		t.Errorf("what the site's finding says is said of each node: %q", got)
	}
	t.Run("one node", func(t *testing.T) {
		facts := labelled(eight())
		facts[7].Cables = topology.Cables{Missing: "no text names it"}
		current := mustPlan(t, facts, previous(old), cabled)
		if diff := cmp.Diff(text(old.Switches()), text(current.Switches())); diff != "" {
			t.Errorf("(-old +new):\n%s", diff)
		}
		if got := saidOf(current, placement.ReasonCablesMissing); len(got) != 1 || !strings.Contains(got[0], "no text names it; the node stays below its published switch") {
			t.Errorf("%q", got)
		}
	})
	t.Run("the site has no cables read any more", func(t *testing.T) {
		current := mustPlan(t, unread, previous(old), short)
		if got := text(current.Switches()); !strings.HasPrefix(got, "leaf-1= ") || !strings.Contains(got, "rack-0=n") || current.SwitchSource() != "" {
			t.Errorf("labels are not followed: %q by %q", got, current.SwitchSource())
		}
	})
	t.Run("read, and of none of the nodes", func(t *testing.T) {
		facts := labelled(eight())
		for i := range facts {
			facts[i].Cables = topology.Cables{Missing: "no adapter of the node is known"}
		}
		plan := mustPlan(t, facts, nil, cabled)
		if got := text(plan.Switches()); !strings.HasPrefix(got, "rack-0=n") {
			t.Errorf("labels are not followed: %q", got)
		}
		if diff := cmp.Diff([]string{"cables were read, and none of 8 nodes has a switch by them; the first is node n11: no adapter of the node is known"}, saidOf(plan, placement.ReasonCablesMissing)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("none was ever read", func(t *testing.T) {
		if got := text(mustPlan(t, unread, nil, cabled).Switches()); !strings.HasPrefix(got, "rack-0=n") {
			t.Errorf("labels are not followed: %q", got)
		}
	})
}

func TestCablesOfSeparateFabrics(t *testing.T) {
	facts := byCables(topology.SourceCables, leaves([]string{"ib-a"}, []string{"ib-a"}, []string{"ib-b"}, []string{"ib-b"}))
	plan := mustPlan(t, facts, nil, cabled)
	if diff := cmp.Diff([]string{"no job of more than 8 nodes can run in the switch tree: no switch joins ib-a, ib-b, because no cable joins them"}, saidOf(plan, placement.ReasonLeavesApart)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Run("the text of one fabric is not there", func(t *testing.T) {
		for i := range facts[8:] {
			facts[8+i].Cables = topology.Cables{Missing: "no text names it"}
		}
		current := mustPlan(t, facts, previous(plan), cabled)
		if diff := cmp.Diff(strings.Fields(text(plan.Switches()))[:4], strings.Fields(text(current.Switches()))[:4]); diff != "" {
			t.Errorf("leaves (-old +new):\n%s", diff)
		}
	})
}

// TestLLDP has leaves by LLDP, which go after labels.
func TestLLDP(t *testing.T) {
	alone := mustPlan(t, byCables(topology.SourceLLDP, leaves(nil, nil)), nil, short)
	if got := text(alone.Switches()); len(strings.Fields(got)) != 3 || alone.SwitchSource() != "LLDP" {
		t.Errorf("%q by %q", got, alone.SwitchSource())
	}
	if got := saidOf(alone, placement.ReasonRootAssumed); len(got) != 1 {
		t.Errorf("LLDP does not show whether leaves are joined: %q", got)
	}
	beside := mustPlan(t, labelled(byCables(topology.SourceLLDP, leaves(nil, nil))), nil, short)
	if got := text(beside.Switches()); !strings.HasPrefix(got, "rack-0=n") || beside.SwitchSource() != "" {
		t.Errorf("%q by %q", got, beside.SwitchSource())
	}
}

// TestLLDPBesideCables has a leaf by LLDP beside fabrics by cables. Nobody knows whether the leaf is in one of
// these.
func TestLLDPBesideCables(t *testing.T) {
	said := func(above ...[]string) []string {
		facts := byCables(topology.SourceCables, leaves(append(above, nil)...))
		for i := range facts[4*len(above):] {
			facts[4*len(above)+i].Cables.ByLLDP = true
		}
		plan := mustPlan(t, facts, nil, cabled)
		return slices.Concat(saidOf(plan, placement.ReasonRootAssumed), saidOf(plan, placement.ReasonLeavesApart))
	}
	if got := said([]string{"ib-a"}, []string{"ib-a"}); len(got) != 1 || !strings.Contains(got[0], "joins ib-a, leaf-3: switch fabric is put above them") {
		t.Errorf("one fabric: %q", got)
	}
	want := []string{"no job of more than 4 nodes can run in the switch tree: no switch joins ib-a, ib-b, leaf-3, because no cable joins them, as far as is known"}
	if diff := cmp.Diff(want, said([]string{"ib-a"}, []string{"ib-b"})); diff != "" {
		t.Errorf("two fabrics (-want +got):\n%s", diff)
	}
}

// TestCablesOnly: a node that only the text of a fabric names has its place in the tree, and whether it has
// GPUs is not known. A node of the site without a GPU is not in the tree, whatever its cables say.
func TestCablesOnly(t *testing.T) {
	on := func(name string, only bool, cables topology.Cables) topology.Facts {
		return topology.Facts{Name: name, SlurmName: name, CablesOnly: only, Cables: cables}
	}
	leaf := topology.Cables{SourceTiers: topology.SourceTiers{TierSource: topology.SourceCables, Tiers: []string{"leaf-1", "ib-top"}}}
	plan := mustPlan(t, []topology.Facts{on("h1", true, leaf), on("h2", true, leaf), on("h3", true, topology.Cables{Missing: "no cable"}), on("login", false, leaf)}, nil, cabled)
	if diff := cmp.Diff("leaf-1=h1,h2 ib-top(leaf-1)", text(plan.Switches())); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
	reasons := map[string]string{}
	for _, n := range plan.Nodes {
		reasons[n.Node] = n.Reason
	}
	if diff := cmp.Diff(map[string]string{"h1": placement.ReasonPlaced, "h2": placement.ReasonPlaced, "h3": placement.ReasonNoFacts, "login": placement.ReasonNoGPUs}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"h3: no cable; the node is below no switch"}, saidOf(plan, placement.ReasonCablesMissing)); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}
