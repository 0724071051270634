package nodestatus

import (
	"cmp"
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
func conditionsOf(n *inputs.Node, report *topology.Node, fabric *topology.FabricVerdict, drift []topology.Finding, verdicts map[string]imex.Verdict) []inputs.Condition {
	var out []inputs.Condition
	if verdict, judged := verdicts[n.Name]; judged && verdict.Reason != imex.ReasonDomainProblem { // which is said once, of the domain
		out = append(out, imexCondition(verdict))
	}
	if c, known := FabricCondition(report, fabric); known {
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
