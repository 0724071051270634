package publisher

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// The reasons for which a node that a publication takes has no Slurm name.
const (
	ReasonNoSlurmName  = "NoSlurmName"
	ReasonBadSlurmName = "BadSlurmName"
)

// Gathered is what a publication knows of the nodes that it takes.
type Gathered struct {
	Facts []topology.Facts
	// Unnamed says of each node that Slurm has no name for why that is.
	Unnamed []topology.Problem
	// problems are of such nodes that stay under the name that they had.
	problems []topology.Problem
	nodes    map[string]*Node // Slurm name -> Node
	unnamed  map[string]*Node // name -> Node
	all      map[string]*Node // name -> Node, with a Slurm name or without
	// claimed says of Slurm names that no node can have why that is; whoever has one
	// in the published files stays.
	claimed map[string]string
	// pending are the Slurm names of worker pods that run nowhere yet.
	pending map[string]bool
	// leaving are those of nodes that the publication no longer takes.
	leaving map[string]*Node
}

// Gather joins the nodes that the publication, which is complete, takes with
// their reports.
func Gather(p *Publication, snap *Snapshot) Gathered {
	g := Gathered{Facts: make([]topology.Facts, 0, len(snap.Nodes)), nodes: make(map[string]*Node, len(snap.Nodes)), unnamed: map[string]*Node{},
		all: make(map[string]*Node, len(snap.Nodes)), claimed: map[string]string{}, pending: map[string]bool{}, leaving: map[string]*Node{}}
	unreadable := snap.unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !p.takes(n) {
			continue
		}
		g.all[n.Name] = n
		name, problem := p.nameOf(n)
		if problem.Reason != "" {
			g.Unnamed = append(g.Unnamed, problem)
			g.unnamed[n.Name] = n
			if problem.Reason == ReasonTwoWorkerPods {
				names, _ := p.workerNames(n)
				for _, name := range names {
					g.claimed[name] = problem.Message
				}
			}
			continue
		}
		f := p.read(n, snap, unreadable)
		f.SlurmName = name
		if p.ResourceSlices {
			g.addSlices(&f, snap)
		}
		g.Facts = append(g.Facts, f)
		g.nodes[name] = n
	}
	if p.bySlinky() {
		g.checkClusters(p, snap)
		g.checkTaken(p)
		for i := range snap.Unplaced {
			if w := &snap.Unplaced[i]; p.names.has(w) && !w.Ending && w.Hostname != "" {
				g.pending[w.Hostname] = true
			}
		}
	}
	return g
}

// read returns what is known of a node, but for its Slurm name.
func (p *Publication) read(n *Node, snap *Snapshot, unreadable map[string]bool) topology.Facts {
	f := topology.Facts{Name: n.Name, Report: snap.Reports[n.Name], Labels: nodelabels.Read(n.Labels, p.labelKeys()), Capacity: n.GPUs}
	f.ReportUnreadable = f.Report == nil && unreadable[n.Name]
	return f
}

// nameOf returns the node's name in Slurm, or why it has none. A Node's
// annotations are whatever its kubelet writes.
func (p *Publication) nameOf(n *Node) (string, topology.Problem) {
	if p.bySlinky() {
		name, problem := p.slinkyName(n)
		if problem.Reason != "" {
			return "", problem
		}
		if err := hostlist.CheckName(name); err != nil {
			return "", topology.Problem{Node: n.Name, Reason: ReasonBadSlurmName, Message: "Slinky calls it so: " + err.Error()}
		}
		return name, problem
	}
	name := p.slurmName(n)
	where := ""
	if kind, key, from := strings.Cut(p.SlurmNames, ":"); isPattern(p.SlurmNames) {
		where = p.SlurmNames
	} else if from { // label or annotation
		where = kind + " " + key
	}
	if name == "" && where != "" {
		return "", topology.Problem{Node: n.Name, Reason: ReasonNoSlurmName, Message: "no " + where + " says its name in Slurm"}
	}
	if err := hostlist.CheckName(name); err != nil {
		if where != "" {
			err = fmt.Errorf("%s: %w", where, err)
		}
		return "", topology.Problem{Node: n.Name, Reason: ReasonBadSlurmName, Message: err.Error()}
	}
	return name, topology.Problem{}
}

// unreadable returns the nodes whose reports cannot be read.
func (s *Snapshot) unreadable() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.Problems {
		if p.Reason == "ReportUnreadable" { // named after the node or its ConfigMap
			out[strings.TrimPrefix(p.Node, "quoin-node-")] = true
		}
	}
	return out
}

// takes reports whether the node is one of the publication's.
func (p *Publication) takes(n *Node) bool {
	if p.workers != nil && !slices.ContainsFunc(n.Workers, func(w Worker) bool { return p.workers.has(&w) }) {
		return false
	}
	return p.selector.Empty() || p.selector.Matches(labels.Set(n.Labels))
}

// unselected returns by their Slurm names the nodes that exist but are not this
// publication's.
func (p *Publication) unselected(snap *Snapshot) map[string]*Node {
	out := map[string]*Node{}
	if p.selector.Empty() && p.workers == nil {
		return out
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; !p.takes(n) {
			if name, problem := p.nameOf(n); problem.Reason == "" {
				out[name] = n
			}
		}
	}
	return out
}
