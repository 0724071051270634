package kube

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// BenchmarkSlinky names 10,008 nodes by their worker pods, from what is kept of
// these.
func BenchmarkSlinky(b *testing.B) {
	const count = 10008
	made := func() []*workerPod {
		kept := make([]*workerPod, count)
		for i := range kept {
			obj, err := slimPod(slurmdPod(i))
			pod, ok := obj.(*workerPod)
			if err != nil || !ok {
				b.Fatal(err, obj)
			}
			kept[i] = pod
		}
		return kept
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := made()
	runtime.GC()
	runtime.ReadMemStats(&after)
	pub := compile(b, publication.Publication{SlurmNames: "slinky:slurm"})[0]
	b.Run("name nodes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			snap := &inputs.Snapshot{Nodes: make([]inputs.Node, count)}
			workers := make([]inputs.Worker, count)
			for i := range kept {
				snap.Nodes[i].Name, workers[i] = kept[i].Worker.Node, kept[i].Worker
			}
			snap.AddWorkers(workers)
			if g := pub.Rules.Gather(snap); len(g.Facts) != count {
				b.Fatal(len(g.Facts))
			}
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/pod")
	})
}

// BenchmarkNodes keeps of 10,008 Nodes what the publisher looks at, with who owns it, and compares each
// with its next heartbeat.
func BenchmarkNodes(b *testing.B) {
	const count = 10008
	keys := watchedKeys(compile(b, publication.Publication{}))
	slim := func(i int) *kubeNode {
		obj, err := keys.slim(kubeletNode(i))
		n, ok := obj.(*kubeNode)
		if err != nil || !ok {
			b.Fatal(err, obj)
		}
		return n
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make([]*kubeNode, count)
	for i := range kept {
		kept[i] = slim(i)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(kept[0].node.Foreign) != 0 {
		b.Fatalf("foreign are %v", kept[0].node.Foreign)
	}
	n := kubeletNode(0)
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := keys.slim(n); err != nil {
				b.Fatal(err)
			}
		}
	})
	next := slim(0)
	b.Run("heartbeat", func(b *testing.B) {
		for b.Loop() {
			if relevant(kept[0], next) {
				b.Fatal("a heartbeat is noticed")
			}
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/count, "B/node")
	})
}

// kubeletNode is a Node as the GPU Operator labels it, as far as its size matters.
func kubeletNode(i int) *corev1.Node {
	labels := map[string]string{topology.CliqueLabel: fmt.Sprintf("8a61c302-0000-4000-8000-%012d.%d", i/18, i/18), nodelabels.Count: "4", nodelabels.Product: "NVIDIA-GB200",
		nodelabels.Present: "true", nodelabels.DefaultTiers[0]: fmt.Sprintf("leaf-%03d", i/18), nodelabels.DefaultTiers[1]: fmt.Sprintf("spine-%02d", i/300)}
	own := fmt.Appendf(nil, `{"f:metadata":{"f:annotations":{"f:%s":{}},"f:labels":{`, plandoc.SpecAnnotation)
	for k, key := range plandoc.NodeLabels {
		labels[key] = fmt.Sprintf("unit-%d", i/18)
		own = fmt.Appendf(own, `%s"f:%s":{}`, strings.Repeat(",", min(k, 1)), key)
	}
	own = append(own, "}}}"...)
	for k := range 60 {
		labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.%d", k)] = "true"
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gb200-%05d", i), UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(i), Labels: labels,
		Annotations: map[string]string{plandoc.SpecAnnotation: fmt.Sprintf("nvl:nvl-8a61c302-%d", i/18)},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:images":{}}, "x":"` + strings.Repeat("k:{}", 2000) + `"}`)},
			{Manager: fieldManager, FieldsV1: metav1.NewFieldsV1(string(own))},
		}},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("144"), "nvidia.com/gpu": resource.MustParse("4")}}}
}

// slurmdPod is a pod as slurm-operator makes it, as far as its size matters.
func slurmdPod(i int) *corev1.Pod {
	name := fmt.Sprintf("slurm-worker-gb200-%05d", i)
	labels := map[string]string{"app.kubernetes.io/name": "slurmd", "app.kubernetes.io/component": "worker", "app.kubernetes.io/instance": "slurm-worker-gb200",
		"slinky.slurm.net/cluster": "slurm", "nodeset.slinky.slurm.net/pod-hostname": name, "nodeset.slinky.slurm.net/pod-name": name, "nodeset.slinky.slurm.net/scaling-mode": "StatefulSet"}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "slurm", UID: types.UID(fmt.Sprintf("%036d", i)), ResourceVersion: fmt.Sprint(i), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "slinky.slurm.net/v1beta1", Kind: "NodeSet", Name: "slurm-worker-gb200", UID: "1", Controller: new(true)}},
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 2000)}},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("gb200-%05d", i), Hostname: name, Containers: []corev1.Container{{Name: "slurmd"}}}}
}
