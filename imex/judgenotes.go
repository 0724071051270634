package imex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// note adds to the verdict on a node that is ready what is wrong beside it. Its peers
// come after what is its own, and are left out beside it: they have verdicts
// themselves.
func (j *judge) note(n *node, v *Verdict) {
	for _, look := range [...]func(*judge, *node) finding{
		(*judge).lost,
		(*judge).reach,
		(*judge).strayed,
		(*judge).witness,
		(*judge).peers,
		(*judge).status,
	} {
		f := look(j, n)
		if f.reason == "" || f.reason == NotePeersNotReady && v.Note != "" {
			continue
		}
		v.Message += "; " + f.message
		if v.Note == "" {
			v.Note = f.reason
		}
		if v.Remedy == "" {
			v.Remedy = f.remedy
		}
	}
}

// peers is of other nodes of the clique that are not ready.
func (j *judge) peers(n *node) finding {
	behind := j.behind(n.own)
	if len(behind) == 0 {
		return finding{}
	}
	return finding{NotePeersNotReady, strconv.Itoa(len(behind)) + " of the clique's other nodes not ready: " + list(behind), "see what quoin check says of those nodes"}
}

// behind returns the clique's nodes that are not ready, and why.
func (j *judge) behind(c *clique) []string {
	if c.counted {
		return c.behind
	}
	c.counted = true
	for _, n := range c.nodes {
		r := n.found.reason
		if idle := r == ReasonNotClaimed && j.Join == JoinSlurmd && !n.Worker; isProblem(r) && !idle {
			c.behind = append(c.behind, n.Name+" ("+r+")")
		} else if r == ReasonReady && n.Lost {
			c.behind = append(c.behind, n.Name+" ("+NoteNodeLost+")")
		}
	}
	for _, m := range c.foreign {
		switch n := j.at[m.Node]; {
		case n != nil && isProblem(n.found.reason):
			c.behind = append(c.behind, m.Node+" ("+n.found.reason+")")
		case n != nil:
			c.behind = append(c.behind, m.Node+" ("+ReasonStaleEntry+")")
		case !m.Ready:
			c.behind = append(c.behind, m.Node+" ("+ReasonNotReady+")")
		}
	}
	slices.Sort(c.behind)
	return c.behind
}

// lost is of a node whose entry may say what is no longer so: the driver leaves that
// of a machine without power as it was.
func (j *judge) lost(n *node) finding {
	if !n.Lost {
		return finding{}
	}
	return finding{NoteNodeLost, "Kubernetes hears nothing from the node, and its entry is of before", "see whether the machine has power and its kubelet runs: without its daemon jobs across nodes of the clique fail with it"}
}

// reach is of a daemon that does not reach all others.
func (j *judge) reach(n *node) finding {
	if n.Local == nil || n.Local.DomainState == "" || n.Local.DomainState == "UP" {
		return finding{}
	}
	return finding{NoteDomainNotUp, "the local daemon says that the domain is " + n.Local.DomainState, "see nvidia-imex-ctl -N on the node"}
}

// strayed is of a node that left an entry behind in another clique. The driver
// removes none of a node that has a daemon, and while a node has two the API server
// refuses the domain's whole status.
func (j *judge) strayed(n *node) finding {
	if len(n.strays) == 0 {
		return finding{}
	}
	s := n.strays[0]
	return finding{ReasonStaleEntry, "it has a stale entry too, " + s.text(s.in), "remove the node's entry from ComputeDomainClique " + s.in.domain + "." + s.in.id + ", for the driver does not"}
}

// witness is of a label that contradicts NVML, by which the node has joined.
func (j *judge) witness(n *node) finding {
	if !n.labelDiffers() {
		return finding{}
	}
	return finding{ReasonCliqueDiffers, "the label " + topology.CliqueLabel + " says " + n.CliqueLabel, "wait a minute for GPU Feature Discovery, and restart it on the node if that lasts"}
}

// status is of a domain's status that does not repeat the entry. The driver loses
// such an update now and then, and the entry counts.
func (j *judge) status(n *node) finding {
	if j.byStatus || j.Members == nil {
		return finding{}
	}
	m, listed := j.Members[n.Name]
	e := n.entry
	switch {
	case !listed:
		return finding{reason: NoteStatusDiffers, message: "the domain's status does not list it, which does not count"}
	case !m.Ready:
		return finding{reason: NoteStatusDiffers, message: "the domain's status says NotReady, which does not count"}
	case m.Index != e.Index || m.Address != e.Address || m.Clique != n.own.id:
		return finding{reason: NoteStatusDiffers, message: "the domain's status says index " + strconv.Itoa(m.Index) + " (" + m.Address + ") in clique " + m.Clique + ", which does not count"}
	}
	return finding{}
}

// listed reports whether the domain's status has the node.
func (j *judge) listed(n *node) bool {
	_, listed := j.Members[n.Name]
	return listed
}

// list names so many that a message stays readable.
func list(names []string) string { return listUpTo(20, names) }

// listUpTo names so many at most, and counts the others.
func listUpTo(most int, names []string) string {
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
