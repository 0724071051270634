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
func LeftOut(left []topology.Finding) string {
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
func Reasons(plan *topology.Plan, unnamed []topology.Finding) string {
	places := plan.Places()
	counts := map[string]int{}
	for i := range plan.Nodes {
		reason, _ := whyLeftOut(&plan.Nodes[i], places)
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

// Left lists the nodes without a place. A node without a Slurm name has its Kubernetes
// name.
func Left(plan *topology.Plan, specs map[string]string, unnamed []topology.Finding) []topology.Finding {
	var out []topology.Finding
	var places map[string]topology.Place
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		if _, placed := specs[n.SlurmName]; placed {
			continue
		}
		if places == nil {
			places = plan.Places()
		}
		reason, message := whyLeftOut(n, places)
		out = append(out, topology.Finding{Subject: topology.Subject{Node: n.SlurmName}, Reason: reason, Message: message})
	}
	return append(out, unnamed...)
}

// whyLeftOut says why a node is in no file. A node can have a place in the plan that the
// published kind of topology does not show.
func whyLeftOut(n *topology.Placement, places map[string]topology.Place) (reason, message string) {
	switch {
	case n.Reason != placement.ReasonPlaced:
		return n.Reason, n.Message
	case places[n.SlurmName].Block == "":
		return placement.ReasonNoDomain, "it is in the tree only, and only blocks are published"
	}
	return placement.ReasonNoSwitch, "no switch above its block is known, and only the tree is published"
}
