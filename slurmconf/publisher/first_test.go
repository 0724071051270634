package publisher

import (
	"slices"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// TestFirstPublicationWaitsForLateAgents starts a site whose agents come up one
// after another and whose nodes have no labels: the base block size must be
// that of whole racks.
func TestFirstPublicationWaitsForLateAgents(t *testing.T) {
	whole := racks(t)
	for i := range whole.Nodes {
		whole.Nodes[i].Labels = nil
	}
	for name, tt := range map[string]struct {
		pub  Publication
		want []int // saves after each sixth of the nodes and 40 s, then after a minute more
	}{
		"chosen base":     {Publication{SettleTime: publication.Default().SettleTime}, []int{0, 0, 0, 0, 0, 0, 1}},
		"configured base": {Publication{SettleTime: publication.Default().SettleTime, BaseBlockSize: 18}, []int{1, 2, 3, 4, 5, 6, 6}},
		"no wait":         {Publication{}, []int{1, 3, 5, 7, 9, 11, 11}}, // each larger rack offers a larger base
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(&inputs.Snapshot{})
			inBubble(t, store, complete(t, tt.pub), func() {
				for i, want := range tt.want {
					if i < 6 {
						store.change(reported(whole, i+1, 6))
					}
					store.pass(40 * time.Second)
					if i == 6 {
						store.pass(time.Minute)
					}
					if store.saves != want {
						t.Fatalf("%d publications after step %d, want %d", store.saves, i+1, want)
					}
				}
			})
		})
	}
}

// reported is the whole site as long as only n of each group of nodes have sent
// their report.
func reported(whole *inputs.Snapshot, n, group int) *inputs.Snapshot {
	snap := &inputs.Snapshot{Nodes: slices.Clone(whole.Nodes), Reports: map[string]*topology.Node{}}
	for i, node := range whole.Nodes {
		if i%group < n {
			snap.Reports[node.Name] = whole.Reports[node.Name]
		}
	}
	return snap
}
