package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// nodeKeys are the labels and annotations of Nodes that some publication looks at.
type nodeKeys inputs.NodeKeys

func watchedKeys(clusters []*publication.Cluster) nodeKeys {
	return nodeKeys(inputs.KeysOf(rulesOf(clusters)...))
}

func rulesOf(clusters []*publication.Cluster) []*inputs.Rules {
	rules := make([]*inputs.Rules, len(clusters))
	for i := range clusters {
		rules[i] = &clusters[i].Rules
	}
	return rules
}

// kubeNode is what is kept of a Node, so that 10,000 fit in little memory.
type kubeNode struct {
	metav1.ObjectMeta
	// GPUs is what the Node's capacity says.
	GPUs int32
	// lost says that its Ready is Unknown.
	lost bool
	// conditions are the publisher's own.
	conditions map[string]inputs.Condition
}

// slim keeps of a Node what a Snapshot holds.
func (k nodeKeys) slim(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	var c inputs.Capacity
	for name, quantity := range n.Status.Capacity {
		c.Add(string(name), quantity.Value())
	}
	slim := &kubeNode{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion,
		Labels: only(n.Labels, k.Labels), Annotations: only(n.Annotations, k.Annotations)}, GPUs: int32(c.GPUs())} //nolint:gosec // bounded by inputs.Capacity
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type == corev1.NodeReady {
			slim.lost = c.Status == corev1.ConditionUnknown
		}
		if !strings.HasPrefix(string(c.Type), inputs.OwnConditions) {
			continue
		}
		if slim.conditions == nil {
			slim.conditions = make(map[string]inputs.Condition)
		}
		slim.conditions[string(c.Type)] = inputs.Condition{Type: string(c.Type), Reason: c.Reason, Message: c.Message, True: c.Status == corev1.ConditionTrue}
	}
	return slim, nil
}

// same reports whether a Snapshot would be the same with both. The publisher's own
// conditions do not count, because nobody else writes them.
func (n *kubeNode) same(next *kubeNode) bool {
	return next != nil && n.GPUs == next.GPUs && n.lost == next.lost && maps.Equal(n.Labels, next.Labels) && maps.Equal(n.Annotations, next.Annotations)
}

// only returns the entries with these keys. The keys are the strings of the argument, so
// that many Nodes share them.
func only(all map[string]string, keys map[string]bool) map[string]string {
	n := 0
	for key := range keys {
		if _, is := all[key]; is {
			n++
		}
	}
	out := make(map[string]string, n)
	for key := range keys {
		if value, is := all[key]; is {
			out[key] = value
		}
	}
	return out
}

// Annotate writes the annotation of a Node, or gives it up if spec is empty. It writes by
// server-side apply, so that another writer's annotation is never overwritten.
func (s *Store) Annotate(ctx context.Context, node, spec string) error {
	meta := map[string]any{"name": node}
	if spec != "" {
		meta["annotations"] = map[string]string{plandoc.SpecAnnotation: spec}
	}
	patch, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta})
	if err != nil {
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	next, err := s.client.CoreV1().Nodes().Patch(ctx, node, types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("annotate node %s: %w: %w", node, plandoc.ErrConflict, err)
	case err != nil:
		return fmt.Errorf("annotate node %s: %w", node, err)
	}
	s.wrote(next)
	return nil
}

// SetConditions writes these conditions of a Node and leaves its others alone. A Node that
// is gone is no error. A condition that stays true, or false, keeps its time of transition.
func (s *Store) SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error {
	had := map[string]inputs.Condition{}
	if obj, known, err := s.nodes.GetByKey(node); err == nil && known {
		if n, ok := obj.(*kubeNode); ok {
			had = s.written.newest(n).conditions
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
	next, err := s.client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("set conditions of node %s: %w", node, err)
	}
	s.wrote(next)
	return nil
}

// wrote notes a Node as the API server has it after a write.
func (s *Store) wrote(n *corev1.Node) {
	if slim, err := s.keys.slim(n); err == nil {
		s.written.add(slim.(*kubeNode)) //nolint:forcetypeassert // of a Node
	}
}
