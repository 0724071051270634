package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// gathered are the inputs of a publication in one pass.
type gathered struct {
	inputs.Inputs
	// prev is what is published, with the names that the nodes have now.
	prev Previous
	// inUse are the units and topologies that Node annotations may still name.
	inUse names
	// leaving are nodes that the publication no longer takes, by Slurm name.
	leaving leavingNodes
	// gone are the published names that leave because their node is really gone. It is nil
	// if the store cannot tell.
	gone map[string]bool
	// next is when a node or a unit has been missing for long enough, or zero.
	next time.Time
}

// gatherer remembers what says whether a published node that is missing has gone.
type gatherer struct {
	pub         *publication.Cluster
	nodes       *nodeHistory
	pods        inputs.PodOwners
	units       unitHistory
	annotations *annotator
}

// gather returns the inputs of the publication, with published nodes that are missing now
// and stay for a while.
func (a *gatherer) gather(snap *inputs.Snapshot, mem *stored, now time.Time) *gathered {
	prev := mem.prev
	g := gathered{Inputs: a.pub.Rules.Gather(snap), leaving: leavingNodes{}}
	g.prev = a.nodes.rename(&g, prev)
	names := g.prev.nodes()
	contested := a.nodes.contested(&g, names)
	names = a.nodes.see(&g, names)
	elsewhere := a.nodes.unselected(snap, names)
	missing := a.pods.Missing(&a.pub.Rules, g.Nodes, snap, names)
	var timer again.Timer
	gone := make(map[string]time.Time)
	kept := make(map[string]string)   // Node -> the name under which it stays
	leaves := make(map[string]string) // name -> the Node that had it, or ""
	for _, m := range a.nodes.missing(&g, snap, elsewhere, names) {
		f, why := m.fate()
		if f == leavesLater || m.movedOn {
			a.annotations.leave(g.leaving, m.name, m.elsewhere) // its annotation goes after it
		}
		if f == leavesNow {
			leaves[m.name] = m.owner
			continue
		}
		if f == leavesLater {
			since := sinceOf(a.nodes.gone, m.name, now)
			gone[m.name] = since
			until := since.Add(a.pub.RemoveAfter.Duration)
			if missing.ScaledIn(m.name) || !now.Before(until) {
				leaves[m.name] = m.owner
				continue
			}
			timer.At(until)
		}
		if m.nameless != nil {
			kept[m.owner] = m.name
		} else {
			g.Facts = append(g.Facts, topology.Facts{Name: m.name, SlurmName: m.name, Stays: why, Gone: f == leavesLater})
		}
	}
	a.nodes.gone, g.gone = gone, a.pub.Rules.Gone(snap, prev.owners(leaves), missing)
	a.annotations.leaveAsBefore(g.leaving, snap, elsewhere, mem.doc.Leaving)
	maps.Copy(g.Nodes, g.leaving)
	g.keep(kept)
	g.Unnamed = append(g.Unnamed, contested...)
	if a.pub.Release.DynamicTopology() {
		var until time.Time
		g.inUse, until = a.units.inUse(g.prev.Plan, namedBy(g.All, g.Nodes), a.pub.LoadTimeout.Duration, now)
		timer.At(until)
	}
	g.next = timer.Next()
	return &g
}

// keep lets nodes without a Slurm name stay published under the names that they had.
func (g *gathered) keep(names map[string]string) {
	if len(names) == 0 {
		return
	}
	g.Unnamed = slices.DeleteFunc(g.Unnamed, func(pr topology.Finding) bool {
		name, ok := names[pr.Node]
		if ok {
			g.Facts = append(g.Facts, topology.Facts{Name: pr.Node, SlurmName: name, Stays: pr.Message})
			g.Nodes[name] = g.Nameless[pr.Node]
			pr.Message += "; it stays published as " + name
			g.Problems = append(g.Problems, pr)
		}
		return ok
	})
}

// missing is what is known of a published Slurm name that no node has now.
type missing struct {
	name string
	// owner is the Node that had the name last, or "" if no pass has seen it.
	owner string
	// nameless is the owner, if the publication takes it and it has no Slurm name now.
	// renamed says that the owner has another name now.
	nameless *inputs.Node
	renamed  bool
	// byPods says that Slinky's pods say the names: then a node without a pod is not in
	// Slurm. pending says that a pod of the name waits to be scheduled.
	byPods, pending bool
	// claimed says why no node has the name, for example because two nodes claim it.
	claimed string
	// elsewhere is a Node outside the publication that has the name or had it. movedOn
	// says that another publication took the Node as this one ended.
	elsewhere *inputs.Node
	movedOn   bool
	// perhaps is a Node without a Slurm name that may be the missing one.
	perhaps string
}

// fate is what becomes of a missing name.
type fate int

const (
	// leavesLater keeps the name RemoveAfter from when it was first missed.
	leavesLater fate = iota
	leavesNow
	// stays keeps the name until more is known.
	stays
)

// fate decides, the first line that applies:
//
//	| what is known of the name                         | what happens                        |
//	|---------------------------------------------------|-------------------------------------|
//	| several nodes claim the name                      | stays: one of the nodes has it      |
//	| the label with the name is gone from the Node     | stays: the Node is there            |
//	| the Node's pod has another name, no pod waits     | leaves: the pod was replaced        |
//	| another publication took the Node                 | leaves: the other files have it     |
//	| the Node is unknown, a Node without name is there | stays: that may be the Node         |
//	| the Node is gone, or no publication takes it,     | stays for RemoveAfter: the Node may |
//	| or it has no pod, or its pod is not scheduled     | come back                           |
//
// A name that leaves later leaves at once if its NodeSet has given up the worker pod.
// A Node without a name stays in the files under its old name.
func (m *missing) fate() (f fate, why string) {
	switch {
	case m.claimed != "":
		return stays, m.claimed
	case m.nameless != nil && !m.byPods:
		return stays, ""
	case m.renamed && m.byPods && !m.pending:
		return leavesNow, ""
	case m.movedOn:
		return leavesNow, ""
	case m.owner == "" && m.elsewhere == nil && m.perhaps != "":
		return stays, "it may be node " + m.perhaps + ", which has no Slurm name now"
	}
	return leavesLater, ""
}

// missing returns what is known of each of the names.
func (h *nodeHistory) missing(g *gathered, snap *inputs.Snapshot, elsewhere map[string]*inputs.Node, names []string) []missing {
	perhaps := h.perhapsPublished(g, snap, names)
	all := make([]missing, len(names))
	for i, name := range names {
		m := missing{name: name, owner: h.owners[name], byPods: h.pub.Rules.BySlinky(), pending: g.Pending[name], claimed: g.Claimed[name],
			elsewhere: elsewhere[name], perhaps: perhaps}
		if m.owner != "" {
			m.nameless = g.Nameless[m.owner]
			m.renamed = m.nameless == nil && g.All[m.owner] != nil
			m.movedOn = m.elsewhere != nil && m.elsewhere.Name == m.owner && h.movedOn(m.elsewhere)
		}
		all[i] = m
	}
	h.onlyLast(all)
	return all
}

// onlyLast counts a nameless Node only for the name that it had last. Its earlier names
// count as names of Nodes that are gone.
func (h *nodeHistory) onlyLast(all []missing) {
	slices.SortFunc(all, func(a, b missing) int {
		sinceA, missedA := h.gone[a.name]
		sinceB, missedB := h.gone[b.name]
		switch {
		case missedA == missedB:
			return cmp.Or(sinceB.Compare(sinceA), strings.Compare(a.name, b.name))
		case missedB:
			return -1
		}
		return 1
	})
	had := make(map[*inputs.Node]bool)
	for i := range all {
		if n := all[i].nameless; n != nil && had[n] {
			all[i].nameless = nil
		}
		had[all[i].nameless] = true
	}
}

// movedOn reports whether another publication takes the node now.
func (h *nodeHistory) movedOn(n *inputs.Node) bool {
	return slices.ContainsFunc(h.rest, func(other *publication.Cluster) bool { return other.Rules.Wants(n) })
}

// ReasonNodeInTwoPublications says that several publications take a node.
const ReasonNodeInTwoPublications = "NodeInTwoPublications"

// contested takes out of the inputs the nodes that another publication takes too, and returns
// why. A node that is published here stays: published are the Slurm names that are.
func (h *nodeHistory) contested(g *gathered, published []string) (out []topology.Finding) {
	if len(h.rest) == 0 {
		return nil
	}
	here := make(map[string]bool, len(published))
	for _, name := range published {
		here[name] = true
	}
	g.Facts = slices.DeleteFunc(g.Facts, func(f topology.Facts) bool {
		names := []string{strconv.Quote(h.pub.Name)}
		for _, other := range h.rest {
			if other.Rules.Wants(g.Nodes[f.SlurmName]) {
				names = append(names, strconv.Quote(other.Name))
			}
		}
		if len(names) == 1 {
			return false
		}
		slices.Sort(names)
		pr := topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonNodeInTwoPublications, Message: fmt.Sprintf("publications %s take it: give each its own nodes; until then ", strings.Join(names, " and "))}
		if here[f.SlurmName] {
			pr.Message += fmt.Sprintf("it stays in %q with the annotation that it has", h.pub.Name)
			g.Problems = append(g.Problems, pr)
			return false
		}
		pr.Message += fmt.Sprintf("%q does not publish it", h.pub.Name)
		out = append(out, pr)
		delete(g.Nodes, f.SlurmName)
		return true
	})
	return out
}
