package publisher

import (
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// whole says that a snapshot has all nodes, as a store of Kubernetes does.
func whole(snap *inputs.Snapshot) *inputs.Snapshot {
	snap.Whole = true
	return snap
}

// inCluster returns the racks. Their first nodes are in another cluster.
func inCluster(t *testing.T, others int) *inputs.Snapshot {
	t.Helper()
	return whole(labelled(t, "sc", "a", "a", firstNodes(others, "b")))
}

// TestGoneNodesDoNotWait removes nodes in many ways. Those whose Node object is gone leave
// by themselves, and the others wait.
func TestGoneNodesDoNotWait(t *testing.T) {
	const unselected = "BigChange: 36 of 72 nodes would move or leave, more than 20 %: 36 are not selected any more (nodes.selector);"
	for _, tt := range []struct {
		name          string
		before, after *inputs.Snapshot
		pub           Publication
		restart       bool
		held          string
	}{
		{name: "deleted", before: whole(racks(t)), after: whole(racksWithout(t, 36))},
		{name: "deleted while no publisher runs", before: whole(racks(t)), after: whole(racksWithout(t, 36)), restart: true},
		{name: "deleted, with names by labels", before: whole(named(t, map[string]string{"gb200-001": "x"})), after: whole(deleted(named(t, nil), 36)), pub: Publication{SlurmNames: "label:sn"}},
		{name: "deleted in a directory", before: racks(t), after: racksWithout(t, 36), held: "BigChange: 36 of 72 nodes would move or leave, more than 20 %: 36 are without a report;"},
		{name: "not taken", before: inCluster(t, 0), after: inCluster(t, 36), pub: Publication{Nodes: Selection{Selector: "sc=a"}}, held: unselected},
		{name: "not taken while no publisher runs", before: inCluster(t, 0), after: inCluster(t, 36), pub: Publication{Nodes: Selection{Selector: "sc=a"}}, restart: true, held: unselected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(tt.before)
			pubs := complete(t, tt.pub)
			leave := func() {
				store.pass(20 * time.Minute)
				got := store.get("slurm/quoin-slurm")
				if held := got.Annotations[plandoc.AnnotationHeldReason]; !strings.HasPrefix(held, tt.held) || (held == "") != (tt.held == "") {
					t.Errorf("held %q, want %q", held, tt.held)
				}
				if left := !strings.Contains(topologyOf(store), "001"); left != (tt.held == "") {
					t.Errorf("left: %t\n%s", left, topologyOf(store))
				}
				if d := store.plan(t); tt.held == "" && len(d.Moves) > 0 {
					t.Errorf("nodes that are gone are remembered: %v", d.Moves)
				}
			}
			inBubble(t, store, pubs, func() {
				store.pass(5 * time.Minute)
				if !tt.restart {
					store.change(tt.after)
					leave()
				}
			})
			if tt.restart {
				store.snap = tt.after
				inBubble(t, store, pubs, leave)
			}
		})
	}
}

// deleted are the nodes without the first ones.
func deleted(snap *inputs.Snapshot, first int) *inputs.Snapshot {
	for i := range snap.Nodes[:first] {
		delete(snap.Reports, snap.Nodes[i].Name)
	}
	snap.Nodes = snap.Nodes[first:]
	return snap
}
