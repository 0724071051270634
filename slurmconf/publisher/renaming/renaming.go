// Package renaming brings the names in what is published up to date: a renamed Node is the same
// machine in the same place, and Slinky's pods take their names from Node to Node.
//
// The package is pure. It plans nothing.
package renaming

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/topology"
)

// Site is who has which name.
type Site struct {
	// Published has the name of each Node in the published files. Now has its name now.
	Published, Now map[string]string
	// Files are the names in the published files.
	Files []string
	// ByPods says that pods give the names. Pending are the names of pods that wait for a Node.
	ByPods  bool
	Pending map[string]bool
}

// Names says what becomes of the published names.
type Names struct {
	// to has the new name of a Node by the old one. away are the names that pods have taken to
	// another Node: they are no longer in their old places. pending names stay beside new ones.
	to            map[string]string
	away, pending map[string]bool
}

// Find compares who had the names and who has them now.
func (s *Site) Find() *Names {
	files := make(map[string]bool, len(s.Files))
	for _, name := range s.Files {
		files[name] = true
	}
	n := &Names{map[string]string{}, map[string]bool{}, s.Pending}
	for node, is := range s.Now {
		was := s.Published[node]
		if was == is {
			continue
		}
		if files[was] && (s.ByPods || !s.Pending[was]) {
			n.to[was] = is
		}
		if s.ByPods && files[is] {
			n.away[is] = true
		}
	}
	for again := !s.ByPods; again; { // a name of another that keeps it is no new one
		again = false
		maps.DeleteFunc(n.to, func(_, is string) bool {
			taken := files[is] && n.to[is] == ""
			again = again || taken
			return taken
		})
	}
	return n
}

// Count is how many Nodes have another name.
func (n *Names) Count() int { return len(n.to) }

// None reports whether all names are as published.
func (n *Names) None() bool { return len(n.to)+len(n.away) == 0 }

// of returns the names that stand for a published one.
func (n *Names) of(was string) []string {
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

// Plan returns a published plan with its nodes in the topologies under the names of now. old
// may be nil.
func (n *Names) Plan(old *topology.Plan) *topology.Plan {
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

// Lines returns published lines of gres.conf by the names of now.
func (n *Names) Lines(old map[string][]gres.Line) map[string][]gres.Line {
	out := make(map[string][]gres.Line, len(old))
	for was, lines := range old {
		for _, is := range n.of(was) {
			out[is] = lines
		}
	}
	return out
}
