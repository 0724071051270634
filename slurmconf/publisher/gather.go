package publisher

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
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
	inUse unitsInUse
	// leaving are nodes that the publication no longer takes, each as the outside of a seat. A node whose Slurm name is
	// still in the files is in Nodes too. The name of any other is empty.
	leaving []*seat
	// settings are the keys of the configuration that the published plan was not made by.
	settings settings
	// gone are the published names that leave now, with the reason of each. lost are those that leave
	// later, because settings were changed.
	gone, lost leavers
	// recent says how often nodes moved in the last hour, and running is what Slurm has said of jobs.
	recent  map[string]int
	running running
	// missing are nodes that are gone and stay for a while. missingSince says by name since when, if that is
	// for long enough to be stored.
	missing      plandoc.Wait
	missingSince map[string]time.Time
	// fabricSince says by Node since when its NVLink fabric is not ready. The verdict on each fabric is in the facts,
	// and ofFabrics are findings of the whole site.
	fabricSince map[string]time.Time
	ofFabrics   []topology.Finding
	// groups are the groups of switches to remember.
	groups []switches.Group
}

// gatherer gathers the inputs of a publication.
type gatherer struct {
	pub     *publication.Cluster
	seats   *seats
	units   unitHistory
	fabrics *fabricHistory // nil for a pass that writes nothing
	marks   *marker
	jobs    *occupancy.Keeper
	cables  cables.Placer
	timer   *again.Timer // of the next pass
}

// gather returns the inputs of the publication. Each step takes what the step before it returned. They find the
// nodes with a name, add published names that are missing and stay, leave out the nodes of other publications, and
// add the switches that cables show.
func (a *gatherer) gather(snap *inputs.Snapshot, mem *stored, now time.Time) *gathered {
	seen := a.seats.look(a.pub.Rules.Gather(snap), snap, mem, now)
	present := seen.present(now)
	own := a.seats.own(&present)
	cabled := findCables(&a.cables, a.pub, &own, seen.prev.Plan, mem.doc.Groups)
	g := gathered{Inputs: cabled.Inputs, prev: seen.prev, settings: seen.settings, gone: present.gone, lost: present.lost,
		missingSince: present.since, groups: cabled.groups, leaving: a.marks.leaving(seen.missing, snap, mem.doc.Leaving)}
	g.addLeaving()
	var unused, late time.Time
	if a.pub.Release.Does(slurmconf.DynamicTopology) {
		g.inUse, unused = a.units.inUse(g.prev.Plan, namedBy(&g), a.pub.LoadTimeout.Duration, now)
	}
	g.recent, _ = mem.doc.Recent(now)
	g.running = running{View: a.jobs.View(a.pub.Name), asks: a.jobs.Asks(a.pub.Name), now: now}
	g.missing = plandoc.Wait{Key: removeAfter, For: "nodes that are gone leave the files", Until: present.leaves}
	g.fabricSince, late = a.fabrics.since(a.pub, &g.Inputs, mem.doc.FabricSince, now)
	g.ofFabrics = a.pub.FabricSite(g.prev.Plan, g.fabricSince).Judge(g.Facts, g.UnnamedFacts)
	// Gather again when the stored plan is to know more missing names, when a unit has been missing for long
	// enough, or when a fabric counts as not ready.
	for _, at := range []time.Time{present.next, unused, late, mem.doc.Until(now)} {
		a.timer.At(at)
	}
	return &g
}

// stillMissing returns since when names are missing, as doc is to know it. If what was made is published, the
// names that leave have left.
func (g *gathered) stillMissing(made *Rendered, doc *plandoc.Document) map[string]time.Time {
	if !made.isRevision(&doc.Current) {
		return g.missingSince
	}
	since := maps.Clone(g.missingSince)
	maps.DeleteFunc(since, func(name string, _ time.Time) bool { _, gone := g.gone[name]; return gone })
	return since
}

// addLeaving adds the nodes that leave to Nodes, as long as their names are in the files. A node that the publication
// takes, and that stays published under such a name, goes before.
func (g *gathered) addLeaving() {
	if len(g.leaving) > 0 {
		g.Nodes = maps.Clone(g.Nodes)
	}
	for _, s := range g.leaving {
		if s.name != "" && g.Nodes[s.name] == nil {
			g.Nodes[s.name] = s.outside
		}
	}
}

// toMark yields the Nodes that have marks or are to have some, by Slurm name. The name is empty if it has
// left the files.
func (g *gathered) toMark() iter.Seq2[string, *inputs.Node] {
	return func(yield func(string, *inputs.Node) bool) {
		for name, n := range g.Nodes {
			if !yield(name, n) {
				return
			}
		}
		for _, s := range g.leaving {
			if s.name == "" && !yield("", s.outside) {
				return
			}
		}
	}
}

// cabledNodes are a publication's own nodes, with the switches above them.
type cabledNodes struct {
	inputs.Inputs
	groups []switches.Group
}

// findCables finds the switches above the nodes by their cables. prev is the published plan, or nil. groups are the groups
// of switches that are remembered.
func findCables(placer *cables.Placer, p *publication.Cluster, own *ownNodes, prev *topology.Plan, groups []switches.Group) cabledNodes {
	c := cabledNodes{Inputs: own.Inputs}
	var cut []topology.Finding
	c.Facts, c.groups, cut = placer.Place(c.Fabrics, p.ComputeAdapters, c.Facts, prev, groups)
	c.Problems = slices.Concat(c.Problems, cut)
	return c
}

// ownNodes are the nodes that no other publication takes, and published nodes that another one takes too.
type ownNodes struct{ inputs.Inputs }

// own leaves out the nodes that another publication takes too, and says so. A node that is published here
// stays.
func (all *seats) own(p *presentNodes) ownNodes {
	out := ownNodes{p.Inputs}
	if len(all.others) == 0 {
		return out
	}
	out.Nodes = maps.Clone(p.Nodes)
	out.Facts = slices.DeleteFunc(slices.Clone(p.Facts), func(f topology.Facts) bool {
		n := p.Nodes[f.SlurmName]
		if n == nil || f.Stays != "" { // nobody has the name
			return false
		}
		names := []string{strconv.Quote(all.pub.Name)}
		for _, other := range all.others {
			if other.Rules.Wants(n) {
				names = append(names, strconv.Quote(other.Name))
			}
		}
		if len(names) == 1 {
			return false
		}
		slices.Sort(names)
		pr := topology.Finding{Subject: topology.Subject{Node: f.Name}, Reason: ReasonNodeInTwoPublications, Message: fmt.Sprintf("publications %s take it: give each its own nodes; until then ", strings.Join(names, " and "))}
		if all.of(f.SlurmName).published {
			pr.Message += fmt.Sprintf("it stays in %q with the annotation that it has", all.pub.Name)
			out.Problems = append(out.Problems, pr)
			return false
		}
		pr.Message += fmt.Sprintf("%q does not publish it", all.pub.Name)
		out.Unnamed = append(out.Unnamed, pr)
		delete(out.Nodes, f.SlurmName)
		return true
	})
	out.UnnamedFacts = slices.DeleteFunc(slices.Clone(p.UnnamedFacts), func(f topology.Facts) bool { // a node of another Slurm is no part of a rack of this one
		return all.elsewhere(p.All[f.Name])
	})
	return out
}
