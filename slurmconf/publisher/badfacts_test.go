package publisher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// badNode is the node with a bad fact.
const badNode = "gb200-005"

// reports has a node send its report after a change, as a store reads it.
func reports(t *testing.T, change func(*topology.Node)) func(*inputs.Snapshot) {
	return func(snap *inputs.Snapshot) {
		t.Helper()
		n := *snap.Reports[badNode]
		n.GPUs = slices.Clone(n.GPUs)
		change(&n)
		text, err := json.Marshal(struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			topology.Node
		}{topology.APIVersion, topology.ReportKind, n})
		if err != nil {
			t.Fatal(err)
		}
		delete(snap.Reports, badNode)
		read, err := topology.ParseReport("nodereport "+badNode, text)
		if err != nil {
			snap.Problems = append(snap.Problems, topology.Finding{Subject: topology.Subject{Node: badNode}, Reason: inputs.ReasonReportUnreadable, Message: err.Error()})
			return
		}
		snap.Reports[badNode] = read
	}
}

// TestOneBadFactCostsOneNode gives one node a bad fact while another node joins. The other
// node is published, and the bad one stays as it was.
func TestOneBadFactCostsOneNode(t *testing.T) {
	const joins = "gb200-040"
	for _, tt := range []struct {
		name   string
		bad    func(*inputs.Snapshot)
		reason string  // the problem that names the fault
		nodes  float64 // that have the problem
		config Publication
	}{
		{"5,000 tiers", reports(t, func(n *topology.Node) {
			for i := range 5000 {
				n.Tiers = append(n.Tiers, fmt.Sprint("t", i))
			}
		}), inputs.ReasonReportUnreadable, 1, Publication{}},
		{"a MIG capability file with a space", reports(t, func(n *topology.Node) {
			n.GPUs[0].MIG = []topology.MIGInstance{{UUID: "MIG-1", Profile: "1g.10gb", Capabilities: []string{"/dev/nvidia-caps/nvidia cap1"}}}
		}), inputs.ReasonReportUnreadable, 1, Publication{}},
		{"6,000 GPUs", reports(t, func(n *topology.Node) {
			n.GPUs = nil
			for i := range 6000 {
				n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Links: &topology.Links{Unknown: 1}})
			}
		}), inputs.ReasonReportUnreadable, 1, Publication{}},
		{"64 reasons that nobody knows", reports(t, func(n *topology.Node) {
			for i := range 64 {
				n.Problems = append(n.Problems, topology.Finding{Reason: fmt.Sprint("R", i), Message: strings.Repeat("m", 512)})
			}
		}), topology.ReasonOther, 64, Publication{}},
		{"a label with the Slurm name of another node", func(snap *inputs.Snapshot) { snap.Nodes[4].Labels["sn"] = "gb200-007" }, inputs.ReasonSlurmNameTaken, 2, Publication{SlurmNames: "label:sn"}},
		{"a host name of another domain", func(snap *inputs.Snapshot) {
			snap.Nodes = append(snap.Nodes, inputs.Node{Name: badNode + ".other.example"})
		}, inputs.ReasonSlurmNameTaken, 2, Publication{}},
		{"a pod without a NodeSet in another Slurm cluster", func(snap *inputs.Snapshot) {
			pod := slurmd(badNode, "evil")
			pod.NodeSet = ""
			addPod(snap, pod)
		}, inputs.ReasonTwoSlurmClusters, 0, Publication{SlurmNames: "slinky"}},
		{"a product of 900 KB", reports(t, func(n *topology.Node) { n.GPUs[0].Product = strings.Repeat("x", 900<<10) }), inputs.ReasonReportUnreadable, 1, Publication{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := func(bad func(*inputs.Snapshot), faults ...simulated.Fault) *inputs.Snapshot {
				snap := racks(t, faults...)
				for i := range snap.Nodes {
					snap.Nodes[i].Labels["sn"] = snap.Nodes[i].Name
					addPod(snap, slurmd(snap.Nodes[i].Name, "slurm"))
				}
				bad(snap)
				return snap
			}
			good := func(*inputs.Snapshot) {}
			whole := newMemory(site(good))
			inBubble(t, whole, complete(t, tt.config), func() { whole.pass(time.Hour) })

			store := newMemory(site(good, simulated.Fault{Node: joins, Absent: true}))
			var pub *Publisher
			inBubbleWith(t, store, complete(t, tt.config), func(p *Publisher) { pub = p }, func(*Publisher) {
				store.pass(time.Hour)
				store.change(site(tt.bad))
				store.pass(time.Hour)
				got := store.get("slurm/quoin-slurm")
				if held := got.Annotations[plandoc.AnnotationHeldReason]; held != "" {
					t.Errorf("held: %s", held)
				}
				if diff := cmp.Diff(whole.get("slurm/quoin-slurm").Files, got.Files) + cmp.Diff(whole.notes, store.notes); diff != "" {
					t.Errorf("files and annotations (-want +got):\n%s", diff)
				}
				if n := testutil.CollectAndCount(pub.metrics.problems); n > 3 {
					t.Errorf("%d series of problems", n)
				}
				if n := testutil.ToFloat64(pub.metrics.problems.WithLabelValues(pub.clusters[0].Name, tt.reason)); n != tt.nodes {
					t.Errorf("%v problems %s, want %v", n, tt.reason, tt.nodes)
				}
			})
		})
	}
}

// slurmd is a worker pod of a Slurm cluster, as Slinky makes it.
func slurmd(node, cluster string) inputs.Pod {
	return inputs.Pod{Namespace: "slurm", Name: cluster + "-" + node, Node: node, Hostname: node, NodeSet: "gpu", Labels: map[string]string{
		"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker", "app.kubernetes.io/instance": "gpu", "slinky.slurm.net/cluster": cluster}}
}

// addPod adds a pod as stores do.
func addPod(snap *inputs.Snapshot, pod inputs.Pod) {
	if pod.IsWorker() {
		snap.AddWorkers([]inputs.Worker{pod.Worker()})
	}
}

// TestHeldReasonIsShort holds files for a reason of 900 KB.
func TestHeldReasonIsShort(t *testing.T) {
	store := newMemory(racks(t))
	p := newPublisher(store, complete(t, Publication{}))
	h := &holds{outlets: p.outlets, pub: p.clusters[0], archive: &archive{outlets: p.outlets, pub: p.clusters[0]}}
	held := []plandoc.Held{{Reason: "NoPlan", Message: strings.Repeat("x", 900<<10)}}
	if _, err := h.say(t.Context(), &stored{set: &plandoc.Published{}}, hold{why: held}, time.Now()); err != nil {
		t.Fatal(err)
	}
	reason := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]
	if !strings.HasPrefix(reason, "NoPlan: xxx") || !strings.HasSuffix(reason, "xxx...") || len(reason) > 2<<10 {
		t.Errorf("%d bytes: %.200s", len(reason), reason)
	}
}

// TestHeldFirst holds decisions beside files: what holds all files is said first, and nothing is said to be
// published then.
func TestHeldFirst(t *testing.T) {
	decision := plandoc.Held{Reason: "TopologiesChange", Message: "nvl goes", Digest: "1", Waits: true, Alone: true}
	files := plandoc.Held{Reason: "LintFatal", Message: "no default"}
	for _, tt := range []struct {
		name string
		held []plandoc.Held
		want string
	}{
		{"a decision", []plandoc.Held{decision}, "a decision is held, all else is published: TopologiesChange\n"},
		{"a decision, and all files", []plandoc.Held{decision, files}, "new files are held back, the published files stay: LintFatal\na decision is held too: TopologiesChange\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(racks(t))
			p := newPublisher(store, complete(t, Publication{}))
			var log bytes.Buffer
			only := func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.MessageKey || a.Key == "reason" {
					return a
				}
				return slog.Attr{}
			}
			p.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: only}))
			h := &holds{outlets: p.outlets, pub: p.clusters[0], archive: &archive{outlets: p.outlets, pub: p.clusters[0]}}
			if _, err := h.say(t.Context(), &stored{set: &plandoc.Published{}}, hold{why: tt.held}, time.Now()); err != nil {
				t.Fatal(err)
			}
			got := strings.NewReplacer(`msg="`, "", `" reason=`, ": ").Replace(log.String())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTwoNodesHoldNoTree has two nodes of a site of switches name one NVLink domain while
// another node joins. The blocks wait, and the tree goes on.
func TestTwoNodesHoldNoTree(t *testing.T) {
	const joins = "gb200-040"
	site := func(liars []string, faults ...simulated.Fault) *inputs.Snapshot {
		snap := racks(t, faults...)
		for i := range snap.Nodes {
			delete(snap.Nodes[i].Labels, topology.CliqueLabel)
		}
		return withGPUs(snap, func(node string, g *topology.GPU) {
			if !slices.Contains(liars, node) {
				g.Fabric = topology.Fabric{State: topology.FabricNotSupported}
			}
		})
	}
	for _, format := range []string{"yaml", "conf"} {
		t.Run(format, func(t *testing.T) {
			config := Publication{Format: format}
			whole := newMemory(site(nil))
			inBubble(t, whole, complete(t, config), func() { whole.pass(time.Hour) })
			want := whole.get("slurm/quoin-slurm").Files

			store := newMemory(site(nil, simulated.Fault{Node: joins, Absent: true}))
			inBubble(t, store, complete(t, config), func() {
				store.pass(time.Hour)
				store.change(site([]string{"gb200-005", "gb200-006"}))
				store.pass(time.Hour)
				got := store.get("slurm/quoin-slurm")
				if diff := cmp.Diff(want, got.Files) + cmp.Diff(whole.notes, store.notes); diff != "" {
					t.Errorf("files and annotations (-want +got):\n%s", diff)
				}
				if held := got.Annotations[plandoc.AnnotationHeldReason]; got.Annotations[plandoc.AnnotationHeld] == "" || !strings.Contains(held, "to publish it anyway") {
					t.Errorf("held reason %q", held)
				}
				store.edit(func() {})
				store.rests(t, 24*time.Hour)
				if format == "conf" {
					return // approved, units that annotations name would go
				}
				store.approve()
				store.pass(time.Hour)
				if text := topologyOf(store); !strings.Contains(text, "block_sizes:") {
					t.Errorf("approved, and the files are\n%s", text)
				}
				store.edit(func() {})
				store.pass(time.Hour)
				if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeld]; held != "" {
					t.Errorf("held after the approval: %s", held)
				}
			})
		})
	}
}
