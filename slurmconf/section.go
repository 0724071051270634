package slurmconf

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// Section is one topology as a file has it. It keeps what Slurm tells apart: lines,
// and keys that are there and empty.
type Section struct {
	Name    string
	Default bool
	Line    int
	// Kind is the Word of a TopologyKind. It is empty if the file does not give exactly one.
	Kind  string
	Units []Unit
	// Sizes are the BlockSizes. SizesLine is 0 if there are none.
	Sizes     []int64
	SizesLine int
	YAML      bool
}

// Unit is one block or switch of a file.
type Unit struct {
	Line                  int
	Name, Nodes, Children string
	HasNodes, HasChildren bool
}

// The reasons of readers.
const (
	ReasonNoTopology  = "NoTopology"
	ReasonBadTopology = "BadTopology"
	ReasonBlockSizes  = "BlockSizes"
)

// ParseTopologies reads a topology file, conf or yaml by its name's ending. Errors are
// *syntax.ParseError, also of host lists that are not plain. It takes what any release loads; package
// lint says which release does.
//
// The topology of topology.conf has the Name "default", as Slurm calls it. Of
// topology.yaml it refuses what Slurm ignores: unknown keys, keys given twice and
// topologies without a name. It does not read ring and torus topologies (26.05).
func ParseTopologies(name string, data []byte) ([]topology.Topology, error) {
	var sections []Section
	var found []topology.Finding
	if strings.HasSuffix(name, ".yaml") {
		sections, found = ReadYAML(name, data)
	} else {
		sections = make([]Section, 1)
		sections[0], found = ReadConf(name, data, "")
	}
	if len(found) > 0 {
		f := found[0]
		return nil, &syntax.ParseError{File: name, Line: f.Line, Message: f.Message + "; " + f.Remedy}
	}
	topologies := make([]topology.Topology, len(sections))
	names := 0
	for i := range sections {
		var err *syntax.ParseError
		if topologies[i], err = sections[i].topology(name, &names); err != nil {
			return nil, err
		}
	}
	return topologies, nil
}

// topology returns the topology of a section, or what Quoin does not write in one. It adds to
// names, the number of names that the file has so far.
func (s *Section) topology(file string, names *int) (topology.Topology, *syntax.ParseError) {
	t := topology.Topology{Name: s.Name, Default: s.Default, Kind: s.Kind}
	fail := func(line int, message string) (topology.Topology, *syntax.ParseError) {
		return t, &syntax.ParseError{File: file, Line: line, Message: message}
	}
	if !s.YAML && len(s.Units) == 0 {
		return fail(1, "no blocks and no switches: want lines of BlockName= or SwitchName=")
	}
	switch s.Kind {
	case topology.KindFlat, topology.KindTree, topology.KindBlock:
	default:
		return fail(s.Line, fmt.Sprintf("a topology of kind %s is not read here: want one of block, tree, flat", s.Kind))
	}
	for _, size := range s.Sizes {
		if size < 1 {
			return fail(s.SizesLine, fmt.Sprintf("block size %d: want 1 or more", size))
		}
		t.Sizes = append(t.Sizes, int(size))
	}
	for _, u := range s.Units {
		if u.Name == "" || u.Nodes != "" && u.Children != "" {
			return fail(u.Line, fmt.Sprintf("%q has no name, or both nodes and switches: want a name and one of them", u.Name))
		}
		nodes, err := hostlist.Expand(u.Nodes)
		if err != nil {
			return fail(u.Line, err.Error())
		}
		children, err := hostlist.Expand(u.Children)
		if err != nil {
			return fail(u.Line, err.Error())
		}
		if *names += len(nodes) + len(children); *names > hostlist.MaxHosts {
			return fail(u.Line, fmt.Sprintf("more than %d names in one file: no site is so large", hostlist.MaxHosts))
		}
		if s.Kind == topology.KindBlock {
			t.Blocks = append(t.Blocks, topology.Block{Name: u.Name, Nodes: nodes})
		} else {
			t.Switches = append(t.Switches, topology.Switch{Name: u.Name, Nodes: nodes, Children: children})
		}
	}
	return t, nil
}
