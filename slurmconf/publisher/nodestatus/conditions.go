package nodestatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// The conditions on Nodes with GPUs. True means that something is wrong.
const (
	ConditionFabric = "QuoinFabricDegraded"
	ConditionDrift  = "QuoinTopologyDrift"
	// ConditionIMEX is true on nodes with multi-node NVLink on which jobs across nodes
	// cannot use IMEX.
	ConditionIMEX = "QuoinImexNotReady"
)

// maxMessage bounds a condition's message, in bytes.
const maxMessage = 1000

// conditionsOf returns the conditions that a Node is to have. A condition without
// known facts is left out: the Node keeps the one that it has.
func conditionsOf(n *inputs.Node, report *topology.Node, drift []topology.Finding, verdicts map[string]imex.Verdict) []inputs.Condition {
	var out []inputs.Condition
	if verdict, judged := verdicts[n.Name]; judged && verdict.Reason != imex.ReasonDomainProblem { // which is said once, of the domain
		out = append(out, imexCondition(verdict))
	}
	if c, known := fabricCondition(report); known {
		out = append(out, c)
	}
	if report != nil || len(drift) > 0 || n.Conditions[ConditionDrift].True { // which labels alone may have brought about
		out = append(out, driftCondition(drift))
	}
	for i := range out {
		out[i].Message = topology.Cut(out[i].Message, maxMessage)
	}
	return out
}

// imexCondition turns a verdict into a condition. The message of a ready node leaves out its
// entry, which says nothing more.
func imexCondition(v imex.Verdict) inputs.Condition {
	c := inputs.Condition{Type: ConditionIMEX, True: v.Problem(), Reason: v.Reason, Message: v.Message}
	switch {
	case v.Ready() && v.Remedy == "":
		c.Message = "jobs across nodes may use IMEX here"
	case v.Remedy != "":
		c.Message = v.Message + ". What to do: " + v.Remedy
	}
	return c
}

// driftCondition says whether all say the same of a node's place.
func driftCondition(drift []topology.Finding) inputs.Condition {
	if len(drift) == 0 {
		return inputs.Condition{Type: ConditionDrift, Reason: "Agrees", Message: "hardware, labels and published files agree"}
	}
	sorted := slices.SortedFunc(slices.Values(drift), func(a, b topology.Finding) int {
		return cmp.Or(strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
	var said []string
	for _, p := range slices.Compact(sorted) {
		said = append(said, p.Message)
	}
	return inputs.Condition{Type: ConditionDrift, True: true, Reason: sorted[0].Reason, Message: strings.Join(said, "; ")}
}

// fabricCondition says how the NVLink fabric of a node's GPUs is. It is not known if no
// GPU has said.
func fabricCondition(report *topology.Node) (c inputs.Condition, known bool) {
	c = inputs.Condition{Type: ConditionFabric, Reason: "NoFabric", Message: "no GPU has an NVLink fabric"}
	if report == nil {
		return c, false
	}
	worst := len(fabricReasons)
	var said []string
	for i := range report.GPUs {
		g := &report.GPUs[i]
		known = known || !g.Fabric.IsZero()
		if _, joined := g.Fabric.Clique(); joined {
			c.Reason, c.Message = "FabricHealthy", "the NVLink fabric of all GPUs that have one is healthy"
		}
		if reason, what := fabricFault(&g.Fabric); reason != "" {
			said = append(said, fmt.Sprintf("GPU %d, %s: %s", g.Index, g.UUID, what))
			worst = min(worst, slices.Index(fabricReasons, reason))
		}
	}
	if len(said) > 0 {
		c.True, c.Reason, c.Message = true, fabricReasons[worst], strings.Join(said, "; ")
	}
	return c, known
}

// fabricReasons are why a fabric is degraded, the worst first.
var fabricReasons = []string{"FabricFailed", "FabricMisconfigured", "FabricUnhealthy", "FabricLimitedCapacity"}

// fabricFault returns the worst that is wrong with the fabric of a GPU, or "".
func fabricFault(f *topology.Fabric) (reason, what string) {
	is := func(b *bool) bool { return b != nil && *b }
	incorrect := f.HealthFields.IncorrectConfiguration
	switch {
	case f.State == topology.FabricCompleted && f.Status != "":
		return "FabricFailed", "its registration ended with " + f.Status
	case incorrect != "" && incorrect != "none":
		return "FabricMisconfigured", "incorrect configuration: " + incorrect
	case f.Health == topology.HealthUnhealthy:
		return "FabricUnhealthy", "its health is " + string(f.Health)
	case is(f.HealthFields.RouteUnhealthy):
		return "FabricUnhealthy", "unhealthy route"
	case f.Health == topology.HealthLimitedCapacity:
		return "FabricLimitedCapacity", "its capacity is limited"
	case is(f.HealthFields.DegradedBandwidth):
		return "FabricLimitedCapacity", "degraded bandwidth"
	}
	return "", ""
}
