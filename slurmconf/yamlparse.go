package slurmconf

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// DecodeYAML reads the first document of a YAML file. name stands for the file in
// messages. Every node knows its line. The result is nil if the file holds nothing.
func DecodeYAML(name string, data []byte) (*yaml.Node, *ParseError) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if rest, ok := strings.CutPrefix(message, "line "); ok { // the parser has the line in its text only
			number, text, _ := strings.Cut(rest, ": ")
			if n, err := strconv.Atoi(number); err == nil {
				line, message = max(n, 1), text
			}
		}
		return nil, &ParseError{File: name, Line: line, Message: message}
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	return root.Content[0], nil
}

// ParseYAML reads topology.yaml. name stands for the file in messages. Errors are
// *ParseError. ParseYAML refuses what Slurm ignores: unknown keys, keys given twice
// and topologies without a name. It does not read ring and torus topologies (26.05).
func ParseYAML(name string, data []byte) ([]Topology, error) {
	root, err := DecodeYAML(name, data)
	if err != nil {
		return nil, err
	}
	p := yamlParser{file: name}
	if root == nil {
		return nil, p.fail(nil, "there is no topology in the file: want a list of topologies, each beginning with `- topology: NAME`")
	}
	items, err := p.list(root, "the file", "topologies")
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, p.fail(root, "the list of topologies is empty: want at least one entry `- topology: NAME`")
	}
	topologies := make([]Topology, len(items))
	for i, n := range items {
		if err := p.topology(n, &topologies[i]); err != nil {
			return nil, err
		}
	}
	return topologies, nil
}

// yamlParser reads the nodes of one file.
type yamlParser struct{ file string }

func (p yamlParser) fail(n *yaml.Node, format string, args ...any) *ParseError {
	line := 1
	if n != nil {
		line = max(n.Line, 1)
	}
	return &ParseError{File: p.file, Line: line, Message: fmt.Sprintf(format, args...)}
}

// list returns the items of a list. Slurm takes a mapping as a list of one item.
func (p yamlParser) list(n *yaml.Node, where, of string) ([]*yaml.Node, *ParseError) {
	switch n.Kind {
	case yaml.SequenceNode:
		return n.Content, nil
	case yaml.MappingNode:
		return []*yaml.Node{n}, nil
	}
	return nil, p.fail(n, "%s: %q is no list: want a list of %s", where, n.Value, of)
}

// mapping calls set for every pair. set reports whether it knows the key.
func (p yamlParser) mapping(n *yaml.Node, what, keys string, set func(key string, v *yaml.Node) (known bool, err *ParseError)) *ParseError {
	if n.Kind != yaml.MappingNode {
		return p.fail(n, "%s is no mapping: want keys %s", what, keys)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		for j := 0; j < i; j += 2 {
			if n.Content[j].Value == k.Value {
				return p.fail(k, "key %s of %s is given twice: leave one of them", k.Value, what)
			}
		}
		known, err := set(k.Value, n.Content[i+1])
		if err != nil {
			return err
		}
		if !known || k.Kind != yaml.ScalarNode {
			return p.fail(k, "key %q of %s is not known: want one of %s", k.Value, what, keys)
		}
	}
	return nil
}

// text returns a scalar as Slurm reads it: null is empty.
func (p yamlParser) text(n *yaml.Node, key string) (string, *ParseError) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", p.fail(n, "%s is a list, a mapping or an alias: want text, and host lists as one text such as n[001-018]", key)
	case n.Tag == "!!null" && n.Style == 0:
		return "", nil
	}
	return n.Value, nil
}

// truth reads a boolean in one of Slurm's words.
func (p yamlParser) truth(n *yaml.Node, key string) (bool, *ParseError) {
	text, err := p.text(n, key)
	if err != nil {
		return false, err
	}
	switch strings.ToLower(text) {
	case "", "0", "n", "no", "f", "false", "off":
		return false, nil
	case "true", "yes", "y", "t", "on", "1":
		return true, nil
	}
	return false, p.fail(n, "%s: %q: want true or false", key, n.Value)
}

func (p yamlParser) topology(n *yaml.Node, t *Topology) *ParseError {
	kinds := 0
	err := p.mapping(n, "a topology", "topology, cluster_default and one of block, tree, flat", func(key string, v *yaml.Node) (known bool, err *ParseError) {
		switch key {
		case "topology":
			t.Name, err = p.text(v, key)
		case "cluster_default":
			t.Default, err = p.truth(v, key)
		case "flat":
			if t.Flat = v.Kind == yaml.MappingNode; !t.Flat {
				t.Flat, err = p.truth(v, key)
			}
			if t.Flat {
				kinds++
			}
		case "block":
			kinds++
			t.Block = &BlockTopology{}
			err = p.blocks(v, t.Block)
		case "tree":
			kinds++
			t.Tree = &TreeTopology{}
			err = p.tree(v, t.Tree)
		case "ring", "torus3d":
			return true, &ParseError{File: p.file, Line: n.Line, Key: key, Message: "not read here: want one of block, tree, flat"}
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return err
	case t.Name == "":
		return p.fail(n, "the topology has no name: begin every entry with `- topology: NAME`")
	case kinds != 1:
		return p.fail(n, "topology %q has %d kinds: want exactly one of block, tree, flat", t.Name, kinds)
	}
	return nil
}

func (p yamlParser) blocks(n *yaml.Node, t *BlockTopology) *ParseError {
	return p.mapping(n, "block", "block_sizes, blocks", func(key string, v *yaml.Node) (known bool, err *ParseError) {
		switch key {
		case "block_sizes":
			t.Sizes, err = p.sizes(v)
		case "blocks":
			var units []Switch
			units, err = p.units(v, key, "block", "")
			for _, u := range units {
				t.Blocks = append(t.Blocks, Block{Name: u.Name, Nodes: u.Nodes})
			}
		default:
			return false, nil
		}
		return true, err
	})
}

func (p yamlParser) tree(n *yaml.Node, t *TreeTopology) *ParseError {
	return p.mapping(n, "tree", "switches", func(key string, v *yaml.Node) (known bool, err *ParseError) {
		if key != "switches" {
			return false, nil
		}
		t.Switches, err = p.units(v, key, "switch", "children")
		return true, err
	})
}

// units reads a list of blocks or switches.
func (p yamlParser) units(n *yaml.Node, what, nameKey, childKey string) ([]Switch, *ParseError) {
	items, err := p.list(n, what, what)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	keys := strings.TrimSuffix(nameKey+", nodes, "+childKey, ", ")
	units := make([]Switch, len(items))
	for i, item := range items {
		u := &units[i]
		err := p.mapping(item, "an item of "+what, keys, func(key string, v *yaml.Node) (known bool, err *ParseError) {
			switch key {
			case nameKey:
				u.Name, err = p.text(v, key)
			case "nodes":
				u.Nodes, err = p.text(v, key)
			case childKey:
				u.Children, err = p.text(v, key)
			default:
				return false, nil
			}
			return true, err
		})
		switch {
		case err != nil:
			return nil, err
		case u.Name == "":
			return nil, p.fail(item, "an item of %s has no name: want letters, digits, '_' and '-'", what)
		case u.Nodes != "" && u.Children != "":
			return nil, p.fail(item, "switch %s has nodes and children: leave one of them", u.Name)
		}
	}
	return units, nil
}

// sizes reads block_sizes: a number, or a list of numbers.
func (p yamlParser) sizes(n *yaml.Node) ([]int, *ParseError) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var sizes []int
	for _, v := range items {
		size, ok := ReadBlockSize(v)
		if !ok || size <= 0 {
			return nil, p.fail(v, "block_sizes: %q is no size: want numbers of 1 or more, such as [18, 36]", v.Value)
		}
		sizes = append(sizes, int(size))
	}
	return sizes, nil
}

// ReadBlockSize reads one of block_sizes as Slurm does, which takes hexadecimal
// numbers too.
func ReadBlockSize(n *yaml.Node) (size int64, ok bool) {
	base, digits := 10, strings.TrimLeft(n.Value, " \t\n")
	if rest, isHex := strings.CutPrefix(strings.ToLower(digits), "0x"); isHex {
		base, digits = 16, rest
	}
	size, err := strconv.ParseInt(digits, base, 32)
	return size, err == nil && n.Kind == yaml.ScalarNode
}
