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

// slinkyKinds are the kinds that are watched, and what is not known without them. keep returns what a
// Snapshot holds of an object.
var slinkyKinds = []struct {
	kind, unknown string
	keep          func(o *unstructured.Unstructured) any
}{
	{"NodeSets", "it is not known which pods a NodeSet makes again, and nodes without one count as scaled in", keepNodeSet},
	{"Controllers", "the image of a Controller does not say which release of Slurm runs", keepController},
}

// slinkyWatch watches one kind in a namespace. The publisher works without the objects.
type slinkyWatch struct {
	what     string
	health   *apihealth.Health
	informer cache.SharedIndexInformer
}

// watchSlinky returns a watch of each kind.
func watchSlinky(client dynamic.Interface, health *apihealth.Health, namespace string) (all []*slinkyWatch) {
	for _, k := range slinkyKinds {
		w := &slinkyWatch{what: k.kind + " in namespace " + namespace, health: health}
		api := slinkyLister{client.Resource(slinkyVersion.WithResource(strings.ToLower(k.kind))).Namespace(namespace), k.unknown}
		w.informer = newInformer(health, w.what, &unstructured.Unstructured{}, api, func(*metav1.ListOptions) {},
			func(o *unstructured.Unstructured) *slinkyObject { return slimSlinky(o, k.keep) })
		all = append(all, w)
	}
	return all
}

// addTo adds the objects to a Snapshot. It adds none while they cannot be read, for example because
// the API server does not know them any more.
func (w *slinkyWatch) addTo(snap *inputs.Snapshot) {
	if !w.informer.HasSynced() || w.health.Of(w.what) != nil {
		return
	}
	for _, obj := range w.informer.GetStore().List() {
		o, ok := obj.(*slinkyObject)
		if !ok || o.ending {
			continue
		}
		switch kept := o.kept.(type) {
		case inputs.NodeSet:
			snap.NodeSets = append(snap.NodeSets, kept)
		case inputs.Controller:
			snap.Controllers = append(snap.Controllers, kept)
		}
	}
}

// slinkyObject is what is kept of an object.
type slinkyObject struct {
	metav1.ObjectMeta
	kept   any // an inputs.NodeSet or an inputs.Controller
	ending bool
}

func (o *slinkyObject) same(other *slinkyObject) bool {
	return o.kept == other.kept && o.ending == other.ending
}

// slimSlinky keeps of an object what a Snapshot holds.
func slimSlinky(o *unstructured.Unstructured, keep func(o *unstructured.Unstructured) any) *slinkyObject {
	return &slinkyObject{metaOf(o), keep(o), o.GetDeletionTimestamp() != nil}
}

func keepController(o *unstructured.Unstructured) any {
	return inputs.ReadController(o.GetNamespace(), o.GetName(), o.Object)
}

func keepNodeSet(o *unstructured.Unstructured) any {
	set := inputs.NodeSet{Namespace: o.GetNamespace(), Name: o.GetName(), Replicas: 1} // Slinky's default
	if n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas"); found && err == nil {
		set.Replicas = int(max(n, 0))
	}
	set.Cluster, _, _ = unstructured.NestedString(o.Object, "spec", "controllerRef", "name")
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "scalingMode")
	set.PerNode = strings.EqualFold(mode, inputs.ScalingModeDaemonSet)
	return set
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
