package publisher

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WatchCordons has the store know the cordons of Nodes, and wake when they change. It is
// called before Run.
func (s *KubeStore) WatchCordons() { s.keys.annotations[CordonAnnotation] = true }

// SetCordon implements CordonSetter. One patch carries reason and cordon together, so
// that Slinky never sees one without the other, and only onto the version that the
// Snapshot had.
func (s *KubeStore) SetCordon(ctx context.Context, n *Node, to Cordon) error {
	if err := s.confirmLead(ctx); err != nil {
		return fmt.Errorf("cordon node %s: %w", n.Name, err)
	}
	var unschedulable, reason any // null takes away
	if to.Unschedulable {
		unschedulable = true
	}
	if to.Reason != "" {
		reason = to.Reason
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.Version, "annotations": map[string]any{CordonAnnotation: reason}},
		"spec":     map[string]any{"unschedulable": unschedulable},
	})
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", n.Name, err)
	}
	_, err = s.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("cordon node %s: %w", n.Name, ErrNodeChanged)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return fmt.Errorf("cordon node %s: %w: %w; apply manifests/slinky/cordon.yaml, which lets it, or set cordon: false", n.Name, ErrCordonRefused, err)
	}
	return fmt.Errorf("cordon node %s: %w", n.Name, err)
}
