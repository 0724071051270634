package picture

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// talked is a site with something of each kind: two jobs, a drained node, one that is not ready
// for IMEX, and one that does not stand where it is published.
func talked(t testing.TB) *Site {
	t.Helper()
	plan, facts := planned(t, sites.Open(t, "gb200-nvl72x4"), simulated.Fault{Node: "gb200-030", Fabric: "completed", Status: "ERROR_UNKNOWN"})
	s := &Site{Plan: plan, Facts: facts, Said: map[string]Said{}, Asked: "2026-11-26T12:00:00Z"}
	ready, agrees := Verdict{Reason: "Ready", Message: "jobs across nodes may use IMEX here"}, Verdict{Reason: "Agrees", Message: "all agree"}
	for i := range plan.Nodes {
		s.Said[plan.Nodes[i].SlurmName] = Said{Slurm: "IDLE", Use: free, IMEX: ready, Drift: agrees, Fabric: Verdict{Reason: "Healthy"}}
	}
	change := func(name string, change func(*Said)) {
		says := s.Said[name]
		change(&says)
		s.Said[name] = says
	}
	s.Jobs = []Job{{ID: "17", Name: "\x1b]0;x\a", User: "ann", Nodes: plan.Blocks()[2].Nodes[:2], GPUs: map[string]string{plan.Blocks()[2].Nodes[0]: "0-3"}, Blocks: 1, Fewest: 1},
		{ID: "4711_3", User: "bob", Account: "physics", Nodes: append(append([]string{}, plan.Blocks()[0].Nodes[:16]...), plan.Blocks()[1].Nodes[:2]...), Segment: 18, Blocks: 2, Fewest: 1, Note: "2 blocks, 1 would be large enough; segment 18 got 16+2"}}
	for _, j := range s.Jobs {
		for _, n := range j.Nodes {
			change(n, func(s *Said) { s.Slurm, s.Use = "ALLOCATED", busy })
		}
	}
	for _, n := range []string{"gb200-040", "gb200-041", "gb200-050"} {
		change(n, func(s *Said) { s.Slurm, s.Use = "IDLE+DRAIN", unavailable })
	}
	change("gb200-051", func(s *Said) {
		s.IMEX = Verdict{true, "DaemonNotReady", "the daemon of the node is not ready since 10:04\x1b[2J: see kubectl logs, and look at the node's own log after that"}
	})
	change("gb200-052", func(s *Said) {
		s.Drift = Verdict{true, "ClusterDiffers", "NVML says clique 8, the label says 7"}
	})
	change("gb200-030", func(s *Said) { s.Fabric = Verdict{true, "FabricUnhealthy", "GPU 2: ERROR_UNKNOWN"} })
	return s
}

// TestSaid draws what is said of nodes, and jobs, as text.
func TestSaid(t *testing.T) {
	for name, width := range map[string]int{"said": 0, "said-narrow": 60} {
		var got bytes.Buffer
		s := talked(t)
		if err := Terminal(&got, s, Options{Width: width, Problems: show.Lines(s.Plan.Problems)}); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, filepath.Join("testdata", name+".txt"), got.String())
		for line := range strings.Lines(got.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > max(width, 60) && width > 0 || n > 100 || strings.ContainsAny(line, "\x1b\a") {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
}

// TestSaidMany bounds the lists of a site on which everything goes wrong.
func TestSaidMany(t *testing.T) {
	s := talked(t)
	for name, says := range s.Said {
		says.IMEX = Verdict{true, "DaemonNotReady", "the daemon of " + name + " is not ready"}
		s.Said[name] = says
		s.Jobs = append(s.Jobs, Job{ID: "9" + name, Nodes: []string{name}})
	}
	var got bytes.Buffer
	if err := Terminal(&got, s, Options{Width: 60}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"74 running jobs\n", "  and 54 more, each with fewer nodes or as many\n", "     72  DaemonNotReady  gb200-[001-072]\n         such as: the daemon of gb200-001 is not ready\n", "△"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("want %q in\n%s", want, got.String())
		}
	}
}

// TestXids: a node is degraded if a GPU of it needs a reset or a repair, and not for other Xids.
func TestXids(t *testing.T) {
	zero := 0
	plan, facts := planned(t, sites.Open(t, "gb200-nvl72x4"), simulated.Fault{Node: "gb200-001", GPU: &zero, Xid: 79}, simulated.Fault{Node: "gb200-002", GPU: &zero, Xid: 145},
		simulated.Fault{Node: "gb200-003", GPU: &zero, Xid: 31})
	states := statesOf(&Site{Plan: plan, Facts: facts}, plan.Places())
	for node, want := range map[string]state{"gb200-001": degraded, "gb200-002": healthy, "gb200-003": healthy} {
		if states[node] != want {
			t.Errorf("%s: %s, want %s", node, looks[states[node]].short, looks[want].short)
		}
	}
}

// TestDocument has all that is drawn.
func TestDocument(t *testing.T) {
	text, err := json.Marshal(DocumentOf(talked(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"gb200-051":"with warning"`, `"gb200-052":{"slurm":"IDLE","use":"free","imex":{"reason":"Ready","message":"jobs across nodes may use IMEX here"},"drift":{"wrong":true,"reason":"ClusterDiffers","message":"NVML says clique 8, the label says 7"}`,
		`"gpus":{"gb200-037":"0-3"}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the document lacks %s", want)
		}
	}
}

// TestUnreadFabricIsNotHealthy has trays whose GPUs say nothing of their fabric. A label places them, and an old
// condition says that all is well.
func TestUnreadFabricIsNotHealthy(t *testing.T) {
	label := topology.Labels{Clique: topology.Clique{ClusterUUID: topology.UUID{1}, ID: 7}}
	for product, want := range map[string]state{"NVIDIA GB200": kept, "NVIDIA H100 80GB HBM3": healthy} {
		facts := []topology.Facts{{Name: "n1", SlurmName: "n1", Labels: label, Report: &topology.Node{Name: "n1", GPUs: []topology.GPU{{Product: product}}}}}
		new(fabric.Site).Judge(facts)
		s := &Site{Plan: &topology.Plan{}, Facts: facts}
		for _, said := range []Verdict{{}, {Reason: topology.ReasonFabricHealthy}} {
			s.Said = map[string]Said{"n1": {Fabric: said}}
			if got := statesOf(s, s.Plan.Places())["n1"]; got != want {
				t.Errorf("%s, condition %q: %s, want %s", product, said.Reason, looks[got].short, looks[want].short)
			}
		}
	}
	s := &Site{Plan: &topology.Plan{}, Facts: []topology.Facts{{Name: "n1", SlurmName: "n1", Labels: label}}}
	if got := statesOf(s, s.Plan.Places())["n1"]; got != unreported {
		t.Errorf("a label alone: %s", looks[got].short)
	}
}
