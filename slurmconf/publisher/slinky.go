package publisher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/quoin-hpc/quoin/topology"
)

// The labels and annotations by which Slinky says which Slurm node runs where
// (slurm-operator's api/v1beta1/well_known.go, slurm-bridge's wellknown
// package).
const (
	workerSelector       = "app.kubernetes.io/name=slurmd,app.kubernetes.io/component=worker"
	labelSlinkyCluster   = "slinky.slurm.net/cluster"
	labelPodHostname     = "nodeset.slinky.slurm.net/pod-hostname"
	labelScalingMode     = "nodeset.slinky.slurm.net/scaling-mode"
	annotationHostname   = "nodeset.slinky.slurm.net/hostname-override"
	labelSlurmNodeName   = "slinky.slurm.net/slurm-nodename"
	labelExternalNode    = "scheduler.slinky.slurm.net/external-node"
	scalingModeDaemonSet = "daemonset" // in whatever case
)

// The reasons for which Slinky's pods do not say how Slurm calls a node.
const (
	// ReasonNoWorkerPod names a node on which no slurmd of the cluster runs: Slurm
	// has no such node.
	ReasonNoWorkerPod = "NoWorkerPod"
	// ReasonTwoWorkerPods names a node whose pods say two Slurm names.
	ReasonTwoWorkerPods = "TwoWorkerPods"
	// ReasonSlurmNameTaken names a node whose Slurm name other nodes have too.
	ReasonSlurmNameTaken = "SlurmNameTaken"
	// ReasonTwoSlurmClusters names a node where slurmNames must say which of several
	// Slurm clusters is meant.
	ReasonTwoSlurmClusters = "TwoSlurmClusters"
)

// Worker is a pod in which Slinky runs slurmd.
type Worker struct {
	// Namespace is empty where the store has none.
	Namespace, Pod string
	// Node is the Kubernetes node's name, empty until the pod is scheduled.
	Node string
	// Cluster is the name of Slinky's Controller.
	Cluster string
	// Hostname is the Slurm node's name; empty where the Node says it.
	Hostname string
	// Ending says that the pod is being deleted or has ended.
	Ending bool
}

// podFacts is what of a Pod decides its Slurm node's name.
type podFacts struct {
	namespace, name, node, hostname string
	labels                          map[string]string
	hostNetwork, ending             bool
}

// worker reads a worker pod. The label is what Slinky itself goes by; a pod
// older than it is called as slurmd calls itself: by its host's name. The pods
// of a DaemonSet have random names.
func (p *podFacts) worker() Worker {
	w := Worker{Namespace: p.namespace, Pod: p.name, Node: p.node, Cluster: p.labels[labelSlinkyCluster], Ending: p.ending}
	perNode := strings.EqualFold(p.labels[labelScalingMode], scalingModeDaemonSet)
	switch hostname := cmp.Or(p.labels[labelPodHostname], p.hostname); {
	case p.labels[labelPodHostname] == "" && p.hostNetwork && !perNode:
		w.Hostname = p.node
	case hostname != "":
		w.Hostname = hostname
	case !perNode:
		w.Hostname = p.name
	}
	return w
}

// isWorker reports whether labels are those of a worker pod.
func isWorker(labels map[string]string) bool {
	return labels["app.kubernetes.io/name"] == "slurmd" && labels["app.kubernetes.io/component"] == "worker"
}

// nameOn returns the Slurm name that the worker gives to its node.
func (w *Worker) nameOn(n *Node) string {
	if w.Hostname != "" {
		return w.Hostname
	}
	short, _, _ := strings.Cut(n.Name, ".")
	return cmp.Or(n.Annotations[annotationHostname], short)
}

// AddWorkers tells the nodes which worker pods run on them. Pods that are
// nowhere yet are kept apart.
func (s *Snapshot) AddWorkers(workers []Worker) {
	if len(workers) == 0 {
		return
	}
	slices.SortFunc(workers, func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
	})
	nodes := make(map[string]*Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	for i := range workers {
		if n := nodes[workers[i].Node]; n != nil {
			n.Workers = append(n.Workers, workers[i])
		} else {
			s.Unplaced = append(s.Unplaced, workers[i])
		}
	}
}

// slinkyCluster says which worker pods are meant: empty fields mean any.
type slinkyCluster struct{ namespace, controller string }

// parseSlinkyCluster reads CONTROLLER or NAMESPACE/CONTROLLER; namespace is
// that of one without.
func parseSlinkyCluster(text, namespace string) slinkyCluster {
	if ns, controller, ok := strings.Cut(text, "/"); ok {
		return slinkyCluster{ns, controller}
	}
	return slinkyCluster{namespace, text}
}

func (c *slinkyCluster) has(w *Worker) bool {
	return (c.namespace == "" || w.Namespace == "" || w.Namespace == c.namespace) && (c.controller == "" || w.Cluster == c.controller)
}

func (c *slinkyCluster) String() string {
	switch {
	case c.controller == "" && c.namespace == "":
		return "any Slurm cluster"
	case c.controller == "":
		return "a Slurm cluster in namespace " + c.namespace
	case c.namespace == "":
		return "Slurm cluster " + c.controller
	}
	return "Slurm cluster " + c.namespace + "/" + c.controller
}

// workerNames returns the Slurm names that the cluster's pods give to the node.
// A pod that is ending counts where no other is there.
func (p *Publication) workerNames(n *Node) (names []string, ending bool) {
	var live, last []string
	for i := range n.Workers {
		w := &n.Workers[i]
		if !p.names.has(w) {
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

// slinkyName returns the node's name in Slurm as Slinky's pods say it, else, where
// no pod of any cluster runs on the node, as slurm-bridge does.
func (p *Publication) slinkyName(n *Node) (name string, problem topology.Problem) {
	_, external := n.Labels[labelExternalNode]
	switch names, _ := p.workerNames(n); {
	case len(names) == 1:
		return names[0], problem
	case len(names) > 1:
		return "", topology.Problem{Node: n.Name, Reason: ReasonTwoWorkerPods, Message: "worker pods on it say several Slurm names, " + strings.Join(names, " and ")}
	case len(n.Workers) == 0 && n.Labels[labelSlurmNodeName] != "":
		return n.Labels[labelSlurmNodeName], problem
	case len(n.Workers) == 0 && external:
		return n.Name, problem
	}
	return "", topology.Problem{Node: n.Name, Reason: ReasonNoWorkerPod, Message: "no worker pod of " + p.names.String() + " runs on it"}
}

// checkSlinky reads which clusters' pods choose and name the nodes.
func (p *Publication) checkSlinky(bad func(key string, value any, want string)) {
	read := func(key, text string, empty bool) *slinkyCluster {
		c := parseSlinkyCluster(text, p.Namespace)
		if empty && text == "" || len(validation.IsDNS1123Label(c.namespace)) == 0 && len(validation.IsValidLabelValue(c.controller)) == 0 && c.controller != "" {
			return &c
		}
		bad(key, text, "the name of a Slinky Controller, or NAMESPACE/CONTROLLER")
		return &c
	}
	p.names, p.workers = nil, nil
	if kind, of, colon := strings.Cut(p.SlurmNames, ":"); kind == "slinky" {
		p.names = read("slurmNames", of, !colon)
	}
	if p.Nodes.Slinky != "" {
		p.workers = read("nodes.slinky", p.Nodes.Slinky, false)
	}
}

// OfAnyNamespace lets the names of Slinky's Controllers that do not say their
// namespace stand for any: where pods are given, not watched.
func (p *Publication) OfAnyNamespace() {
	if p.names != nil && !strings.Contains(p.SlurmNames, "/") {
		p.names.namespace = ""
	}
	if p.workers != nil && !strings.Contains(p.Nodes.Slinky, "/") {
		p.workers.namespace = ""
	}
}

// bySlinky reports whether Slinky's pods say the names.
func (p *Publication) bySlinky() bool { return p.names != nil }

// clusters are those whose worker pods may name a node of the publication.
func (p *Publication) clusters(snap *Snapshot) []string {
	found := map[slinkyCluster]bool{}
	note := func(w *Worker) {
		if p.names.has(w) {
			found[slinkyCluster{w.Namespace, w.Cluster}] = true
		}
	}
	for i := range snap.Nodes {
		for k := range snap.Nodes[i].Workers {
			note(&snap.Nodes[i].Workers[k])
		}
	}
	for i := range snap.Unplaced {
		note(&snap.Unplaced[i])
	}
	var names []string
	for c := range found {
		names = append(names, strings.TrimPrefix(c.namespace+"/"+c.controller, "/"))
	}
	slices.Sort(names)
	return names
}

// checkClusters leaves all nodes without a name where it is not clear which
// Slurm cluster is meant.
func (g *Gathered) checkClusters(p *Publication, snap *Snapshot) {
	found := p.clusters(snap)
	if len(found) < 2 {
		return
	}
	message := fmt.Sprintf("there are worker pods of Slurm clusters %s: say which with slurmNames: slinky:NAMESPACE/CONTROLLER", strings.Join(found, " and "))
	for i := range g.Facts {
		g.unname(&g.Facts[i], ReasonTwoSlurmClusters, message)
	}
	g.Facts = g.Facts[:0]
}

// unname leaves a node without its name, which whoever has it in the published
// files keeps.
func (g *Gathered) unname(f *topology.Facts, reason, message string) {
	g.Unnamed = append(g.Unnamed, topology.Problem{Node: f.Name, Reason: reason, Message: message})
	g.unnamed[f.Name] = g.all[f.Name]
	g.claimed[f.SlurmName] = message
	delete(g.nodes, f.SlurmName)
}

// checkTaken leaves nodes without a name of which several have the same, but for
// one whose pod alone is not ending.
func (g *Gathered) checkTaken(p *Publication) {
	if len(g.nodes) == len(g.Facts) {
		return
	}
	named := make(map[string][]string, len(g.Facts))
	for i := range g.Facts {
		named[g.Facts[i].SlurmName] = append(named[g.Facts[i].SlurmName], g.Facts[i].Name)
	}
	owners := map[string]string{}
	for name, nodes := range named {
		live := slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
			_, ending := p.workerNames(g.all[node])
			return ending
		})
		if len(nodes) == 1 {
			live = nodes
		}
		if len(live) == 1 {
			owners[name] = live[0]
		}
	}
	g.Facts = slices.DeleteFunc(g.Facts, func(f topology.Facts) bool {
		if owners[f.SlurmName] == f.Name {
			return false
		}
		g.unname(&f, ReasonSlurmNameTaken, fmt.Sprintf("worker pods give the Slurm name %s to nodes %s", f.SlurmName, strings.Join(named[f.SlurmName], ", ")))
		return true
	})
	for name, node := range owners {
		g.nodes[name] = g.all[node]
		delete(g.claimed, name)
	}
}

// namelessProblems are those of the nodes without a Slurm name that should have
// one. That none of Slinky's pods runs on a node is none.
func (g *Gathered) namelessProblems() []topology.Problem {
	return slices.DeleteFunc(slices.Clone(g.Unnamed), func(p topology.Problem) bool { return p.Reason == ReasonNoWorkerPod })
}
