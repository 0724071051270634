package picture

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// planned plans the site, lets the faults happen, and plans again on the first
// plan.
func planned(t testing.TB, c *simulated.Cluster, faults ...simulated.Fault) (*topology.Plan, []topology.Facts) {
	t.Helper()
	policy := placement.Policy{EmptyLeaves: true}
	facts := sites.Facts(c)
	new(fabric.Site).Judge(facts)
	first, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{}, policy)
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(simulated.Step{Do: faults})
	facts = sites.Facts(c)
	(&fabric.Site{Plan: first}).Judge(facts)
	plan, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{Plan: first}, policy)
	if err != nil {
		t.Fatal(err)
	}
	return plan, facts
}

const racks = `groups:
- {name: gb200, racks: %d, nodes: 18, node: "gb200-{node:05}", nvlink: rack, platform: true,
   tiers: ["leaf-{rack:03}", "spine-{rack/8}"], gpus: {count: 4, product: NVIDIA GB200}}
`

func trouble() []simulated.Fault {
	two, clique := 2, uint32(77)
	label := "N/A.N/A"
	return []simulated.Fault{
		{Node: "gb200-007", Fabric: "inProgress", Reboot: true},
		{Node: "gb200-020", GPU: &two, Health: "unhealthy"},
		{Node: "gb200-021", GPU: &two, Lost: true},
		{Node: "gb200-022", Fabric: "completed", Status: "ERROR_UNKNOWN"},
		{Node: "gb200-023", GPU: &two, Clique: &clique},
		{Node: "gb200-040", NoReport: true},
		{Node: "gb200-041", NoReport: true},
		{Node: "gb200-041", Label: &label},
		{Node: "gb200-055", Absent: true},
		{Node: "gb200-019", MoveTo: "gb200-055"},
	}
}

// faults is what happens to each of so many nodes.
func faults(n int, of func(i int) simulated.Fault) (out []simulated.Fault) {
	for i := range n {
		out = append(out, of(i))
	}
	return out
}

func TestTerminal(t *testing.T) {
	first, few := 0, 1
	name := func(i int) string { return fmt.Sprintf("gb200-%05d", i+1) }
	gone := faults(18, func(i int) simulated.Fault {
		return simulated.Fault{Node: fmt.Sprintf("gb200-%03d", i+1), Absent: true}
	})
	lost := faults(12, func(i int) simulated.Fault {
		return simulated.Fault{Node: fmt.Sprintf("gb200-%03d", i+1), GPU: &first, Lost: true}
	})
	oneOfEachRack := faults(50, func(i int) simulated.Fault { return simulated.Fault{Node: name(i * 18), Absent: true} })
	byLabels := append(faults(50*18, func(i int) simulated.Fault { return simulated.Fault{Node: name(i), NoReport: true} }),
		simulated.Fault{Node: name(6), Absent: true}, simulated.Fault{Node: name(399), Absent: true})
	tests := []struct {
		name   string
		site   *simulated.Cluster
		faults []simulated.Fault
		o      Options
	}{
		{"racks", sites.Open(t, "gb200-nvl72x4"), nil, Options{}},
		{"trouble", sites.Open(t, "gb200-nvl72x4"), trouble(), Options{}},
		{"trouble-color", sites.Open(t, "gb200-nvl72x4"), trouble(), Options{Color: true}},
		{"trouble-narrow", sites.Open(t, "gb200-nvl72x4"), trouble(), Options{Width: 60}},
		{"blocks-only", sites.Open(t, "gb200-nvl72x4"), trouble(), Options{BlocksOnly: true}},
		{"placeholder", sites.Open(t, "gb200-nvl72x4"), gone, Options{}},
		{"tree", sites.Open(t, "hgx-h100"), nil, Options{BlocksOnly: true}},
		{"mixed", sites.Open(t, "mixed"), nil, Options{}},
		{"many", sites.Parse(t, fmt.Sprintf(racks, 556)), []simulated.Fault{
			{Node: "gb200-00040", GPU: &few, Health: "unhealthy"},
			{Node: "gb200-05000", Fabric: "inProgress"},
			{Node: "gb200-10008", Absent: true}}, Options{}},
		{"names", sites.Parse(t, "groups:\n- {name: t, racks: 1, nodes: 12, node: \"t{node}\", nvlink: rack, gpus: {count: 4, product: NVIDIA GB200}}\n"), []simulated.Fault{{Node: "t2", NoReport: true}, {Node: "t10", GPU: &few, Health: "unhealthy"}}, Options{}},
		{"one", sites.Parse(t, "groups:\n- {name: t, racks: 1, nodes: 1, node: \"t{node}\", nvlink: rack, gpus: {count: 4, product: NVIDIA GB200}}\n"), nil, Options{}},
		{"many-labels", sites.Parse(t, fmt.Sprintf(racks, 50)), byLabels, Options{}},
		{"many-narrow", sites.Parse(t, fmt.Sprintf(racks, 50)), byLabels, Options{Width: 60}},
		{"odd", sites.Parse(t, fmt.Sprintf(racks, 50)), oneOfEachRack, Options{}},
		{"alike", sites.Open(t, "gb200-nvl72x4"), lost, Options{Width: 60}},
		{"irregular", sites.Parse(t, "groups:\n- {node: alpha, gpus: {count: 1, product: x}}\n- {node: beta-1, gpus: {count: 1, product: x}}\n- {node: beta-2-x}\n- {node: beta-09}\n- {node: beta-10}\n"), nil, Options{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			plan, facts := planned(t, tt.site, tt.faults...)
			var got bytes.Buffer
			tt.o.Problems = show.Lines(plan.Problems)
			if err := Terminal(&got, &Site{Plan: plan, Facts: facts}, tt.o); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", tt.name+".txt"), got.String())
			width := max(tt.o.Width, 60)
			if tt.o.Width == 0 {
				width = 100
			}
			for line := range strings.Lines(got.String()) {
				if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > width && !tt.o.Color {
					t.Errorf("%d columns, want %d at most: %s", n, width, line)
				}
			}
		})
	}
}

// TestKeptName has the name of a node without facts in a block: an empty place, not a healthy node.
func TestKeptName(t *testing.T) {
	plan := &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "nvl-a", Nodes: []string{"n1", "n2"}}}}},
		Nodes: []topology.Placement{{Node: "n1", SlurmName: "n1", Source: "nvml", Reason: placement.ReasonPlaced}}}
	facts := []topology.Facts{{Name: "n1", SlurmName: "n1", Report: &topology.Node{Name: "n1"}}}
	new(fabric.Site).Judge(facts)
	var got bytes.Buffer
	if err := Terminal(&got, &Site{Plan: plan, Facts: facts}, Options{}); err != nil {
		t.Fatal(err)
	}
	if want := "  nvl-a  ■·   2/2  n[1-2]\n"; !strings.Contains(got.String(), want) {
		t.Errorf("want %q in\n%s", want, got.String())
	}
}

type brokenPipe struct{ left int }

var errBroken = errors.New("broken pipe")

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	plan, facts := planned(t, sites.Open(t, "mixed"))
	for _, left := range []int{0, 100, 400} {
		if err := Terminal(&brokenPipe{left}, &Site{Plan: plan, Facts: facts}, Options{}); !errors.Is(err, errBroken) {
			t.Errorf("after %d bytes: got %v, want the writer's error", left, err)
		}
	}
}

func TestShortList(t *testing.T) {
	tests := []struct {
		name string
		in   []string
		room int
		want string
	}{
		{"none", nil, 80, ""},
		{"one", []string{"n1"}, 80, "n1"},
		{"unsorted", []string{"n3", "n1", "n2"}, 80, "n[1-3]"},
		{"no room", []string{"a1", "b1", "c1", "d1"}, 9, "a1 … +3"},
		{"less room than a name", []string{"a-very-long-name-1", "b"}, 10, "a-very-lo…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := shortList(tt.in, tt.room); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
