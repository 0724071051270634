package slurmconf

import (
	"fmt"
	"strconv"
	"strings"
)

// Shown is what `scontrol show topology` prints for one topology: blocks or
// switches, or nothing at all when it is flat.
type Shown struct {
	Blocks   []ShownBlock
	Switches []ShownSwitch
}

// ShownBlock is a line with BlockName or AggregatedBlock.
type ShownBlock struct {
	// Name is a host list of base blocks when Aggregated.
	Name       string
	Aggregated bool
	Index      int
	// Nodes is a host list; empty for a placeholder.
	Nodes string
	// Size is the block size of the line's level, whatever nodes are there.
	Size int
}

// ShownSwitch is a line with SwitchName.
type ShownSwitch struct {
	Name      string
	Level     int
	LinkSpeed int
	// Nodes are all nodes below the switch, Children the switches next below.
	Nodes    string
	Children string
}

// ParseShown reads the output of `scontrol show topology` of any release. name
// is what messages call it. Errors are *ParseError.
func ParseShown(name string, data []byte) (Shown, error) {
	var s Shown
	number := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		number++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := s.add(name, number, words); err != nil {
			return Shown{}, err
		}
	}
	return s, nil
}

func (s *Shown) add(file string, line int, words []string) *ParseError {
	var block ShownBlock
	var sw ShownSwitch
	kind, _, _ := strings.Cut(words[0], "=")
	for i, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if value == "(null)" {
			value = ""
		}
		var err error
		switch {
		case ok && i == 0 && (key == "BlockName" || key == "AggregatedBlock"):
			block.Name, block.Aggregated = value, key == "AggregatedBlock"
		case ok && i == 0 && key == "SwitchName":
			sw.Name = value
		case ok && i > 0 && key == "BlockIndex" && kind != "SwitchName":
			block.Index, err = strconv.Atoi(value)
		case ok && i > 0 && key == "BlockSize" && kind != "SwitchName":
			block.Size, err = strconv.Atoi(value)
		case ok && i > 0 && key == "Nodes":
			block.Nodes, sw.Nodes = value, value
		case ok && i > 0 && key == "Level" && kind == "SwitchName":
			sw.Level, err = strconv.Atoi(value)
		case ok && i > 0 && key == "LinkSpeed" && kind == "SwitchName":
			sw.LinkSpeed, err = strconv.Atoi(value)
		case ok && i > 0 && key == "Switches" && kind == "SwitchName":
			sw.Children = value
		default:
			return &ParseError{File: file, Line: line, Key: w, Message: "not known in the output of `scontrol show topology`: want lines of BlockName=, AggregatedBlock= or SwitchName="}
		}
		if err != nil {
			return &ParseError{File: file, Line: line, Key: key, Message: fmt.Sprintf("%q is no number", value)}
		}
	}
	if kind == "SwitchName" {
		s.Switches = append(s.Switches, sw)
	} else {
		s.Blocks = append(s.Blocks, block)
	}
	return nil
}

// Topology returns what was shown as a topology called "default": base blocks
// with the sizes that Slurm shows, or switches, leaves with their nodes.
func (s *Shown) Topology() Topology {
	t := Topology{Name: "default", Default: true}
	switch {
	case len(s.Blocks) > 0:
		t.Block = &BlockTopology{}
		for _, b := range s.Blocks {
			if n := len(t.Block.Sizes); n == 0 || b.Size > t.Block.Sizes[n-1] {
				t.Block.Sizes = append(t.Block.Sizes, b.Size)
			}
			if !b.Aggregated {
				t.Block.Blocks = append(t.Block.Blocks, Block{Name: b.Name, Nodes: b.Nodes})
			}
		}
	case len(s.Switches) > 0:
		t.Tree = &TreeTopology{}
		for _, sw := range s.Switches {
			if sw.Children != "" {
				sw.Nodes = ""
			}
			t.Tree.Switches = append(t.Tree.Switches, Switch{Name: sw.Name, Nodes: sw.Nodes, Children: sw.Children})
		}
	default:
		t.Flat = true
	}
	return t
}
