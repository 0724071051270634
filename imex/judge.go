// Package imex says whether each node is a member of its IMEX domain, why not, and
// what to do. IMEX makes NVLink between nodes usable for jobs.
//
// [Judge] is pure: it has no clock, files or network. The same observations give the
// same verdicts, whatever their order. It judges by a node's own entry and never by
// the state of the whole domain: an empty domain is ready, and one bad node anywhere
// makes the domain not ready.
package imex

import "github.com/quoin-hpc/quoin/topology"

// Verdict is the finding on a node: whether it is a member of its IMEX domain and, if not, what
// to do. Its severity is OK if nothing is to be done, and a warning if something is wrong beside
// a membership that jobs may use.
type Verdict struct{ topology.Finding }

// Ready reports whether jobs across nodes may use IMEX here.
func (v Verdict) Ready() bool { return v.Reason == ReasonReady }

// severity is that of the verdict.
func (v Verdict) severity() topology.Severity {
	switch {
	case v.Reason == ReasonUnknown:
		return topology.Unknown
	case v.Problem():
		return topology.Fatal
	case v.Ready() && v.Remedy != "":
		return topology.Warning
	}
	return topology.OK
}

// Problem reports whether somebody must act or wait before the node is ready.
func (v Verdict) Problem() bool {
	switch v.Reason {
	case "", ReasonReady, ReasonNoMultiNodeNVLink, ReasonNotWanted, ReasonNoDriver:
		return false
	}
	return true
}

// Judge returns the verdicts on all nodes that have GPUs, a label, an entry or a claim.
// Each verdict names what must be repaired first, and leaves out what follows from it. A node
// whose own entry is ready is Ready, whatever others do: the message may name trouble beside it.
func Judge(o *Observation) map[string]Verdict {
	verdicts := make(map[string]Verdict, len(o.Nodes))
	v := newView(o)
	for i := range v.nodes {
		n := &v.nodes[i]
		if !n.GPUs && !n.member && !n.listed {
			continue
		}
		found := firstFinding(v, n)
		verdict := Verdict{topology.Finding{Subject: topology.Subject{Node: n.Name}, Reason: found.reason, Message: found.message, Remedy: found.remedy}}
		if verdict.Ready() {
			verdict.note(n)
		}
		verdict.Severity = verdict.severity()
		verdicts[n.Name] = verdict
	}
	return verdicts
}

// finding is the result of one check of a node, zero if the check finds nothing.
type finding struct {
	reason, message, remedy string
	// others says that the finding alone ends no node's membership: a pod waits that is not
	// to claim, or the domain has other keys than the configured ones.
	others bool
}

// isWell reports whether the node has joined, its claim is held if it has one, and its
// daemon says nothing else.
func (n *node) isWell() bool {
	return (len(n.claims) == 0 || n.claims[0].rank() == claimHeld) && n.entry != nil && n.entry.Ready && n.DomainLabel == n.wanted && (n.DaemonState() == "" || n.DaemonState() == DaemonReady) && n.doubt() == ""
}

// The checks of a node that is to join the domain, and of one whose own service serves.
var (
	joinChecks = []func(*view, *node) finding{checkNeed, checkDomain, checkFabric, checkRivals, checkMachine, checkClaim, checkLabel, checkClique, checkPlace, checkEntry}
	hostChecks = []func(*view, *node) finding{checkNeed, checkFabric, checkMachine, checkHost}
)

// firstFinding runs the checks in order. A check may rely on the checks before it,
// which have found nothing, or nothing that counts for a node that is ready.
func firstFinding(v *view, n *node) finding {
	checks := joinChecks
	if v.Join == JoinHost {
		checks = hostChecks
	}
	for _, check := range checks {
		f := check(v, n)
		switch {
		case f.reason == "":
		case f.others && n.isWell():
			n.aside = f
		default:
			return f
		}
	}
	return finding{reason: ReasonReady, message: n.entry.text()}
}
