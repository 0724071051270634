package imex

import (
	"slices"
	"strings"
)

// checkRivals is about claims that keep the node from joining, or end its membership.
func checkRivals(v *view, n *node) finding {
	if f := checkConflict(v, n); f.reason != "" {
		return f
	}
	if f := checkOtherDomain(v, n); f.reason != "" || len(n.claims) == 0 {
		return f
	}
	c := n.claims[0]
	switch {
	case v.Domain.Namespace != "" && c.Namespace != v.Domain.Namespace:
		remedy := "create the claim from the domain's template, in the domain's namespace"
		if v.Join == JoinSlurmd {
			remedy = "set imex.namespace to " + c.Namespace + ", or run the worker pods in " + v.Domain.Namespace
		}
		return finding{reason: ReasonWrongClaim, others: true, message: c.text() + ": it is in another namespace than the domain (" + v.Domain.Namespace + "), and the driver refuses to prepare it", remedy: remedy}
	case c.Owner != "" && c.Owner != v.Join:
		return finding{reason: ReasonWrongClaim, others: true, message: c.text() + ", while imex.join is " + v.Join, remedy: v.rivalsRemedy([]*Claim{c})}
	}
	return finding{}
}

// checkConflict finds a second claim of a node. The claim never gets a channel, because a
// node has one.
func checkConflict(v *view, n *node) finding {
	live := n.claims
	if at := slices.IndexFunc(live, func(c *Claim) bool { return c.rank() == claimIdle }); at >= 0 {
		live = live[:at] // idle ones are last
	}
	if len(live) < 2 {
		return finding{}
	}
	texts := make([]string, len(live))
	for i, c := range live {
		texts[i] = c.text()
	}
	return finding{reason: ReasonWrongClaim, others: true, message: "more than one pod claims the node's one channel: " + strings.Join(texts, "; "), remedy: v.rivalsRemedy(live)}
}

// rivalsRemedy says which pods are to claim, and what to do with the others.
func (s *Observation) rivalsRemedy(claims []*Claim) string {
	var holder, slurmd, other bool
	for _, c := range claims {
		holder = holder || c.Owner == OwnerHolder
		slurmd = slurmd || c.Owner == OwnerSlurmd
		other = other || c.Owner != OwnerHolder && c.Owner != OwnerSlurmd
	}
	switch {
	case other:
		return "keep other pods with channel claims off the nodes that join for Slurm; end a pod that waits first, because the end of the pod that holds the channel ends the node's IMEX daemon"
	case s.Join == JoinHolder && slurmd:
		return "remove the claim from the worker pods (resourceClaims of the NodeSet) while no job across nodes runs, or set imex.join to slurmd"
	case s.Join == JoinSlurmd && holder:
		return "delete the DaemonSet quoin-imex while no job across nodes runs, or set imex.join to holder"
	}
	return "let only one pod of a node claim a channel; end a pod that waits first, because the end of the pod that holds the channel ends the node's IMEX daemon"
}

// checkOtherDomain finds a node that has joined another domain, or is about to.
func checkOtherDomain(v *view, n *node) finding {
	var domain, message string
	switch {
	case n.wanted == "":
		return finding{}
	case len(n.claims) > 0 && n.claims[0].Domain != "" && n.claims[0].Domain != n.wanted:
		domain, message = n.claims[0].Domain, n.claims[0].text()+" of domain "+n.claims[0].Domain
	case n.DomainLabel != "" && n.DomainLabel != n.wanted:
		domain, message = n.DomainLabel, "label "+DomainLabel+" names "+n.DomainLabel
	default:
		return finding{}
	}
	return finding{reason: ReasonWrongClaim, message: message + ", not " + domainText(v, n),
		remedy: "end the pods on the node that claim a channel of domain " + domain + "; if there are none, restart the DRA driver's kubelet plugin there"}
}

// checkClaim is about a node without a claim that a pod holds.
func checkClaim(v *view, n *node) finding {
	if n.aside.reason != "" {
		return finding{} // the node is ready: one claim is held, and the others are named
	}
	for _, c := range n.claims {
		if c.rank() == claimWaits {
			return finding{reason: ReasonNotClaimed, message: waits(c, n.claims), remedy: "kubectl describe pod says why: the DRA driver's kubelet plugin must run on the node and publish channel-0 in a ResourceSlice; if it does not, " + pluginLog}
		}
	}
	switch {
	case len(n.claims) > 0 && n.claims[0].rank() == claimIdle:
		return finding{reason: ReasonNotClaimed, message: n.claims[0].text(), remedy: "wait for its pod; if none is to come, delete the claim"}
	case len(n.claims) > 0:
		return finding{}
	case v.Join == JoinSlurmd && v.Workers != nil && !v.Workers[n.Name] && n.DomainLabel == "":
		return finding{reason: ReasonNotWanted, message: "the node has no worker pod, so nothing claims its channel"}
	case v.ClaimsUnread && n.DomainLabel == "":
		return finding{reason: ReasonNotClaimed, message: "the node has no label " + DomainLabel + ", which starts its daemon: no pod there holds a channel that the driver has prepared",
			remedy: "wait; if that takes long, run quoin imex check, which reads claims and pods and says which one is missing or waits"}
	case v.ClaimsUnread:
		return finding{}
	}
	message := "nothing on the node claims its channel"
	if v.Workers[n.Name] && v.Join == JoinSlurmd {
		message = "the node's worker pod of Slurm claims no channel: its NodeSet has no resourceClaims, or got them after the pod was created"
	}
	if n.DomainLabel != "" {
		message += ", although the node still has the label " + DomainLabel
	}
	switch {
	case v.Join == JoinSlurmd && v.Workers[n.Name]:
		return finding{reason: ReasonNotClaimed, message: message, remedy: "give the NodeSet resourceClaims from the domain's template (imex.claimTemplate) and slurmd's container a claim in its resources; existing pods claim only after they are replaced"}
	case v.Join == JoinSlurmd:
		return finding{reason: ReasonNotClaimed, message: message, remedy: "give the worker pods a claim of the domain's template; nothing is wrong if no worker pod is to run here"}
	}
	return finding{reason: ReasonNotClaimed, message: message, remedy: "find out why the DaemonSet quoin-imex has no pod on the node: its node affinity and tolerations must allow one"}
}

// waits says what a claim waits for, if an idle claim, which sorts last, shows it.
func waits(c *Claim, all []*Claim) string {
	text, last := c.text(), all[len(all)-1]
	if last.rank() == claimIdle {
		text += "; the channel is still allocated to claim " + last.Namespace + "/" + last.Name + ", which no pod holds"
	}
	return text
}

// text names the claim, and the pod that holds it or waits for it.
func (c *Claim) text() string {
	text := "claim " + c.Namespace + "/" + c.Name + " of "
	switch c.Owner {
	case OwnerHolder:
		text += "the quoin-imex "
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

// pods names the pods that hold the claim.
func (c *Claim) pods() string {
	if len(c.Pods) == 1 {
		return c.Pods[0]
	}
	return list(slices.Sorted(slices.Values(c.Pods)))
}
