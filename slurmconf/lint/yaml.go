package lint

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// yamlReader reads topology.yaml as slurmctld does. Every value is text. A mapping
// stands for a list of one item. If a key is given twice, the last one counts.
type yamlReader struct {
	*report
	t *section
}

// readYAML reads the topologies of a file. What slurmctld refuses is fatal, what it
// ignores is a warning.
func readYAML(r *report, f File) []section {
	list, err := slurmconf.DecodeYAML(f.Name, f.Data)
	switch {
	case err != nil:
		r.fatal(err.Line, ruleSyntax, "correct the YAML", err.Message)
		return nil
	case list == nil:
		r.fatal(1, ruleEmptyFile, "want a list of topologies, each beginning with `- topology: NAME`, or no file at all", "there is no topology in the file")
		return nil
	}
	if line := findAlias(list); line > 0 {
		r.fatal(line, ruleSyntax, "write the value out", "Slurm does not read YAML aliases (*name)")
		return nil
	}
	d := yamlReader{report: r}
	items := d.items(list, "the file", "topologies")
	if list.Kind == yaml.SequenceNode && len(items) == 0 {
		r.fatal(list.Line, ruleEmptyFile, "want at least one entry `- topology: NAME`, or no file at all", "the list of topologies is empty")
	}
	sections := make([]section, len(items))
	for i, n := range items {
		d.t = &sections[i]
		d.entry(n)
	}
	return sections
}

// findAlias returns the line of the first alias below n, or 0.
func findAlias(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return n.Line
	}
	for _, c := range n.Content {
		if line := findAlias(c); line > 0 {
			return line
		}
	}
	return 0
}

// items returns the items of a list; Slurm takes a mapping for a list of one.
func (d *yamlReader) items(n *yaml.Node, where, of string) []*yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		return n.Content
	case yaml.MappingNode:
		return []*yaml.Node{n}
	}
	d.fatal(n.Line, ruleType, "want a list of "+of, fmt.Sprintf("%s: %q is no list", where, n.Value))
	return nil
}

// each calls f for every key of a mapping, and reports unknown keys.
func (d *yamlReader) each(n *yaml.Node, what, allowed string, f func(key string, k, v *yaml.Node) bool) {
	if n.Kind != yaml.MappingNode {
		d.fatal(n.Line, ruleType, "want keys "+allowed, what+" is no mapping")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.fatal(k.Line, ruleSyntax, "want keys "+allowed, "a key of "+what+" is no word")
			continue
		}
		known := f(k.Value, k, v)
		switch given, isList := keyBefore(n.Content[:i], k.Value); {
		case isList && known:
			d.fatal(k.Line, ruleKeyTwice, "join the lists under one key", fmt.Sprintf("key %s of %s is given twice, with lists", k.Value, what))
		case isList:
			d.warn(k.Line, ruleKeyTwice, "take both out", fmt.Sprintf("key %s of %s is given twice, with a list: Slurm drops the rest of %s", k.Value, what, what))
			return
		case given:
			d.warn(k.Line, ruleKeyTwice, "leave one of them", fmt.Sprintf("key %s of %s is given twice, the last one counts", k.Value, what))
		}
		if !known {
			d.warn(k.Line, ruleUnknownKey, "take it out, or write one of "+allowed, fmt.Sprintf("key %q of %s is not known: Slurm ignores it", k.Value, what))
		}
	}
}

// keyBefore reports whether key is among the pairs, and there with a list.
func keyBefore(pairs []*yaml.Node, key string) (given, isList bool) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Value == key {
			given = true
			isList = isList || pairs[i+1].Kind == yaml.SequenceNode
		}
	}
	return given, isList
}

// text returns a scalar as Slurm reads it: null is empty.
func (d *yamlReader) text(n *yaml.Node, key string) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.fatal(n.Line, ruleType, "want text, and host lists as one text such as n[001-018]", key+" is a list or a mapping")
		return ""
	case n.Tag == "!!null" && n.Style == 0:
		return ""
	}
	return n.Value
}

// truth reads a scalar as Slurm reads a boolean: what is not false is true.
func (d *yamlReader) truth(n *yaml.Node, key string) bool {
	switch strings.ToLower(d.text(n, key)) {
	case "", "0", "n", "no", "f", "false", "off":
		return false
	case "true", "yes", "y", "t", "on", "1":
	default:
		d.warn(n.Line, ruleType, "write true or false", fmt.Sprintf("%s: %q counts as true", key, n.Value))
	}
	return true
}

const entryKeys = "topology, cluster_default and one of block, tree, flat, ring, torus3d"

func (d *yamlReader) entry(n *yaml.Node) {
	d.t.line, d.t.yaml = n.Line, true
	hasName := false
	var kinds []string
	d.each(n, "a topology", entryKeys, func(key string, k, v *yaml.Node) bool {
		switch key {
		case "topology":
			d.t.name, hasName = d.text(v, key), true
			return true
		case "cluster_default":
			d.t.isDefault = d.truth(v, key)
			return true
		case "flat":
			if v.Kind == yaml.MappingNode || d.truth(v, key) {
				kinds = addWord(kinds, key)
			}
			return true
		case "block", "tree", "ring", "torus3d":
			if v.Kind != yaml.MappingNode || len(v.Content) > 0 {
				kinds = addWord(kinds, key)
				d.places(key, v)
			}
			return true
		}
		return false
	})
	if n.Kind != yaml.MappingNode {
		return
	}
	if !hasName || d.t.name == "" {
		d.warn(n.Line, ruleNoName, "begin every entry with `- topology: NAME`", "the topology has no name")
	}
	if len(kinds) != 1 {
		d.fatal(n.Line, ruleKind, "want exactly one of block, tree, flat", fmt.Sprintf("topology %q has %d kinds (%s)", d.t.name, len(kinds), strings.Join(kinds, ", ")))
		return
	}
	d.t.kind = kinds[0]
}

func addWord(words []string, word string) []string {
	if slices.Contains(words, word) {
		return words
	}
	return append(words, word)
}

// places reads what is below block, tree, ring or torus3d.
func (d *yamlReader) places(kind string, n *yaml.Node) {
	d.t.units, d.t.sizes, d.t.hasSizes = nil, nil, false
	switch kind {
	case "block":
		d.each(n, kind, "block_sizes, blocks", func(key string, k, v *yaml.Node) bool {
			switch key {
			case "block_sizes":
				d.t.sizesLine = k.Line
				d.blockSizes(v)
			case "blocks":
				d.units(v, key, "block", "")
			default:
				return false
			}
			return true
		})
	case "tree":
		d.each(n, kind, "switches", func(key string, k, v *yaml.Node) bool {
			if key == "switches" {
				d.units(v, key, "switch", "children")
			}
			return key == "switches"
		})
	default:
		if n.Kind != yaml.MappingNode {
			d.fatal(n.Line, ruleType, "want a mapping", kind+" is no mapping")
		}
	}
}

// units reads the list of blocks or switches.
func (d *yamlReader) units(n *yaml.Node, what, nameKey, childKey string) {
	items := d.items(n, what, what)
	d.t.units = make([]unit, 0, len(items))
	allowed := strings.TrimSuffix(nameKey+", nodes, "+childKey, ", ")
	for _, item := range items {
		u, hasName := unit{line: item.Line}, false
		d.each(item, "an item of "+what, allowed, func(key string, k, v *yaml.Node) bool {
			switch key {
			case nameKey:
				u.name, hasName = d.text(v, key), true
			case "nodes":
				u.nodes, u.hasNodes = d.text(v, key), true
			case childKey:
				u.children, u.hasChildren = d.text(v, key), true
			default:
				return false
			}
			return true
		})
		if !hasName && item.Kind == yaml.MappingNode {
			d.fatal(item.Line, ruleNoName, "begin every item with `- "+nameKey+": NAME`", "an item of "+what+" has no name")
		}
		if u.hasNodes && u.hasChildren {
			d.warn(item.Line, "NodesAndChildren", "leave one of them", fmt.Sprintf("switch %s has nodes and children: Slurm ignores the children", u.name))
			u.children, u.hasChildren = "", false
		}
		d.t.units = append(d.t.units, u)
	}
}

func (d *yamlReader) blockSizes(n *yaml.Node) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, v := range items {
		size, ok := slurmconf.ReadBlockSize(v)
		if !ok {
			d.fatal(v.Line, ruleBlockSizes, "want numbers of 1 or more, the base block size first, each further one base x 2^k, such as [18, 36]", fmt.Sprintf("block_sizes: %q is no size", v.Value))
			continue
		}
		d.t.sizes, d.t.hasSizes = append(d.t.sizes, size), true
	}
}
