package publisher

import (
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// leave notes that a Node outside the publication loses its annotation once its Slurm
// name is out of the files.
func (a *annotator) leave(g *gathered, name string, n *inputs.Node) {
	if n != nil && taker(a.others, n) == nil {
		g.leaving[name] = n
	}
}

// leaveOn adds the nodes that were leaving before: those that wait for their annotation,
// and those that AnnotationLeaving names.
func (a *annotator) leaveOn(g *gathered, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, leaving []string) {
	for name := range a.waiting {
		a.leave(g, name, elsewhere[name])
	}
	left := make(map[string]bool, len(leaving))
	for _, node := range leaving {
		left[node] = true
	}
	for _, n := range g.leaving {
		delete(left, n.Name)
	}
	if len(left) == 0 {
		return
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; left[n.Name] && !a.pub.Rules.Takes(n) {
			a.leave(g, "/"+n.Name, n) // no Slurm name has a slash
		}
	}
}

// leaving lists the nodes with an annotation to take back, for AnnotationLeaving, so that
// the next publisher knows them.
func (a *annotator) leaving(g *gathered, specs map[string]string) string {
	if !a.pub.Annotates {
		return ""
	}
	var nodes []string
	for name, n := range g.leaving {
		have, tried := n.Annotations[published.SpecAnnotation], a.tried[n.Name]
		if given := tried.refused && tried.old == have && tried.spec == ""; have != "" && specs[name] == "" && !given {
			nodes = append(nodes, n.Name)
		}
	}
	return hostlist.Compress(nodes)
}
