package inputs

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/quoin-hpc/quoin/topology"
)

// WorkerSelector selects the pods in which Slinky runs slurmd.
const WorkerSelector = "app.kubernetes.io/name=slurmd,app.kubernetes.io/component=worker"

// The labels and annotations by which Slinky says which Slurm node runs where
// (slurm-operator's api/v1beta1/well_known.go, slurm-bridge's wellknown package).
const (
	labelApp           = "app.kubernetes.io/name"
	labelComponent     = "app.kubernetes.io/component"
	labelNodeSet       = "app.kubernetes.io/instance"
	labelSlinkyCluster = "slinky.slurm.net/cluster"
	labelPodHostname   = "nodeset.slinky.slurm.net/pod-hostname"
	labelScalingMode   = "nodeset.slinky.slurm.net/scaling-mode"
	annotationHostname = "nodeset.slinky.slurm.net/hostname-override"
	labelSlurmNodeName = "slinky.slurm.net/slurm-nodename"
	labelExternalNode  = "scheduler.slinky.slurm.net/external-node"
)

// ScalingModeDaemonSet is the scaling mode of a NodeSet with a pod on each Node that it
// selects. It is written in upper or lower case.
const ScalingModeDaemonSet = "daemonset"

// The reasons why Slinky's pods do not say how Slurm calls a node.
const (
	ReasonNoWorkerPod      = "NoWorkerPod"
	ReasonTwoWorkerPods    = "TwoWorkerPods"
	ReasonSlurmNameTaken   = "SlurmNameTaken"
	ReasonTwoSlurmClusters = "TwoSlurmClusters"
)

// Worker is a pod in which slurmd runs: one of Slinky's, or one that pod:SELECTOR selects.
type Worker struct {
	// Selector is the text of the selector that selects the pod. It is empty for Slinky's pods.
	// A pod of several kinds is a Worker for each.
	Selector string
	// Namespace is empty if the store has none.
	Namespace, Pod string
	// Node is the Kubernetes node's name. It is empty until the pod is scheduled.
	Node string
	// Cluster is the name of Slinky's Controller, and NodeSet that of the NodeSet that
	// controls the pod.
	Cluster, NodeSet string
	// Hostname is the Slurm node's name. It is empty if the Node says the name.
	Hostname string
	// Ending says that the pod is being deleted or has ended.
	Ending bool
	// Invalid is Slurm's reason while it refuses slurmd's registration. It is empty otherwise.
	Invalid string
	// State has Slurm's words for the node's state, such as idle+drain. It is empty in a
	// snapshot of a store, because it changes with each job.
	State string
}

// ConditionInvalidReg is the condition of a worker pod whose registration Slurm refuses. Its
// message is Slurm's reason.
const ConditionInvalidReg = "SlurmNodeStateInvalidReg"

// stateCondition begins the types of the conditions in which Slinky's operator writes Slurm's
// words for the state of a pod's node.
const stateCondition = "SlurmNodeState"

// AddCondition takes a condition of the Pod. Only one that is true says something.
func (p *Pod) AddCondition(conditionType, status, message string) {
	if status != "True" {
		return
	}
	if conditionType == ConditionInvalidReg {
		p.Invalid = message
	}
	if word := stateWord(conditionType); word != "" {
		p.State = strings.TrimPrefix(p.State+"+"+word, "+")
	}
}

// stateWord returns Slurm's word in lower case of a condition that is true, such as
// not_responding of SlurmNodeStateNotResponding. It is empty for other conditions.
func stateWord(conditionType string) string {
	word, is := strings.CutPrefix(conditionType, stateCondition)
	if !is {
		return ""
	}
	var b strings.Builder
	for i, r := range word {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Pod is the part of a Kubernetes Pod that decides how Slurm calls its node.
type Pod struct {
	Namespace, Name, Node, Hostname string
	Labels                          map[string]string
	HostNetwork, Ending             bool
	// NodeSet is the Slinky NodeSet that controls the pod. It is empty without one.
	NodeSet string
	// Invalid is the message of ConditionInvalidReg, if that is true.
	Invalid string
	// State has Slurm's words for the node's state, such as idle+drain.
	State string
}

// NodeSetOf returns the name of a pod's owner if it is a Slinky NodeSet that controls the
// pod, or "".
func NodeSetOf(apiVersion, kind, name string, controls bool) string {
	if group, _, _ := strings.Cut(apiVersion, "/"); !controls || group != "slinky.slurm.net" || kind != "NodeSet" {
		return ""
	}
	return name
}

// IsWorker reports whether Slinky made the pod: the NodeSet that its label names controls
// it. Any other pod can carry the labels of a worker, and would name nodes in Slurm.
func (p *Pod) IsWorker() bool {
	return isWorker(p.Labels) && p.NodeSet != "" && p.NodeSet == p.Labels[labelNodeSet]
}

// Worker reads a worker pod. Slinky itself goes by the label pod-hostname. slurmd in a pod
// without that label is called by its host's name. Pods of a DaemonSet have random names.
func (p *Pod) Worker() Worker {
	w := Worker{Namespace: p.Namespace, Pod: p.Name, Node: p.Node, Cluster: p.Labels[labelSlinkyCluster], NodeSet: p.NodeSet, Ending: p.Ending, Invalid: topology.Cut(p.Invalid, topology.MaxMessage), State: topology.Cut(p.State, topology.MaxText)}
	perNode := strings.EqualFold(p.Labels[labelScalingMode], ScalingModeDaemonSet)
	switch hostname := cmp.Or(p.Labels[labelPodHostname], p.Hostname); {
	case p.Labels[labelPodHostname] == "" && p.HostNetwork && !perNode:
		w.Hostname = p.Node
	case hostname != "":
		w.Hostname = hostname
	case !perNode:
		w.Hostname = p.Name
	}
	return w
}

// PodEnded reports whether a Pod in that phase never runs again.
func PodEnded(phase string) bool { return phase == "Succeeded" || phase == "Failed" }

// Selected returns the pod as a Worker that a selector of slurmNames selects. Slurm has the pod's
// name.
func (p *Pod) Selected(selector string) Worker {
	return Worker{Selector: selector, Namespace: p.Namespace, Pod: p.Name, Node: p.Node, Hostname: p.Name, Ending: p.Ending}
}

// isWorker reports whether a pod with these labels is a worker pod.
func isWorker(labels map[string]string) bool {
	return labels[labelApp] == "slurmd" && labels[labelComponent] == "worker"
}

// workerLabels are the labels of Pods that Worker and IsWorker look at.
func workerLabels() []string {
	return []string{labelApp, labelComponent, labelNodeSet, labelSlinkyCluster, labelPodHostname, labelScalingMode}
}

// nameOn returns the Slurm name that the worker gives to its node, which is nil only if the worker
// has a Hostname.
func (w *Worker) nameOn(n *Node) string {
	if w.Hostname != "" {
		return w.Hostname
	}
	short, _, _ := strings.Cut(n.Name, ".")
	return cmp.Or(n.Annotations[annotationHostname], short)
}

// podNames begins slurmNames: pod:SELECTOR.
const podNames = "pod:"

// podSource says which worker pods count. An empty namespace or controller stands for any.
type podSource struct {
	namespace, controller string
	// text and selector are those of pod:SELECTOR. Without them Slinky's pods count.
	text     string
	selector Selector
}

// parseSlinkyCluster reads CONTROLLER or NAMESPACE/CONTROLLER. namespace is that of a
// CONTROLLER alone.
func parseSlinkyCluster(text, namespace string) podSource {
	if ns, controller, ok := strings.Cut(text, "/"); ok {
		return podSource{namespace: ns, controller: controller}
	}
	return podSource{namespace: namespace, controller: text}
}

// Controller returns the Slinky Controller that nodes.slinky names, or else slurmNames. The name is
// empty if neither names one.
func (r *Rules) Controller() (namespace, name string) {
	for _, c := range []*podSource{r.workers, r.names} {
		if c != nil && c.controller != "" {
			return c.namespace, c.controller
		}
	}
	return "", ""
}

// has reports whether a pod counts. With nil every pod does.
func (c *podSource) has(w *Worker) bool {
	return c == nil || c.text == w.Selector && (c.namespace == "" || w.Namespace == "" || w.Namespace == c.namespace) && (c.controller == "" || w.Cluster == c.controller)
}

// hasSet reports whether the pods of a NodeSet count.
func (c *podSource) hasSet(set *NodeSet) bool {
	return c.has(&Worker{Namespace: set.Namespace, Cluster: set.Cluster})
}

// whereNone says where no pod is that a selector selects. whole says that all pods were seen.
func (c *podSource) whereNone(whole bool) string {
	switch {
	case !whole:
		return "a list of nodes has no pods: give the output of kubectl get nodes,pods -A -o json"
	case c.namespace == "":
		return "look at kubectl get pods -A -l '" + c.text + "'"
	}
	return "look at kubectl get pods -n " + c.namespace + " -l '" + c.text + "'"
}

func (c *podSource) String() string {
	switch {
	case c.text != "":
		return "slurmNames: " + podNames + c.text
	case c.controller == "" && c.namespace == "":
		return "any Slurm cluster"
	case c.controller == "":
		return "a Slurm cluster in namespace " + c.namespace
	case c.namespace == "":
		return "Slurm cluster " + c.controller
	}
	return "Slurm cluster " + c.namespace + "/" + c.controller
}

// workerNames returns the Slurm names that the cluster's pods give to the node. Pods that
// are ending count only if all of them are.
func (r *Rules) workerNames(n *Node) (names []string, ending bool) {
	var live, last []string
	for i := range n.Workers {
		w := &n.Workers[i]
		if !r.names.has(w) {
			continue
		}
		if name := w.nameOn(n); w.Ending {
			last = append(last, name)
		} else {
			live = append(live, name)
		}
	}
	if ending = len(live) == 0; ending {
		live = last
	}
	slices.Sort(live)
	return slices.Compact(live), ending
}

// slurmState returns what the pods of a cluster say of the state of the node with the Slurm name. With nil every
// pod does.
func (n *Node) slurmState(of *podSource, name string) string {
	for i := range n.Workers {
		if w := &n.Workers[i]; of.has(w) && (of == nil || w.nameOn(n) == name) && !w.Ending && w.State != "" {
			return w.State
		}
	}
	return ""
}

// JoinStates joins Slurm's words for the states of worker pods of one node. a is empty for the first pod.
func JoinStates(a, b string) string {
	if a == "" || a == b {
		return b
	}
	words := slices.Sorted(strings.SplitSeq(a+"+"+b, "+"))
	return strings.Join(slices.Compact(words), "+")
}

// onlyEnding reports whether all of the cluster's pods on the node are ending.
func (r *Rules) onlyEnding(n *Node) bool {
	_, ending := r.workerNames(n)
	return ending
}

// namesByPods returns the node's Slurm names by its pods. If no pod of any of Slinky's clusters runs
// on the node, slurm-bridge's labels say the name.
func (r *Rules) namesByPods(n *Node) (names []string, problem topology.Finding) {
	switch names, _ = r.workerNames(n); {
	case len(names) > 0:
		return names, problem
	case r.ByBridge(n):
		return []string{cmp.Or(n.Labels[labelSlurmNodeName], n.Name)}, problem
	}
	return nil, topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: ReasonNoWorkerPod, Message: "no worker pod of " + r.names.String() + " runs on it"}
}

// ByBridge reports whether slurm-bridge's labels say the node's Slurm name.
func (r *Rules) ByBridge(n *Node) bool {
	_, external := n.Labels[labelExternalNode]
	return r.BySlinky() && len(n.Workers) == 0 && (external || n.Labels[labelSlurmNodeName] != "")
}

// clusters are the Slurm clusters whose worker pods may name a node of the publication.
func (r *Rules) clusters(snap *Snapshot) []string {
	found := map[podSource]bool{}
	for w := range snap.allWorkers() {
		if r.names.has(w) {
			found[podSource{namespace: w.Namespace, controller: w.Cluster}] = true
		}
	}
	var names []string
	for c := range found {
		names = append(names, strings.TrimPrefix(c.namespace+"/"+c.controller, "/"))
	}
	slices.Sort(names)
	return names
}
