package imex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// withNotes adds to the verdict on a node that is ready what is wrong beside it. Peers
// have verdicts of their own: they are named only if the node has no trouble itself.
func withNotes(v *view, n *node, verdict Verdict) Verdict {
	for _, check := range [...]func(*view, *node) finding{
		noteLost,
		noteReach,
		noteStray,
		noteLabel,
		notePeers,
		noteStatus,
	} {
		f := check(v, n)
		if f.reason == "" || f.reason == NotePeersNotReady && verdict.Note != "" {
			continue
		}
		verdict.Message += "; " + f.message
		if verdict.Note == "" {
			verdict.Note = f.reason
		}
		if verdict.Remedy == "" {
			verdict.Remedy = f.remedy
		}
	}
	return verdict
}

// notePeers is about other nodes of the clique that are not ready.
func notePeers(v *view, n *node) finding {
	peers := notReady(v, n.own)
	if len(peers) == 0 {
		return finding{}
	}
	return finding{NotePeersNotReady, strconv.Itoa(len(peers)) + " of the clique's other nodes not ready: " + list(peers), "look at the verdicts on those nodes"}
}

// notReady returns the clique's nodes that are not ready, and why.
func notReady(v *view, c *clique) []string {
	if c.counted {
		return c.notReady
	}
	c.counted = true
	for _, n := range c.nodes {
		r := n.found.reason
		if idle := r == ReasonNotClaimed && v.Join == JoinSlurmd && !n.Worker; isProblem(r) && !idle {
			c.notReady = append(c.notReady, n.Name+" ("+r+")")
		} else if r == ReasonReady && n.Lost {
			c.notReady = append(c.notReady, n.Name+" ("+NoteNodeLost+")")
		}
	}
	for _, m := range c.foreign {
		switch n := v.at[m.Node]; {
		case n != nil && isProblem(n.found.reason):
			c.notReady = append(c.notReady, m.Node+" ("+n.found.reason+")")
		case n != nil:
			c.notReady = append(c.notReady, m.Node+" ("+ReasonStaleEntry+")")
		case !m.Ready:
			c.notReady = append(c.notReady, m.Node+" ("+ReasonNotReady+")")
		}
	}
	slices.Sort(c.notReady)
	return c.notReady
}

// noteLost is about a node whose entry may be out of date: the driver leaves the entry of
// a machine without power as it was.
func noteLost(v *view, n *node) finding {
	if !n.Lost {
		return finding{}
	}
	return finding{NoteNodeLost, "Kubernetes hears nothing from the node, and its entry may be out of date", "check that the machine has power and its kubelet runs: without its daemon, jobs across nodes that use this node fail"}
}

// noteReach is about a daemon that does not reach all others.
func noteReach(v *view, n *node) finding {
	if n.Local == nil || n.Local.DomainState == "" || n.Local.DomainState == "UP" {
		return finding{}
	}
	return finding{NoteDomainNotUp, "the local daemon says that the domain is " + n.Local.DomainState, "run nvidia-imex-ctl -N on the node"}
}

// noteStray is about a node that left an entry behind in another clique. The driver
// keeps it as long as the node has a daemon, and while a node has two entries the API
// server refuses the domain's whole status.
func noteStray(v *view, n *node) finding {
	if len(n.strays) == 0 {
		return finding{}
	}
	s := n.strays[0]
	return finding{ReasonStaleEntry, "it also has a stale entry, " + s.text(s.in), "remove the node's entry from ComputeDomainClique " + s.in.domain + "." + s.in.id + ", because the driver does not"}
}

// noteLabel is about a label that contradicts NVML. The node has joined by NVML's
// clique.
func noteLabel(v *view, n *node) finding {
	if !n.labelDiffers() {
		return finding{}
	}
	return finding{ReasonCliqueDiffers, "the label " + topology.CliqueLabel + " says " + n.CliqueLabel, "wait a minute for GPU Feature Discovery; if the label stays, restart it on the node"}
}

// noteStatus is about a domain's status that differs from the entry. The driver loses
// updates of the status now and then, so that the entry counts.
func noteStatus(v *view, n *node) finding {
	if v.byStatus || v.Members == nil {
		return finding{}
	}
	m, listed := v.Members[n.Name]
	e := n.entry
	switch {
	case !listed:
		return finding{reason: NoteStatusDiffers, message: "the domain's status does not list the node, which does not count"}
	case !m.Ready:
		return finding{reason: NoteStatusDiffers, message: "the domain's status says NotReady, which does not count"}
	case m.Index != e.Index || m.Address != e.Address || m.Clique != n.own.id:
		return finding{reason: NoteStatusDiffers, message: "the domain's status says index " + strconv.Itoa(m.Index) + " (" + m.Address + ") in clique " + m.Clique + ", which does not count"}
	}
	return finding{}
}

// listed reports whether the domain's status has the node.
func (v *view) listed(n *node) bool {
	_, listed := v.Members[n.Name]
	return listed
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
