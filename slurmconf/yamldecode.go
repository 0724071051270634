package slurmconf

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// yamlLine finds the line number in the messages of the YAML parser.
var yamlLine = regexp.MustCompile(`line (\d+)`)

// decodeYAML reads the document's tree. The error, a *ParseError, is for text
// that is no YAML list of mappings; what is wrong within an entry stays with it.
func decodeYAML(file string, data []byte) (*yamlDoc, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		line := 1
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		return nil, &ParseError{File: file, Line: line, Message: strings.TrimPrefix(err.Error(), "yaml: ") + ": want YAML"}
	}
	if len(root.Content) == 0 {
		return nil, &ParseError{File: file, Line: 1, Message: "empty: want a list of topologies, each beginning with `- topology: NAME`"}
	}
	list := root.Content[0]
	if list.Kind != yaml.SequenceNode {
		return nil, yamlProblem(file, list, "", "want a list of topologies, each beginning with `- topology: NAME`")
	}
	doc := &yamlDoc{}
	for _, n := range list.Content {
		d := yamlDecoder{file: file}
		doc.entries = append(doc.entries, d.entry(n))
	}
	return doc, nil
}

// yamlDecoder reads one topology.
type yamlDecoder struct {
	file string
	e    yamlEntry
}

// fail keeps the first problem of the entry.
func (d *yamlDecoder) fail(n *yaml.Node, key, format string, args ...any) {
	if d.e.problem == nil {
		d.e.problem = yamlProblem(d.file, n, key, format, args...)
	}
}

// each calls f for every key of a mapping.
func (d *yamlDecoder) each(n *yaml.Node, what string, f func(key string, k, v *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, what, "want a mapping")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if !f(k.Value, k, v) {
			d.e.unknown = append(d.e.unknown, yamlProblem(d.file, k, k.Value, "unknown key in %s: Slurm ignores it; take it out", what))
		}
	}
}

func (d *yamlDecoder) text(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode {
		d.fail(n, key, "want text")
		return ""
	}
	return n.Value
}

func (d *yamlDecoder) boolean(n *yaml.Node, key string) bool {
	var b bool
	if err := n.Decode(&b); err != nil {
		d.fail(n, key, "%q is neither true nor false", n.Value)
	}
	return b
}

func (d *yamlDecoder) entry(n *yaml.Node) yamlEntry {
	d.e.line = n.Line
	kinds := 0
	d.each(n, "topology", func(key string, k, v *yaml.Node) bool {
		switch key {
		case "topology":
			d.e.Name = d.text(v, key)
		case "cluster_default":
			d.e.Default, d.e.hasDefault = d.boolean(v, key), true
		case "block":
			kinds++
			d.block(v)
		case "tree":
			kinds++
			d.tree(v)
		case "flat":
			if d.e.Flat = d.boolean(v, key); d.e.Flat {
				kinds++
			}
		case "ring", "torus3d":
			kinds++
			d.e.other = key
		default:
			return false
		}
		return true
	})
	if d.e.Name == "" {
		d.fail(n, "topology", "missing: begin every entry with `- topology: NAME`")
	}
	if kinds != 1 {
		d.fail(n, d.e.Name, "has %d of block, tree and flat: want exactly one", kinds)
	}
	return d.e
}

func (d *yamlDecoder) block(n *yaml.Node) {
	d.e.Block = &BlockTopology{}
	d.each(n, "block", func(key string, k, v *yaml.Node) bool {
		switch key {
		case "block_sizes":
			d.e.sizesLine = k.Line
			d.sizes(v)
		case "blocks":
			d.e.Block.Blocks = make([]Block, 0, len(v.Content))
			d.items(v, key, func(item *yaml.Node) {
				var b Block
				d.each(item, key, func(key string, k, v *yaml.Node) bool {
					switch key {
					case "block":
						b.Name = d.text(v, key)
					case "nodes":
						b.Nodes = d.text(v, key)
					default:
						return false
					}
					return true
				})
				if b.Name == "" {
					d.fail(item, "block", "missing: begin every block with `- block: NAME`")
				}
				d.e.Block.Blocks = append(d.e.Block.Blocks, b)
			})
		default:
			return false
		}
		return true
	})
}

func (d *yamlDecoder) tree(n *yaml.Node) {
	d.e.Tree = &TreeTopology{}
	d.each(n, "tree", func(key string, k, v *yaml.Node) bool {
		if key != "switches" {
			return false
		}
		d.items(v, key, func(item *yaml.Node) {
			var s Switch
			d.each(item, key, func(key string, k, v *yaml.Node) bool {
				switch key {
				case "switch":
					s.Name = d.text(v, key)
				case "nodes":
					s.Nodes = d.text(v, key)
				case "children":
					s.Children = d.text(v, key)
				default:
					return false
				}
				return true
			})
			if s.Name == "" {
				d.fail(item, "switch", "missing: begin every switch with `- switch: NAME`")
			}
			if s.Nodes != "" && s.Children != "" {
				d.fail(item, s.Name, "has both nodes and children: want one of them")
			}
			d.e.Tree.Switches = append(d.e.Tree.Switches, s)
		})
		return true
	})
}

// items calls f for every item of a list and keeps its line.
func (d *yamlDecoder) items(n *yaml.Node, key string, f func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, key, "want a list")
		return
	}
	for _, item := range n.Content {
		d.e.lines = append(d.e.lines, item.Line)
		f(item)
	}
}

func (d *yamlDecoder) sizes(n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "block_sizes", "want a list such as [18, 36]")
		return
	}
	for _, v := range n.Content {
		size, err := strconv.ParseUint(v.Value, 10, 31)
		if err != nil || size == 0 {
			d.fail(v, "block_sizes", "%q is no size: want numbers of 1 or more, the base block size first, each further one base x 2^k", v.Value)
			continue
		}
		d.e.Block.Sizes = append(d.e.Block.Sizes, int(size))
	}
}
