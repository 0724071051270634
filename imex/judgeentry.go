package imex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// clique is of a clique that cannot be one domain's.
func (j *judge) clique(n *node) finding {
	if n.own == nil {
		return unknownFabric()
	}
	var domains, nodes []string
	for _, c := range j.byID[n.own.id] {
		if c.domain != n.wanted && len(c.entries)+len(c.labelled) > 0 {
			domains, nodes = append(domains, c.domain), append(nodes, c.members()...)
		}
	}
	if len(domains) > 0 {
		slices.Sort(domains)
		slices.Sort(nodes)
		who, whose := list(slices.Compact(nodes)), strings.Join(domains, ", ")
		return finding{ReasonTwoDomains, "clique " + n.own.id + " has nodes of another domain (" + whose + "): " + who + "; CUDA fails in a clique of two domains (CUDA_ERROR_NOT_SUPPORTED)",
			"end the pods on " + who + " that claim a channel of domain " + whose}
	}
	if many := max(len(n.own.entries), len(n.own.nodes)); len(n.own.entries) > MaxCliqueNodes || n.entry == nil && (many > MaxCliqueNodes || len(n.own.entries) == MaxCliqueNodes) {
		return finding{ReasonCliqueFull, "clique " + n.own.id + " has " + strconv.Itoa(many) + " nodes, " + strconv.Itoa(len(n.own.entries)) + " of them with an entry: an IMEX domain takes " + strconv.Itoa(MaxCliqueNodes),
			"let at most " + strconv.Itoa(MaxCliqueNodes) + " nodes of the clique join, or have the fabric's partitions made smaller"}
	}
	return finding{}
}

// members are the nodes of the clique that are in the domain, or on their way.
func (c *clique) members() []string {
	names := slices.Clone(c.labelled)
	for _, m := range c.entries {
		names = append(names, m.Node)
	}
	return names
}

// place is of a node without an entry in its clique.
func (j *judge) place(n *node) finding {
	if n.entry != nil {
		return finding{}
	}
	m, listed := j.Members[n.Name]
	elsewhere := ""
	for _, s := range n.strays {
		elsewhere += "; it has " + s.text(s.in)
	}
	restart := "restart the DRA driver's kubelet plugin on the node, which reads the clique only when it starts, then delete " + n.daemonPod()
	switch {
	case listed && m.Clique == "":
		return finding{ReasonNoFabricSeen, "its clique is " + n.own.id + ", but the domain's status lists it without one: the driver runs no IMEX daemon on it", restart}
	case n.labelDiffers():
		return finding{ReasonCliqueDiffers, "no entry in its clique, which is " + n.Clique + " by NVML and " + n.CliqueLabel + " by the label " + topology.CliqueLabel + elsewhere, restart}
	case len(n.strays) > 0:
		return finding{ReasonStaleEntry, "no entry in its clique " + n.own.id + elsewhere + ", which it has left", restart}
	}
	message := "no entry in its clique " + n.own.id + " yet" + daemonText(n)
	if listed {
		message += "; the domain's status still lists it, which does not count"
	}
	return finding{ReasonNoEntry, message, "wait while its daemon starts; if that lasts, see the log of " + n.daemonPod()}
}

// labelDiffers reports whether the label names another clique than NVML.
func (n *node) labelDiffers() bool {
	return n.Clique != "" && n.CliqueLabel != "" && !strings.EqualFold(n.Clique, n.CliqueLabel)
}

// daemonPod names the pod of the node's IMEX daemon.
func (n *node) daemonPod() string {
	return "the node's pod of DaemonSet computedomain-daemon-" + n.wanted
}

// entry is of a node whose entry or daemon is not ready, or not its own.
func (j *judge) entry(n *node) finding {
	if f := j.shares(n); f.reason != "" {
		return f
	}
	state := ""
	if n.Local != nil {
		state = n.Local.DaemonState
	}
	switch {
	case !n.entry.Ready && state == DaemonReady:
		return finding{ReasonEntryBehind, n.entry.text(n.own) + " is NotReady, while the local daemon says READY" + j.statusText(n),
			"wait for the driver to write it; if that lasts, see the readiness of " + n.daemonPod()}
	case !n.entry.Ready:
		return finding{ReasonNotReady, n.entry.text(n.own) + " is NotReady" + daemonText(n) + j.statusText(n),
			"wait, for a daemon takes some minutes to start; if that lasts, see the log of " + n.daemonPod()}
	case state != "" && state != DaemonReady:
		return finding{ReasonDaemonNotReady, n.entry.text(n.own) + " is Ready, while the local daemon says " + state,
			"wait for the two to agree; if that lasts, see the log of " + n.daemonPod()}
	}
	return finding{}
}

// shares is of an entry that has its index, else its address, with another node's.
func (j *judge) shares(n *node) finding {
	var index, address *Member
	for _, m := range n.own.entries {
		sameIndex := m.Index == n.entry.Index && !j.byStatus // older drivers give none
		sameAddress := m.Address == n.entry.Address && m.Address != ""
		switch {
		case !sameIndex && !sameAddress, m.Node == n.Name:
		case index == nil && sameIndex:
			index = m
		case address == nil && sameAddress:
			address = m
		}
	}
	switch {
	case index != nil:
		return finding{ReasonDuplicateIndex, n.entry.text(n.own) + ", an index that " + index.Node + " (" + index.Address + ") has too: to the clique's other daemons one of the two does not exist", n.remedyOfTwins(index)}
	case address != nil:
		return finding{ReasonDuplicateAddress, n.entry.text(n.own) + ", an address that " + address.Node + " (index " + strconv.Itoa(address.Index) + ") has too: one of the two entries is from before", n.remedyOfTwins(address)}
	}
	return finding{}
}

func (n *node) remedyOfTwins(other *Member) string {
	return "delete, while no job across nodes runs there, the pod of DaemonSet computedomain-daemon-" + n.wanted + " on " + other.Node + " or on this node, so that it takes another"
}

// DaemonReady is what nvidia-imex-ctl -q prints of a daemon that is.
const DaemonReady = "READY"

// statusText says that the domain's status is more hopeful than the entry.
func (j *judge) statusText(n *node) string {
	if m, listed := j.Members[n.Name]; listed && m.Ready && !j.byStatus {
		return "; the domain's status says Ready, which does not count"
	}
	return ""
}

// text names the entry.
func (m *Member) text(in *clique) string {
	return "index " + strconv.Itoa(m.Index) + " (" + m.Address + ") in clique " + in.id
}
