package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// maxPeers bounds the nodes of a domain, as in topology.IMEX. A rack has 18.
const maxPeers = 64

// States of a daemon and of its connections that mean something here.
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
	answer := said{state: domain.Status}
	if self := domain.self(nil, ""); domain.fine(self) { // most of the time, so nothing else is read
		return answer, nil
	}
	self := domain.self(machineAddresses(q.root), machineName(q.root))
	answer.peers = domain.peers(self, readNames(q.nodes))
	return answer, nil
}

// domainAnswer is the answer to -N -j. Nodes and connections are by a node's number.
type domainAnswer struct {
	Status string
	Nodes  map[string]domainNode
}

type domainNode struct {
	// Host is the node as nodes_config.cfg names it. HostName is "N/A" if the node gave no
	// answer, so it is of no use to tell two such nodes from each other.
	Status, Host, HostName string
	// Connections of a node without an answer are all INVALID: the program makes them up.
	Connections map[string]domainConnection
}

// domainConnection is CONNECTED, or one of INVALID, RECOVERING, VERSION_MISMATCH and others
// if there is none. Its host is always an address as in Host.
type domainConnection struct{ Status, Host string }

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
		if n.Host = cleanAddress(n.Host); n.Host == "" || hosts[n.Host] {
			return nil, errors.New("a node of the answer has no host, or two have the same")
		}
		hosts[n.Host] = true
		n.HostName = cleanName(n.HostName)
		for other, c := range n.Connections {
			c.Host = cleanAddress(c.Host)
			n.Connections[other] = c
		}
		d.Nodes[number] = n
	}
	return &d, nil
}

// fine reports whether nothing shows that a node of the domain is not connected to another.
func (d *domainAnswer) fine(self string) bool {
	if d.Status != imexUp {
		return false
	}
	for _, n := range d.peers(self, nil) {
		if n.State == topology.PeerDead || n.State == topology.PeerUnknown {
			return false
		}
	}
	return true
}

// self returns the number of the node that was asked: it has one of the machine's addresses,
// or its name, or it is the only one that is ready. It is empty if that is not clear.
func (d *domainAnswer) self(addresses map[netip.Addr]bool, name string) string {
	short := func(name string) string { return strings.ToLower(hostlist.ShortName(name)) }
	for _, is := range []func(n domainNode) bool{
		func(n domainNode) bool {
			address, err := netip.ParseAddr(n.Host)
			return err == nil && addresses[address]
		},
		func(n domainNode) bool {
			return name != "" && (short(n.Host) == short(name) || short(n.HostName) == short(name))
		},
		func(n domainNode) bool { return n.Status == imexReady },
	} {
		var found []string
		for number, n := range d.Nodes {
			if is(n) {
				found = append(found, number)
			}
		}
		if len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// peers returns the nodes of the domain, sorted by address, or none if all are connected to
// the node itself. self is the number of that node, empty if it is not known. names are the
// names of addresses by a file of the site.
func (d *domainAnswer) peers(self string, names map[netip.Addr]string) []topology.IMEXPeer {
	named := d.namedBy(names)
	all, apart := make([]topology.IMEXPeer, 0, len(d.Nodes)), false
	for number, n := range d.Nodes {
		p := topology.IMEXPeer{Address: n.Host, Name: named(n), State: topology.PeerSelf}
		if number != self {
			p.State = d.state(number, self)
			apart = apart || p.State != topology.PeerConnected
		}
		all = append(all, p)
	}
	if !apart {
		return nil
	}
	slices.SortFunc(all, comparePeers)
	return all
}

func comparePeers(a, b topology.IMEXPeer) int {
	one, errA := netip.ParseAddr(a.Address)
	other, errB := netip.ParseAddr(b.Address)
	if errA == nil && errB == nil && one != other {
		return one.Compare(other)
	}
	return strings.Compare(a.Address+" "+a.Name+" "+a.State, b.Address+" "+b.Name+" "+b.State)
}

// state says how a node is to the node itself. The node's own connections say it, because a
// node that gives no answer may be connected. If the node itself is not known, all nodes that
// are ready have to agree.
func (d *domainAnswer) state(number, self string) string {
	n := d.Nodes[number]
	if slices.Contains(notReady, n.Status) {
		return topology.PeerDead
	}
	seen := map[string]bool{}
	for witness, w := range d.Nodes {
		if witness == number || w.Status != imexReady || self != "" && witness != self {
			continue
		}
		switch c := w.connection(number, n.Host); c {
		case "":
		case imexConnected:
			seen[topology.PeerConnected] = true
		default:
			seen[topology.PeerDead] = true
		}
	}
	switch states := slices.Collect(maps.Keys(seen)); {
	case len(states) == 1:
		return states[0]
	case len(states) == 0 && d.Status == imexUp: // in a domain that is UP all nodes are connected
		return topology.PeerConnected
	}
	return topology.PeerUnknown
}

// connection is the state of the connection to a node, empty if it is not there.
func (n domainNode) connection(number, host string) string {
	if c := n.Connections[number]; c.Host == host || c.Host == "" {
		return c.Status
	}
	for _, other := range slices.Sorted(maps.Keys(n.Connections)) {
		if c := n.Connections[other]; c.Host == host {
			return c.Status
		}
	}
	return ""
}

// namedBy returns what names the nodes. All names are of one kind, so that a node can be left
// out by its name: those of the file, if it has one, otherwise those of nodes_config.cfg, if it
// has one, and otherwise the nodes' own.
func (d *domainAnswer) namedBy(names map[netip.Addr]string) func(n domainNode) string {
	byFile := func(n domainNode) string {
		address, err := netip.ParseAddr(n.Host)
		if err != nil {
			return ""
		}
		return names[address]
	}
	byConfig := func(n domainNode) string {
		if _, err := netip.ParseAddr(n.Host); err == nil {
			return ""
		}
		return n.Host
	}
	for _, by := range []func(n domainNode) string{byFile, byConfig} {
		for _, n := range d.Nodes {
			if by(n) != "" {
				return by
			}
		}
	}
	times := map[string]int{} // two machines with one name are told apart by their addresses only
	for _, n := range d.Nodes {
		times[n.HostName]++
	}
	return func(n domainNode) string {
		if times[n.HostName] > 1 {
			return ""
		}
		return n.HostName
	}
}

// cleanAddress returns a host of the answer in one form, empty if it is neither an address nor
// a name.
func cleanAddress(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return cleanName(host)
}

// maxName bounds a host's name, as DNS does.
const maxName = 253

// cleanName returns a host's name, empty if it is none: "N/A" stands for a name that is not
// known, and localhost for a machine that was given none.
func cleanName(name string) string {
	other := strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if other || len(name) > maxName || strings.Trim(name, "-_.") == "" || strings.EqualFold(hostlist.ShortName(name), "localhost") {
		return ""
	}
	return name
}
