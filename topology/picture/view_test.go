package picture

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// small is a site of one block with two nodes, and a job.
func small() *Site {
	both := []string{"n1", "n2"}
	return &Site{Publication: "slurm", Plan: &topology.Plan{
		Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "b1", Nodes: both}}},
			{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "leaf", Nodes: both}, {Name: "spine", Children: []string{"leaf"}}}}},
		Nodes: []topology.Placement{{Node: "n1", SlurmName: "n1", Reason: placement.ReasonPlaced}, {Node: "n2", SlurmName: "n2", Reason: placement.ReasonPlaced}}},
		Said: map[string]Said{"n1": {Slurm: "IDLE", Use: "free"}}, Jobs: []Job{{ID: "1", Nodes: []string{"n2", "n9"}, GPUs: map[string]string{"n2": "0-3"}}}}
}

func viewOf(t *testing.T, s *Site) *View {
	t.Helper()
	v, err := ViewOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// dataOf is what the page's script reads.
func dataOf(t *testing.T, v *View) (data pageData) {
	t.Helper()
	if err := json.Unmarshal(v.Data, &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestViewNames compares two views: a change changes the ETag, and the layout only if nodes or switches stand elsewhere.
func TestViewNames(t *testing.T) {
	for _, tt := range []struct {
		name            string
		change          func(*Site)
		changed, redraw bool
	}{
		{name: "nothing", change: func(*Site) {}},
		{name: "a node", change: func(s *Site) { s.Said["n2"] = Said{IMEX: Verdict{Wrong: true, Reason: "Odd"}} }, changed: true},
		{name: "a job ends, and another starts", change: func(s *Site) { s.Jobs = []Job{{ID: "2", Nodes: []string{"n1"}}} }, changed: true},
		{name: "Slurm is asked again", change: func(s *Site) { s.Asked = "2026-11-26T12:00:00Z" }, changed: true},
		{name: "Slurm does not answer", change: func(s *Site) { s.Trouble = []string{"away"} }, changed: true},
		{name: "a change is held", change: func(s *Site) { s.Held = &Held{Holds: []Hold{{Reason: "BigChange"}}} }, changed: true},
		{name: "a segment is free", change: func(s *Site) { s.Segments = []Segments{{Topology: "nvl", Size: 2, Now: 1}} }, changed: true},
		{name: "a problem", change: func(s *Site) { s.Plan.Problems = []topology.Finding{{Reason: "NoHostname"}} }, changed: true},
		{name: "a node moves", change: func(s *Site) { s.Plan.Topologies[0].Blocks[0].Nodes = []string{"n1"} }, changed: true, redraw: true},
		{name: "the switches are known from cables", change: func(s *Site) { s.Plan.Topologies[1].Source = "cables" }, changed: true, redraw: true},
		{name: "a node more", change: func(s *Site) {
			s.Plan.Nodes = append(s.Plan.Nodes, topology.Placement{SlurmName: "n3", Reason: "NoGPUs"})
		}, changed: true, redraw: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			old, next := small(), small()
			tt.change(next)
			before, now := viewOf(t, old), viewOf(t, next)
			if changed := before.ETag != now.ETag; changed != tt.changed {
				t.Errorf("from %s to %s, want another: %t", before.ETag, now.ETag, tt.changed)
			}
			if redraw := dataOf(t, before).Layout != dataOf(t, now).Layout; redraw != tt.redraw {
				t.Errorf("another layout: %t, want %t", redraw, tt.redraw)
			}
		})
	}
}

// TestView gives the nodes of jobs their numbers, and switches their path.
func TestView(t *testing.T) {
	v := viewOf(t, small())
	data := dataOf(t, v)
	if diff := cmp.Diff(job{Job: Job{ID: "1"}, Nodes: []int{1}, GPUs: []string{"0-3"}, Elsewhere: []string{"n9"}}, data.Jobs["1"]); diff != "" {
		t.Errorf("the job (-want +got):\n%s", diff)
	}
	want := node{Name: "n1", Block: "b1", Switches: []string{"leaf", "spine"}, Class: "missing", State: "no node", Reason: "Placed", Slurm: "IDLE", Use: "free"}
	if diff := cmp.Diff(want, data.Nodes[0]); diff != "" {
		t.Errorf("the node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]branch{{"spine", 0, 2}, {"leaf", 1, 2}}, v.Switches); diff != "" {
		t.Errorf("switches (-want +got):\n%s", diff)
	}
}

// TestColumns puts the nodes of a block with two chassis into two columns, by tray.
func TestColumns(t *testing.T) {
	var facts []topology.Facts
	node := func(name, chassis string, tray int) {
		facts = append(facts, topology.Facts{SlurmName: name, Report: &topology.Node{Platform: &topology.Platform{ChassisSerial: chassis, Tray: tray}}})
	}
	node("a1", "A", 0)
	node("a2", "A", 2)
	node("b1", "B", 1)
	node("b2", "B", 0)
	node("c1", "C", 0)
	new(fabric.Site).Judge(facts)
	d := newDrawer(&strings.Builder{}, &Site{Plan: &topology.Plan{}, Facts: facts}, Options{})
	for _, tt := range []struct {
		name  string
		nodes []string
		base  int
		want  [][]string
	}{
		{"two chassis", []string{"a1", "a2", "b1", "b2"}, 6, [][]string{{"a1", "", "a2"}, {"b2", "b1", ""}}},
		{"one chassis", []string{"a1", "a2"}, 3, [][]string{{"a1", "", "a2"}}},
		{"each node has its own", []string{"a1", "b1", "c1"}, 3, [][]string{{"a1", "b1", "c1"}}},
		{"one says nothing", []string{"a1", "a2", "b1", "b2", "x"}, 5, [][]string{{"a1", "a2", "b1", "b2", "x"}}},
		{"a placeholder", nil, 2, [][]string{{"", ""}}},
	} {
		if diff := cmp.Diff(tt.want, d.columns(tt.nodes, tt.base)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	long := make([]string, 100)
	if got := inColumns(long); len(got) != 3 || len(got[0]) != 34 {
		t.Errorf("100 nodes stand in %d columns of %d", len(got), len(got[0]))
	}
}

// TestRackText says how many nodes a rack has, of how many, and which switches are above it.
func TestRackText(t *testing.T) {
	for nodes, want := range map[int]string{0: "0 of 2 nodes", 1: "1 of 2 nodes", 2: "2 of 2 nodes", 18: "18 nodes, base 2"} {
		if got := shareOf(nodes, 2); got != want {
			t.Errorf("%d: %q, want %q", nodes, got, want)
		}
	}
	if got := share(18, 2) + share(1, 2); got != " 18, base 2  1/2" {
		t.Errorf("in a terminal: %q", got)
	}
	for site, want := range map[string][]string{
		"hgx-h100":      {"Leaf switches below spine-1, below fabric", "Leaf switches below spine-2, below fabric"},
		"gb200-nvl72x4": {"leaf-02 · spine-1", "leaf-04 · spine-1", "leaf-03 · spine-1", "leaf-01 · spine-1"},
	} {
		plan, facts := planned(t, sites.Open(t, site))
		var got []string
		for _, g := range viewOf(t, &Site{Plan: plan, Facts: facts}).Groups {
			if len(plan.Blocks()) == 0 {
				got = append(got, g.Title)
				continue
			}
			for _, r := range g.Racks {
				got = append(got, r.Under)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", site, diff)
		}
	}
}

// TestLayout lets no two cells of a rack overlap, and none stand outside.
func TestLayout(t *testing.T) {
	for _, site := range []string{"mixed", "gb200-nvl72x4", "hgx-h100", "a100-mig"} {
		plan, facts := planned(t, sites.Open(t, site))
		cells := 0
		for _, g := range viewOf(t, &Site{Plan: plan, Facts: facts}).Groups {
			for _, r := range g.Racks {
				taken := map[[2]int]string{}
				for _, c := range r.Cells {
					if c.At >= 0 {
						cells++
					}
					if other := taken[[2]int{c.X, c.Y}]; other != "" || c.X+r.Cell.W > r.Width || c.Y+r.Cell.H > r.Height {
						t.Errorf("%s: %s stands at %d,%d of %d,%d, and so does %q", site, c.Name, c.X, c.Y, r.Width, r.Height, other)
					}
					taken[[2]int{c.X, c.Y}] = c.Name + "."
				}
			}
		}
		if cells != len(plan.Nodes) {
			t.Errorf("%s: %d cells for %d nodes", site, cells, len(plan.Nodes))
		}
	}
}
