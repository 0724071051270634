package picture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/sites"
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

// TestChanges compares two views: what is the same is not said again.
func TestChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Site)
		// parts, nodes, jobs and ended are what the changes have. whole needs another drawing.
		parts []string
		nodes []int
		jobs  []string
		ended []string
		whole bool
	}{
		{name: "nothing", change: func(*Site) {}},
		{name: "a node", change: func(s *Site) { s.Said["n2"] = Said{IMEX: Verdict{Wrong: true, Reason: "Odd"}} }, nodes: []int{1}},
		{name: "a node with a remedy", change: func(s *Site) { s.Said["n2"] = Said{Fabric: Verdict{Wrong: true, Reason: "FabricUnhealthy"}} }, nodes: []int{1}, parts: []string{"remedies"}},
		{name: "a job ends, and another starts", change: func(s *Site) { s.Jobs = []Job{{ID: "2", Nodes: []string{"n1"}}} }, jobs: []string{"2"}, ended: []string{"1"}},
		{name: "a job more", change: func(s *Site) { s.Jobs = append(s.Jobs, Job{ID: "2"}) }, jobs: []string{"2"}, parts: []string{"summary"}},
		{name: "Slurm is asked again", change: func(s *Site) { s.Asked = "2026-11-26T12:00:00Z" }, parts: []string{"asked"}},
		{name: "a change is held", change: func(s *Site) { s.Held = &Held{Holds: []Hold{{Reason: "BigChange"}}} }, parts: []string{"held", "remedies"}},
		{name: "a node moves", change: func(s *Site) { s.Plan.Topologies[0].Blocks[0].Nodes = []string{"n1"} }, whole: true},
		{name: "the switches are known from cables", change: func(s *Site) { s.Plan.Topologies[1].Source = "cables" }, whole: true},
		{name: "a node more", change: func(s *Site) {
			s.Plan.Nodes = append(s.Plan.Nodes, topology.Placement{SlurmName: "n3", Reason: "NoGPUs"})
		}, whole: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, next := small(), small()
			tt.change(next)
			was, is := viewOf(t, before), viewOf(t, next)
			text, err := is.Changes(was)
			if err != nil {
				t.Fatal(err)
			}
			if tt.whole {
				if text != nil || was.Layout == is.Layout {
					t.Errorf("the same drawing: %s", text)
				}
				return
			}
			var d document
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			got := [][]string{slices.Sorted(maps.Keys(d.Parts)), slices.Sorted(maps.Keys(d.Jobs)), d.Ended}
			if diff := cmp.Diff([][]string{tt.parts, tt.jobs, tt.ended}, got); diff != "" || !slices.Equal(slices.Sorted(maps.Keys(d.Nodes)), tt.nodes) {
				t.Errorf("nodes %v, and parts, jobs, ended (-want +got):\n%s", d.Nodes, diff)
			}
			if same := was.Version == is.Version; d.From != was.Version || d.Version != is.Version || same != (tt.name == "nothing") {
				t.Errorf("from %s to %s", d.From, d.Version)
			}
		})
	}
}

// TestViewJobs gives the nodes of jobs their numbers, and switches their path.
func TestViewJobs(t *testing.T) {
	v := viewOf(t, small())
	for got, want := range map[string]string{
		string(v.jobs["1"]):         `{"id":"1","nodes":[1],"gpus":["0-3"],"elsewhere":["n9"]}`,
		string(v.nodes[0]):          `{"name":"n1","block":"b1","switches":["leaf","spine"],"class":"missing","state":"no node","reason":"Placed","slurm":"IDLE","use":"free"}`,
		fmt.Sprint(v.draw.Switches): "[{spine 0 2} {leaf 1 2}]",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
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
		for _, g := range viewOf(t, &Site{Plan: plan, Facts: facts}).draw.Groups {
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

// TestLayout lets no two cells overlap, and none stand outside.
func TestLayout(t *testing.T) {
	for _, site := range []string{"mixed", "gb200-nvl72x4", "hgx-h100", "a100-mig"} {
		plan, facts := planned(t, sites.Open(t, site))
		v := viewOf(t, &Site{Plan: plan, Facts: facts})
		taken, cells := map[[2]int]string{}, 0
		for _, g := range v.draw.Groups {
			for _, r := range g.Racks {
				for _, c := range r.Cells {
					if c.At >= 0 {
						cells++
					}
					c.X, c.Y = r.X+c.X, r.Y+c.Y
					if other := taken[[2]int{c.X, c.Y}]; other != "" || c.X+v.draw.Cell.W > v.draw.Width || c.Y+v.draw.Cell.H > v.draw.Height {
						t.Errorf("%s: %s stands at %d,%d of %d,%d, and so does %q", site, c.Name, c.X, c.Y, v.draw.Width, v.draw.Height, other)
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
