package kube

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// nodeSets is the resource of Slinky's NodeSets, from slurm-operator 1.0 on.
var nodeSets = schema.GroupVersionResource{Group: "slinky.slurm.net", Version: "v1beta1", Resource: "nodesets"}

// nodeSetWatch watches the NodeSets of a namespace. The publisher works without them:
// then nobody can tell whether a worker pod that is gone is made again.
type nodeSetWatch struct {
	what     string
	health   *apihealth.Health
	informer cache.SharedIndexInformer
}

func newNodeSetWatch(client dynamic.Interface, health *apihealth.Health, namespace string) *nodeSetWatch {
	w := &nodeSetWatch{what: "NodeSets in namespace " + namespace, health: health}
	api := nodeSetLister{client.Resource(nodeSets).Namespace(namespace)}
	w.informer = apihealth.NewInformer(health, w.what, &unstructured.Unstructured{}, api, func(*metav1.ListOptions) {})
	_ = w.informer.SetTransform(slimNodeSet) // fails only on a started informer
	return w
}

// sets returns the NodeSets. It returns none while they cannot be read, for example
// because the API server does not know them any more.
func (w *nodeSetWatch) sets() []inputs.NodeSet {
	if !w.informer.HasSynced() || w.health.Of(w.what) != nil {
		return nil
	}
	var out []inputs.NodeSet
	for _, obj := range w.informer.GetStore().List() {
		if s, ok := obj.(*kubeNodeSet); ok && !s.ending {
			out = append(out, s.set)
		}
	}
	return out
}

// kubeNodeSet is what is kept of a NodeSet.
type kubeNodeSet struct {
	metav1.ObjectMeta
	set    inputs.NodeSet
	ending bool
}

func (s *kubeNodeSet) same(other *kubeNodeSet) bool {
	return s.set == other.set && s.ending == other.ending
}

// slimNodeSet keeps of a NodeSet what a Snapshot holds.
func slimNodeSet(obj any) (any, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	set := inputs.NodeSet{Namespace: o.GetNamespace(), Name: o.GetName(), Replicas: 1} // Slinky's default
	if n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); found && err == nil {
		set.Replicas = int(max(n, 0))
	}
	set.Cluster, _, _ = unstructured.NestedString(o.Object, "spec", "controllerRef", "name")
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "scalingMode")
	set.PerNode = strings.EqualFold(mode, inputs.ScalingModeDaemonSet)
	return &kubeNodeSet{metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name, UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
		set, o.GetDeletionTimestamp() != nil}, nil
}

// nodeSetLister says in its errors what to do if NodeSets may not be read.
type nodeSetLister struct{ api dynamic.ResourceInterface }

func (l nodeSetLister) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := l.api.List(ctx, o)
	return list, withRemedy(err)
}

func (l nodeSetLister) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := l.api.Watch(ctx, o)
	return w, withRemedy(err)
}

func withRemedy(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsForbidden(err) {
		return err
	}
	out := *status
	out.ErrStatus.Message += "; the chart's Role quoin-workers-PUBLICATION gives it the right; until then it is not known which pods a NodeSet makes again, and nodes without one count as scaled in"
	return &out
}
