package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// reportLabel and reportKey find the reports among ConfigMaps. reportPrefix begins the
// names of the ConfigMaps.
const (
	reportLabel  = kindLabel + "=node-report"
	reportKey    = "report.json"
	reportPrefix = "quoin-node-"
)

// kubeReport is what is kept of a report: its parsed form, or why there is none.
type kubeReport struct {
	metav1.ObjectMeta
	node *topology.Node
	err  error
}

// slimReport parses a report when it comes, so that no text is kept.
func slimReport(obj any) (any, error) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return obj, nil
	}
	source := "configmap " + cm.Namespace + "/" + cm.Name
	node, err := topology.ParseReport(source, []byte(cm.Data[reportKey]))
	if err == nil && cm.Name != reportPrefix+node.Name {
		err = fmt.Errorf("%s: report of node %q: want it in ConfigMap %s%s", source, node.Name, reportPrefix, node.Name)
	}
	if err == nil {
		node.Tiers = nil // no agent of a real machine names any; labels do
	}
	return &kubeReport{metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID, ResourceVersion: cm.ResourceVersion}, node, err}, nil
}

// newReportInformer watches the reports.
func newReportInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	reports := apihealth.NewInformer(health, "reports in namespace "+namespace, &corev1.ConfigMap{}, client.CoreV1().ConfigMaps(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = reportLabel })
	_ = reports.SetTransform(slimReport) // fails only on a started informer
	return reports
}

// workerPod is what is kept of a worker pod, so that 10,000 fit in little memory.
type workerPod struct {
	metav1.ObjectMeta
	// Worker is empty if no NodeSet controls the pod.
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
	if owner := metav1.GetControllerOf(pod); owner != nil {
		facts.NodeSet = inputs.NodeSetOf(owner.APIVersion, owner.Kind, owner.Name, true)
	}
	slim := &workerPod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	if facts.IsWorker() {
		slim.Worker = facts.Worker()
	}
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

// newPodInformer watches the worker pods of a namespace.
func newPodInformer(client kubernetes.Interface, health *apihealth.Health, namespace string) cache.SharedIndexInformer {
	pods := apihealth.NewInformer(health, "worker pods in namespace "+namespace, &corev1.Pod{}, client.CoreV1().Pods(namespace),
		func(o *metav1.ListOptions) { o.LabelSelector = inputs.WorkerSelector })
	_ = pods.SetTransform(slimPod) // fails only on a started informer
	return pods
}
