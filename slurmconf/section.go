package slurmconf

import (
	"fmt"
	"strings"
)

// Section is one topology as a file has it. It keeps what Slurm tells apart: lines,
// and keys that are there and empty.
type Section struct {
	Name    string
	Default bool
	Line    int
	// Kind is block, tree, flat, ring or torus3d. It is empty if the file does not give
	// exactly one.
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

// Remark is what is wrong with one line of a file, or not judged.
type Remark struct {
	Line int
	// Fatal means that Slurm does not load the file.
	Fatal bool
	// Rule is one CamelCase word, stable over releases of Quoin.
	Rule    string
	Message string
	// Advice says what to do.
	Advice string
}

// The rules of readers.
const (
	RuleSyntax     = "Syntax"
	RuleEmptyFile  = "EmptyFile"
	RuleUnknownKey = "UnknownKey"
	RuleWrongType  = "WrongType"
	RuleNoName     = "MissingName"
	RuleKind       = "TopologyKind"
	RuleBlockSizes = "BlockSizes"
	RuleInclude    = "Include"
	RuleNotJudged  = "NotJudged"
)

// Remarks collects the remarks on one file.
type Remarks []Remark

// Fatal adds what Slurm refuses.
func (r *Remarks) Fatal(line int, rule, advice, format string, args ...any) {
	*r = append(*r, Remark{Line: max(line, 1), Fatal: true, Rule: rule, Message: fmt.Sprintf(format, args...), Advice: advice})
}

// Warn adds what Slurm ignores, or reads otherwise than it looks.
func (r *Remarks) Warn(line int, rule, advice, format string, args ...any) {
	*r = append(*r, Remark{Line: max(line, 1), Rule: rule, Message: fmt.Sprintf(format, args...), Advice: advice})
}

// NotJudged adds what nobody looked into.
func (r *Remarks) NotJudged(line int, format string, args ...any) {
	r.Warn(line, RuleNotJudged, "check it with Slurm itself", format, args...)
}

// ParseTopologies reads a topology file, conf or yaml by its name's ending. Errors are
// *ParseError. It takes what any release loads; package lint says which release does.
//
// The topology of topology.conf has the Name "default", as Slurm calls it. Of
// topology.yaml it refuses what Slurm ignores: unknown keys, keys given twice and
// topologies without a name. It does not read ring and torus topologies (26.05).
func ParseTopologies(name string, data []byte) ([]Topology, error) {
	var sections []Section
	var remarks Remarks
	if strings.HasSuffix(name, ".yaml") {
		sections, remarks = ReadYAML(name, data)
	} else {
		sections = make([]Section, 1)
		sections[0], remarks = ReadConf(name, data, "")
	}
	if len(remarks) > 0 {
		r := remarks[0]
		return nil, &ParseError{File: name, Line: r.Line, Message: r.Message + "; " + r.Advice}
	}
	topologies := make([]Topology, len(sections))
	for i := range sections {
		var err *ParseError
		if topologies[i], err = sections[i].topology(name); err != nil {
			return nil, err
		}
	}
	return topologies, nil
}

// topology returns the topology of a section, or what Quoin does not write in one.
func (s *Section) topology(file string) (Topology, *ParseError) {
	t := Topology{Name: s.Name, Default: s.Default}
	if !s.YAML && len(s.Units) == 0 {
		return t, &ParseError{File: file, Line: 1, Message: "no blocks and no switches: want lines of BlockName= or SwitchName="}
	}
	for _, u := range s.Units {
		if u.Name == "" || u.Nodes != "" && u.Children != "" {
			return t, &ParseError{File: file, Line: u.Line, Message: fmt.Sprintf("%q has no name, or both nodes and switches: want a name and one of them", u.Name)}
		}
	}
	switch s.Kind {
	case "flat":
		t.Flat = true
	case "tree":
		t.Tree = &TreeTopology{}
		for _, u := range s.Units {
			t.Tree.Switches = append(t.Tree.Switches, Switch{Name: u.Name, Nodes: u.Nodes, Children: u.Children})
		}
	case "block":
		t.Block = &BlockTopology{}
		for _, size := range s.Sizes {
			if size < 1 {
				return t, &ParseError{File: file, Line: s.SizesLine, Message: fmt.Sprintf("block size %d: want 1 or more", size)}
			}
			t.Block.Sizes = append(t.Block.Sizes, int(size))
		}
		for _, u := range s.Units {
			t.Block.Blocks = append(t.Block.Blocks, Block{Name: u.Name, Nodes: u.Nodes})
		}
	default:
		return t, &ParseError{File: file, Line: s.Line, Message: fmt.Sprintf("a topology of kind %s is not read here: want one of block, tree, flat", s.Kind)}
	}
	return t, nil
}
