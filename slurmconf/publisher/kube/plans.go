package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// A plan is in the ConfigMap of this prefix and the publication's name, beside the reports.
const (
	kindPlan   = "plan"
	planPrefix = "quoin-plan-"
	planKey    = "plan.json.gz"
)

// Plans are the stored plans and what is published, as everybody reaches them. Nothing is watched.
type Plans struct {
	Client    kubernetes.Interface
	Namespace string // Quoin's own
}

// Ask adds annotations to a publication. The publisher does what they ask for.
func (p Plans) Ask(ctx context.Context, place plandoc.Location, annotations map[string]string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err == nil {
		_, err = p.Client.CoreV1().ConfigMaps(place.Namespace).Patch(ctx, place.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("annotate ConfigMap %s: it is not there: does the publisher run? %w", place, err)
	case err != nil:
		return fmt.Errorf("annotate ConfigMap %s: %w", place, err)
	}
	return nil
}

// LoadPlan returns the stored plan of the publication, or nil if there is none.
func (p Plans) LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error) {
	namespace, name := p.Namespace, planPrefix+publication
	cm, err := p.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read plan %s/%s: %w", namespace, name, err)
	}
	d, err := plandoc.Unpack(cm.BinaryData[planKey])
	if err == nil && d.Publication != publication {
		err = fmt.Errorf("%w: it is that of publication %q", plandoc.ErrUnreadable, d.Publication)
	}
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	}
	d.Version = cm.ResourceVersion
	return d, nil
}

// Stored returns what is stored of each publication that has a plan.
func (p Plans) Stored(ctx context.Context) (map[string]plandoc.Stored, error) {
	all, err := p.Client.CoreV1().ConfigMaps(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: kindLabel + "=" + kindPlan})
	if err != nil {
		return nil, fmt.Errorf("list plans in namespace %s: %w", p.Namespace, err)
	}
	out := make(map[string]plandoc.Stored, len(all.Items))
	for i := range all.Items {
		cm := &all.Items[i]
		name, ok := strings.CutPrefix(cm.Name, planPrefix)
		if !ok {
			continue
		}
		is := plandoc.Stored{Files: "a ConfigMap that its plan does not name", RemovePlan: remove(p.Namespace, cm.Name)}
		if d, err := plandoc.Unpack(cm.BinaryData[planKey]); err == nil {
			if at, ok := plandoc.ReadLocation(d.Place); ok {
				is.Place, is.Files, is.RemoveFiles = at, "ConfigMap "+d.Place, remove(at.Namespace, at.Name)
			}
		}
		out[name] = is
	}
	return out, nil
}

// remove is the command that deletes a ConfigMap.
func remove(namespace, name string) string {
	return "kubectl -n " + namespace + " delete configmap " + name
}

// planWatch is what the watches have shown of the stored plans.
type planWatch struct {
	mu sync.Mutex
	// seen are the newest versions by publication, and own are those that this store wrote.
	seen map[string]seenPlan
	own  map[string]string
}

// seenPlan is a plan that a watch has shown. Without a version it was deleted while nobody
// watched.
type seenPlan struct {
	version string
	gone    bool
}

// watchPlan returns the watch of a publication's plan. It keeps the version alone. notify is
// called after a change that the store has not made itself.
func (s *Store) watchPlan(publication string, notify func()) cache.SharedIndexInformer {
	name := planPrefix + publication
	informer := newInformer(s.health, "plan "+s.Namespace+"/"+name, &corev1.ConfigMap{}, s.Client.CoreV1().ConfigMaps(s.Namespace),
		func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + name },
		func(cm *corev1.ConfigMap) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: metaOf(cm)} })
	see := func(obj any, gone bool) {
		seen := seenPlan{gone: gone}
		if cm, ok := obj.(*corev1.ConfigMap); ok {
			seen.version = cm.ResourceVersion
		}
		if s.plans.see(publication, seen) {
			notify()
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only on a stopped informer
		AddFunc:    func(obj any) { see(obj, false) },
		UpdateFunc: func(_, obj any) { see(obj, false) },
		DeleteFunc: func(obj any) { see(obj, true) },
	})
	return informer
}

// see notes what a watch shows. It reports whether somebody else has changed the plan.
func (w *planWatch) see(publication string, seen seenPlan) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[publication] = seen
	return seen.gone || seen.version != w.own[publication]
}

// wrote notes the version that the store has written.
func (w *planWatch) wrote(publication, version string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.own[publication] = version
}

// changed reports whether what was seen is newer than a version. A watch may be late.
func (w *planWatch) changed(publication, version string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, is := w.seen[publication]
	switch {
	case !is:
		return false
	case version == "":
		return !seen.gone
	case seen.version == "":
		return true
	}
	order, err := resourceversion.CompareResourceVersion(seen.version, version)
	return err == nil && order > 0
}

// PlanChanged reports whether the stored plan is a newer one than that of the version, or
// gone, as far as the watch has shown.
func (s *Store) PlanChanged(publication, version string) bool {
	return s.plans.changed(publication, version)
}

// SavePlan stores the plan, only onto the version that LoadPlan returned.
func (s *Store) SavePlan(ctx context.Context, d *plandoc.Document) (version string, err error) {
	name := planPrefix + d.Publication
	packed, err := plandoc.Pack(d)
	if err == nil {
		err = s.confirmLead(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("write plan %s: %w", name, err)
	}
	api := s.Client.CoreV1().ConfigMaps(s.Namespace)
	labels := map[string]string{"app.kubernetes.io/managed-by": "quoin", kindLabel: kindPlan}
	var cm *corev1.ConfigMap
	if d.Version == "" {
		cm, err = api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: labels},
			BinaryData: map[string][]byte{planKey: packed}}, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": d.Version, "labels": labels}, "binaryData": map[string][]byte{planKey: packed}})
		if err == nil {
			cm, err = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		}
	}
	if err != nil {
		return "", fmt.Errorf("write plan %s/%s: %w", s.Namespace, name, err)
	}
	s.plans.wrote(d.Publication, cm.ResourceVersion)
	return cm.ResourceVersion, nil
}

// Addresses returns the InternalIP of Nodes, the first if there are several.
func (p Plans) Addresses(ctx context.Context, nodes []string) (map[string]netip.Addr, error) {
	out := make(map[string]netip.Addr, len(nodes))
	for _, name := range nodes {
		node, err := p.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("address of node %s: %w", name, err)
		}
		i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
		if i < 0 {
			return nil, fmt.Errorf("address of node %s: the Node has no InternalIP", name)
		}
		if out[name], err = netip.ParseAddr(node.Status.Addresses[i].Address); err != nil {
			return nil, fmt.Errorf("address of node %s: InternalIP: %w", name, err)
		}
	}
	return out, nil
}
