package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// inOtherRack are the racks after gb200-003 was put into the second, as its
// report and its label say.
func inOtherRack(t *testing.T, faults ...simulated.Fault) *inputs.Snapshot {
	t.Helper()
	snap := racks(t, faults...)
	report, other := snap.Reports["gb200-003"], snap.Reports["gb200-020"]
	for i := range report.GPUs {
		report.GPUs[i].Fabric = other.GPUs[i].Fabric
	}
	report.Domain = other.Domain
	labels := map[string]map[string]string{}
	for _, n := range snap.Nodes {
		labels[n.Name] = n.Labels
	}
	labels["gb200-003"][topology.CliqueLabel] = labels["gb200-020"][topology.CliqueLabel]
	return snap
}

const movedToRack2 = "nodes: gb200-[001-002,004-018]\n"

// TestReadingMustStand lets a node's facts name two racks by turns: it stays,
// while other changes are published.
func TestReadingMustStand(t *testing.T) {
	gone := simulated.Fault{Node: "gb200-072", Absent: true}
	for _, period := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 4 * time.Second} {
		t.Run(period.String(), func(t *testing.T) {
			store := newMemory(racks(t, gone))
			inBubble(t, store, complete(t, Publication{SettleTime: publication.Default().SettleTime}), func() {
				store.pass(5 * time.Minute)
				sites := []*inputs.Snapshot{inOtherRack(t), inOtherRack(t), racks(t)}
				for i := range min(int(10*time.Minute/period), 1000)/3*3 + 1 {
					store.change(sites[i%3])
					store.pass(period)
					if got := topologyOf(store); strings.Contains(got, movedToRack2) {
						t.Fatalf("moved after %v:\n%s", time.Duration(i)*period, got)
					}
				}
				if got := topologyOf(store); !strings.Contains(got, "nodes: gb200-[055-072]\n") {
					t.Errorf("another node's change was not published:\n%s", got)
				}
				store.pass(30 * time.Second)
				if got := topologyOf(store); !strings.Contains(got, movedToRack2) {
					t.Errorf("not moved, though its facts stand:\n%s", got)
				}
			})
		})
	}
}

// TestReadingStands moves a node once, in a quiet cluster and in one where
// another node changes all the time.
func TestReadingStands(t *testing.T) {
	store := newMemory(racks(t))
	inBubble(t, store, complete(t, Publication{SettleTime: publication.Default().SettleTime}), func() {
		store.pass(5 * time.Minute)
		store.change(inOtherRack(t))
		store.pass(9 * time.Second)
		if got := topologyOf(store); strings.Contains(got, movedToRack2) {
			t.Errorf("moved before its facts stood for 10 s:\n%s", got)
		}
		store.pass(2 * time.Second)
		if got := topologyOf(store); !strings.Contains(got, movedToRack2) {
			t.Errorf("not moved after 11 quiet seconds:\n%s", got)
		}
		store.change(racks(t))
		store.pass(time.Minute)
		if got := topologyOf(store); strings.Contains(got, movedToRack2) {
			t.Errorf("not moved back:\n%s", got)
		}
		sites := []*inputs.Snapshot{inOtherRack(t), inOtherRack(t, simulated.Fault{Node: "gb200-060", NoReport: true})}
		for i := range 130 {
			store.change(sites[i%2])
			store.pass(time.Second)
		}
		if got := topologyOf(store); !strings.Contains(got, movedToRack2) {
			t.Errorf("not moved in two minutes of another's changes:\n%s", got)
		}
	})
}
