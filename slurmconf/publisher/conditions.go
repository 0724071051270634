package publisher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// The conditions that the publisher keeps on Nodes with GPUs: true where something
// is wrong.
const (
	ConditionFabric = "QuoinFabricDegraded"
	ConditionDrift  = "QuoinTopologyDrift"
)

// maxConditionMessage bounds a condition's message, in bytes.
const maxConditionMessage = 1000

// isOwnCondition says whether the publisher keeps conditions of a type.
func isOwnCondition(kind string) bool {
	return kind == ConditionFabric || kind == ConditionDrift || kind == ConditionIMEX
}

// conditionsOf returns the conditions that a Node is to have by its report, by what
// publications found of it and by the verdict on its membership, nil for none. What
// nothing is known of is left out, and stays as it is; had are those that it has.
func conditionsOf(report *topology.Node, drift []topology.Problem, verdict *imex.Verdict, had map[string]inputs.Condition) []inputs.Condition {
	var out []inputs.Condition
	if verdict != nil {
		out = append(out, membershipCondition(*verdict))
	}
	if c, known := fabricCondition(report); known {
		out = append(out, c)
	}
	if report != nil || len(drift) > 0 || had[ConditionDrift].True { // which labels alone may have brought about
		out = append(out, driftCondition(drift))
	}
	return out
}

// fabricFaults are what is wrong with the fabric of a GPU, the worst first.
var fabricFaults = []struct {
	reason string
	of     func(f *topology.Fabric) string // what is wrong, empty for nothing
}{
	{"FabricFailed", func(f *topology.Fabric) string {
		if f.State == topology.FabricCompleted && f.Status != "" {
			return "its registration ended with " + f.Status
		}
		return ""
	}},
	{"FabricMisconfigured", func(f *topology.Fabric) string {
		if c := f.HealthFields.IncorrectConfiguration; c != "" && c != "none" {
			return "incorrect configuration: " + c
		}
		return ""
	}},
	{"FabricUnhealthy", func(f *topology.Fabric) string {
		switch {
		case f.Health == topology.HealthUnhealthy:
			return "its health is " + string(f.Health)
		case isTrue(f.HealthFields.RouteUnhealthy):
			return "unhealthy route"
		}
		return ""
	}},
	{"FabricLimitedCapacity", func(f *topology.Fabric) string {
		switch {
		case f.Health == topology.HealthLimitedCapacity:
			return "its capacity is limited"
		case isTrue(f.HealthFields.DegradedBandwidth):
			return "degraded bandwidth"
		}
		return ""
	}},
}

func isTrue(b *bool) bool { return b != nil && *b }

// fabricCondition says how the NVLink fabric of a node's GPUs is. It is not known
// where no GPU has said.
func fabricCondition(report *topology.Node) (c inputs.Condition, known bool) {
	c = inputs.Condition{Type: ConditionFabric, Reason: "NoFabric", Message: "no GPU has an NVLink fabric"}
	if report == nil {
		return c, false
	}
	worst := len(fabricFaults)
	var said []string
	for i := range report.GPUs {
		g := &report.GPUs[i]
		known = known || !g.Fabric.IsZero()
		if _, joined := g.Fabric.Clique(); joined && worst == len(fabricFaults) {
			c.Reason, c.Message = "FabricHealthy", "the NVLink fabric of all GPUs that have one is healthy"
		}
		for k, fault := range fabricFaults {
			if what := fault.of(&g.Fabric); what != "" {
				said = append(said, fmt.Sprintf("GPU %d, %s: %s", g.Index, g.UUID, what))
				worst = min(worst, k)
				break
			}
		}
	}
	if worst < len(fabricFaults) {
		c.True, c.Reason, c.Message = true, fabricFaults[worst].reason, shorten(strings.Join(said, "; "))
	}
	return c, known
}

// driftReasons are the problems by which hardware, labels and published files say
// different things of a node.
var driftReasons = map[string]bool{
	placement.ReasonCliqueDiffers: true, placement.ReasonDomainDiffers: true, placement.ReasonDomainConflict: true,
	placement.ReasonTwoCliques: true, placement.ReasonUnconfirmed: true,
}

// driftCondition says whether all say the same of a node's place.
func driftCondition(drift []topology.Problem) inputs.Condition {
	c := inputs.Condition{Type: ConditionDrift, Reason: "Agrees", Message: "hardware, labels and published files agree"}
	if len(drift) == 0 {
		return c
	}
	sorted := slices.Clone(drift)
	slices.SortFunc(sorted, func(a, b topology.Problem) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	sorted = slices.Compact(sorted)
	var said []string
	for _, p := range sorted {
		said = append(said, p.Message)
	}
	c.True, c.Reason, c.Message = true, sorted[0].Reason, shorten(strings.Join(said, "; "))
	return c
}

// driftOf returns, by node, what a pass found of nodes whose place is not sure.
func driftOf(made *Rendered) map[string][]topology.Problem {
	out := make(map[string][]topology.Problem)
	for _, p := range made.Problems {
		if p.Node != "" && driftReasons[p.Reason] {
			out[p.Node] = append(out[p.Node], p)
		}
	}
	for _, p := range made.Plan.Placements {
		if driftReasons[p.Reason] {
			out[p.Node] = append(out[p.Node], topology.Problem{Node: p.Node, Reason: p.Reason, Message: p.Message})
		}
	}
	return out
}

// shorten cuts a message to what a condition may have.
func shorten(s string) string { return cutText(s, maxConditionMessage) }

// cutText cuts s to so many bytes, between characters.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most - len("...")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
