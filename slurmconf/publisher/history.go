package publisher

import (
	"cmp"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// nodeHistory is what the passes remember of the nodes that had a publication's Slurm names. A
// publisher that has just started takes it from the stored plan, as far as the plan has it.
type nodeHistory struct {
	pub *publication.Cluster
	// others are the other publications.
	others []*publication.Cluster
	// owners has the Node of each name in the published files, if it is known. It is nil
	// before the first pass.
	owners map[string]string
	// since says since when names are missing that leave later. began is the time of the first pass.
	since map[string]time.Time
	began time.Time
	// sets has the NodeSet of the worker pod of each name, or of the last pod that had the name.
	sets map[string]inputs.Owner
}

// recall takes from the stored plan which Node has which name. Of names that the plan has no
// Node of, it is the Node that has the name now.
func (h *nodeHistory) recall(g *gathered, prev *Previous) {
	h.owners, h.sets = make(map[string]string, len(g.Facts)), map[string]inputs.Owner{}
	known := make(map[string]bool, len(g.Facts))
	if prev.Plan != nil {
		for i := range prev.Plan.Nodes {
			if n := &prev.Plan.Nodes[i]; n.Node != "" && !n.NodeUnknown {
				h.owners[n.SlurmName], known[n.Node] = n.Node, true
			}
		}
	}
	for i := range g.Facts {
		if f := &g.Facts[i]; h.owners[f.SlurmName] == "" && !known[f.Name] {
			h.owners[f.SlurmName] = f.Name
		}
	}
}

// rename returns prev with the names that published nodes have now.
func (h *nodeHistory) rename(g *gathered, prev Previous) Previous {
	if h.owners == nil {
		h.recall(g, &prev)
	}
	names := naming{published: h.lastNames(g), now: make(map[string]string, len(g.Facts)), files: prev.nodes(), byPods: h.pub.Rules.ByPods(), pending: g.Pending}
	for i := range g.Facts {
		names.now[g.Facts[i].Name] = g.Facts[i].SlurmName
	}
	if to := names.compare(); !to.none() {
		prev.Plan, prev.Gres = to.plan(prev.Plan), to.lines(prev.Gres)
		prev.stored.Devices = gres.ByName(prev.Gres)
		for old, name := range to.to {
			prev.renamed = append(prev.renamed, renamed{h.owners[old], old, name})
		}
		slices.SortFunc(prev.renamed, func(a, b renamed) int { return cmp.Compare(a.new, b.new) })
	}
	return prev
}

// lastNames has the published name of each Node. Of several names it is the one that the Node
// has now, else the one that was missed last.
func (h *nodeHistory) lastNames(g *gathered) map[string]string {
	last := make(map[string]string, len(h.owners))
	for name, node := range h.owners {
		if other, several := last[node]; !several || h.laterOf(g, node, name, other) == name {
			last[node] = name
		}
	}
	return last
}

// laterOf returns which of two names the node had later.
func (h *nodeHistory) laterOf(g *gathered, node, a, b string) string {
	hasA, hasB := g.has(node, a), g.has(node, b)
	if hasA || !hasB && cmp.Or(h.missedLater(a, b), cmp.Compare(b, a)) > 0 {
		return a
	}
	return b
}

// missedLater is above 0 if a was missed after b, or only b was missed before, and below 0 if
// it is the other way round.
func (h *nodeHistory) missedLater(a, b string) int {
	sinceA, missedA := h.since[a]
	sinceB, missedB := h.since[b]
	switch {
	case missedA == missedB:
		return sinceA.Compare(sinceB)
	case missedB:
		return 1
	}
	return -1
}

// noteSets notes whose worker pods give the names of the nodes. Of missing names it keeps what it has.
func (h *nodeHistory) noteSets(nodes map[string]*inputs.Node, missing []string) {
	if !h.pub.Rules.BySlinky() {
		return
	}
	sets := make(map[string]inputs.Owner, len(nodes))
	for name, n := range nodes {
		sets[name] = h.pub.Rules.OwnerOf(n, name)
	}
	for _, name := range missing {
		if owner, known := h.sets[name]; known {
			sets[name] = owner
		}
	}
	h.sets = sets
}

// wrote notes that the files now have the names that the Nodes have. A name that stays
// without a Node keeps the Node that it had.
func (h *nodeHistory) wrote(g *gathered) {
	owners := make(map[string]string, len(g.Facts))
	for i := range g.Facts {
		f := &g.Facts[i]
		if g.has(f.Name, f.SlurmName) {
			owners[f.SlurmName] = f.Name
		} else if owner := h.owners[f.SlurmName]; owner != "" {
			owners[f.SlurmName] = owner
		}
	}
	h.owners = owners
}

// sinceOf returns the time that is known for the name, or now for a new name.
func sinceOf(known map[string]time.Time, name string, now time.Time) time.Time {
	if since, ok := known[name]; ok {
		return since
	}
	return now
}
