package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// newInformer watches objects. Of each it keeps what keep returns, so that 10,000 fit in little memory.
func newInformer[T, L runtime.Object, K any](health *apihealth.Health, what string, of T, api apihealth.Lister[L], tweak func(*metav1.ListOptions), keep func(T) K) cache.SharedIndexInformer {
	informer := apihealth.NewInformer(health, what, of, api, tweak)
	_ = informer.SetTransform(func(obj any) (any, error) { // fails only on a started informer
		if o, ok := obj.(T); ok {
			return keep(o), nil
		}
		return obj, nil
	})
	return informer
}

// metaOf returns what an informer needs of the metadata of an object.
func metaOf(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

// kubeReport is what is kept of a NodeReport: its parsed form, or why there is none.
type kubeReport struct {
	metav1.ObjectMeta
	node *topology.Node
	err  error
}

// slimReport keeps of a NodeReport what a Snapshot holds.
func (s *shared) slimReport(o *nodereport.Object) *kubeReport {
	if o.Node != nil {
		o.Node.Tiers = nil // no agent of a real machine names any; labels do
		s.share(o.Node)
	}
	return &kubeReport{metaOf(o), o.Node, o.Err}
}

// newReportInformer watches the reports.
func newReportInformer(reports *nodereport.Client, health *apihealth.Health) cache.SharedIndexInformer {
	return newInformer(health, "reports", &nodereport.Object{}, reports, func(*metav1.ListOptions) {}, new(shared).slimReport)
}

// workerPod is what is kept of a worker pod, so that 10,000 fit in little memory.
type workerPod struct {
	metav1.ObjectMeta
	// Worker is empty if no NodeSet controls the pod.
	Worker inputs.Worker
	// State are Slurm's words for the state of the node, with plus signs between. A pass
	// does not look at it: it changes with each job.
	State string
}

// slimPod keeps of a Pod of Slinky what a Snapshot holds.
func slimPod(pod *corev1.Pod) *workerPod {
	slim := &workerPod{ObjectMeta: metaOf(pod)}
	if facts := factsOf(pod); facts.IsWorker() {
		slim.Worker = facts.Worker()
		slim.State, slim.Worker.State = slim.Worker.State, ""
	}
	return slim
}

// factsOf reads what decides how Slurm calls the node of a Pod.
func factsOf(pod *corev1.Pod) inputs.Pod {
	facts := inputs.Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Labels: pod.Labels,
		HostNetwork: pod.Spec.HostNetwork, Ending: pod.DeletionTimestamp != nil || inputs.PodEnded(string(pod.Status.Phase))}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		facts.NodeSet = inputs.NodeSetOf(owner.APIVersion, owner.Kind, owner.Name, true)
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		facts.AddCondition(string(c.Type), string(c.Status), c.Message)
	}
	return facts
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

// newNamingInformer watches pods by which a publication names nodes.
func newNamingInformer(client kubernetes.Interface, health *apihealth.Health, naming inputs.NamingPods) cache.SharedIndexInformer {
	return newInformer(health, "pods "+naming.Text+" in namespace "+naming.Namespace, &corev1.Pod{}, client.CoreV1().Pods(naming.Namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = naming.Text },
		func(pod *corev1.Pod) *workerPod {
			facts := factsOf(pod)
			return &workerPod{ObjectMeta: metaOf(pod), Worker: facts.Selected(naming.Text)}
		})
}

// newPodInformer watches Slinky's worker pods of a namespace.
func newPodInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	return newInformer(health, "worker pods in namespace "+namespace, &corev1.Pod{}, client.CoreV1().Pods(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = inputs.WorkerSelector }, slimPod)
}
