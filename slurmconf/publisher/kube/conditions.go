package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// SetConditions writes these conditions of a Node and leaves its others alone. A Node that
// is gone is no error. A condition that stays true, or false,
// keeps its time of transition.
func (s *Store) SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error {
	had := map[string]inputs.Condition{}
	if obj, known, err := s.nodes.GetByKey(node); err == nil && known {
		if n, ok := obj.(*kubeNode); ok {
			had = n.conditions
		}
	}
	now := metav1.Now()
	var list []map[string]any
	for _, c := range conditions {
		entry := map[string]any{"type": c.Type, "status": corev1.ConditionFalse, "reason": c.Reason, "message": c.Message, "lastHeartbeatTime": now}
		if c.True {
			entry["status"] = corev1.ConditionTrue
		}
		if was, is := had[c.Type]; !is || was.True != c.True {
			entry["lastTransitionTime"] = now
		}
		list = append(list, entry)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": list}})
	if err != nil {
		return fmt.Errorf("set conditions of node %s: %w", node, err)
	}
	_, err = s.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set conditions of node %s: %w", node, err)
	}
	return nil
}
