package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// A plan is in the ConfigMap of this prefix and the publication's name, beside the reports.
const (
	kindPlan   = "plan"
	planPrefix = "quoin-plan-"
	planKey    = "plan.json.gz"
)

// LoadPlan returns the stored plan of the publication, or nil if there is none.
func (s *Store) LoadPlan(ctx context.Context, publication string) (*plandoc.Document, error) {
	return Plans{s.client, s.namespace}.LoadPlan(ctx, publication)
}

// Stored returns, for each publication that has a stored plan, where its files are.
func (s *Store) Stored(ctx context.Context) (map[string]string, error) {
	return Plans{s.client, s.namespace}.Stored(ctx)
}

// Plans are the stored plans, as people and their tools reach them.
type Plans struct {
	Client    kubernetes.Interface
	Namespace string // Quoin's own
}

// Ask adds annotations to a publication. The publisher does what they ask for.
func (p Plans) Ask(ctx context.Context, place published.Place, annotations map[string]string) error {
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

// Stored returns, for each publication that has a stored plan, where its files are.
func (p Plans) Stored(ctx context.Context) (map[string]string, error) {
	all, err := p.Client.CoreV1().ConfigMaps(p.Namespace).List(ctx, metav1.ListOptions{LabelSelector: kindLabel + "=" + kindPlan})
	if err != nil {
		return nil, fmt.Errorf("list plans in namespace %s: %w", p.Namespace, err)
	}
	out := make(map[string]string, len(all.Items))
	for i := range all.Items {
		cm := &all.Items[i]
		name, ok := strings.CutPrefix(cm.Name, planPrefix)
		if !ok {
			continue
		}
		out[name] = "a ConfigMap that its plan does not name"
		if d, err := plandoc.Unpack(cm.BinaryData[planKey]); err == nil {
			out[name] = "ConfigMap " + d.Place
		}
	}
	return out, nil
}

// SavePlan stores the plan, only onto the version that LoadPlan returned.
func (s *Store) SavePlan(ctx context.Context, d *plandoc.Document) error {
	name := planPrefix + d.Publication
	packed, err := plandoc.Pack(d)
	if err == nil {
		err = s.confirmLead(ctx)
	}
	if err != nil {
		return fmt.Errorf("write plan %s: %w", name, err)
	}
	api := s.client.CoreV1().ConfigMaps(s.namespace)
	labels := map[string]string{"app.kubernetes.io/managed-by": "quoin", kindLabel: kindPlan}
	var cm *corev1.ConfigMap
	if d.Version == "" {
		cm, err = api.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: labels},
			BinaryData: map[string][]byte{planKey: packed}}, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		var patch []byte
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": d.Version, "labels": labels}, "binaryData": map[string][]byte{planKey: packed}})
		if err == nil {
			cm, err = api.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		}
	}
	if err != nil {
		return fmt.Errorf("write plan %s/%s: %w", s.namespace, name, err)
	}
	d.Version = cm.ResourceVersion
	return nil
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
