package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
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
	node inputs.Node
}

// slim keeps of a Node what a Snapshot holds.
func (k nodeKeys) slim(n *corev1.Node) *kubeNode {
	var c inputs.Capacity
	for name, quantity := range n.Status.Capacity {
		c.Add(string(name), quantity.Value())
	}
	labels := only(n.Labels, k.Labels)
	for key, value := range n.Labels {
		if nodelabels.IsMIGCount(key) {
			labels[key] = value
		}
	}
	slim := &kubeNode{metaOf(n),
		inputs.Node{Name: n.Name, Labels: labels, Annotations: only(n.Annotations, k.Annotations), Version: n.ResourceVersion, Foreign: foreignKeys(n), GPUs: c.GPUs()}}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		slim.node.AddCondition(string(c.Type), string(c.Status), c.Reason, c.Message)
	}
	return slim
}

// same reports whether a Snapshot would be the same with both. The publisher's own
// conditions do not count, because nobody else writes them.
func (n *kubeNode) same(next *kubeNode) bool {
	a, b := &n.node, &next.node
	return a.GPUs == b.GPUs && a.Lost == b.Lost && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Foreign, b.Foreign)
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

// Mark writes annotations and labels of a Node by one patch, onto the version that was read. So
// nothing is overwritten that another writer has changed since.
func (s *Store) Mark(ctx context.Context, n *inputs.Node, change inputs.Marks) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": n.Version,
		"annotations": emptyAsNull(change.Annotations), "labels": emptyAsNull(change.Labels)}})
	if err != nil {
		return fmt.Errorf("write annotations and labels of node %s: %w", n.Name, err)
	}
	next, err := s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		return fmt.Errorf("write annotations and labels of node %s: %w: %w", n.Name, plandoc.ErrNodeChanged, err)
	case err != nil:
		return fmt.Errorf("write annotations and labels of node %s: %w", n.Name, err)
	}
	s.wrote(next)
	return nil
}

// emptyAsNull returns values for a merge patch, in which a null removes the key.
func emptyAsNull(values map[string]string) map[string]any {
	out := make(map[string]any, len(values))
	for key, value := range values {
		out[key] = nil
		if value != "" {
			out[key] = value
		}
	}
	return out
}

// unknownOwner is the owner of a key of which a Node does not say who wrote it. It was not the publisher.
const unknownOwner = "unknown"

// foreignKeys returns the publisher's keys that another writer owns on the Node, with the writer's
// name.
func foreignKeys(n *corev1.Node) map[string]string {
	owners := map[string]string{} // of the keys that the Node has
	if _, is := n.Annotations[plandoc.SpecAnnotation]; is {
		owners[plandoc.SpecAnnotation] = unknownOwner
	}
	for _, key := range plandoc.NodeLabels {
		if _, is := n.Labels[key]; is {
			owners[key] = unknownOwner
		}
	}
	if len(owners) == 0 {
		return nil
	}
	for i := range n.ManagedFields {
		entry := &n.ManagedFields[i]
		for _, key := range ownedKeys(entry, owners) {
			if entry.Manager != fieldManager || owners[key] == unknownOwner {
				owners[key] = entry.Manager
			}
		}
	}
	maps.DeleteFunc(owners, func(_, by string) bool { return by == fieldManager })
	if len(owners) == 0 {
		return nil // which takes no memory
	}
	return owners
}

// ownedKeys returns which of the annotations and labels the entry owns. Most entries own none, and are
// not parsed.
func ownedKeys(entry *metav1.ManagedFieldsEntry, keys map[string]string) (owned []string) {
	var fields *struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
			Labels      map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	raw := entry.FieldsV1.GetRawBytes()
	for key := range keys {
		if !bytes.Contains(raw, []byte(key)) {
			continue
		}
		if fields == nil && json.Unmarshal(raw, &fields) != nil {
			return nil
		}
		in := fields.Metadata.Annotations
		if slices.Contains(plandoc.NodeLabels, key) {
			in = fields.Metadata.Labels
		}
		if _, owns := in["f:"+key]; owns {
			owned = append(owned, key)
		}
	}
	return owned
}

// SetConditions writes these conditions of a Node and leaves its others alone. A Node that
// is gone is no error. A condition that stays true, or false, keeps its time of transition.
func (s *Store) SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error {
	had := map[string]inputs.Condition{}
	if obj, known, err := s.nodes.GetByKey(node); err == nil && known {
		if n, ok := obj.(*kubeNode); ok {
			had = s.written.newest(n).node.Conditions
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
	next, err := s.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
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
	s.written.add(s.keys.slim(n))
}
