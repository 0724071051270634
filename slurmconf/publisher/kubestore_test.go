package publisher

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

func TestRelevantChangesOfNodes(t *testing.T) {
	keys := watchedKeys(complete(t,
		Publication{Name: "a", Namespace: "a", Nodes: Selection{Selector: "team in (red),!spare"}, SlurmNames: "label:slurm-name", TierLabels: []string{"rack"}},
		Publication{Name: "b", Namespace: "b", SlurmNames: "annotation:slurm-node"}))
	node := func(labels, annotations map[string]string) any {
		n, err := keys.slim(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels, Annotations: annotations},
			Spec: corev1.NodeSpec{Unschedulable: true}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, tt := range []struct {
		label, annotation string
		want              bool
	}{
		{nodelabels.Clique, "", true},
		{nodelabels.Count, "", true},
		{nodelabels.DefaultTiers[0], "", true}, // of b
		{"rack", "", true},
		{"team", "", true},
		{"spare", "", true},
		{"slurm-name", "", true},
		{"", "slurm-node", true},
		{"", SpecAnnotation, true},
		{"kubernetes.io/hostname", "", false},
		{"slurm-node", "slurm-name", false},
		{"", "node.alpha.kubernetes.io/ttl", false},
	} {
		if got := relevant(node(nil, nil), node(map[string]string{tt.label: "x"}, map[string]string{tt.annotation: "x"})); got != tt.want {
			t.Errorf("new label %q, annotation %q: noticed %v, want %v", tt.label, tt.annotation, got, tt.want)
		}
	}
}
