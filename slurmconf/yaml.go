package slurmconf

import (
	"fmt"
	"strconv"
	"strings"
)

// RenderYAML writes topology.yaml (25.05 and newer): every topology in the given
// order, two lines per block. A header becomes comment lines. Names must differ and
// exactly one topology is the default.
func RenderYAML(topologies []Topology, header string) ([]byte, error) {
	seen, defaults := make(map[string]bool), 0
	for i := range topologies {
		t := &topologies[i]
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("write topology.yaml: %w", err)
		}
		if err := checkWords("topology", t.Name, "", ""); err != nil {
			return nil, fmt.Errorf("write topology.yaml: %w", err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("write topology.yaml: two topologies are called %q: rename one", t.Name)
		}
		seen[t.Name] = true
		if t.Default {
			defaults++
		}
	}
	if defaults != 1 {
		return nil, fmt.Errorf("write topology.yaml: %d of %d topologies are the default: want exactly one", defaults, len(topologies))
	}
	var b strings.Builder
	CommentLines(&b, header)
	b.WriteString("---\n")
	for i := range topologies {
		topologies[i].writeYAML(&b)
	}
	return []byte(b.String()), nil
}

func (t *Topology) writeYAML(b *strings.Builder) {
	fmt.Fprintf(b, "- topology: %s\n  cluster_default: %t\n", yamlScalar(t.Name), t.Default)
	switch {
	case t.Flat:
		b.WriteString("  flat: true\n")
	case t.Block != nil:
		b.WriteString("  block:\n")
		if len(t.Block.Sizes) > 0 {
			fmt.Fprintf(b, "    block_sizes: [%s]\n", strings.ReplaceAll(JoinNumbers(t.Block.Sizes), ",", ", "))
		}
		b.WriteString("    blocks:" + emptyList(len(t.Block.Blocks)) + "\n")
		for _, block := range t.Block.Blocks {
			writeYAMLItem(b, "      - block: ", block.Name, "\n        nodes: ", block.Nodes)
		}
	case t.Tree != nil:
		b.WriteString("  tree:\n    switches:" + emptyList(len(t.Tree.Switches)) + "\n")
		for _, s := range t.Tree.Switches {
			if s.Children != "" {
				writeYAMLItem(b, "      - switch: ", s.Name, "\n        children: ", s.Children)
			} else {
				writeYAMLItem(b, "      - switch: ", s.Name, "\n        nodes: ", s.Nodes)
			}
		}
	}
}

// emptyList is what follows the key of a list of n items.
func emptyList(n int) string {
	if n == 0 {
		return " []"
	}
	return ""
}

// writeYAMLItem writes one block or switch. kind and key are written as they are.
func writeYAMLItem(b *strings.Builder, kind, name, key, list string) {
	writePair(b, kind, yamlScalar(name))
	if list != "" {
		writePair(b, key, yamlScalar(list))
	}
	b.WriteByte('\n')
}

// yamlScalar quotes a word that YAML could take for anything but text.
func yamlScalar(s string) string {
	plain := s != "" && (s[0]|0x20)-'a' <= 25 && !strings.ContainsAny(s, ":")
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity":
		plain = false
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}
