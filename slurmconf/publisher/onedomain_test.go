package publisher

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// TestPowerCycledRack switches a rack off and exchanges two of its trays. The new trays come up first,
// while the old nodes are registering, are silent, or have no Node: the rack is one block all the time.
func TestPowerCycledRack(t *testing.T) {
	registering := func(snap *inputs.Snapshot, node string) {
		report := *snap.Reports[node]
		report.GPUs, report.Domain = slices.Clone(report.GPUs), topology.NVLinkDomain{}
		report.GPUs[0].Fabric = topology.Fabric{State: topology.FabricInProgress}
		snap.Reports[node] = &report
	}
	for name, off := range map[string]func(snap *inputs.Snapshot, node string){
		"registering": registering,
		"silent":      func(snap *inputs.Snapshot, node string) { delete(snap.Reports, node) },
		"no Node": func(snap *inputs.Snapshot, node string) {
			delete(snap.Reports, node)
			snap.Nodes = slices.DeleteFunc(snap.Nodes, func(n inputs.Node) bool { return n.Name == node })
		},
	} {
		t.Run(name, func(t *testing.T) {
			site := []rackOf{{"core", 1, 18}, {"core", 2, 18}}
			exchanged := func(old int) *inputs.Snapshot { // of the old trays so many are up
				snap := siteOf(site...)
				for k := range 18 {
					node := fmt.Sprintf("r1-%d", k)
					switch {
					case k < 2:
						report := *snap.Reports[node]
						report.Name = "new-" + node
						delete(snap.Reports, node)
						snap.Reports[report.Name] = &report
						snap.Nodes[slices.IndexFunc(snap.Nodes, func(n inputs.Node) bool { return n.Name == node })].Name = report.Name
					case k-2 >= old:
						off(snap, node)
					}
				}
				return snap
			}
			store := newMemory(siteOf(site...))
			inBubble(t, store, complete(t, Publication{MaxChange: new(1.0)}), func() {
				store.pass(5 * time.Minute)
				before := store.plan(t).Current.Plan.Blocks()
				for _, up := range []int{0, 1, 8, 16} {
					store.change(exchanged(up))
					store.pass(20 * time.Minute)
					blocks := store.plan(t).Current.Plan.Blocks()
					if len(blocks) != 2 || blocks[0].Name != before[0].Name || blocks[1].Name != before[1].Name || !slices.Contains(blocks[0].Nodes, "new-r1-0") || blocks[0].Clique != before[0].Clique {
						t.Fatalf("%d old trays are up: blocks %+v, were %+v", up, blocks, before)
					}
				}
				if blocks := store.plan(t).Current.Plan.Blocks(); len(blocks[0].Nodes) != 18 {
					t.Errorf("all are up: %+v", blocks)
				}
			})
		})
	}
}
