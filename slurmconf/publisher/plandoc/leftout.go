package plandoc

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// maxLeftOut bounds the annotation that LeftOut writes.
const maxLeftOut = 8 << 10

// LeftOut lists nodes without a place for people, one line per reason.
func LeftOut(left []topology.Problem) string {
	groups := map[string][]string{}
	for _, p := range left {
		key := p.Reason + ": " + p.Message
		groups[key] = append(groups[key], p.Node)
	}
	var lines []string
	for why, nodes := range groups {
		lines = append(lines, hostlist.Compress(nodes)+": "+why)
	}
	slices.Sort(lines)
	text := strings.Join(lines, "\n")
	if len(text) > maxLeftOut {
		text = strings.ToValidUTF8(text[:maxLeftOut], "") + "\n(and more: see quoin render)"
	}
	return text
}
