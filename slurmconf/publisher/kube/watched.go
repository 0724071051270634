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
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// kubeReport is what is kept of a NodeReport: its parsed form, or why there is none.
type kubeReport struct {
	metav1.ObjectMeta
	node *topology.Node
	err  error
}

// slimReport keeps of a NodeReport what a Snapshot holds.
func (s *shared) slimReport(obj any) (any, error) {
	o, ok := obj.(*nodereport.Object)
	if !ok {
		return obj, nil
	}
	if o.Node != nil {
		o.Node.Tiers = nil // no agent of a real machine names any; labels do
		s.share(o.Node)
	}
	return &kubeReport{metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion}, o.Node, o.Err}, nil
}

// newReportInformer watches the reports.
func newReportInformer(reports *nodereport.Client, health *apihealth.Health) cache.SharedIndexInformer {
	informer := apihealth.NewInformer(health, "reports", &nodereport.Object{}, reports, func(*metav1.ListOptions) {})
	_ = informer.SetTransform(new(shared).slimReport) // fails only on a started informer
	return informer
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
func slimPod(obj any) (any, error) {
	return slim(obj, func(facts *inputs.Pod, slim *workerPod) {
		if facts.IsWorker() {
			slim.Worker = facts.Worker()
			slim.State, slim.Worker.State = slim.Worker.State, ""
		}
	})
}

// slim keeps of a Pod what keep takes of its facts.
func slim(obj any, keep func(*inputs.Pod, *workerPod)) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	facts := inputs.Pod{Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Hostname: pod.Spec.Hostname, Labels: pod.Labels,
		HostNetwork: pod.Spec.HostNetwork, Ending: pod.DeletionTimestamp != nil || inputs.PodEnded(string(pod.Status.Phase))}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		facts.NodeSet = inputs.NodeSetOf(owner.APIVersion, owner.Kind, owner.Name, true)
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Status == corev1.ConditionTrue {
			facts.AddCondition(string(c.Type), c.Message)
		}
	}
	slim := &workerPod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	keep(&facts, slim)
	return slim, nil
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
	pods := apihealth.NewInformer(health, "pods "+naming.Text+" in namespace "+naming.Namespace, &corev1.Pod{}, client.CoreV1().Pods(naming.Namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = naming.Text })
	_ = pods.SetTransform(func(obj any) (any, error) { // fails only on a started informer
		return slim(obj, func(facts *inputs.Pod, slim *workerPod) { slim.Worker = facts.Selected(naming.Text) })
	})
	return pods
}

// newPodInformer watches Slinky's worker pods of a namespace.
func newPodInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	pods := apihealth.NewInformer(health, "worker pods in namespace "+namespace, &corev1.Pod{}, client.CoreV1().Pods(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = inputs.WorkerSelector })
	_ = pods.SetTransform(slimPod) // fails only on a started informer
	return pods
}
