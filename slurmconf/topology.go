// Package slurmconf writes and reads the text files that tell Slurm where its nodes
// are: topology.conf and topology.yaml. It makes them from a plan, and knows what each
// release takes. Package gres does the same for gres.conf.
//
// The package is pure: text in, text out. It opens no file, reads no clock and asks
// no network. A caller opens the files that others include. It does not decide
// where a node belongs: package placement does. Package lint judges the files.
package slurmconf

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Skeleton returns the topology without its nodes, for nodes that name their place by
// Topology=. Every block is a placeholder, and every leaf switch is empty. Switches and
// sizes stay: Slurm refuses a node that names a leaf which the file lacks.
func Skeleton(t topology.Topology) topology.Topology {
	return t.WithNodes(func(topology.Names) topology.Names { return nil })
}

// unitText is a block or a switch as a file has it, with host lists.
type unitText struct{ name, nodes, children string }

// textOf returns the blocks or switches of a topology as a file has them, or why the
// topology cannot be written.
func textOf(t *topology.Topology) ([]unitText, error) {
	var units []unitText
	what := "block"
	switch t.Kind {
	case topology.KindBlock:
		units = make([]unitText, len(t.Blocks))
		for i := range t.Blocks {
			b := &t.Blocks[i]
			units[i] = unitText{name: b.Name, nodes: hostlist.Compress(b.Nodes)}
		}
	case topology.KindTree:
		what = "switch"
		units = make([]unitText, len(t.Switches))
		for i := range t.Switches {
			s := &t.Switches[i]
			units[i] = unitText{s.Name, hostlist.Compress(s.Nodes), hostlist.Compress(s.Children)}
		}
	case topology.KindFlat:
	default:
		return nil, fmt.Errorf("topology %q is of kind %q: want block, tree or flat", t.Name, t.Kind)
	}
	for _, u := range units {
		if err := checkWords(what, u.name, u.nodes, u.children); err != nil {
			return nil, err
		}
	}
	return units, nil
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
