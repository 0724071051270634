package slurmconf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// RenderYAML writes topology.yaml (25.05 and newer): every topology in the given
// order, two lines per block. A header becomes comment lines. Names must differ and
// exactly one topology is the default.
func RenderYAML(topologies []topology.Topology, header string) ([]byte, error) {
	var b strings.Builder
	syntax.CommentLines(&b, header)
	b.WriteString("---\n")
	seen, defaults := make(map[string]bool), 0
	for i := range topologies {
		t := &topologies[i]
		units, err := textOf(t)
		if err == nil {
			err = checkWords("topology", t.Name, "", "")
		}
		if err != nil {
			return nil, fmt.Errorf("write topology.yaml: %w", err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("write topology.yaml: two topologies are called %q: rename one", t.Name)
		}
		seen[t.Name] = true
		if t.Default {
			defaults++
		}
		writeYAML(&b, t, units)
	}
	if defaults != 1 {
		return nil, fmt.Errorf("write topology.yaml: %d of %d topologies are the default: want exactly one", defaults, len(topologies))
	}
	return []byte(b.String()), nil
}

func writeYAML(b *strings.Builder, t *topology.Topology, units []unitText) {
	fmt.Fprintf(b, "- topology: %s\n  cluster_default: %t\n", yamlScalar(t.Name), t.Default)
	switch t.Kind {
	case topology.KindFlat:
		b.WriteString("  flat: true\n")
	case topology.KindBlock:
		b.WriteString("  block:\n")
		if len(t.Sizes) > 0 {
			fmt.Fprintf(b, "    block_sizes: [%s]\n", strings.ReplaceAll(syntax.JoinNumbers(t.Sizes), ",", ", "))
		}
		b.WriteString("    blocks:" + emptyList(len(units)) + "\n")
		for _, u := range units {
			writeYAMLItem(b, "      - block: ", u.name, "\n        nodes: ", u.nodes)
		}
	case topology.KindTree:
		b.WriteString("  tree:\n    switches:" + emptyList(len(units)) + "\n")
		for _, u := range units {
			if u.children != "" {
				writeYAMLItem(b, "      - switch: ", u.name, "\n        children: ", u.children)
			} else {
				writeYAMLItem(b, "      - switch: ", u.name, "\n        nodes: ", u.nodes)
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
