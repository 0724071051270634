package publisher

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-hpc/quoin/slurmconf"
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
	// leaving are those of nodes that the publication no longer takes.
	leaving map[string]*Node
}

// Gather joins the nodes that the publication, which is complete, takes with
// their reports.
func Gather(p *Publication, snap *Snapshot) Gathered {
	g := Gathered{Facts: make([]topology.Facts, 0, len(snap.Nodes)), nodes: make(map[string]*Node, len(snap.Nodes)), unnamed: map[string]*Node{}, leaving: map[string]*Node{}}
	unreadable := snap.unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if !p.takes(n) {
			continue
		}
		name, problem := p.nameOf(n)
		if problem.Reason != "" {
			g.Unnamed = append(g.Unnamed, problem)
			g.unnamed[n.Name] = n
			continue
		}
		f := p.read(n, snap, unreadable)
		f.SlurmName = name
		g.Facts = append(g.Facts, f)
		g.nodes[name] = n
	}
	return g
}

// read returns what is known of a node, but for its Slurm name.
func (p *Publication) read(n *Node, snap *Snapshot, unreadable map[string]bool) topology.Facts {
	f := topology.Facts{Name: n.Name, Report: snap.Reports[n.Name], Labels: nodelabels.Read(n.Labels, nodelabels.Keys{Tiers: p.TierLabels})}
	f.ReportUnreadable = f.Report == nil && unreadable[n.Name]
	return f
}

// nameOf returns the node's name in Slurm, or why it has none. A Node's
// annotations are whatever its kubelet writes.
func (p *Publication) nameOf(n *Node) (string, topology.Problem) {
	name := p.slurmName(n)
	where, from := strings.CutPrefix(p.SlurmNames, "label:")
	if key, annotated := strings.CutPrefix(p.SlurmNames, "annotation:"); annotated {
		where, from = "annotation "+key, true
	} else if from {
		where = "label " + where
	}
	if name == "" && from {
		return "", topology.Problem{Node: n.Name, Reason: ReasonNoSlurmName, Message: "no " + where + " says its name in Slurm"}
	}
	if err := slurmconf.CheckNodeName(name); err != nil {
		if from {
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
	return p.selector.Empty() || p.selector.Matches(labels.Set(n.Labels))
}

// unselected returns by their Slurm names the nodes that exist but are not this
// publication's.
func (p *Publication) unselected(snap *Snapshot) map[string]*Node {
	out := map[string]*Node{}
	if p.selector.Empty() {
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
