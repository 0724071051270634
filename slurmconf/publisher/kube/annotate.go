package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// Annotate writes the annotation of a Node, or gives it up if spec is empty. It writes by server-side apply, so that another writer's
// annotation is never overwritten.
func (s *Store) Annotate(ctx context.Context, node, spec string) error {
	meta := map[string]any{"name": node}
	if spec != "" {
		meta["annotations"] = map[string]string{published.SpecAnnotation: spec}
	}
	patch, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta})
	if err != nil {
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	_, err = s.client.CoreV1().Nodes().Patch(ctx, node, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("annotate node %s: %w: %w", node, published.ErrConflict, err)
	case err != nil:
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	return nil
}
