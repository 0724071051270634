package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/testdata/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// rectsOf counts the cells of a drawing by class, and says whether the text is well-formed.
func rectsOf(t *testing.T, text []byte) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if e, is := token.(xml.StartElement); is && e.Name.Local == "rect" {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					counts[a.Value]++
				}
			}
		}
	}
}

// TestSVG draws four racks with trouble: a cell for each place of each block.
func TestSVG(t *testing.T) {
	plan, facts := planned(t, sites.Parse(t, fmt.Sprintf(strings.ReplaceAll(racks, "05}", "03}"), 4)+`- {name: cpu, racks: 1, nodes: 2, node: "cpu-{node}", gpus: {count: 0}}
`), trouble()...)
	var svg, page bytes.Buffer
	if err := errors.Join(SVG(&svg, &Site{Plan: plan, Facts: facts}), HTML(&page, &Site{Plan: plan, Facts: facts})); err != nil {
		t.Fatal(err)
	}
	got := rectsOf(t, svg.Bytes())
	places, placed := 0, 0
	for _, b := range plan.Blocks() {
		places += max(plan.BaseBlockSize(), len(b.Nodes))
		placed += len(b.Nodes)
	}
	if got["missing"] != places-placed+1 || // one is below the drawing, with the other colours
		got["n healthy"]+got["n degraded"]+got["n waiting"]+got["n without-report"]+got["n without-GPU"] != len(plan.Nodes) || got["n without-GPU"] != 2 || got["n degraded"] == 0 || got["n waiting"] == 0 {
		t.Errorf("%d places, %d of %d nodes in blocks, cells %v", places, placed, len(plan.Nodes), got)
	}
	for _, want := range []string{fmt.Sprintf("<li>%d nodes</li>", len(plan.Nodes)), `"name":"gb200-021"`, `"apart":[{"reason":"NoGPUs"`, ">In no block and below no switch, by reason</h2>", `http-equiv="Content-Security-Policy"`} {
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
	var page, svg bytes.Buffer
	facts := []topology.Facts{{SlurmName: "n1", Report: report}}
	new(fabric.Site).Judge(facts)
	if err := errors.Join(HTML(&page, &Site{Plan: plan, Facts: facts}), SVG(&svg, &Site{Plan: plan, Facts: facts})); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "<script>"); n != 1 {
		t.Errorf("%d scripts:\n%s", n, page.String())
	}
	rectsOf(t, svg.Bytes())
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

// BenchmarkPage10008 writes the page of 556 racks.
func BenchmarkPage10008(b *testing.B) {
	plan, facts := planned(b, sites.Parse(b, fmt.Sprintf(racks, 556)))
	b.ReportAllocs()
	for b.Loop() {
		var page bytes.Buffer
		if err := HTML(&page, &Site{Plan: plan, Facts: facts}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(page.Len()), "B/page")
	}
}
