package slurmctld

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
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
// is what messages call it. Errors are *slurmconf.ParseError.
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

func (s *Shown) add(file string, line int, words []string) *slurmconf.ParseError {
	kind, name, _ := strings.Cut(words[0], "=")
	var set func(key, value string) (known bool, err error)
	switch kind {
	case "BlockName", "AggregatedBlock":
		s.Blocks = append(s.Blocks, ShownBlock{Name: shownValue(name), Aggregated: kind == "AggregatedBlock"})
		set = s.Blocks[len(s.Blocks)-1].set
	case "SwitchName":
		s.Switches = append(s.Switches, ShownSwitch{Name: shownValue(name)})
		set = s.Switches[len(s.Switches)-1].set
	default:
		return unknownShown(file, line, words[0])
	}
	for _, w := range words[1:] {
		key, value, ok := strings.Cut(w, "=")
		known, err := set(key, shownValue(value))
		switch {
		case !ok || !known:
			return unknownShown(file, line, w)
		case err != nil:
			return &slurmconf.ParseError{File: file, Line: line, Key: key, Message: fmt.Sprintf("%q is no number", value)}
		}
	}
	return nil
}

func unknownShown(file string, line int, word string) *slurmconf.ParseError {
	return &slurmconf.ParseError{File: file, Line: line, Key: word, Message: "not known in the output of `scontrol show topology`: want lines of BlockName=, AggregatedBlock= or SwitchName="}
}

// shownValue returns a value as Slurm means it: (null) is empty.
func shownValue(value string) string {
	if value == "(null)" {
		return ""
	}
	return value
}

func (b *ShownBlock) set(key, value string) (known bool, err error) {
	switch key {
	case "BlockIndex":
		b.Index, err = strconv.Atoi(value)
	case "BlockSize":
		b.Size, err = strconv.Atoi(value)
	case "Nodes":
		b.Nodes = value
	default:
		return false, nil
	}
	return true, err
}

func (s *ShownSwitch) set(key, value string) (known bool, err error) {
	switch key {
	case "Nodes":
		s.Nodes = value
	case "Level":
		s.Level, err = strconv.Atoi(value)
	case "LinkSpeed":
		s.LinkSpeed, err = strconv.Atoi(value)
	case "Switches":
		s.Children = value
	default:
		return false, nil
	}
	return true, err
}

// Topology returns the shown topology under the name "default". Base blocks have the
// sizes that Slurm shows. Of switches only the leaves have nodes.
func (s *Shown) Topology() slurmconf.Topology {
	t := slurmconf.Topology{Name: "default", Default: true}
	switch {
	case len(s.Blocks) > 0:
		t.Block = &slurmconf.BlockTopology{}
		for _, b := range s.Blocks {
			if n := len(t.Block.Sizes); n == 0 || b.Size > t.Block.Sizes[n-1] {
				t.Block.Sizes = append(t.Block.Sizes, b.Size)
			}
			if !b.Aggregated {
				t.Block.Blocks = append(t.Block.Blocks, slurmconf.Block{Name: b.Name, Nodes: b.Nodes})
			}
		}
	case len(s.Switches) > 0:
		t.Tree = &slurmconf.TreeTopology{}
		for _, sw := range s.Switches {
			if sw.Children != "" {
				sw.Nodes = ""
			}
			t.Tree.Switches = append(t.Tree.Switches, slurmconf.Switch{Name: sw.Name, Nodes: sw.Nodes, Children: sw.Children})
		}
	default:
		t.Flat = true
	}
	return t
}
