package inputs

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// ReasonReportUnreadable names a report that cannot be parsed.
const ReasonReportUnreadable = "ReportUnreadable"

// Node is what the publisher reads of a Kubernetes Node.
type Node struct {
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	// Version is that of the Node as it was read. Foreign are the keys that the publisher writes and
	// another writer owns on this Node, with that writer's name.
	Version string
	Foreign map[string]string
	// Conditions are the publisher's own conditions that the Node has, by type.
	Conditions map[string]Condition
	// Workers are the pods on the node in which slurmd runs.
	Workers []Worker
	// GPUs is how many GPUs the kubelet offers. It counts only if nothing else says how
	// many there are.
	GPUs int
	// Lost says that the Node's Ready is Unknown: Kubernetes hears nothing from it.
	Lost bool
}

// Marks are annotations and labels of a Node to be written. A key with an empty value is removed.
type Marks struct{ Annotations, Labels map[string]string }

// OwnConditions begins the types of the conditions that the publisher keeps.
const OwnConditions = "Quoin"

// Condition is one of a Node's conditions, in the form of Kubernetes: it is there also while
// nothing is wrong, so it is no topology.Finding. Reason is a CamelCase word.
type Condition struct {
	Type, Reason, Message string
	// True says that something is wrong.
	True bool
}

// AddCondition takes a condition of the Node: whether Kubernetes hears from the Node, and what the publisher says of it.
func (n *Node) AddCondition(conditionType, status, reason, message string) {
	if conditionType == "Ready" {
		n.Lost = status == "Unknown"
	}
	if !strings.HasPrefix(conditionType, OwnConditions) {
		return
	}
	if n.Conditions == nil {
		n.Conditions = map[string]Condition{}
	}
	n.Conditions[conditionType] = Condition{Type: conditionType, Reason: reason, Message: message, True: status == "True"}
}

// Snapshot is what a plan is made from.
type Snapshot struct {
	// Nodes are the cluster's nodes. With a directory store every node that has a report
	// is one.
	Nodes []Node
	// Whole says that all Node objects and all worker pods are here, so that what is not
	// here is gone. A directory cannot tell, nor can a list without any Node.
	Whole bool
	// Reports are the parsed reports by node.
	Reports map[string]*topology.Node
	// Slices are the GPUs in the nodes' ResourceSlices, by node.
	Slices map[string]*topology.Node
	// Fabrics are the texts of fabrics by entry of fabricFiles, of all publications. It is nil if
	// whoever made the snapshot reads none.
	Fabrics map[string][]FabricText
	// Unplaced are worker pods that run on none of the nodes, for example because they
	// are not scheduled yet.
	Unplaced []Worker
	// NodeSets are Slinky's. One that is being deleted is not among them.
	NodeSets []NodeSet
	// Controllers are Slinky's too.
	Controllers []Controller
	// Problems are reports that could not be read.
	Problems []topology.Finding
}

// Facts returns the facts of a node by its report, or else by its labels, as keys name them, its ResourceSlices
// and its kubelet.
func (s *Snapshot) Facts(n *Node, keys nodelabels.Keys) topology.Facts {
	f := topology.Facts{Name: n.Name, Report: s.Reports[n.Name], Labels: nodelabels.Read(n.Labels, keys), Capacity: n.GPUs}
	if f.Report == nil {
		f.Slices = s.Slices[n.Name]
	}
	return f
}

// AddReport takes the report of a node, or the error why it cannot be read, which costs that node alone.
func (s *Snapshot) AddReport(node string, report *topology.Node, err error) {
	if err != nil {
		s.Problems = append(s.Problems, topology.Finding{Subject: topology.Subject{Node: node}, Severity: topology.Unknown, Reason: ReasonReportUnreadable, Message: err.Error()})
		return
	}
	s.Reports[node] = report
}

// AddWorkers assigns worker pods to the nodes that they run on. Pods without such a node
// go to Unplaced.
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

// allWorkers yields each worker pod with the node that it runs on. The node is nil if it runs on none of
// the nodes.
func (s *Snapshot) allWorkers() iter.Seq2[*Worker, *Node] {
	return func(yield func(*Worker, *Node) bool) {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			for k := range n.Workers {
				if !yield(&n.Workers[k], n) {
					return
				}
			}
		}
		for i := range s.Unplaced {
			if !yield(&s.Unplaced[i], nil) {
				return
			}
		}
	}
}

// Unreadable returns the nodes whose reports cannot be read. A problem names the node.
func (s *Snapshot) Unreadable() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.Problems {
		if p.Reason == ReasonReportUnreadable {
			out[p.Node] = true
		}
	}
	return out
}

// The resources that NVIDIA's device plugin offers on a node: GPUs, shared GPUs (each
// counted several times), and MIG instances by profile.
const (
	resourceGPU       = "nvidia.com/gpu"
	resourceGPUShared = "nvidia.com/gpu.shared"
	resourceMIG       = "nvidia.com/mig-"
)

// maxGPUs bounds the number of GPUs in a Node's capacity.
const maxGPUs = 1024

// Capacity counts the GPUs in a Node's status.capacity. The count is used only if nothing
// else counts the GPUs, because the device plugin can offer shared GPUs and MIG instances
// in any number.
type Capacity struct {
	whole int64
	parts bool
}

// Add counts the quantity of a resource. Resources that are no NVIDIA GPUs do not count.
func (c *Capacity) Add(resource string, quantity int64) {
	switch {
	case quantity <= 0 || quantity > maxGPUs:
	case resource == resourceGPU:
		c.whole = quantity
	case resource == resourceGPUShared || strings.HasPrefix(resource, resourceMIG):
		c.parts = true
	}
}

// GPUs returns how many GPUs there are, or 1 if only parts of GPUs are known.
func (c *Capacity) GPUs() int {
	if c.whole == 0 && c.parts {
		return 1
	}
	return int(c.whole)
}
