package imex

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// note adds to the verdict on a node that is ready what is wrong beside it.
func (v *Verdict) note(n *node) {
	join := ", but "
	for _, f := range notes(n) {
		v.Message += join + f.message
		join = "; "
		v.Remedy = cmp.Or(v.Remedy, f.remedy)
	}
}

// notes returns what is wrong beside a node that is ready, the worst first.
func notes(n *node) []finding {
	var found []finding
	add := func(message, remedy string) { found = append(found, finding{message: message, remedy: remedy}) }
	if n.aside.reason == ReasonWrongClaim { // a problem of the domain is said once, of the domain
		found = append(found, n.aside)
	}
	if n.Lost { // the driver leaves the entry of a machine without power as it was
		add("Kubernetes hears nothing from the node, and its entry may be out of date",
			"check that the machine has power and its kubelet runs: without its daemon, jobs across nodes that use this node fail")
	}
	if n.listsTooMany() {
		add(n.tooMany(), remedyTooMany)
	}
	switch l := n.Local; {
	case l == nil:
	case len(l.Peers) > 0:
		add("the local daemon says that the domain is "+l.DomainState+": it has "+PeersText(l.Peers), "run nvidia-imex-ctl -N on the node; then look at nvidia-imex.service of those nodes")
	case l.DomainState != "" && l.DomainState != "UP": // so is a domain in which nobody reaches the command port of a daemon
		add("the local daemon says that the domain is "+l.DomainState+", although this node is connected to each of its nodes (nvidia-imex-ctl -N shows which daemons do not answer at IMEX_CMD_PORT)", "")
	}
	// Releases of the driver keep a stale entry as long as the node has a daemon. While a node
	// has two entries, the API server refuses the domain's whole status.
	if len(n.strays) > 0 {
		s := n.strays[0]
		add("it also has a stale entry, "+s.text(), "remove the node's entry from ComputeDomainClique "+n.wanted+"."+s.Clique+" if the driver does not within some minutes")
	}
	if n.labelDiffers() { // the node has joined by NVML's clique
		add("the label "+topology.CliqueLabel+" says "+n.CliqueLabel, "wait ten minutes; if the label stays, restart what writes it on the node: GPU Feature Discovery, or with GPUCluster of GPU Operator the DRA driver's kubelet plugin")
	}
	return found
}

// PeersText names the nodes of a domain to which a node has no connection, or may have none. It
// follows "has".
func PeersText(peers []topology.IMEXPeer) string {
	var parts []string
	for _, state := range []struct{ state, words string }{
		{topology.PeerDead, "no connection to "},
		{topology.PeerUnknown, "perhaps none to "},
	} {
		var names []string
		for _, p := range peers {
			switch {
			case p.State != state.state:
			case p.Name == "" || p.Name == p.Address:
				names = append(names, p.Address)
			default:
				names = append(names, p.Name+" ("+p.Address+")")
			}
		}
		if len(names) > 0 {
			parts = append(parts, state.words+list(names))
		}
	}
	return strings.Join(parts, ", and ")
}

// list names as many as a message can hold, and counts the others.
func list(names []string) string {
	const most = 20
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(names, ", ")
}
