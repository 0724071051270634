package publisher

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/topology"
)

// naming says who had which name, and who has it now. A renamed Node is the same machine in the
// same place, and pods take their names from Node to Node.
type naming struct {
	// published has the name of each Node in the published files. now has its name now.
	published, now map[string]string
	// files are the names in the published files.
	files []string
	// byPods says that pods give the names. pending are the names of pods that wait for a Node.
	byPods  bool
	pending map[string]bool
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
		if v, is := by[r.new]; is {
			out[r.old] = v
		}
	}
	return out
}

// newNames says what becomes of the published names.
type newNames struct {
	// to has the new name of a Node by the old one. away are the names that pods have taken to
	// another Node: they are no longer in their old places. pending names stay beside new ones.
	to            map[string]string
	away, pending map[string]bool
}

// compare compares who had the names and who has them now.
func (o *naming) compare() *newNames {
	files := make(map[string]bool, len(o.files))
	for _, name := range o.files {
		files[name] = true
	}
	n := &newNames{map[string]string{}, map[string]bool{}, o.pending}
	for node, name := range o.now {
		old := o.published[node]
		if old == name {
			continue
		}
		if files[old] && (o.byPods || !o.pending[old]) {
			n.to[old] = name
		}
		if o.byPods && files[name] {
			n.away[name] = true
		}
	}
	for again := !o.byPods; again; { // a name of another that keeps it is no new one
		again = false
		maps.DeleteFunc(n.to, func(_, name string) bool {
			taken := files[name] && n.to[name] == ""
			again = again || taken
			return taken
		})
	}
	return n
}

// none reports whether all names are as published.
func (n *newNames) none() bool { return len(n.to)+len(n.away) == 0 }

// of returns the names that stand for a published one.
func (n *newNames) of(old string) []string {
	switch name := n.to[old]; {
	case name != "" && n.pending[old]:
		return []string{name, old}
	case name != "":
		return []string{name}
	case n.away[old]:
		return nil
	}
	return []string{old}
}

// plan returns a published plan with its nodes in the topologies under the names of now. old
// may be nil.
func (n *newNames) plan(old *topology.Plan) *topology.Plan {
	if old == nil {
		return nil
	}
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
func (n *newNames) lines(old map[string][]gres.Line) map[string][]gres.Line {
	out := make(map[string][]gres.Line, len(old))
	for published, lines := range old {
		for _, name := range n.of(published) {
			out[name] = lines
		}
	}
	return out
}
