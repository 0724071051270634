// Package slurmconf writes and reads the text files that tell Slurm where its nodes
// are: topology.conf and topology.yaml. It makes them from a plan, and knows what each
// release takes. Package gres does the same for gres.conf.
//
// The package is pure: text in, text out. It opens no file, reads no clock and asks
// no network. It names an Include line and does not follow it. It does not decide
// where a node belongs: package placement does. Package lint judges the files.
package slurmconf

import (
	"fmt"
	"slices"
	"strings"
)

// Topology is one topology of a Slurm cluster: blocks, a switch tree, or flat;
// exactly one of the three.
type Topology struct {
	// Name is what a partition's Topology= names. topology.conf has no name for
	// its only topology; Slurm calls it "default".
	Name string
	// Default marks the topology of partitions that name none.
	Default bool
	Block   *BlockTopology
	Tree    *TreeTopology
	// Flat knows no places at all.
	Flat bool
}

// BlockTopology is Slurm's topology/block. The order of blocks counts: Slurm
// aggregates consecutive ones.
type BlockTopology struct {
	// Sizes are Slurm's BlockSizes, the base block size first. Empty leaves
	// them out; the first block with nodes then sets the base.
	Sizes  []int
	Blocks []Block
}

// Block is one base block.
type Block struct {
	Name string
	// Nodes is a host list; empty for a placeholder.
	Nodes string
}

// TreeTopology is Slurm's topology/tree.
type TreeTopology struct {
	Switches []Switch
}

// Switch is one switch: a leaf with Nodes, or one with Children, never both.
type Switch struct {
	Name string
	// Nodes and Children are host lists, of nodes and of switches.
	Nodes    string
	Children string
}

// Skeleton returns the topology without its nodes, for nodes that name their place by
// Topology=. Every block is a placeholder, and every leaf switch is empty. Switches and
// sizes stay: Slurm refuses a node that names a leaf which the file lacks.
func Skeleton(t Topology) Topology {
	if t.Block != nil {
		b := &BlockTopology{Sizes: slices.Clone(t.Block.Sizes), Blocks: slices.Clone(t.Block.Blocks)}
		for i := range b.Blocks {
			b.Blocks[i].Nodes = ""
		}
		t.Block = b
	}
	if t.Tree != nil {
		switches := slices.Clone(t.Tree.Switches)
		for i := range switches {
			switches[i].Nodes = ""
		}
		t.Tree = &TreeTopology{Switches: switches}
	}
	return t
}

// ParseError is text that Slurm's parsers, or this package, do not take.
type ParseError struct {
	File string
	Line int
	// Key is the key or the value's place, empty when the whole line is meant.
	Key string
	// Message says what is wrong and what is allowed.
	Message string
}

// Error returns "file:line: key: message".
func (e *ParseError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Key, e.Message)
}

// check returns why t cannot be written.
func (t *Topology) check() error {
	kinds := 0
	if t.Block != nil {
		kinds++
		for _, b := range t.Block.Blocks {
			if err := checkWords("block", b.Name, b.Nodes, ""); err != nil {
				return err
			}
		}
	}
	if t.Tree != nil {
		kinds++
		for _, s := range t.Tree.Switches {
			if err := checkWords("switch", s.Name, s.Nodes, s.Children); err != nil {
				return err
			}
		}
	}
	if t.Flat {
		kinds++
	}
	if kinds != 1 {
		return fmt.Errorf("topology %q has %d of block, tree and flat: want exactly one", t.Name, kinds)
	}
	return nil
}

// checkWords refuses names and lists that would not read back as they are.
func checkWords(what, name, nodes, children string) error {
	if name == "" {
		return fmt.Errorf("%s without a name: give it one", what)
	}
	if nodes != "" && children != "" {
		return fmt.Errorf("switch %s has both nodes and children: want one of them", name)
	}
	for _, s := range []string{name, nodes, children} {
		if i := strings.IndexFunc(s, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || r == '#' || r == '\\' || r == '"' || r == '\''
		}); i >= 0 {
			return fmt.Errorf("%s %q: %q cannot be written into Slurm's files: want letters, digits, '_' and '-', brackets and commas in host lists", what, name, s[i:i+1])
		}
	}
	return nil
}

// CommentLines writes header as comment lines.
func CommentLines(b *strings.Builder, header string) {
	if header == "" {
		return
	}
	for line := range strings.SplitSeq(strings.TrimRight(header, "\n"), "\n") {
		b.WriteString(strings.TrimRight("# "+strings.TrimRight(line, "\r\\ \t"), " "))
		b.WriteByte('\n')
	}
}
