package publisher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// workerPod is what is kept of a worker pod, so that 10,000 fit in little memory.
type workerPod struct {
	metav1.ObjectMeta
	Worker Worker
}

// slimPod keeps of a Pod what a Snapshot holds.
func slimPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	facts := podFacts{namespace: pod.Namespace, name: pod.Name, node: pod.Spec.NodeName, hostname: pod.Spec.Hostname, labels: pod.Labels,
		hostNetwork: pod.Spec.HostNetwork, ending: pod.DeletionTimestamp != nil || hasEnded(string(pod.Status.Phase))}
	return &workerPod{metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}, facts.worker()}, nil
}

// hasEnded reports whether a Pod in that phase never runs again.
func hasEnded(phase string) bool {
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

// podNamespaces are those whose worker pods some publication looks at.
func podNamespaces(pubs []Publication) []string {
	var out []string
	seen := map[string]bool{}
	for i := range pubs {
		for _, c := range []*slinkyCluster{pubs[i].names, pubs[i].workers} {
			if c != nil && !seen[c.namespace] {
				seen[c.namespace] = true
				out = append(out, c.namespace)
			}
		}
	}
	return out
}

// newPodInformer watches the worker pods of a namespace.
func newPodInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	pods := newInformer(client, health, "worker pods in namespace "+namespace, &corev1.Pod{}, client.CoreV1().Pods(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = workerSelector })
	_ = pods.SetTransform(slimPod) // fails only on a started informer
	return pods
}
