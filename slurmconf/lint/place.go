package lint

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// NodeTopology is Topology= of a line NodeName of slurm.conf.
type NodeTopology struct {
	Nodes []string
	// Value is such as "nvl:nvl-1,fabric:leaf-1". An empty one takes the nodes out of all
	// topologies.
	Value string
	File  string
	Line  int
}

// lintNodeTopologies judges the places that slurm.conf gives nodes by the topology file.
// slurmctld does not start with a place that the file lacks.
func (l *linter) lintNodeTopologies() []topology.Finding {
	if len(l.NodeTopologies) == 0 {
		return nil
	}
	first := l.NodeTopologies[0]
	l.Findings = syntax.Findings{File: first.File}
	if !l.Release.Does(slurmconf.DynamicTopology) {
		l.Fatal(first.Line, reasonNodeTopology, "take it out; the topology file says where nodes are", "Slurm %s does not know Topology= of NodeName, and does not start", l.Release)
		return l.All
	}
	if len(l.topologies) == 0 { // Slurm takes any place then
		return nil
	}
	var all []string
	at := map[string]*NodeTopology{}
	for i := range l.NodeTopologies {
		t := &l.NodeTopologies[i]
		all = append(all, t.Nodes...)
		for _, n := range t.Nodes {
			at[n] = t
		}
	}
	list := hostlist.Compress(all)
	l.Warn(first.Line, reasonNodeTopology, "take Topology= out of slurm.conf if the file is to say where nodes are", "Topology= of NodeName overrides the topology file for %d nodes: %s", len(at), hostlist.Shorten(list))
	ordered, err := hostlist.Expand(list) // as slurmctld goes over nodes
	if err != nil {
		ordered = all
	}
	l.badPlaces(ordered, at)
	return l.All
}

// badPlaces names the nodes whose place the topology file lacks. One finding names all
// nodes of one line and one reason.
func (l *linter) badPlaces(ordered []string, at map[string]*NodeTopology) {
	type group struct {
		line *NodeTopology
		why  string
	}
	var order []group
	nodes := map[group][]string{}
	places := newPlaces(l.topologies)
	for _, n := range ordered {
		if why := places.add(at[n].Value); why != "" {
			g := group{at[n], why}
			if nodes[g] == nil {
				order = append(order, g)
			}
			nodes[g] = append(nodes[g], n)
		}
	}
	for _, g := range order {
		l.File = g.line.File
		l.Fatal(g.line.Line, reasonNodeTopology, "take Topology= out of slurm.conf, or name what the topology file has", "%s: Topology=%s: %s: slurmctld does not start", hostlist.Shorten(hostlist.Compress(nodes[g])), hostlist.Shorten(g.line.Value), g.why)
	}
}

// places are the topologies of a file, to which nodes are added as slurmctld does.
type places []topologyPlaces

type topologyPlaces struct {
	name, kind string
	units      map[string]*placeUnit
}

// placeUnit is a block or a switch.
type placeUnit struct{ nodes, children bool }

func newPlaces(sections []slurmconf.Section) places {
	var out places
	for i := range sections {
		s := &sections[i]
		t := topologyPlaces{s.Name, s.Kind, map[string]*placeUnit{}}
		for k := range s.Units {
			u := &s.Units[k]
			t.units[u.Name] = &placeUnit{u.Nodes != "", u.Children != ""}
		}
		out = append(out, t)
	}
	return out
}

// add puts a node at the places of a Topology= string. It says why slurmctld does not.
func (p places) add(value string) (why string) {
	for word := range strings.SplitSeq(value, ",") {
		if word == "" {
			continue
		}
		name, unit, _ := strings.Cut(word, ":")
		found := false
		for i := range p {
			if p[i].name == name {
				found = true
				if why := p[i].add(unit); why != "" {
					return why
				}
				break
			}
		}
		if !found {
			return fmt.Sprintf("the file has no topology %q", hostlist.Shorten(name))
		}
	}
	return ""
}

// add puts a node into a unit: a block, a leaf switch, or a path of switches down to a
// leaf. A tree makes the switches of a path that it lacks.
func (t *topologyPlaces) add(unit string) (why string) {
	switch t.kind {
	case "block":
		if t.units[unit] == nil {
			return fmt.Sprintf("topology %s has no block %q", t.name, hostlist.Shorten(unit))
		}
	case "tree":
		return t.addPath(unit)
	}
	return "" // a flat topology takes every unit, and others are not judged
}

func (t *topologyPlaces) addPath(path string) (why string) {
	var above, at *placeUnit
	last := ""
	for name := range strings.SplitSeq(path, ":") {
		if name == "" {
			continue
		}
		above, at = at, t.units[name]
		switch {
		case at != nil:
		case above == nil:
			return fmt.Sprintf("topology %s has no switch %q", t.name, hostlist.Shorten(name))
		case above.nodes:
			return fmt.Sprintf("switch %s of topology %s has nodes, so that no switch can be below it", last, t.name)
		default:
			at = &placeUnit{}
			t.units[name], above.children = at, true
		}
		last = name
	}
	switch {
	case at == nil: // the name of the tree alone is no place
	case at.children:
		return fmt.Sprintf("switch %s of topology %s is no leaf", last, t.name)
	default:
		at.nodes = true
	}
	return ""
}
