package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
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
	// settings are the keys of the configuration that the published plan was not made by.
	settings settings
	// gone are the published names that leave now, with the reason of each. lost are those that leave
	// later, because settings were changed.
	gone, lost leavers
	// recent are the nodes that moved within HoldWindow, and running is what Slurm has said of jobs.
	recent  map[string]bool
	running running
	// missing are nodes that are gone and stay for a while. missingAgain says that some of them were gone
	// already when this publisher began.
	missing      plandoc.Wait
	missingAgain bool
	// fabricSince says by Node since when its NVLink fabric is not ready. The verdict on each fabric is in the facts,
	// and ofFabrics are findings of the whole site.
	fabricSince map[string]time.Time
	ofFabrics   []topology.Finding
	// groups are the groups of switches to remember.
	groups []switches.Group
	// next is when a node or a unit has been missing for long enough, or a fabric
	// counts as not ready, or zero.
	next time.Time
}

// has reports whether the node has the Slurm name.
func (g *gathered) has(node, name string) bool {
	n := g.Nodes[name]
	return n != nil && n.Name == node
}

// gatherer gathers the inputs of a publication.
type gatherer struct {
	pub     *publication.Cluster
	nodes   *nodeHistory
	units   unitHistory
	fabrics *fabricHistory // nil for a pass that writes nothing
	marks   *marker
	jobs    *occupancy.Keeper
	cables  cables.Placer
}

// gather returns the inputs of the publication, with published nodes that are missing now
// and stay for a while.
func (a *gatherer) gather(snap *inputs.Snapshot, mem *stored, now time.Time) *gathered {
	g := gathered{Inputs: a.pub.Rules.Gather(snap), leaving: leavingNodes{}}
	g.settings = settingsOf(a.pub, mem.prev.Plan)
	g.prev = a.nodes.rename(&g, mem.prev)
	published := g.prev.nodes()
	contested := a.nodes.contested(&g, published)
	missing := a.nodes.missing(&g, published, snap, now)
	for name, n := range missing.leaving {
		a.marks.leave(g.leaving, name, n) // its annotations and labels go after it
	}
	a.marks.leaveAsBefore(g.leaving, snap, missing.outside, mem.doc.Leaving)
	maps.Copy(g.Nodes, g.leaving)
	g.gone, g.lost, g.Facts, g.Problems = missing.gone, missing.lost, append(g.Facts, missing.stay...), append(g.Problems, missing.problems...)
	g.keepNames(missing.nameless)
	g.Unnamed = append(g.Unnamed, contested...)
	g.UnnamedFacts = slices.DeleteFunc(g.UnnamedFacts, func(f topology.Facts) bool { // a node of another Slurm is no part of a rack of this one
		return slices.ContainsFunc(a.nodes.others, func(other *publication.Cluster) bool { return other.Rules.Wants(g.Nameless[f.Name]) })
	})
	var cut []topology.Finding
	g.Facts, g.groups, cut = a.cables.Place(g.Fabrics, a.pub.ComputeAdapters, g.Facts, g.prev.Plan, mem.doc.Groups)
	g.Problems = append(g.Problems, cut...)
	var unused time.Time
	if a.pub.Release.DynamicTopology() {
		g.inUse, unused = a.units.inUse(g.prev.Plan, namedBy(g.All, g.Nodes), a.pub.LoadTimeout.Duration, now)
	}
	g.recent, _ = mem.doc.Recent(now, a.pub.HoldWindow.Duration)
	g.running = running{View: a.jobs.View(a.pub.Name), asks: a.jobs.Asks(a.pub.Name), now: now}
	g.missingAgain = missing.again
	g.missing = plandoc.Wait{Key: removeAfter, For: "nodes that are gone leave the files", Until: missing.next}
	var late time.Time
	g.fabricSince, late = a.fabrics.since(a.pub, &g.Inputs, mem.doc.FabricSince, now)
	g.ofFabrics = a.pub.FabricSite(g.prev.Plan, g.fabricSince).Judge(g.Facts, g.UnnamedFacts)
	g.next = again.First(g.missing.Until, unused, late, mem.doc.Until(now, a.pub.HoldWindow.Duration))
	return &g
}

// keepNames lets nodes without a Slurm name stay published under the names that they had.
func (g *gathered) keepNames(names map[string]string) {
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

// ReasonNodeInTwoPublications says that several publications take a node.
const ReasonNodeInTwoPublications = "NodeInTwoPublications"

// contested takes out of the inputs the nodes that another publication takes too, and returns
// why. A node that is published here stays: published are the Slurm names that are.
func (h *nodeHistory) contested(g *gathered, published []string) (out []topology.Finding) {
	if len(h.others) == 0 {
		return nil
	}
	here := make(map[string]bool, len(published))
	for _, name := range published {
		here[name] = true
	}
	g.Facts = slices.DeleteFunc(g.Facts, func(f topology.Facts) bool {
		names := []string{strconv.Quote(h.pub.Name)}
		for _, other := range h.others {
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
