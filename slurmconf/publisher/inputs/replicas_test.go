package inputs

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMissing takes worker pods away from four that there were, g0 to g3 of NodeSet gpu.
func TestMissing(t *testing.T) {
	gpu := func(replicas int) NodeSet { return NodeSet{Namespace: "slurm", Name: "gpu", Replicas: replicas} }
	for _, tt := range []struct {
		name string
		sets []NodeSet
		// pods are the pods that exist. leave are the names that leave in this pass.
		pods, leave []string
		waits       string // the pod of this name is not scheduled
		ending      bool   // the pods are being deleted
		others      bool   // there are pods of another NodeSet, and of one of that name elsewhere
		// scaledIn are the names that leave at once. gone are the names that the guard does
		// not count.
		scaledIn, gone []string
	}{
		{name: "all there", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g1", "g2", "g3"}},
		{name: "made again", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2", "g3"}},
		{name: "not made again for long", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2", "g3"}, leave: []string{"g1"}},
		{name: "waits to be scheduled", sets: []NodeSet{gpu(4)}, pods: []string{"g0", "g2", "g3"}, waits: "g1", leave: []string{"g1"}},
		{name: "scaled in", sets: []NodeSet{gpu(2)}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, scaledIn: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "scaled in, and not all pods have gone yet", sets: []NodeSet{gpu(1)}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, scaledIn: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "scaled in to nothing", sets: []NodeSet{gpu(0)}, leave: []string{"g0", "g1", "g2", "g3"}, scaledIn: []string{"g0", "g1", "g2", "g3"}, gone: []string{"g0", "g1", "g2", "g3"}},
		{name: "a pod that ends is not made again yet", sets: []NodeSet{gpu(2)}, pods: []string{"g0", "g2"}, ending: true, leave: []string{"g1", "g3"}, scaledIn: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "scaled in, and one is made again", sets: []NodeSet{gpu(2)}, pods: []string{"g0"}, leave: []string{"g1", "g2", "g3"}, gone: []string{"g2", "g3"}},
		{name: "scaled in for long, and one is made again", sets: []NodeSet{gpu(2)}, pods: []string{"g0"}, leave: []string{"g1", "g2"}, gone: []string{"g1", "g2"}},
		{name: "scaled out", sets: []NodeSet{gpu(9)}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}},
		{name: "pods of others", sets: []NodeSet{gpu(3)}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, others: true, gone: []string{"g3"}},
		{name: "another NodeSet wants many", sets: []NodeSet{gpu(2), {Namespace: "slurm", Name: "bad", Replicas: 1 << 31}}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, scaledIn: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "a NodeSet of that name elsewhere", sets: []NodeSet{{Namespace: "other", Name: "gpu", Replicas: 0}, gpu(4)}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}},
		{name: "no number", sets: []NodeSet{{Namespace: "slurm", Name: "gpu", PerNode: true}}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "the NodeSet is gone", sets: []NodeSet{{Namespace: "slurm", Name: "x"}}, pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "no NodeSet is known", pods: []string{"g0", "g2"}, leave: []string{"g1", "g3"}, gone: []string{"g1", "g3"}},
		{name: "no NodeSet is known, and no pod", leave: []string{"g0", "g1", "g2", "g3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := &Snapshot{Whole: true, NodeSets: tt.sets}
			var workers []Worker
			for i := range 4 {
				name := fmt.Sprintf("g%d", i)
				snap.Nodes = append(snap.Nodes, Node{Name: "n" + name})
				if slices.Contains(tt.pods, name) {
					workers = append(workers, Worker{Namespace: "slurm", NodeSet: "gpu", Cluster: "a", Pod: name, Node: "n" + name, Hostname: name, Ending: tt.ending})
				}
			}
			if tt.waits != "" {
				workers = append(workers, Worker{Namespace: "slurm", NodeSet: "gpu", Cluster: "a", Pod: tt.waits, Hostname: tt.waits})
			}
			if tt.others {
				workers = append(workers, Worker{Namespace: "slurm", NodeSet: "x", Cluster: "a", Pod: "x", Hostname: "x"}, Worker{Namespace: "other", NodeSet: "gpu", Cluster: "a", Pod: "y", Hostname: "y"})
			}
			snap.AddWorkers(workers)
			r := rules(t, Config{SlurmNames: "slinky:slurm/a"})
			owners, leave := map[string]Owner{}, map[string]string{}
			for _, n := range snap.Nodes {
				name := n.Name[1:]
				if slices.Contains(tt.pods, name) {
					if got := r.OwnerOf(&n, name); got != (Owner{"slurm", "gpu"}) {
						t.Errorf("%s is of %v", name, got)
					}
					continue
				}
				owners[name] = Owner{"slurm", "gpu"}
				if slices.Contains(tt.leave, name) {
					leave[name] = n.Name
				}
			}
			m := r.Missing(snap, owners)
			var scaledIn []string
			for _, name := range []string{"g0", "g1", "g2", "g3"} {
				if m.ScaledIn(name) {
					scaledIn = append(scaledIn, name)
				}
			}
			if diff := cmp.Diff(tt.scaledIn, scaledIn); diff != "" {
				t.Errorf("scaled in (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.gone, slices.Sorted(maps.Keys(r.Gone(snap, leave, m)))); diff != "" {
				t.Errorf("gone (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingNode deletes the Node of a pod that is made again.
func TestMissingNode(t *testing.T) {
	snap := &Snapshot{Whole: true, Nodes: []Node{{Name: "n1"}}, NodeSets: []NodeSet{{Namespace: "slurm", Name: "gpu", Replicas: 2}}}
	r := rules(t, Config{SlurmNames: "slinky:slurm/a"})
	owner := Owner{"slurm", "gpu"}
	m := r.Missing(snap, map[string]Owner{"g0": owner, "g1": owner})
	if m.ScaledIn("g0") || m.ScaledIn("g1") {
		t.Error("leaves at once, and the NodeSet wants two pods")
	}
	if diff := cmp.Diff(map[string]bool{"g0": true}, r.Gone(snap, map[string]string{"g0": "n0", "g1": "n1"}, m)); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"g0": true}, rules(t, Config{SlurmNames: "short"}).Gone(snap, map[string]string{"g0": "n0", "g1": "n1"}, &Missing{})); diff != "" {
		t.Errorf("without pods, gone (-want +got):\n%s", diff)
	}
}
