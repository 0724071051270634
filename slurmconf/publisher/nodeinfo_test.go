package publisher

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/topology/simulated"
)

// nodeInfoSeries gathers quoin_node_info, by publication and node.
func nodeInfoSeries(t *testing.T, m *Metrics) map[string]map[string]string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m.status.Places)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, f := range families {
		if f.GetName() != "quoin_node_info" {
			t.Errorf("a series %s", f.GetName())
		}
		for _, s := range f.Metric {
			if s.GetGauge().GetValue() != 1 {
				t.Errorf("%v is not 1", s)
			}
			labels := map[string]string{}
			for _, l := range s.Label {
				labels[l.GetName()] = l.GetValue()
			}
			out[labels["publication"]+" "+labels["node"]] = labels
		}
	}
	return out
}

func TestNodeInfo(t *testing.T) {
	snap := labelled(t, "team", "red", "blue", nil)
	pubs := complete(t,
		Publication{Name: "red", Namespace: "slurm", Nodes: Selection{Selector: "team=red"}},
		Publication{Name: "blue", Namespace: "slurm-blue", Nodes: Selection{Selector: "team=blue"}})
	store := newMemory(snap)
	var metrics *Metrics
	inBubbleWith(t, store, pubs, func(p *Publisher) { metrics = p.metrics }, func(p *Publisher) {
		store.pass(10 * time.Minute)
		series := nodeInfoSeries(t, p.metrics)
		if len(series) != 72 || series["blue gb200-072"] == nil {
			t.Errorf("%d series, want one for each of 72 nodes, and one of blue", len(series))
		}
		first := series["red gb200-001"]
		clique := snap.Reports["gb200-001"].Domain.Clique.String()
		want := map[string]string{"publication": "red", "node": "gb200-001", "block": first["block"], "switch": "leaf-01", "clique": clique}
		if diff := cmp.Diff(want, first); diff != "" || first["block"] == "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if other := series["red gb200-019"]; other["block"] == first["block"] || other["clique"] == clique {
			t.Errorf("a node of the next rack has %v", other)
		}
		var moved []simulated.Fault
		for _, node := range []string{"gb200-001", "gb200-002"} {
			moved = append(moved, simulated.Fault{Node: node, Absent: true})
		}
		store.change(racks(t, moved...))
		store.pass(time.Minute)
		if gone, ok := nodeInfoSeries(t, p.metrics)["red gb200-001"]; ok {
			t.Errorf("a Node that is gone still has %v", gone)
		}
	})
	if left := nodeInfoSeries(t, metrics); len(left) != 0 {
		t.Errorf("a publisher that does not lead serves %d series", len(left))
	}
}
