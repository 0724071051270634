package slurmconf

import (
	"fmt"
	"strconv"
	"strings"
)

// RenderConf writes topology.conf: one line per block and then BlockSizes, or one
// line per switch. A header becomes comment lines. A flat topology has no such file
// and is an error.
func RenderConf(t Topology, header string) ([]byte, error) {
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("write topology.conf: %w", err)
	}
	var b strings.Builder
	CommentLines(&b, header)
	switch {
	case t.Block != nil:
		for _, block := range t.Block.Blocks {
			writePair(&b, "BlockName=", block.Name)
			writePair(&b, " Nodes=", block.Nodes)
			b.WriteByte('\n')
		}
		if len(t.Block.Sizes) > 0 {
			b.WriteString("BlockSizes=")
			b.WriteString(JoinNumbers(t.Block.Sizes))
			b.WriteByte('\n')
		}
	case t.Tree != nil:
		for _, s := range t.Tree.Switches {
			writePair(&b, "SwitchName=", s.Name)
			writePair(&b, " Nodes=", s.Nodes)
			writePair(&b, " Switches=", s.Children)
			b.WriteByte('\n')
		}
	default:
		return nil, fmt.Errorf("write topology.conf: topology %q is flat: leave the file out and set TopologyPlugin=topology/flat", t.Name)
	}
	return []byte(b.String()), nil
}

func writePair(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString(key)
		b.WriteString(value)
	}
}

// JoinNumbers writes numbers with commas between them.
func JoinNumbers(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}
