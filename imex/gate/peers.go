package gate

import (
	"net/netip"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Peers are the members of the gate's clique that a job waits for.
type Peers struct {
	// Known says that the job's node names can be compared with the members' names:
	// this node has the same name in Slurm and in Kubernetes.
	Known bool
	// Missing are the job's nodes in this clique that are not ready, by their names in
	// Slurm.
	Missing []string
	// Alone says that the job needs no IMEX here: this node has an entry in the clique,
	// and no other node of the job has. It is false while this node has no entry,
	// because the other nodes may be joining too.
	Alone bool
	// Others says that another node of the job has an entry in the clique.
	Others bool
	// NotReady counts the members that are not ready.
	NotReady int
	// Apart says that this node has no connection to nodes of the job. They are Missing too.
	Apart bool
	// Unknown are nodes of the job that this node may or may not be connected to. It is the
	// job's whole list if the list cannot be read.
	Unknown []string
	// Unnamed are the addresses of peers that may not be connected and may be nodes of Unknown.
	// The addresses of the job's nodes would tell.
	Unnamed []string
}

// Addresses are the addresses of nodes, by their names in Slurm. A node that was asked for and
// has none is not there.
type Addresses map[string][]netip.Addr

// PeersOf compares a gate with a job's nodes. node is this node's name in Slurm, nodeList
// the job's host list. addresses are those of Unknown and of this node, if they were looked up.
func (s *State) PeersOf(node, nodeList string, addresses Addresses) Peers {
	unknown := s.connections(node, nodeList, addresses)
	ready := make(map[string]bool, len(s.Members))
	for _, m := range s.Members {
		ready[shortName(m.Node)] = m.Ready
		if !m.Ready {
			unknown.NotReady++
		}
	}
	own := shortName(node)
	if own == "" || own != shortName(s.Node) {
		return unknown
	}
	p := unknown
	err := hostlist.Walk(nodeList, func(bytes []byte) {
		name := string(bytes)
		short := shortName(name)
		isReady, member := ready[short]
		switch {
		case short == own:
			p.Known = true
			if !s.Ready {
				p.Missing = append(p.Missing, name)
			}
		case member:
			p.Others = true
			if !isReady {
				p.Missing = append(p.Missing, name)
			}
		}
	})
	if err != nil || !p.Known {
		return unknown
	}
	_, joined := ready[own]
	p.Alone = joined && !p.Others
	slices.Sort(p.Missing)
	p.Missing = slices.Compact(p.Missing)
	return p
}

// connections looks for a job's nodes among the peers: by name, and by address if a peer that
// is not connected has no name that can be compared.
func (s *State) connections(node, nodeList string, addresses Addresses) (p Peers) {
	if len(s.Peers) == 0 && s.PeersUnknown == "" {
		return p
	}
	own, others := shortName(node), map[string]string{} // by short name
	if err := hostlist.Walk(nodeList, func(name []byte) { others[shortName(string(name))] = string(name) }); err != nil {
		p.Unknown = []string{nodeList}
		return p
	}
	delete(others, own)
	if s.PeersUnknown != "" {
		for _, name := range others {
			p.Unknown = append(p.Unknown, name)
		}
		slices.Sort(p.Unknown)
		return p
	}
	d := newDomain(s.Peers, own, addresses[node])
	seen := map[int]bool{} // peers that are nodes of the job
	see := func(short string, peer int) {
		seen[peer] = true
		switch s.Peers[peer].State {
		case topology.PeerDead:
			p.Missing = append(p.Missing, others[short])
		case topology.PeerUnknown:
			p.Unknown = append(p.Unknown, others[short])
		}
		delete(others, short)
	}
	for short := range others {
		if peer, is := d.byName[short]; is && !d.otherNames {
			see(short, peer)
		}
	}
	for short, name := range others {
		for _, address := range addresses[name] {
			if peer, is := d.byAddress[address]; is && s.Peers[peer].State != topology.PeerSelf {
				d.sameNetwork = true
				see(short, peer)
				break
			}
		}
	}
	// Each other node may be a peer that is not connected, unless something excludes it.
	for i, peer := range s.Peers {
		if named := peer.Name != "" && d.sameNames; !seen[i] && !named && (peer.State == topology.PeerDead || peer.State == topology.PeerUnknown) {
			p.Unnamed = append(p.Unnamed, peer.Address)
		}
	}
	if len(p.Unnamed) > 0 {
		unknown := len(p.Unknown)
		for _, name := range others {
			if !d.sameNetwork || len(addresses[name]) == 0 {
				p.Unknown = append(p.Unknown, name)
			}
		}
		if unknown == len(p.Unknown) {
			p.Unnamed = nil
		}
	}
	p.Apart = len(p.Missing) > 0
	slices.Sort(p.Missing)
	slices.Sort(p.Unknown)
	return p
}

// domain finds the peers of a gate.
type domain struct {
	byName    map[string]int // by short name
	byAddress map[netip.Addr]int
	// sameNames says that this node has the same name in the domain and in Slurm, and
	// otherNames that it has another one. If it has the same, a node without a peer of its
	// name is not in the domain.
	sameNames, otherNames bool
	// sameNetwork says that a name in Slurm, of this node or of another, resolves to an
	// address in the domain. Then a node whose name resolves to no such address is not in
	// the domain.
	sameNetwork bool
}

func newDomain(peers []topology.IMEXPeer, own string, addresses []netip.Addr) domain {
	d := domain{byName: map[string]int{}, byAddress: map[netip.Addr]int{}}
	for i, p := range peers {
		address, err := netip.ParseAddr(p.Address)
		self := p.State == topology.PeerSelf
		if p.Name != "" {
			d.byName[shortName(p.Name)] = i
		}
		if self && p.Name != "" {
			d.sameNames, d.otherNames = shortName(p.Name) == own, shortName(p.Name) != own
		}
		if err == nil {
			d.byAddress[address] = i
			d.sameNetwork = d.sameNetwork || self && slices.Contains(addresses, address)
		}
	}
	return d
}
