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

// slinkyVersion is that of Slinky's kinds, from slurm-operator 1.0 on.
var slinkyVersion = schema.GroupVersion{Group: "slinky.slurm.net", Version: "v1beta1"}

// slinkyWatch watches one of Slinky's kinds in a namespace. The publisher works without it: then
// nobody can tell what the objects say.
type slinkyWatch struct {
	what     string
	health   *apihealth.Health
	informer cache.SharedIndexInformer
}

// newNodeSetWatch watches the NodeSets, which say whether a worker pod that is gone is made again.
func newNodeSetWatch(client dynamic.Interface, health *apihealth.Health, namespace string) *slinkyWatch {
	return newSlinkyWatch(slinkyLister{client.Resource(slinkyVersion.WithResource("nodesets")).Namespace(namespace),
		"it is not known which pods a NodeSet makes again, and nodes without one count as scaled in"}, health, "NodeSets in namespace "+namespace, slimNodeSet)
}

// newControllerWatch watches the Controllers, whose images say which release of Slurm runs.
func newControllerWatch(client dynamic.Interface, health *apihealth.Health, namespace string) *slinkyWatch {
	return newSlinkyWatch(slinkyLister{client.Resource(slinkyVersion.WithResource("controllers")).Namespace(namespace),
		"the image of a Controller does not say which release of Slurm runs"}, health, "Controllers in namespace "+namespace, slimController)
}

func newSlinkyWatch(api slinkyLister, health *apihealth.Health, what string, slim cache.TransformFunc) *slinkyWatch {
	w := &slinkyWatch{what: what, health: health}
	w.informer = apihealth.NewInformer(health, w.what, &unstructured.Unstructured{}, api, func(*metav1.ListOptions) {})
	_ = w.informer.SetTransform(slim) // fails only on a started informer
	return w
}

// slinkyObjects returns what is kept of the objects. It returns none while they cannot be read, for
// example because the API server does not know them any more.
func slinkyObjects[T any](w *slinkyWatch) []T {
	if !w.informer.HasSynced() || w.health.Of(w.what) != nil {
		return nil
	}
	var out []T
	for _, obj := range w.informer.GetStore().List() {
		if o, ok := obj.(*slinkyObject); ok && !o.ending {
			if kept, ok := o.kept.(T); ok {
				out = append(out, kept)
			}
		}
	}
	return out
}

// slinkyObject is what is kept of one of Slinky's objects.
type slinkyObject struct {
	metav1.ObjectMeta
	kept   any // an inputs.NodeSet or an inputs.Controller
	ending bool
}

func (o *slinkyObject) same(other *slinkyObject) bool {
	return o.kept == other.kept && o.ending == other.ending
}

func keepOf(o *unstructured.Unstructured, kept any) *slinkyObject {
	return &slinkyObject{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()},
		kept, o.GetDeletionTimestamp() != nil}
}

// slimController keeps of a Controller what a Snapshot holds.
func slimController(obj any) (any, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	return keepOf(o, inputs.ReadController(o.GetNamespace(), o.GetName(), o.Object)), nil
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
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "scalingMode")
	set.PerNode = strings.EqualFold(mode, inputs.ScalingModeDaemonSet)
	return keepOf(o, set), nil
}

// slinkyLister says in its errors what to do if the objects may not be read, and what is unknown
// until then.
type slinkyLister struct {
	api     dynamic.ResourceInterface
	unknown string
}

func (l slinkyLister) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	list, err := l.api.List(ctx, o)
	return list, l.withRemedy(err)
}

func (l slinkyLister) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := l.api.Watch(ctx, o)
	return w, l.withRemedy(err)
}

func (l slinkyLister) withRemedy(err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsForbidden(err) {
		return err
	}
	out := *status
	out.ErrStatus.Message += "; the chart's Role quoin-workers-PUBLICATION gives it the right; until then " + l.unknown
	return &out
}
