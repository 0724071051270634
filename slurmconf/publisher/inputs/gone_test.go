package inputs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGone(t *testing.T) {
	worker := func(cluster, hostname string) []Worker {
		return []Worker{{Namespace: "slurm", Cluster: cluster, Pod: hostname, Hostname: hostname}}
	}
	whole := func(nodes ...Node) *Snapshot { return &Snapshot{Whole: true, Nodes: nodes} }
	ending := worker("a", "g1")
	ending[0].Ending = true
	for _, tt := range []struct {
		name, how string
		snap      *Snapshot
		names     map[string]string
		want      map[string]bool
	}{
		{"a store that cannot tell", "short", &Snapshot{Nodes: []Node{{Name: "n2"}}}, map[string]string{"n1": "n1"}, nil},
		{"nothing leaves", "short", whole(), nil, map[string]bool{}},
		{"the Node is gone", "short", whole(Node{Name: "n2"}), map[string]string{"n1": "n1", "n2": "n2"}, map[string]bool{"n1": true}},
		{"nobody knows the Node", "short", whole(Node{Name: "n2"}), map[string]string{"n1": ""}, map[string]bool{}},
		{"the Node is there under another name", "label:sn", whole(Node{Name: "n1", Labels: map[string]string{"sn": "x"}}), map[string]string{"y": "n1"}, map[string]bool{}},
		{"another Node has the name", "label:sn", whole(Node{Name: "n2", Labels: map[string]string{"sn": "x"}}), map[string]string{"x": "n1"}, map[string]bool{}},
		{"the pod is gone", "slinky:slurm/a", whole(Node{Name: "n1"}, Node{Name: "n2", Workers: worker("a", "g2")}), map[string]string{"g1": "n1", "g2": "n2"}, map[string]bool{"g1": true}},
		{"the pod is gone, and nobody knows the Node", "slinky:slurm/a", whole(Node{Name: "n2", Workers: worker("a", "g2")}), map[string]string{"g1": ""}, map[string]bool{"g1": true}},
		{"no pod is known", "slinky:slurm/a", whole(Node{Name: "n1"}, Node{Name: "n2"}), map[string]string{"g1": "n1"}, map[string]bool{}},
		{"only pods of another cluster are known", "slinky:slurm/a", whole(Node{Name: "n1"}, Node{Name: "n2", Workers: worker("b", "g2")}), map[string]string{"g1": "n1"}, map[string]bool{}},
		{"another cluster has a pod of the name", "slinky:slurm/a", whole(Node{Name: "n1", Workers: worker("b", "g1")}, Node{Name: "n2", Workers: worker("a", "g2")}), map[string]string{"g1": "n1"}, map[string]bool{"g1": true}},
		{"the pod ends", "slinky:slurm/a", whole(Node{Name: "n1", Workers: ending}), map[string]string{"g1": "n1"}, map[string]bool{}},
		{"the pod is not scheduled", "slinky:slurm/a", &Snapshot{Whole: true, Nodes: []Node{{Name: "n1"}}, Unplaced: worker("a", "g1")}, map[string]string{"g1": "n1"}, map[string]bool{}},
		{"the pod waits, and the Node is gone", "slinky:slurm/a", &Snapshot{Whole: true, Nodes: []Node{{Name: "n2"}}, Unplaced: worker("a", "g1")}, map[string]string{"g1": "n1"}, map[string]bool{"g1": true}},
		{"the Node is gone, and the pod runs on another", "slinky:slurm/a", whole(Node{Name: "n2", Workers: worker("a", "g1")}), map[string]string{"g1": "n1"}, map[string]bool{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rules(t, Config{SlurmNames: tt.how})
			if diff := cmp.Diff(tt.want, r.Gone(tt.snap, tt.names, &Missing{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
