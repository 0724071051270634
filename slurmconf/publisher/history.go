package publisher

import (
	"maps"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// nodeHistory is what the passes remember of the nodes that had a publication's Slurm names. In
// a publisher that has just started it knows nothing, and takes what it does not know with the
// greatest care.
type nodeHistory struct {
	pub *publication.Cluster
	// rest are the other publications.
	rest []*publication.Cluster
	// owners are the Nodes that have the names, or had them last.
	owners map[string]string
	// published are the names that the Nodes have in the published files.
	published map[string]string
	// gone says since when names are missing.
	gone map[string]time.Time
	// unpublished are Nodes without a Slurm name that are not among the published nodes.
	unpublished map[string]bool
}

// see notes which Node has which Slurm name. It returns those names that no Node has.
func (h *nodeHistory) see(g *gathered, names []string) (missing []string) {
	owners := make(map[string]string, len(g.Facts))
	for i := range g.Facts {
		owners[g.Facts[i].SlurmName] = g.Facts[i].Name
	}
	for _, name := range names {
		if _, ok := owners[name]; ok {
			continue
		}
		missing = append(missing, name)
		if owner, ok := h.owners[name]; ok {
			owners[name] = owner
		}
	}
	h.owners = owners
	return missing
}

// perhapsPublished names a node without a Slurm name that may have one of the missing
// names, or "". Only names whose Node nobody remembers count.
func (h *nodeHistory) perhapsPublished(g *gathered, snap *inputs.Snapshot, missing []string) string {
	if h.pub.Rules.BySlinky() { // a node without a worker pod is no Slurm node
		return ""
	}
	sure := true // of every missing one its Node is known
	owns := map[string]bool{}
	for _, name := range missing {
		owner, ok := h.owners[name]
		owns[owner], sure = true, sure && ok
	}
	unpublished := map[string]bool{}
	perhaps := ""
	for _, problem := range g.Unnamed {
		n := g.Nameless[problem.Node]
		switch {
		case owns[n.Name]:
		case sure || h.unpublished[n.Name]:
			unpublished[n.Name] = true
		case perhaps == "" && mayHaveGPUs(h.pub, n, snap):
			perhaps = n.Name
		}
	}
	h.unpublished = unpublished
	return perhaps
}

// mayHaveGPUs reports whether anything says that the node could be in a file.
func mayHaveGPUs(p *publication.Cluster, n *inputs.Node, snap *inputs.Snapshot) bool {
	l := nodelabels.Read(n.Labels, p.LabelKeys())
	return snap.Reports[n.Name] != nil || l.GPUs > 0 || n.GPUs > 0 || l.Product != "" || l.NamesDomain() || len(l.Problems) > 0 || n.Annotations[plandoc.SpecAnnotation] != ""
}

// unselected returns, by Slurm name, the Nodes with a Slurm name that the publication
// does not take. If pods say the names, Nodes that had a missing name are included.
func (h *nodeHistory) unselected(snap *inputs.Snapshot, missing []string) map[string]*inputs.Node {
	elsewhere := h.pub.Rules.Unselected(snap)
	if !h.pub.Rules.BySlinky() {
		return elsewhere
	}
	had := make(map[string]string, len(missing))
	for _, name := range missing {
		if owner, ok := h.owners[name]; ok && elsewhere[name] == nil {
			had[owner] = name
		}
	}
	if len(had) == 0 {
		return elsewhere
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; had[n.Name] != "" && !h.pub.Rules.Takes(n) {
			elsewhere[had[n.Name]] = n
		}
	}
	return elsewhere
}

// rename returns prev with the names that published nodes have now.
func (h *nodeHistory) rename(g *gathered, prev Previous) Previous {
	names := owners{published: h.published, now: make(map[string]string, len(g.Facts)), files: prev.nodes(), byPods: h.pub.Rules.BySlinky(), pending: g.Pending}
	for i := range g.Facts {
		names.now[g.Facts[i].Name] = g.Facts[i].SlurmName
	}
	if names.published == nil { // as it is now, for all that is known
		names.published = maps.Clone(names.now)
		for _, n := range prev.planned() {
			if names.byPods {
				names.published[n.Node] = n.SlurmName
			}
		}
		h.published = names.published
	}
	if to := names.compare(); !to.none() {
		prev.Plan, prev.Gres, prev.renamed = to.plan(prev.Plan), to.lines(prev.Gres), to.count()
	}
	return prev
}

// wrote notes that the files now have the names that the Nodes have.
func (h *nodeHistory) wrote(g *gathered) {
	h.published = make(map[string]string, len(h.owners))
	for name, node := range h.owners {
		if g.Nodes[name] == nil { // missing, and still in the files or soon out of them
			h.published[node] = name
		}
	}
	for name, n := range g.Nodes {
		h.published[n.Name] = name
	}
}

// sinceOf returns the time that is known for the name, or now for a new name.
func sinceOf(known map[string]time.Time, name string, now time.Time) time.Time {
	if since, ok := known[name]; ok {
		return since
	}
	return now
}
