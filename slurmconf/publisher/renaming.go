package publisher

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/topology"
)

// owners says who has which name. A renamed Node is the same machine in the same place, and
// Slinky's pods take their names from Node to Node.
type owners struct {
	// published has the name of each Node in the published files. now has its name now.
	published, now map[string]string
	// files are the names in the published files.
	files []string
	// byPods says that pods give the names. pending are the names of pods that wait for a Node.
	byPods  bool
	pending map[string]bool
}

// renamed says what becomes of the published names.
type renamed struct {
	// to has the new name of a Node by the old one. away are the names that pods have taken to
	// another Node: they are no longer in their old places. pending names stay beside new ones.
	to            map[string]string
	away, pending map[string]bool
}

// compare compares who had the names and who has them now.
func (o *owners) compare() *renamed {
	files := make(map[string]bool, len(o.files))
	for _, name := range o.files {
		files[name] = true
	}
	n := &renamed{map[string]string{}, map[string]bool{}, o.pending}
	for node, is := range o.now {
		was := o.published[node]
		if was == is {
			continue
		}
		if files[was] && (o.byPods || !o.pending[was]) {
			n.to[was] = is
		}
		if o.byPods && files[is] {
			n.away[is] = true
		}
	}
	for again := !o.byPods; again; { // a name of another that keeps it is no new one
		again = false
		maps.DeleteFunc(n.to, func(_, is string) bool {
			taken := files[is] && n.to[is] == ""
			again = again || taken
			return taken
		})
	}
	return n
}

// count is how many Nodes have another name.
func (n *renamed) count() int { return len(n.to) }

// none reports whether all names are as published.
func (n *renamed) none() bool { return len(n.to)+len(n.away) == 0 }

// of returns the names that stand for a published one.
func (n *renamed) of(was string) []string {
	switch is := n.to[was]; {
	case is != "" && n.pending[was]:
		return []string{is, was}
	case is != "":
		return []string{is}
	case n.away[was]:
		return nil
	}
	return []string{was}
}

// plan returns a published plan with its nodes in the topologies under the names of now. old
// may be nil.
func (n *renamed) plan(old *topology.Plan) *topology.Plan {
	if old == nil {
		return nil
	}
	in := func(nodes topology.Names) topology.Names {
		out := make(topology.Names, 0, len(nodes))
		for _, was := range nodes {
			out = append(out, n.of(was)...)
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
func (n *renamed) lines(old map[string][]gres.Line) map[string][]gres.Line {
	out := make(map[string][]gres.Line, len(old))
	for was, lines := range old {
		for _, is := range n.of(was) {
			out[is] = lines
		}
	}
	return out
}
