package imex

import (
	"slices"
	"strings"
)

// claims is of claims that keep the node from joining, or from staying.
func (j *judge) claims(n *node) finding {
	if f := conflict(j, n); f.reason != "" {
		return f
	}
	if f := otherDomain(j, n); f.reason != "" || len(n.holds) == 0 {
		return f
	}
	c := n.holds[0]
	switch {
	case j.Domain.Namespace != "" && c.Namespace != j.Domain.Namespace:
		remedy := "make the claim from the domain's template, in its namespace"
		if j.Join == JoinSlurmd {
			remedy = "set imex.namespace to " + c.Namespace + ", or run the worker pods in " + j.Domain.Namespace
		}
		return finding{ReasonClaimNamespace, c.text() + ": it is in another namespace than the domain (" + j.Domain.Namespace + "), and the driver refuses to prepare it", remedy}
	case c.Owner != "" && c.Owner != j.Join:
		return finding{ReasonClaimedByOther, c.text() + ", while imex.join is " + j.Join, j.remedyOfTwo([]*Claim{c})}
	}
	return finding{}
}

// conflict is of a node's second claim, which waits for ever: the node has one
// channel to give.
func conflict(j *judge, n *node) finding {
	live := n.holds
	for len(live) > 0 && live[len(live)-1].rank() == claimIdle {
		live = live[:len(live)-1]
	}
	if len(live) < 2 {
		return finding{}
	}
	texts := make([]string, len(live))
	for i, c := range live {
		texts[i] = c.text()
	}
	return finding{ReasonClaimConflict, "claims of more than one pod for the node's one channel: " + strings.Join(texts, "; "), j.remedyOfTwo(live)}
}

// remedyOfTwo says which of the pods are to claim, and what of the others.
func (s *Seen) remedyOfTwo(claims []*Claim) string {
	var holder, slurmd, other bool
	for _, c := range claims {
		holder = holder || c.Owner == OwnerHolder
		slurmd = slurmd || c.Owner == OwnerSlurmd
		other = other || c.Owner != OwnerHolder && c.Owner != OwnerSlurmd
	}
	switch {
	case other:
		return "keep pods with channel claims of their own off nodes that have joined for Slurm: end one that waits first, for the end of the one that holds the channel ends the node's IMEX daemon"
	case s.Join == JoinHolder && slurmd:
		return "take the claim out of the worker pods (resourceClaims of the NodeSet) while no job across nodes runs, or set imex.join to slurmd"
	case s.Join == JoinSlurmd && holder:
		return "delete the DaemonSet that holds the claims while no job across nodes runs, or set imex.join to holder"
	}
	return "let one pod of a node claim: end one that waits first, for the end of the one that holds the channel ends the node's IMEX daemon"
}

// otherDomain is of a node that has joined another domain, or is about to.
func otherDomain(j *judge, n *node) finding {
	var domain, message string
	switch {
	case n.wanted == "":
		return finding{}
	case len(n.holds) > 0 && n.holds[0].Domain != "" && n.holds[0].Domain != n.wanted:
		domain, message = n.holds[0].Domain, n.holds[0].text()+" of domain "+n.holds[0].Domain
	case n.DomainLabel != "" && n.DomainLabel != n.wanted:
		domain, message = n.DomainLabel, "label "+domainLabel+" names "+n.DomainLabel
	default:
		return finding{}
	}
	return finding{ReasonOtherDomain, message + ", not " + j.domainText(n),
		"end the pods on the node that claim a channel of domain " + domain + "; if there are none, restart the DRA driver's kubelet plugin there"}
}

// claim is of a node whose claim has come to nothing yet.
func (j *judge) claim(n *node) finding {
	for _, c := range n.holds {
		if c.rank() == claimWaits {
			return finding{ReasonClaimWaits, waits(c, n.holds), "see why with kubectl describe pod: the DRA driver's kubelet plugin must run on the node and publish channel-0 in a ResourceSlice"}
		}
	}
	switch {
	case len(n.holds) > 0 && n.holds[0].rank() == claimIdle:
		return finding{ReasonClaimUnused, n.holds[0].text(), "wait for its pod, and delete the claim if none is to come"}
	case len(n.holds) > 0 || j.ClaimsUnread:
		return finding{}
	case j.Join == JoinSlurmd && n.NoWorker && n.DomainLabel == "":
		return finding{reason: ReasonNoWorkerPod, message: "no worker pod is on the node, so nothing claims its channel"}
	}
	message := "nothing on the node claims its channel"
	if n.Worker && j.Join == JoinSlurmd {
		message = "a worker pod of Slurm is on the node and claims no channel: its NodeSet has no resourceClaims, or has them since the pod was made"
	}
	if n.DomainLabel != "" {
		message += ", though it still has the label " + domainLabel
	}
	switch {
	case j.Join == JoinSlurmd && n.Worker:
		return finding{ReasonNotClaimed, message, "give the NodeSet resourceClaims from the domain's template (imex.claimTemplate) and slurmd's container a claim in its resources; pods that are there claim when they are made anew"}
	case j.Join == JoinSlurmd:
		return finding{ReasonNotClaimed, message, "give the worker pods a claim of the domain's template; nothing is wrong where none is to run"}
	}
	return finding{ReasonNotClaimed, message, "see why the DaemonSet that holds the claims has no pod on the node: its node selector and tolerations must let one run there"}
}

// waits says what a claim waits for, where another that comes last shows it.
func waits(c *Claim, all []*Claim) string {
	text, last := c.text(), all[len(all)-1]
	if last.rank() == claimIdle {
		text += "; the channel is still allocated to claim " + last.Namespace + "/" + last.Name + ", which no pod holds"
	}
	return text
}

// text names the claim, and who holds it or waits for it.
func (c *Claim) text() string {
	text := "claim " + c.Namespace + "/" + c.Name + " of "
	switch c.Owner {
	case OwnerHolder:
		text += "the holder's "
	case OwnerSlurmd:
		text += "the worker "
	}
	switch {
	case c.Waiting != "":
		return text + "pod " + c.Waiting + " waits for the node's channel"
	case len(c.Pods) == 0:
		return "claim " + c.Namespace + "/" + c.Name + " has the node's channel allocated, reserved for no pod"
	}
	return text + "pod " + c.pods() + " holds the node's channel"
}

// pods names those that hold the claim.
func (c *Claim) pods() string {
	if len(c.Pods) == 1 {
		return c.Pods[0]
	}
	return list(slices.Sorted(slices.Values(c.Pods)))
}
