package publisher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
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
	// missed says since when names are missing that leave later.
	missed map[string]time.Time
	// sets has the NodeSet of the worker pod of each name, or of the last pod that had the name.
	sets map[string]inputs.Owner
}

// namedNodes are the nodes that have a Slurm name now.
type namedNodes struct {
	inputs.Inputs
	// prev is what is published, with the names that the nodes have now.
	prev Previous
	// settings are the keys of the configuration that the published plan was not made by.
	settings settings
}

// named compares the names of now with the published ones.
func (h *nodeHistory) named(in inputs.Inputs, mem *stored) namedNodes {
	if h.owners == nil {
		h.recall(&in, mem)
	}
	return namedNodes{in, h.rename(&in, mem.prev), settingsOf(h.pub, &mem.prev)}
}

// recall takes from the stored plan which Node has which name, and since when names are missing. Of names
// that the plan has no Node of, it is the Node that has the name now.
func (h *nodeHistory) recall(in *inputs.Inputs, mem *stored) {
	h.owners, h.sets, h.missed = make(map[string]string, len(in.Facts)), map[string]inputs.Owner{}, mem.doc.MissingSince
	known := make(map[string]bool, len(in.Facts))
	if mem.prev.Plan != nil {
		for i := range mem.prev.Plan.Nodes {
			if n := &mem.prev.Plan.Nodes[i]; n.Node != "" && !n.NodeUnknown {
				h.owners[n.SlurmName], known[n.Node] = n.Node, true
			}
		}
	}
	for i := range in.Facts {
		if f := &in.Facts[i]; h.owners[f.SlurmName] == "" && !known[f.Name] {
			h.owners[f.SlurmName] = f.Name
		}
	}
}

// renamed is a Node whose name differs from the published files.
type renamed struct{ node, old, new string }

// asPublished returns what is known by name, by the old names of the nodes.
func asPublished[V any](by map[string]V, all []renamed) map[string]V {
	out := maps.Clone(by)
	for _, r := range all {
		delete(out, r.new)
	}
	for _, r := range all {
		if v, ok := by[r.new]; ok {
			out[r.old] = v
		}
	}
	return out
}

// rename returns prev with the names that published nodes have now.
func (h *nodeHistory) rename(in *inputs.Inputs, prev Previous) Previous {
	to, all := h.assign(in, prev.nodes())
	if len(to) > 0 {
		prev.Plan, prev.Gres, prev.renamed = to.plan(prev.Plan), to.lines(prev.Gres), all
		prev.stored.Devices = gres.ByName(prev.Gres)
	}
	return prev
}

// newNames has the names that stand for a published name now, if they are others. There is none if a pod took the
// name to another Node. A name whose pod waits for a Node stays beside the new one. Further worker pods of the Node
// have their names there.
type newNames map[string][]string

// assign gives each published place the name that its Node has now. A Node with another name is the same machine in
// the same place. published are the names in the files.
func (h *nodeHistory) assign(in *inputs.Inputs, published []string) (to newNames, all []renamed) {
	byPods, last, files, now := h.pub.Rules.ByPods(), h.lastNames(in), make(map[string]bool, len(published)), map[string]string{}
	for _, name := range published {
		files[name] = true
	}
	to, further := newNames{}, newNames{}
	for i := range in.Facts {
		f := &in.Facts[i]
		old := last[f.Name]
		switch {
		case old == f.SlurmName || f.Shared && files[f.SlurmName] && h.owners[f.SlurmName] == f.Name:
			continue
		case !files[old]:
		case now[old] == "" && !hasName(in, f.Name, old):
			now[old] = f.SlurmName
		default:
			further[old] = append(further[old], f.SlurmName)
		}
		if byPods && files[f.SlurmName] {
			to[f.SlurmName] = nil
		}
	}
	for old, name := range now {
		end := name
		for end != old && now[end] != "" { // Nodes may hand on their names in a row
			end = now[end]
		}
		if !byPods && end != old && files[end] { // the last one keeps its name, so all others in the row do
			continue
		}
		if to[old] = []string{name}; in.Pending[old] {
			to[old] = append(to[old], old)
		}
		all = append(all, renamed{h.owners[old], old, name})
	}
	for old, names := range further {
		to[old] = append(to.of(old), names...)
	}
	slices.SortFunc(all, func(a, b renamed) int { return cmp.Compare(a.new, b.new) })
	return to, all
}

// of returns the names that stand for a published one.
func (n newNames) of(old string) []string {
	if names, changed := n[old]; changed {
		return names
	}
	return []string{old}
}

// plan returns a published plan with its nodes in the topologies under the names of now.
func (n newNames) plan(old *topology.Plan) *topology.Plan {
	in := func(nodes topology.Names) topology.Names {
		out := make(topology.Names, 0, len(nodes))
		for _, name := range nodes {
			out = append(out, n.of(name)...)
		}
		return out
	}
	out := *old
	out.Topologies = slices.Clone(old.Topologies)
	for i := range out.Topologies {
		t := &out.Topologies[i]
		t.Blocks, t.Switches = slices.Clone(t.Blocks), slices.Clone(t.Switches)
		for k := range t.Blocks {
			t.Blocks[k].Nodes = in(t.Blocks[k].Nodes)
		}
		for k := range t.Switches {
			t.Switches[k].Nodes = in(t.Switches[k].Nodes)
		}
	}
	return &out
}

// lines returns published lines of gres.conf by the names of now.
func (n newNames) lines(old map[string][]gres.Line) map[string][]gres.Line {
	out := make(map[string][]gres.Line, len(old))
	for published, lines := range old {
		for _, name := range n.of(published) {
			out[name] = lines
		}
	}
	return out
}

// hasName reports whether the node has the Slurm name.
func hasName(in *inputs.Inputs, node, name string) bool {
	n := in.Nodes[name]
	return n != nil && n.Name == node
}

// lastNames has the published name of each Node. Of several names it is the one that the Node
// has now, else the one that was missed last.
func (h *nodeHistory) lastNames(in *inputs.Inputs) map[string]string {
	last := make(map[string]string, len(h.owners))
	for name, node := range h.owners {
		if other, several := last[node]; !several || h.hadLater(in, node, name, other) {
			last[node] = name
		}
	}
	return last
}

// hadLater reports whether the node had name a later than name b.
func (h *nodeHistory) hadLater(in *inputs.Inputs, node, a, b string) bool {
	hasA, hasB := hasName(in, node, a), hasName(in, node, b)
	sinceA, missedA := h.missed[a]
	sinceB, missedB := h.missed[b]
	switch {
	case hasA || hasB:
		return hasA
	case missedA != missedB: // the other was there until now
		return missedB
	}
	return cmp.Or(sinceA.Compare(sinceB), cmp.Compare(b, a)) > 0
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
func (h *nodeHistory) wrote(in *inputs.Inputs) {
	owners := make(map[string]string, len(in.Facts))
	for i := range in.Facts {
		f := &in.Facts[i]
		if hasName(in, f.Name, f.SlurmName) {
			owners[f.SlurmName] = f.Name
		} else if owner := h.owners[f.SlurmName]; owner != "" {
			owners[f.SlurmName] = owner
		}
	}
	h.owners = owners
}

// sinceOf returns the time that is known for the name, or now for a new name. A time to come counts as now: the
// clock was ahead then.
func sinceOf(known map[string]time.Time, name string, now time.Time) time.Time {
	if since, ok := known[name]; ok && !since.After(now) {
		return since
	}
	return now
}
