package kube

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

const metaOfSet = `"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","metadata":{"name":"gpu","namespace":"slurm"`

func slimSet(t *testing.T, text string) (*slinkyObject, error) {
	t.Helper()
	var o unstructured.Unstructured
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		return nil, err
	}
	return slimSlinky(&o, keepNodeSet), nil
}

func TestSlimNodeSet(t *testing.T) {
	set := func(replicas int) inputs.NodeSet {
		return inputs.NodeSet{Namespace: "slurm", Name: "gpu", Replicas: replicas}
	}
	perNode, owned := set(1), set(1)
	perNode.PerNode, owned.Cluster = true, "slurm"
	for _, tt := range []struct {
		name, text string
		want       inputs.NodeSet
		ending     bool
	}{
		{"replicas", `},"spec":{"replicas":72,"scalingMode":"StatefulSet"},"status":{"replicas":70}`, set(72), false},
		{"none", `},"spec":{"replicas":0}`, set(0), false},
		{"Slinky's default", `},"spec":{}`, set(1), false},
		{"of a Controller", `},"spec":{"controllerRef":{"name":"slurm"}}`, owned, false},
		{"below none", `},"spec":{"replicas":-3}`, set(0), false},
		{"no number", `},"spec":{"replicas":"72"}`, set(1), false},
		{"no spec", `}`, set(1), false},
		{"a spec that is none", `},"spec":7`, set(1), false},
		{"one for each Node", `},"spec":{"scalingMode":"DaemonSet"}`, perNode, false},
		{"in lower case", `},"spec":{"scalingMode":"daemonset"}`, perNode, false},
		{"being deleted", `,"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"replicas":72}`, set(72), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := slimSet(t, "{"+metaOfSet+tt.text+"}")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(tt.want), got.kept); diff != "" || got.ending != tt.ending {
				t.Errorf("ending %t, want %t (-want +got):\n%s", got.ending, tt.ending, diff)
			}
			same, err := slimSet(t, "{"+metaOfSet+`,"generation":7`+tt.text+"}")
			if err != nil || relevant(got, same) {
				t.Errorf("another generation is noticed, %v", err)
			}
			if other := (&slinkyObject{kept: set(5)}); !relevant(got, other) || relevant(other, got) != relevant(got, other) {
				t.Error("other replicas are not noticed")
			}
		})
	}
}

func TestSlimController(t *testing.T) {
	const meta = `{"apiVersion":"slinky.slurm.net/v1beta1","kind":"Controller","metadata":{"name":"slurm","namespace":"s","resourceVersion":"7"}`
	slim := func(text string) *slinkyObject {
		t.Helper()
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON([]byte(meta + text + "}")); err != nil {
			t.Fatal(err)
		}
		return slimSlinky(&o, keepController)
	}
	for text, image := range map[string]string{
		`,"spec":{"slurmctld":{"image":"r:5000/slurmctld:25.11-ubuntu24.04","args":["-v"]}}`: "r:5000/slurmctld:25.11-ubuntu24.04",
		`,"spec":{"slurmctld":{}}`:          "",
		`,"spec":{"slurmctld":{"image":7}}`: "",
		`,"spec":7`:                         "",
		``:                                  "",
	} {
		got := slim(text)
		if diff := cmp.Diff(any(inputs.Controller{Namespace: "s", Name: "slurm", Image: image}), got.kept); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if relevant(got, slim(text+`,"status":{"a":1}`)) || !relevant(got, slim(`,"spec":{"slurmctld":{"image":"other"}}`)) {
			t.Errorf("%s: a status is noticed, or another image is not", text)
		}
	}
}

func FuzzSlimNodeSet(f *testing.F) {
	f.Add("{" + metaOfSet + `},"spec":{"replicas":72}}`)
	f.Add("{" + metaOfSet + `,"deletionTimestamp":7},"spec":{"replicas":1e99,"scalingMode":[]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := slimSet(t, text); err == nil && s.kept.(inputs.NodeSet).Replicas < 0 {
			t.Errorf("%d replicas of %q", s.kept.(inputs.NodeSet).Replicas, text)
		}
	})
}

func TestRemedyForNodeSets(t *testing.T) {
	nodeSets, lister := slinkyVersion.WithResource("nodesets"), slinkyLister{unknown: "nobody knows how many there are"}
	refused := apierrors.NewForbidden(nodeSets.GroupResource(), "", errors.New("no rule"))
	const want = `nodesets.slinky.slurm.net is forbidden: no rule; the chart's Role quoin-workers-PUBLICATION gives it the right; ` +
		`until then nobody knows how many there are`
	if err := lister.withRemedy(refused); err.Error() != want || !apierrors.IsForbidden(err) {
		t.Errorf("error %q, want %q", err, want)
	}
	for _, err := range []error{nil, errors.New("x"), apierrors.NewNotFound(nodeSets.GroupResource(), "")} {
		if got := lister.withRemedy(err); !errors.Is(got, err) || err != nil && got.Error() != err.Error() {
			t.Errorf("error %v became %v", err, got)
		}
	}
}
