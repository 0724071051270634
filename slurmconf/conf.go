package slurmconf

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// RenderConf writes topology.conf: one line per block and then BlockSizes, or one
// line per switch. A header becomes comment lines. A flat topology has no such file
// and is an error.
func RenderConf(t topology.Topology, header string) ([]byte, error) {
	units, err := textOf(&t)
	if err != nil {
		return nil, fmt.Errorf("write topology.conf: %w", err)
	}
	var b strings.Builder
	syntax.CommentLines(&b, header)
	switch t.Kind {
	case topology.KindBlock:
		for _, u := range units {
			writePair(&b, "BlockName=", u.name)
			writePair(&b, " Nodes=", u.nodes)
			b.WriteByte('\n')
		}
		if len(t.Sizes) > 0 {
			b.WriteString("BlockSizes=")
			b.WriteString(syntax.JoinNumbers(t.Sizes))
			b.WriteByte('\n')
		}
	case topology.KindTree:
		for _, u := range units {
			writePair(&b, "SwitchName=", u.name)
			writePair(&b, " Nodes=", u.nodes)
			writePair(&b, " Switches=", u.children)
			b.WriteByte('\n')
		}
	default:
		return nil, fmt.Errorf("write topology.conf: topology %q is flat: leave the file out, and TopologyPlugin out of slurm.conf", t.Name)
	}
	return []byte(b.String()), nil
}

func writePair(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString(key)
		b.WriteString(value)
	}
}
