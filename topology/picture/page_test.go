package picture

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// TestPage draws four racks with trouble: a cell for each place of each block.
func TestPage(t *testing.T) {
	plan, facts := planned(t, sites.Parse(t, fmt.Sprintf(strings.ReplaceAll(racks, "05}", "03}"), 4)+`- {name: cpu, racks: 1, nodes: 2, node: "cpu-{node}", gpus: {count: 0}}
`), trouble()...)
	var page bytes.Buffer
	if err := HTML(&page, &Site{Plan: plan, Facts: facts}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, rect := range regexp.MustCompile(`<rect class="([^"]+)"`).FindAllStringSubmatch(page.String(), -1) {
		got[rect[1]]++
	}
	places, placed := 0, 0
	for _, b := range plan.Blocks() {
		places += max(plan.BaseBlockSize(), len(b.Nodes))
		placed += len(b.Nodes)
	}
	if got["missing"] != places-placed+1 || // one is in the legend
		got["n healthy"]+got["n degraded"]+got["n waiting"]+got["n without-report"]+got["n without-GPU"] != len(plan.Nodes) || got["n without-GPU"] != 2 || got["n degraded"] == 0 || got["n waiting"] == 0 {
		t.Errorf("%d places, %d of %d nodes in blocks, cells %v", places, placed, len(plan.Nodes), got)
	}
	for _, want := range []string{fmt.Sprintf("<li>%d nodes</li>", len(plan.Nodes)), `"name":"gb200-021"`, `"apart":[{"reason":"NoGPUs"`, `"FabricUnhealthy":"look at`, ">In no block and below no switch, by reason</h2>", `http-equiv="Content-Security-Policy"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// The page asks nobody for anything.
	text := strings.NewReplacer(`"http://www.w3.org/2000/svg"`, "", "url(#hatch)", "", "url(#warn)", "", `<link rel="icon" href="data:,">`, "").Replace(page.String())
	for _, word := range []string{"http:", "https:", "url(", "@import", "<link", "src="} {
		if strings.Contains(text, word) {
			t.Errorf("the page has %q", word)
		}
	}
}

// TestPageEscapes shows what a broken or stolen machine says as text.
func TestPageEscapes(t *testing.T) {
	const bad = `</script><script>alert(1)</script>"'&`
	plan := &topology.Plan{Nodes: []topology.Placement{{SlurmName: "n1", Node: bad, Reason: "Placed", Message: bad}, {SlurmName: "n2", Reason: bad}},
		Topologies: []topology.Topology{{Name: "nvl", Kind: "block", Sizes: []int{2}, Blocks: []topology.Block{{Name: "b1", Nodes: []string{"n1"}}}}}, Problems: []topology.Finding{{Subject: topology.Subject{Node: "n1"}, Reason: "X", Message: bad}}}
	report := &topology.Node{Name: "n1", GPUs: []topology.GPU{{Product: bad}}, Platform: &topology.Platform{ChassisSerial: bad}, Problems: []topology.Finding{{Reason: "Y", Message: bad}}}
	var page bytes.Buffer
	facts := []topology.Facts{{SlurmName: "n1", Report: report}}
	new(fabric.Site).Judge(facts)
	if err := HTML(&page, &Site{Plan: plan, Facts: facts}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "<script>"); n != 1 {
		t.Errorf("%d scripts:\n%s", n, page.String())
	}
}

// TestPageOfNothing is a page for an empty cluster too.
func TestPageOfNothing(t *testing.T) {
	var page bytes.Buffer
	if err := HTML(&page, &Site{Plan: &topology.Plan{}}); err != nil || !strings.Contains(page.String(), "There is no block.") || !strings.Contains(page.String(), "0 nodes") {
		t.Errorf("%v\n%s", err, page.String())
	}
	if err := HTML(&brokenPipe{left: 100}, &Site{Plan: &topology.Plan{}}); err == nil {
		t.Error("a broken pipe is no error")
	}
}
