package publisher

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// nodeSet has one pod on each of the first nodes, and wants so many.
type nodeSet struct {
	pods
	wants int
}

func newNodeSet() *nodeSet { return &nodeSet{podsOn(72), 72} }

// on are the racks with the NodeSet and its pods.
func (n *nodeSet) on(t *testing.T) *inputs.Snapshot {
	t.Helper()
	for name, w := range n.pods {
		w.NodeSet = cmp.Or(w.NodeSet, "gpu")
		n.pods[name] = w
	}
	snap := whole(n.pods.on(t))
	snap.NodeSets = []inputs.NodeSet{{Namespace: "slurm", Name: "gpu", Replicas: n.wants}}
	return snap
}

// end deletes pods.
func (n *nodeSet) end(first, last int) {
	for i := first; i <= last; i++ {
		delete(n.pods, fmt.Sprintf("g%03d", i))
	}
}

// nodeSetBubble publishes the nodes of a NodeSet with 72 pods in fake time.
func nodeSetBubble(t *testing.T, n *nodeSet, pub Publication, steps func(store *memory)) {
	t.Helper()
	pub.SlurmNames = "slinky:a"
	store := newMemory(n.on(t))
	inBubble(t, store, complete(t, pub), func() {
		store.pass(10 * time.Minute)
		steps(store)
	})
}

// TestScaledInToNothing scales a NodeSet to 0 replicas. All its nodes leave, and none is held.
// If they are the last nodes, the published files stay.
func TestScaledInToNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		// others is how many of the pods another NodeSet has, which is not scaled.
		others, last int
		reason       string
	}{
		{"another NodeSet has nodes", 18, 18, ""},
		{"another NodeSet has one node", 1, 1, ""},
		{"no node is left", 0, 72, "NothingToPublish: no node is in a block or switch: there is nothing to write; nodes by reason: NoWorkerPod 72"},
	} {
		for _, membership := range []string{"annotation", "file"} {
			t.Run(tt.name+", "+membership, func(t *testing.T) {
				n := newNodeSet()
				for i := 72; i > 72-tt.others; i-- {
					name := fmt.Sprintf("g%03d", i)
					w := n.pods[name]
					w.NodeSet = "other"
					n.pods[name] = w
				}
				n.wants -= tt.others
				nodeSetBubble(t, n, Publication{Membership: membership}, func(store *memory) {
					n.wants = 0
					n.end(1, 72-tt.others)
					store.change(n.on(t))
					store.pass(11 * time.Minute)
					d, set := store.plan(t), store.get("slurm/quoin-slurm")
					if got := len(d.Current.Plan.Places()); got != tt.last || len(d.Moves) > 0 {
						t.Errorf("%d nodes have a place, want %d; remembered %v", got, tt.last, d.Moves)
					}
					if got := set.Annotations[plandoc.AnnotationHeldReason]; got != tt.reason {
						t.Errorf("held %q, want %q", got, tt.reason)
					}
					if text := set.Files["topology.yaml"]; strings.Count(text, "- block: ") != 4 {
						t.Errorf("the file has not the four blocks:\n%s", text)
					}
					n.wants, n.pods = 30, podsOn(30)
					store.change(n.on(t))
					store.pass(10 * time.Minute)
					d = store.plan(t)
					if d.Held != nil || d.Current.Plan.Places()["g030"].Block == "" {
						t.Errorf("scaled out, held %+v, and the nodes are %v", d.Held, d.Current.Plan.Places())
					}
				})
			})
		}
	}
}
