package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// workerPod is what is kept of a worker pod, so that 10,000 fit in little memory.
type workerPod struct {
	metav1.ObjectMeta
	Worker inputs.Worker
}

// slimPod keeps of a Pod what a Snapshot holds.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	facts := inputs.Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Labels: pod.Labels,
		HostNetwork: pod.Spec.HostNetwork, Ending: pod.DeletionTimestamp != nil || inputs.PodEnded(string(pod.Status.Phase))}
	return &workerPod{metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}, facts.Worker()}, nil
}

// podNamespaces are those whose worker pods some publication looks at.
func podNamespaces(clusters []*publication.Cluster) []string {
	var out []string
	for i := range clusters {
		out = append(out, clusters[i].Rules.PodNamespaces()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// newPodInformer watches the worker pods of a namespace.
func newPodInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	pods := apihealth.NewInformer(health, "worker pods in namespace "+namespace, &corev1.Pod{}, client.CoreV1().Pods(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = inputs.WorkerSelector })
	_ = pods.SetTransform(slimPod) // fails only on a started informer
	return pods
}
