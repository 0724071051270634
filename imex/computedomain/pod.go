package computedomain

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/quoin-hpc/quoin/imex"
)

// The pods that may hold a node's channel: the pods of the DaemonSet quoin-imex, and
// the pods in which Slinky runs slurmd.
const (
	labelName, labelComponent   = "app.kubernetes.io/name", "app.kubernetes.io/component"
	holderName, holderComponent = "quoin", "imex"
	slurmdName, slurmdComponent = "slurmd", "worker"
	publisherComponent          = "publisher"
	joiningPods                 = labelName + " in (" + holderName + "," + slurmdName + ")," + labelComponent + " in (" + holderComponent + "," + slurmdComponent + ")"
)

// podFacts are the facts of a Pod.
type podFacts struct {
	uid   types.UID
	owner string
	node  string // where it runs, or the only node where it can run
	// claimed says that the pod has a node and ResourceClaims. A pod gets its node when its claims are allocated.
	claimed bool
	claims  []string // names of its ResourceClaims that exist
	// templates are the templates of the ResourceClaims of a worker pod, with or without claims yet.
	templates []string
}

// readPod reads a pod of the holder or of Slurm that has not ended. Without ResourceClaims it keeps only a pod of
// Slurm that has a node.
func readPod(obj any) (podFacts, bool) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return podFacts{}, false
	}
	out := podFacts{uid: pod.UID, owner: ownerOf(pod.Labels), node: cmp.Or(pod.Spec.NodeName, pinnedTo(&pod.Spec))}
	if out.owner == imex.OwnerOther {
		return podFacts{}, false
	}
	if len(pod.Spec.ResourceClaims) == 0 {
		return out, out.owner == imex.OwnerSlurmd && pod.Spec.NodeName != ""
	}
	out.claimed = pod.Spec.NodeName != ""
	for i := range pod.Spec.ResourceClaims {
		if template := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; template != nil && out.owner == imex.OwnerSlurmd {
			out.templates = append(out.templates, *template)
		}
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil { // otherwise the claim is not there yet, or never will be
			out.claims = append(out.claims, *name)
		}
	}
	return out, true
}

// readNodeSet reads the templates that the worker pods of a NodeSet of Slinky name.
func readNodeSet(obj any) (podFacts, bool) {
	set, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return podFacts{}, false
	}
	out := podFacts{owner: imex.OwnerSlurmd}
	claims, _, _ := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "resourceClaims") // a NodeSet of another form names none
	for _, claim := range claims {
		if fields, is := claim.(map[string]any); is {
			if template, is := fields["resourceClaimTemplateName"].(string); is {
				out.templates = append(out.templates, template)
			}
		}
	}
	return out, len(out.templates) > 0
}

// workersOn returns the nodes that have worker pods of Slurm, or are to get them.
func workersOn(pods []*record[podFacts]) map[string]bool {
	nodes := make(map[string]bool)
	for _, pod := range pods {
		if pod.facts.owner == imex.OwnerSlurmd && pod.facts.node != "" {
			nodes[pod.facts.node] = true
		}
	}
	return nodes
}

// workerTemplates returns the templates of the ResourceClaims of Slurm's worker pods.
func workerTemplates(pods []*record[podFacts]) map[types.NamespacedName]bool {
	names := make(map[types.NamespacedName]bool)
	for _, pod := range pods {
		for _, template := range pod.facts.templates {
			names[types.NamespacedName{Namespace: pod.Namespace, Name: template}] = true
		}
	}
	return names
}

func ownerOf(labels map[string]string) string {
	switch [2]string{labels[labelName], labels[labelComponent]} {
	case [2]string{holderName, holderComponent}:
		return imex.OwnerHolder
	case [2]string{slurmdName, slurmdComponent}:
		return imex.OwnerSlurmd
	}
	return imex.OwnerOther
}

// pinnedTo returns the only node on which a Pod can run, empty if there may be others. A
// DaemonSet's pod names its node by an affinity.
func pinnedTo(s *corev1.PodSpec) string {
	if name := s.NodeSelector[corev1.LabelHostname]; name != "" {
		return name
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	terms := s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	name := ""
	for i := range terms { // one of them must hold
		one := nodeOf(&terms[i])
		if one == "" || name != "" && one != name {
			return ""
		}
		name = one
	}
	return name
}

// nodeOf returns the only node that a term of an affinity allows.
func nodeOf(t *corev1.NodeSelectorTerm) string {
	for _, r := range append(t.MatchFields[:len(t.MatchFields):len(t.MatchFields)], t.MatchExpressions...) {
		if (r.Key == metav1.ObjectNameField || r.Key == corev1.LabelHostname) && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
