package publisher

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
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
		read, err := topology.ParseReport("configmap quoin-system/quoin-node-"+badNode, text)
		if err != nil {
			snap.Problems = append(snap.Problems, topology.Problem{Node: "quoin-node-" + badNode, Reason: inputs.ReasonReportUnreadable, Message: err.Error()})
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
		reason string // the problem that names the fault
		config Publication
	}{
		{"5,000 tiers", reports(t, func(n *topology.Node) {
			for i := range 5000 {
				n.Tiers = append(n.Tiers, fmt.Sprint("t", i))
			}
		}), inputs.ReasonReportUnreadable, Publication{}},
		{"a MIG capability file with a space", reports(t, func(n *topology.Node) {
			n.GPUs[0].MIG = []topology.MIGInstance{{UUID: "MIG-1", Profile: "1g.10gb", Capabilities: []string{"/dev/nvidia-caps/nvidia cap1"}}}
		}), inputs.ReasonReportUnreadable, Publication{}},
		{"6,000 GPUs", reports(t, func(n *topology.Node) {
			n.GPUs = nil
			for i := range 6000 {
				n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), NVLinks: []topology.NVLink{{Remote: "gpu"}}})
			}
		}), inputs.ReasonReportUnreadable, Publication{}},
		{"a product of 900 KB", reports(t, func(n *topology.Node) { n.GPUs[0].Product = strings.Repeat("x", 900<<10) }), inputs.ReasonReportUnreadable, Publication{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := func(bad func(*inputs.Snapshot), faults ...simulated.Fault) *inputs.Snapshot {
				snap := racks(t, faults...)
				for i := range snap.Nodes {
					snap.Nodes[i].Labels["sn"] = snap.Nodes[i].Name
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
				if held := got.Annotations[published.AnnotationHeldReason]; held != "" {
					t.Errorf("held: %s", held)
				}
				if diff := cmp.Diff(whole.get("slurm/quoin-slurm").Files, got.Files) + cmp.Diff(whole.notes, store.notes); diff != "" {
					t.Errorf("files and annotations (-want +got):\n%s", diff)
				}
				if n := testutil.ToFloat64(pub.metrics.problems.WithLabelValues(pub.clusters[0].Name, tt.reason)); n != 1 {
					t.Errorf("%v problems %s, want 1", n, tt.reason)
				}
			})
		})
	}
}
