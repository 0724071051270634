package plandoc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
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

// Reasons counts the nodes without a place by reason.
func Reasons(plan *placement.Plan, unnamed []topology.Problem) string {
	counts := map[string]int{}
	for i := range plan.Placements {
		reason, _ := whyLeftOut(&plan.Placements[i])
		counts[reason]++
	}
	for i := range unnamed {
		counts[unnamed[i].Reason]++
	}
	text, sep := "", "; nodes by reason: "
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("%s%s %d", sep, reason, counts[reason])
		sep = ", "
	}
	return text
}

// ReasonNoSwitch is why a node is in no tree.
const ReasonNoSwitch = "NoSwitch"

// Left lists the nodes without a place. A node without a Slurm name has its Kubernetes
// name.
func Left(plan *placement.Plan, specs map[string]string, unnamed []topology.Problem) []topology.Problem {
	var out []topology.Problem
	for i := range plan.Placements {
		pl := &plan.Placements[i]
		if _, placed := specs[pl.SlurmName]; !placed {
			reason, message := whyLeftOut(pl)
			out = append(out, topology.Problem{Node: pl.SlurmName, Reason: reason, Message: message})
		}
	}
	return append(out, unnamed...)
}

// whyLeftOut says why a node is in no file. A node can have a place in the plan that the
// published kind of topology does not show.
func whyLeftOut(pl *placement.Placement) (reason, message string) {
	switch {
	case pl.Reason != placement.ReasonPlaced:
		return pl.Reason, pl.Message
	case pl.Block == "":
		return placement.ReasonNoDomain, "it is in the tree only, and only blocks are published"
	}
	return ReasonNoSwitch, "no switch above its block is known, and only the tree is published"
}
