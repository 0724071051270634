package imex

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// withNotes adds to the verdict on a node that is ready what is wrong beside it.
func withNotes(v *view, n *node, verdict Verdict) Verdict {
	for _, f := range notes(v, n) {
		verdict.Message += "; " + f.message
		verdict.Note = cmp.Or(verdict.Note, f.reason)
		verdict.Remedy = cmp.Or(verdict.Remedy, f.remedy)
	}
	return verdict
}

// notes returns what is wrong beside a node that is ready, the worst first.
func notes(v *view, n *node) []finding {
	var found []finding
	if n.aside.reason != "" && n.aside.reason != ReasonDomainDiffers { // that is the domain's to say, once
		found = append(found, n.aside)
	}
	if n.Lost { // the driver leaves the entry of a machine without power as it was
		found = append(found, finding{NoteNodeLost, "Kubernetes hears nothing from the node, and its entry may be out of date",
			"check that the machine has power and its kubelet runs: without its daemon, jobs across nodes that use this node fail"})
	}
	if l := n.Local; l != nil && l.DomainState != "" && l.DomainState != "UP" {
		found = append(found, finding{NoteDomainNotUp, "the local daemon says that the domain is " + l.DomainState, "run nvidia-imex-ctl -N on the node"})
	}
	// The driver keeps a stale entry as long as the node has a daemon. While a node has
	// two entries, the API server refuses the domain's whole status.
	if len(n.strays) > 0 {
		s := n.strays[0]
		found = append(found, finding{ReasonStaleEntry, "it also has a stale entry, " + s.text(s.in.id),
			"remove the node's entry from ComputeDomainClique " + s.in.domain + "." + s.in.id + ", because the driver does not"})
	}
	if n.labelDiffers() { // the node has joined by NVML's clique
		found = append(found, finding{ReasonCliqueDiffers, "the label " + topology.CliqueLabel + " says " + n.CliqueLabel,
			"wait a minute for GPU Feature Discovery; if the label stays, restart it on the node"})
	}
	// Peers have verdicts of their own: they are named only if the node has no trouble itself.
	if peers := notReady(v, n.own); peers != "" && len(found) == 0 {
		found = append(found, finding{NotePeersNotReady, peers, "look at the verdicts on those nodes"})
	}
	if says := statusDiffers(v, n); says != "" {
		found = append(found, finding{reason: NoteStatusDiffers, message: "the domain's status " + says + ", which does not count"})
	}
	return found
}

// statusDiffers says how the domain's status differs from the entry. The driver loses
// updates of the status now and then, so that the entry counts.
func statusDiffers(v *view, n *node) string {
	m := v.Members[n.Name]
	switch {
	case v.byStatus || v.Members == nil:
		return ""
	case !n.listed:
		return "does not list the node"
	case !m.Ready:
		return "says NotReady"
	case m.Index != n.entry.Index || m.Address != n.entry.Address || m.Clique != n.own.id:
		return "says " + m.text(m.Clique)
	}
	return ""
}

// notReady says which of the clique's nodes are not ready, and why. It is empty if all
// are ready.
func notReady(v *view, c *clique) string {
	if !c.counted {
		c.counted = true
		if peers := peersNotReady(v, c); len(peers) > 0 {
			c.notReady = strconv.Itoa(len(peers)) + " of the clique's other nodes not ready: " + list(peers)
		}
	}
	return c.notReady
}

func peersNotReady(v *view, c *clique) (peers []string) {
	for _, n := range c.nodes {
		r := n.found.reason
		if idle := r == ReasonNotClaimed && v.Join == JoinSlurmd && !n.Worker; isProblem(r) && !idle {
			peers = append(peers, n.Name+" ("+r+")")
		} else if r == ReasonReady && n.Lost {
			peers = append(peers, n.Name+" ("+NoteNodeLost+")")
		}
	}
	for _, m := range c.foreign {
		switch n := v.at[m.Node]; {
		case n != nil && isProblem(n.found.reason):
			peers = append(peers, m.Node+" ("+n.found.reason+")")
		case n != nil:
			peers = append(peers, m.Node+" ("+ReasonStaleEntry+")")
		case !m.Ready:
			peers = append(peers, m.Node+" ("+ReasonNotReady+")")
		}
	}
	slices.Sort(peers)
	return peers
}

// list names as many as a message can hold.
func list(names []string) string { return listUpTo(20, names) }

// listUpTo names a number of them at most, and counts the others.
func listUpTo(most int, names []string) string {
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
