package imex

import (
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// checkClique is about a clique that cannot belong to one domain.
func checkClique(v *view, n *node) finding {
	if n.own == nil {
		return n.unknownFabric()
	}
	var domains, nodes []string
	for _, c := range v.cliques[n.own.id] {
		if c != n.own && len(c.entries)+len(c.labelled) > 0 {
			domains, nodes = append(domains, c.domain), append(nodes, c.members()...)
		}
	}
	if len(domains) > 0 {
		slices.Sort(domains)
		slices.Sort(nodes)
		who, whose := list(slices.Compact(nodes)), strings.Join(domains, ", ")
		return finding{reason: ReasonConflict, message: "clique " + n.own.id + " has nodes of another domain (" + whose + "): " + who + "; CUDA fails in a clique of two domains (CUDA_ERROR_NOT_SUPPORTED)",
			remedy: "end the pods on " + who + " that claim a channel of domain " + whose}
	}
	most, limit := v.Domain.MaxNodes, "its limit is "
	if most == 0 {
		most, limit = defaultMaxNodes, "the driver's default limit is "
	}
	known := v.Domain.MaxNodes > 0 || len(n.own.entries) <= most // more entries show another limit
	if many := max(len(n.own.entries), n.own.nodes); n.entry == nil && known && (many > most || len(n.own.entries) >= most) {
		return finding{reason: ReasonNotRegistered, message: "clique " + n.own.id + " has " + strconv.Itoa(many) + " nodes, " + strconv.Itoa(len(n.own.entries)) + " of them with an entry, and " + limit + strconv.Itoa(most),
			remedy: "let at most " + strconv.Itoa(most) + " nodes of the clique join, or make the fabric's partitions smaller"}
	}
	return finding{}
}

// members names the nodes of the clique that are in the domain or are joining it.
func (c *clique) members() []string {
	names := slices.Clone(c.labelled)
	for _, m := range c.entries {
		names = append(names, m.Node)
	}
	return names
}

// checkPlace is about a node that has no entry in its clique.
func checkPlace(v *view, n *node) finding {
	if n.entry != nil {
		return finding{}
	}
	elsewhere := ""
	for _, s := range n.strays {
		elsewhere += "; it has " + s.text()
	}
	restart := "restart the DRA driver's kubelet plugin on the node (0.4 reads the clique only when it starts, 0.5 each ten minutes); then delete " + n.daemonPod()
	switch {
	case n.listed && v.Members[n.Name].Clique == "":
		return finding{reason: ReasonNotRegistered, message: "its clique is " + n.own.id + ", but the domain's status lists the node without a clique: the driver runs no IMEX daemon there", remedy: restart}
	case n.labelDiffers():
		return finding{reason: ReasonNotRegistered, message: "no entry in its clique, which is " + n.Clique + " by NVML and " + n.CliqueLabel + " by the label " + topology.CliqueLabel + elsewhere, remedy: restart}
	case len(n.strays) > 0:
		return finding{reason: ReasonNotRegistered, message: "no entry in its clique " + n.own.id + elsewhere + ", which it has left", remedy: restart}
	}
	message := "no entry in its clique " + n.own.id + " yet" + n.daemonText()
	if n.listed {
		message += "; the domain's status still lists the node, which does not count"
	}
	return finding{reason: ReasonNotRegistered, message: message, remedy: "wait while its daemon starts; if that takes long, read the log of " + n.daemonPod() + "; if that pod does not start or end, " + pluginLog}
}

// labelDiffers reports whether the label names another clique than NVML does.
func (n *node) labelDiffers() bool {
	return n.Clique != "" && n.CliqueLabel != "" && !strings.EqualFold(n.Clique, n.CliqueLabel)
}

// daemonPod names the pod of the node's IMEX daemon.
func (n *node) daemonPod() string {
	return "the node's pod of DaemonSet computedomain-daemon-" + n.wanted
}

// checkEntry is about a node whose entry or daemon is not ready, or whose entry is not
// its own alone.
func checkEntry(v *view, n *node) finding {
	if f := checkTwins(v, n); f.reason != "" {
		return f
	}
	said := n.DaemonState()
	state := "NotReady"
	switch doubt := n.doubt(); {
	case n.entry.Ready && doubt != "":
		return finding{reason: ReasonNotReady, message: n.entry.text() + " is Ready, which may be old: " + doubt,
			remedy: "wait until the driver starts the daemon and changes the entry; if that takes long, look at " + n.daemonPod()}
	case n.entry.Ready && (said == "" || said == DaemonReady):
		return finding{}
	case n.entry.Ready:
		state = "Ready"
	}
	return finding{reason: ReasonNotReady, message: n.entry.text() + " is " + state + n.daemonText() + statusText(v, n),
		remedy: "wait, because a daemon takes some minutes to start; if that takes longer, look at the readiness and the log of " + n.daemonPod()}
}

// doubt says why an entry that is ready is not of the daemon that the node has now.
func (n *node) doubt() string {
	switch l := n.Local; {
	case l == nil || l.HostService:
	case l.DaemonAddress != "" && n.entry.Address != "" && l.DaemonAddress != n.entry.Address:
		return "the node's daemon has the address " + l.DaemonAddress
	case l.DaemonState == "" && l.DaemonFault != "":
		return "the node's daemon: " + l.DaemonFault
	}
	return ""
}

// DaemonState is what the local daemon says of itself, empty if that is not known.
func (n *Node) DaemonState() string {
	if n.Local == nil {
		return ""
	}
	return n.Local.DaemonState
}

// daemonText says what the local daemon says of itself, if that is known.
func (n *Node) daemonText() string {
	if n.DaemonState() == "" {
		return ""
	}
	return " (the local daemon says " + n.DaemonState() + ")"
}

// checkTwins is about an entry with the same index as another node's entry in the clique,
// or the same address as an entry of any domain.
func checkTwins(v *view, n *node) finding {
	for _, m := range n.own.entries {
		if m.Node != n.Name && m.Index == n.entry.Index {
			return finding{reason: ReasonConflict, message: n.entry.text() + "; node " + m.Node + " (" + m.Address + ") has the same index: the clique's other daemons see only one of the two", remedy: n.remedyOfTwins(m)}
		}
	}
	if m := v.twinOf(n.entry); m != nil {
		return finding{reason: ReasonConflict, message: n.entry.text() + "; node " + m.Node + " (index " + strconv.Itoa(m.Index) + ") has the same address: one of the two entries is out of date", remedy: n.remedyOfTwins(m)}
	}
	return finding{}
}

// twinOf returns an entry of another node with the same address, nil if there is none.
func (v *view) twinOf(m *Member) *Member {
	var twin *Member
	for _, other := range v.addresses[m.Address] {
		if other.Node != m.Node && (twin == nil || compareMembers(other, twin) < 0) {
			twin = other
		}
	}
	return twin
}

func (n *node) remedyOfTwins(other *Member) string {
	return "while no job across nodes runs there, delete the pod of DaemonSet computedomain-daemon-" + n.wanted + " on " + other.Node + " or on this node: the new pod gets another one"
}

// DaemonReady is the state of a daemon that is ready, as nvidia-imex-ctl -q prints it.
const DaemonReady = "READY"

// statusText says that the domain's status calls the node ready.
func statusText(v *view, n *node) string {
	if n.listed && v.Members[n.Name].Ready && !n.entry.Ready && !v.byStatus {
		return "; the domain's status says Ready, which does not count"
	}
	return ""
}

// text names the entry and its clique.
func (m *Member) text() string {
	return "index " + strconv.Itoa(m.Index) + " (" + m.Address + ") in clique " + m.Clique
}
