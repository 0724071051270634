package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// maxPeers bounds the nodes of a domain, as in topology.IMEX. A rack has 18.
const maxPeers = 64

// States of a domain and of a connection that mean something here.
const (
	imexConnected = "CONNECTED"
	imexUp        = "UP"
)

// notReady are the states of a daemon that answers and is not ready. UNAVAILABLE is none of
// them: it means that the daemon's command port gave no answer. Daemons that answer at a Unix
// socket only are UNAVAILABLE for all others, and connected to them.
var notReady = []string{"INITIALIZING", "STARTING_AUTH_SERVER", "WAITING_FOR_PEERS", "WAITING_FOR_RECOVERY", "INIT_GPU", "SHUTTING_DOWN"}

// parseDomain reads what -N -j prints: an object with the domain's state, a time, and what
// each node sees of the others.
func (q question) parseDomain(text []byte) (said, error) {
	domain, err := parseDomain(text)
	if err != nil {
		return said{}, err
	}
	if domain.whole() { // most of the time, so nothing else is read
		return said{state: domain.Status}, nil
	}
	names, err := readNames(q.nodes)
	if err != nil {
		return said{}, err
	}
	peers, err := domain.peers(machineAddresses(q.root), names)
	if err != nil {
		return said{}, err
	}
	return said{state: domain.Status, peers: peers}, nil
}

// domainAnswer is the answer to -N -j.
type domainAnswer struct {
	Status string
	Nodes  map[string]domainNode
}

// domainNode is a node of the domain. All connections name hosts in the same form.
type domainNode struct {
	// Host is the node as nodes_config.cfg names it.
	Status, Host string
	// Connections of a node without an answer are all INVALID: the program makes them up.
	Connections map[string]struct {
		// Status is CONNECTED, or one of INVALID, RECOVERING, VERSION_MISMATCH and others.
		Status, Host string
	}
}

func parseDomain(text []byte) (*domainAnswer, error) {
	var d domainAnswer
	if err := json.Unmarshal(text, &d); err != nil || !isState(d.Status) {
		return nil, errors.New("the answer is not JSON with a status such as UP")
	}
	switch {
	case len(d.Nodes) > maxPeers:
		return nil, fmt.Errorf("the answer has %d nodes: want %d at most", len(d.Nodes), maxPeers)
	case len(d.Nodes) == 0 && d.Status != imexUp:
		return nil, fmt.Errorf("the answer says %s, and names no nodes", d.Status)
	}
	hosts := map[string]bool{}
	for number, n := range d.Nodes {
		if n.Host = hostOf(n.Host); n.Host == "" || hosts[n.Host] {
			return nil, errors.New("a node of the answer has no host, or two have the same")
		}
		hosts[n.Host] = true
		d.Nodes[number] = n
	}
	return &d, nil
}

// whole reports whether the domain is up. It is false if a node says that the node lacks a connection.
func (d *domainAnswer) whole() bool {
	for _, n := range d.Nodes {
		for _, c := range n.Connections {
			if c.Status != imexConnected {
				return false
			}
		}
	}
	return d.Status == imexUp
}

// peers returns the nodes of the domain, sorted by address, or none if the machine is connected to
// all of them. own are the machine's addresses, and names are the names in Slurm by address.
func (d *domainAnswer) peers(own map[string]bool, names map[string]string) ([]topology.IMEXPeer, error) {
	var self []domainNode
	for _, n := range d.Nodes {
		if own[n.Host] {
			self = append(self, n)
		}
	}
	if len(self) != 1 {
		return nil, fmt.Errorf("%d of the %d nodes have an address of this machine: want one", len(self), len(d.Nodes))
	}
	all, apart := make([]topology.IMEXPeer, 0, len(d.Nodes)), false
	for _, n := range d.Nodes {
		p := topology.IMEXPeer{Address: n.Host, Name: names[n.Host], State: self[0].sees(&n)}
		apart = apart || p.State == topology.PeerDead || p.State == topology.PeerUnknown
		all = append(all, p)
	}
	if !apart {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b topology.IMEXPeer) int { return strings.Compare(a.Address, b.Address) })
	return all, nil
}

// sees says how another node is to this one. The node's own connections say it, because a
// node that gives no answer may be connected.
func (n *domainNode) sees(other *domainNode) string {
	switch {
	case other.Host == n.Host:
		return topology.PeerSelf
	case slices.Contains(notReady, other.Status):
		return topology.PeerDead
	case n.Status != imex.DaemonReady:
		return topology.PeerUnknown
	}
	state := topology.PeerUnknown
	for _, c := range n.Connections {
		switch {
		case hostOf(c.Host) != other.Host:
		case c.Status != imexConnected:
			return topology.PeerDead
		default:
			state = topology.PeerConnected
		}
	}
	return state
}

// hostOf returns a host in one form, empty if it is neither an address nor a name.
func hostOf(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().WithZone("").String()
	}
	if hostlist.CheckName(text) != nil {
		return ""
	}
	return text
}
