package kube

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

func TestRelevantChangesOfNodes(t *testing.T) {
	keys := watchedKeys(compile(t,
		publication.Publication{Name: "a", Namespace: "a", Nodes: publication.Selection{Selector: "team in (red),!spare"}, SlurmNames: "label:slurm-name", TierLabels: []string{"rack"}},
		publication.Publication{Name: "b", Namespace: "b", SlurmNames: "annotation:slurm-node"}))
	node := func(labels, annotations map[string]string) any {
		return keys.slim(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: labels, Annotations: annotations},
			Spec: corev1.NodeSpec{Unschedulable: true}})
	}
	for _, tt := range []struct {
		label, annotation string
		want              bool
	}{
		{topology.CliqueLabel, "", true},
		{nodelabels.Count, "", true},
		{nodelabels.DefaultTiers[0], "", true}, // of b
		{"rack", "", true},
		{"team", "", true},
		{"spare", "", true},
		{"slurm-name", "", true},
		{"", "slurm-node", true},
		{"", plandoc.SpecAnnotation, true},
		{plandoc.LabelSpine, "", true},
		{"quoin.dev/agent", "", false},
		{"kubernetes.io/hostname", "", false},
		{"slurm-node", "slurm-name", false},
		{"", "node.alpha.kubernetes.io/ttl", false},
	} {
		if got := relevant(node(nil, nil), node(map[string]string{tt.label: "x"}, map[string]string{tt.annotation: "x"})); got != tt.want {
			t.Errorf("new label %q, annotation %q: noticed %v, want %v", tt.label, tt.annotation, got, tt.want)
		}
	}
}

// TestForeignKeys has other writers own what the publisher writes too.
func TestForeignKeys(t *testing.T) {
	keys := watchedKeys(compile(t, publication.Publication{}))
	owned := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	annotation := func(key string) string { return `{"f:metadata":{"f:annotations":{"f:` + key + `":{}}}}` }
	label := func(key string) string { return `{"f:metadata":{"f:labels":{".":{},"f:` + key + `":{}}}}` }
	own, theirs := owned(fieldManager, annotation(plandoc.SpecAnnotation)), owned("topograph", annotation(plandoc.SpecAnnotation))
	for name, tt := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    map[string]string
	}{
		"own":                 {[]metav1.ManagedFieldsEntry{own, owned("kubelet", annotation("other")), owned(fieldManager, label(plandoc.LabelLeaf))}, nil},
		"another's":           {[]metav1.ManagedFieldsEntry{theirs, owned("kubectl-label", label(plandoc.LabelLeaf))}, map[string]string{plandoc.SpecAnnotation: "topograph", plandoc.LabelLeaf: "kubectl-label"}},
		"both":                {[]metav1.ManagedFieldsEntry{theirs, own, theirs, own, owned(fieldManager, label(plandoc.LabelLeaf))}, map[string]string{plandoc.SpecAnnotation: "topograph"}},
		"no owner":            {nil, map[string]string{plandoc.SpecAnnotation: unknownOwner, plandoc.LabelLeaf: unknownOwner}},
		"a label and no note": {[]metav1.ManagedFieldsEntry{owned(fieldManager, label(plandoc.SpecAnnotation)), owned(fieldManager, label(plandoc.LabelLeaf))}, map[string]string{plandoc.SpecAnnotation: unknownOwner}},
		"unreadable":          {[]metav1.ManagedFieldsEntry{own, owned(fieldManager, label(plandoc.LabelLeaf)), owned("x", "{"+plandoc.SpecAnnotation)}, nil},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: tt.entries, Labels: map[string]string{plandoc.LabelLeaf: "sw7", "team": "red"},
			Annotations: map[string]string{plandoc.SpecAnnotation: "nvl:b1"}}}
		got := keys.slim(node)
		if diff := cmp.Diff(tt.want, got.node.Foreign); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if was := (&kubeNode{node: inputs.Node{Labels: got.node.Labels, Annotations: got.node.Annotations}}); relevant(was, got) != (tt.want != nil) {
			t.Errorf("%s: a new owner is noticed: %t", name, tt.want == nil)
		}
	}
}

// TestRelevantStatusOfNodes has kubelets write all that they write: their GPUs
// alone are looked at.
func TestRelevantStatusOfNodes(t *testing.T) {
	keys := watchedKeys(compile(t, publication.Publication{}))
	slim := func(change func(*corev1.NodeStatus)) *kubeNode {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
			Capacity:   corev1.ResourceList{"cpu": resource.MustParse("192"), "memory": resource.MustParse("2Ti"), "nvidia.com/gpu": resource.MustParse("8")},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}
		change(&n.Status)
		return keys.slim(n)
	}
	capacity := func(of ...string) func(*corev1.NodeStatus) {
		return func(s *corev1.NodeStatus) {
			delete(s.Capacity, "nvidia.com/gpu")
			for i := 0; i < len(of); i += 2 {
				s.Capacity[corev1.ResourceName(of[i])] = resource.MustParse(of[i+1])
			}
		}
	}
	was := slim(func(*corev1.NodeStatus) {})
	for name, tt := range map[string]struct {
		change func(*corev1.NodeStatus)
		gpus   int
	}{
		"a heartbeat": {func(s *corev1.NodeStatus) { s.Conditions[0].LastHeartbeatTime = metav1.Now() }, 8},
		"not ready":   {func(s *corev1.NodeStatus) { s.Conditions[0].Status = corev1.ConditionFalse }, 8},
		"less may be used": {func(s *corev1.NodeStatus) {
			s.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("7")}
		}, 8},
		"another image":            {func(s *corev1.NodeStatus) { s.Images = []corev1.ContainerImage{{Names: []string{"x"}}} }, 8},
		"more of something else":   {func(s *corev1.NodeStatus) { s.Capacity["vpc.amazonaws.com/efa"] = resource.MustParse("32") }, 8},
		"a GPU less":               {capacity("nvidia.com/gpu", "7"), 7},
		"no device plugin":         {capacity("nvidia.com/gpu", "0"), 0},
		"no GPU":                   {capacity(), 0},
		"another vendor's":         {capacity("amd.com/gpu", "8", "nvidia.com/pgpu", "8"), 0},
		"MIG instances":            {capacity("nvidia.com/gpu", "0", "nvidia.com/mig-1g.10gb", "56"), 1},
		"MIG instances, none left": {capacity("nvidia.com/mig-1g.10gb", "0"), 0},
		"shared":                   {capacity("nvidia.com/gpu.shared", "80"), 1},
		"some with MIG":            {capacity("nvidia.com/gpu", "4", "nvidia.com/mig-3g.40gb", "8"), 4},
		"no number of GPUs":        {capacity("nvidia.com/gpu", "8Gi"), 0},
	} {
		is := slim(tt.change)
		if is.node.GPUs != tt.gpus || relevant(was, is) != (tt.gpus != 8) {
			t.Errorf("%s: %d GPUs, noticed %t: want %d", name, is.node.GPUs, relevant(was, is), tt.gpus)
		}
	}
	lost := slim(func(s *corev1.NodeStatus) { s.Conditions[0].Status = corev1.ConditionUnknown })
	if !lost.node.Lost || !relevant(was, lost) || !relevant(lost, was) {
		t.Errorf("Kubernetes hears nothing from the node: lost %t, noticed %t, and that it does again %t", lost.node.Lost, relevant(was, lost), relevant(lost, was))
	}
}

// slurmdPod is a worker pod as slurm-operator makes it.
func slurmdPod(i int) *corev1.Pod {
	name := fmt.Sprintf("slurm-worker-gb200-%05d", i)
	labels := map[string]string{"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker", "app.kubernetes.io/instance": "slurm-worker-gb200",
		"slinky.slurm.net/cluster": "slurm", "nodeset.slinky.slurm.net/pod-hostname": name, "nodeset.slinky.slurm.net/pod-name": name, "nodeset.slinky.slurm.net/scaling-mode": "StatefulSet"}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "slurm", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "slinky.slurm.net/v1beta1", Kind: "NodeSet", Name: "slurm-worker-gb200", UID: "1", Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("gb200-%05d", i), Hostname: name}}
}

// TestSlurmStates keeps Slurm's words of each worker pod. No pass begins when they change,
// because each job changes them.
func TestSlurmStates(t *testing.T) {
	pods := cache.NewStore(cache.MetaNamespaceKeyFunc)
	keep := func(pod *corev1.Pod, words ...string) *workerPod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: corev1.ConditionTrue}, {Type: "SlurmNodeStateDown", Status: corev1.ConditionFalse}}
		for _, word := range words {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType("SlurmNodeState" + word), Status: corev1.ConditionTrue})
		}
		kept := slimPod(pod)
		if err := pods.Add(kept); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	idle := keep(slurmdPod(0), "Idle")
	busy := keep(slurmdPod(0), "Allocated", "NotResponding")
	keep(slurmdPod(1), "Idle", "Drain")
	second := slurmdPod(1) // another worker pod of the Node
	second.Name += "-second"
	keep(second, "Allocated")
	keep(slurmdPod(2)) // Slurm has not said anything yet
	ending, elsewhere, nobodys := slurmdPod(3), slurmdPod(4), slurmdPod(5)
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	elsewhere.Namespace = "other"
	nobodys.OwnerReferences = nil
	keep(ending, "Idle")
	keep(elsewhere, "Idle")
	keep(nobodys, "Idle")
	if relevant(idle, busy) {
		t.Error("a pass begins when a job starts")
	}
	s := &Store{workers: []cache.Store{pods}}
	want := map[string]string{"gb200-00000": "allocated+not_responding", "gb200-00001": "allocated+drain+idle"}
	if diff := cmp.Diff(want, s.SlurmStates([]string{"slurm"})); diff != "" {
		t.Errorf("namespace slurm (-want +got):\n%s", diff)
	}
	want["gb200-00004"] = "idle"
	if diff := cmp.Diff(want, s.SlurmStates([]string{""})); diff != "" {
		t.Errorf("all namespaces (-want +got):\n%s", diff)
	}
}
