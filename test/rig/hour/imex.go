package hour

import (
	"fmt"
	"strings"
)

// DomainFrom is the minute from which there is a ComputeDomain: before, no node is a
// member of any.
const DomainFrom = 30

// Membership is what the agent says of the node at a minute: not of one without
// multi-node NVLink. An agent does not see whether there is a domain.
func (n *Node) Membership(minute int) (reason string, said bool) {
	switch {
	case n.Clique == "":
		return "", false
	case minute < DomainFrom:
		return "NotRegistered", true
	case n.IMEX != "READY":
		return "NotReady", true
	}
	return "Ready", true
}

// GateResults are the words of the gate that come up, and one that does not.
var GateResults = []string{"ready", "waited", "warn", "hold", "fail"}

// Gate is how a job across nodes, of which one starts in each minute on each node that
// is in a clique, came through the gate, and what it waited, in seconds: once one was
// held. The sums are exact.
func (n *Node) Gate(minute int) (result string, waited float64) {
	reason, said := n.Membership(minute)
	switch {
	case !said:
		return "", 0
	case reason != "Ready":
		return "warn", 30
	case n.Name == "n2" && minute == 40:
		return "hold", 30
	case n.Name == "n2":
		return "waited", 4
	}
	return "ready", 1. / 512
}

// Gates counts such jobs up to a minute that count.
func (n *Node) Gates(minute int, counts func(result string, waited float64) bool) (jobs float64) {
	for m := 0; m <= minute; m++ {
		if result, waited := n.Gate(m); result != "" && counts(result, waited) {
			jobs++
		}
	}
	return jobs
}

// GateBuckets are the upper bounds of the histogram, in seconds.
var GateBuckets = []float64{0.001, 0.01, 0.1, 1, 5, 10, 30, 60, 300}

// GateWaited is what all jobs up to a minute waited.
func (n *Node) GateWaited(minute int) (seconds float64) {
	for m := 0; m <= minute; m++ {
		_, waited := n.Gate(m)
		seconds += waited
	}
	return seconds
}

// sayMembership says whether the node is a member, and how jobs came through its gate.
func (n *Node) sayMembership(add say, minute int) {
	if reason, said := n.Membership(minute); said {
		ready := map[bool]float64{true: 1}[reason == "Ready"]
		add("quoin_agent_imex_ready", "gauge", fmt.Sprintf(`clique="%s",reason="%s"`, n.Clique, reason), ready)
	}
	for _, word := range GateResults {
		add("quoin_hook_gate_total", "counter", fmt.Sprintf(`result="%s"`, word), n.Gates(minute, func(result string, _ float64) bool { return result == word }))
	}
	all := n.Gates(minute, func(string, float64) bool { return true })
	for _, le := range GateBuckets {
		add("quoin_hook_gate_duration_seconds_bucket", "histogram", fmt.Sprintf(`le="%g"`, le), n.Gates(minute, func(_ string, waited float64) bool { return waited <= le }))
	}
	add("quoin_hook_gate_duration_seconds_bucket", "histogram", `le="+Inf"`, all)
	add("quoin_hook_gate_duration_seconds_sum", "histogram", "", n.GateWaited(minute))
	add("quoin_hook_gate_duration_seconds_count", "histogram", "", all)
}

// Members counts the nodes by their verdict at a minute.
func Members(minute int) map[string]float64 {
	counts := map[string]float64{}
	for i := range Nodes {
		reason, said := Nodes[i].Membership(minute)
		switch {
		case !said:
			reason = "NoMultiNodeNVLink"
		case minute < DomainFrom:
			reason = "DomainProblem"
		}
		counts[reason]++
	}
	return counts
}

// NotReady is how many of them are not ready and should be.
func NotReady(minute int) float64 {
	counts := Members(minute)
	return float64(len(Nodes)) - counts["Ready"] - counts["NoMultiNodeNVLink"]
}

// Domain is what the publisher says of the ComputeDomain at a minute.
func Domain(minute int) (uid, problem string) {
	if minute < DomainFrom {
		return "", "NoDomain"
	}
	return "0e1c7a52-2222-4333-8444-555566667777", ""
}

// membersText is what a publisher prints of membership; one that does not lead knows
// none.
func membersText(leader, minute int) string {
	if leader == 0 {
		return membersGauges(0)
	}
	var b strings.Builder
	b.WriteString(membersGauges(NotReady(minute)) + "# TYPE quoin_publisher_imex_nodes gauge\n")
	for reason, n := range Members(minute) {
		fmt.Fprintf(&b, "quoin_publisher_imex_nodes{reason=\"%s\"} %v\n", reason, n)
	}
	uid, problem := Domain(minute)
	fmt.Fprintf(&b, "# TYPE quoin_publisher_imex_domain_info gauge\nquoin_publisher_imex_domain_info{namespace=\"quoin-node\",name=\"quoin\",uid=\"%s\",problem=\"%s\"} 1\n", uid, problem)
	return b.String()
}

func membersGauges(notReady float64) string {
	return fmt.Sprintf("# TYPE quoin_publisher_imex_not_ready_nodes gauge\nquoin_publisher_imex_not_ready_nodes{} %v\n", notReady)
}
