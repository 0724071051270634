package slurmconf

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// ReadYAML reads the topologies of topology.yaml as slurmctld does: every value is
// text, and a mapping stands for a list of one item. name stands for the file in
// messages.
func ReadYAML(name string, data []byte) ([]Section, []topology.Finding) {
	r := yamlReader{syntax.Findings{File: name}}
	var root yaml.Node
	if err := yaml.Unmarshal(asVersion11(data), &root); err != nil {
		line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if _, noLine := fmt.Sscanf(message, "line %d:", &line); noLine == nil { // it is in the text only
			_, message, _ = strings.Cut(message, ": ")
		}
		r.Fatal(line, syntax.ReasonSyntax, "correct the YAML", "%s", message)
		return nil, r.All
	}
	if alias := findAlias(&root); alias > 0 {
		r.Fatal(alias, syntax.ReasonSyntax, "write the value out", "Slurm does not read YAML aliases (*name)")
		return nil, r.All
	}
	var items []*yaml.Node
	if len(root.Content) > 0 {
		items = r.items(root.Content[0], "the file", "topologies")
	}
	if len(items) == 0 && len(r.All) == 0 {
		r.Fatal(1, ReasonNoTopology, "want a list of topologies, each beginning with `- topology: NAME`, or no file at all", "there is no topology in the file")
	}
	sections := make([]Section, len(items))
	for i, n := range items {
		sections[i] = r.section(n)
	}
	return sections, r.All
}

// directive is the line of a version that Slurm takes as it takes 1.1.
var directive = regexp.MustCompile(`^%YAML[ \t]+1\.2\b`)

// asVersion11 returns the text with %YAML 1.1 in place of %YAML 1.2 before the first
// document, because package yaml takes that version only.
func asVersion11(data []byte) []byte {
	for at := 0; at < len(data); {
		line, _, _ := bytes.Cut(data[at:], []byte("\n"))
		switch trimmed := bytes.TrimSpace(line); {
		case directive.Match(line):
			out := bytes.Clone(data)
			out[at+bytes.IndexByte(line, '.')+1] = '1'
			return out
		case len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%':
			return data
		}
		at += len(line) + 1
	}
	return data
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

type yamlReader struct{ syntax.Findings }

// items returns the items of a list; Slurm takes a mapping for a list of one.
func (r *yamlReader) items(n *yaml.Node, where, of string) []*yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		return n.Content
	case yaml.MappingNode:
		return []*yaml.Node{n}
	}
	r.Fatal(n.Line, syntax.ReasonBadValue, "want a list of "+of, "%s: %q is no list", where, n.Value)
	return nil
}

// each calls set with every key of a mapping that is among the allowed ones.
func (r *yamlReader) each(n *yaml.Node, what string, allowed []string, set func(key string, v *yaml.Node)) {
	want := "want keys " + strings.Join(allowed, ", ")
	if n.Kind != yaml.MappingNode {
		r.Fatal(n.Line, syntax.ReasonBadValue, want, "%s is no mapping", what)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		twice := false
		for j := 0; j < i; j += 2 {
			twice = twice || n.Content[j].Value == k.Value
		}
		switch {
		case k.Kind != yaml.ScalarNode:
			r.Fatal(k.Line, syntax.ReasonSyntax, want, "a key of %s is no word", what)
		case twice:
			r.NotJudged(k.Line, "key %s of %s is given twice", k.Value, what)
		case !slices.Contains(allowed, k.Value):
			r.Warn(k.Line, syntax.ReasonUnknownKey, want, "key %q of %s is not known: Slurm ignores it", k.Value, what)
		default:
			set(k.Value, n.Content[i+1])
		}
	}
}

// text returns a scalar as Slurm reads it: null is empty.
func (r *yamlReader) text(n *yaml.Node, key string) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Fatal(n.Line, syntax.ReasonBadValue, "want text, and host lists as one text such as n[001-018]", "%s is a list or a mapping", key)
		return ""
	case n.Tag == "!!null" && n.Style == 0:
		return ""
	}
	return n.Value
}

// truth reads a scalar as Slurm reads a boolean: what is not false is true.
func (r *yamlReader) truth(n *yaml.Node, key string) bool {
	switch strings.ToLower(r.text(n, key)) {
	case "", "0", "n", "no", "f", "false", "off":
		return false
	case "true", "yes", "y", "t", "on", "1":
	default:
		r.Warn(n.Line, syntax.ReasonBadValue, "write true or false", "%s: %q counts as true", key, n.Value)
	}
	return true
}

func (r *yamlReader) section(n *yaml.Node) Section {
	s := Section{Line: n.Line, YAML: true}
	keys, kinds := []string{"topology", "cluster_default"}, []string(nil)
	for _, k := range Latest.Kinds() {
		if k.Word != "default" { // a plugin of 24.11, which reads no topology.yaml
			keys = append(keys, k.Word)
		}
	}
	r.each(n, "a topology", keys, func(key string, v *yaml.Node) {
		switch key {
		case "topology":
			s.Name = r.text(v, key)
		case "cluster_default":
			s.Default = r.truth(v, key)
		case "flat":
			if v.Kind == yaml.MappingNode || r.truth(v, key) {
				kinds = append(kinds, key)
			}
		default:
			if v.Kind != yaml.MappingNode || len(v.Content) > 0 {
				kinds = append(kinds, key)
				r.places(&s, key, v)
			}
		}
	})
	if n.Kind != yaml.MappingNode {
		return s
	}
	if s.Name == "" {
		r.Warn(n.Line, syntax.ReasonName, "begin every entry with `- topology: NAME`", "the topology has no name")
	}
	if len(kinds) == 1 {
		s.Kind = kinds[0]
	} else {
		r.Fatal(n.Line, ReasonBadTopology, "want exactly one of block, tree, flat", "topology %q has %d kinds (%s)", s.Name, len(kinds), strings.Join(kinds, ", "))
	}
	return s
}

// places reads what is below block, tree or another kind. Others are not read further.
func (r *yamlReader) places(s *Section, kind string, n *yaml.Node) {
	switch kind {
	case "block":
		r.each(n, kind, []string{"block_sizes", "blocks"}, func(key string, v *yaml.Node) {
			if key == "blocks" {
				s.Units = r.units(v, key, "block", "nodes")
			} else {
				s.SizesLine, s.Sizes = r.sizes(v)
			}
		})
	case "tree":
		r.each(n, kind, []string{"switches"}, func(key string, v *yaml.Node) {
			s.Units = r.units(v, key, "switch", "nodes", "children")
		})
	default:
		if n.Kind != yaml.MappingNode {
			r.Fatal(n.Line, syntax.ReasonBadValue, "want a mapping", "%s is no mapping", kind)
		}
	}
}

// units reads a list of blocks or switches. first is the key of an item's name, others
// are the keys of its lists.
func (r *yamlReader) units(n *yaml.Node, what, first string, others ...string) []Unit {
	keys := append([]string{first}, others...)
	items := r.items(n, what, what)
	units := make([]Unit, len(items))
	for i, item := range items {
		u, hasName := &units[i], false
		u.Line = item.Line
		r.each(item, "an item of "+what, keys, func(key string, v *yaml.Node) {
			switch text := r.text(v, key); key {
			case "nodes":
				u.Nodes, u.HasNodes = text, true
			case "children":
				u.Children, u.HasChildren = text, true
			default:
				u.Name, hasName = text, true
			}
		})
		if !hasName && item.Kind == yaml.MappingNode {
			r.Fatal(item.Line, syntax.ReasonName, "begin every item with `- "+first+": NAME`", "an item of %s has no name", what)
		}
		if u.HasNodes && u.HasChildren {
			r.NotJudged(item.Line, "switch %s has nodes and children", u.Name)
			u.Children, u.HasChildren = "", false
		}
	}
	return units
}

// sizes reads block_sizes: a number, or a list of numbers. Slurm takes hexadecimal
// numbers too.
func (r *yamlReader) sizes(n *yaml.Node) (line int, sizes []int64) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, v := range items {
		base, digits := 10, strings.TrimLeft(v.Value, " \t\n")
		if rest, isHex := strings.CutPrefix(strings.ToLower(digits), "0x"); isHex {
			base, digits = 16, rest
		}
		size, err := strconv.ParseInt(digits, base, 32)
		if err != nil || v.Kind != yaml.ScalarNode {
			r.Fatal(v.Line, ReasonBlockSizes, "want numbers of 1 or more, the base block size first, each further one base x 2^k, such as [18, 36]", "block_sizes: %q is no size", v.Value)
			continue
		}
		line, sizes = v.Line, append(sizes, size)
	}
	return line, sizes
}
