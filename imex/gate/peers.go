package gate

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Peers are the nodes of a job that a gate knows.
type Peers struct {
	// Missing are the job's nodes in this clique that are not ready, by their names in
	// Slurm.
	Missing []string
	// Alone says that the job needs no IMEX here: this node has an entry in the clique,
	// and no other node of the job has. It is false while this node has no entry,
	// because the other nodes may be joining too.
	Alone bool
	// Others says that another node of the job has an entry in the clique, or is a peer.
	Others bool
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
type Addresses map[string][]string

// PeersOf compares a gate with a job's nodes. node is this node's name in Slurm, nodeList
// the job's host list. addresses are the addresses of the nodes in Unknown, if somebody has looked
// them up.
func (s *State) PeersOf(node, nodeList string, addresses Addresses) Peers {
	var p Peers
	own, nodes := shortName(node), map[string]string{} // by short name
	if err := hostlist.Walk(nodeList, func(name []byte) { nodes[shortName(string(name))] = string(name) }); err != nil {
		if len(s.Peers) > 0 || s.PeersUnknown != "" {
			p.Unknown = []string{nodeList}
		}
		return p
	}
	if nodes[own] != "" && own == shortName(s.Node) {
		s.addMembers(&p, own, nodes)
	}
	delete(nodes, own)
	s.addPeers(&p, own, nodes, addresses)
	slices.Sort(p.Missing)
	slices.Sort(p.Unknown)
	return p
}

// addMembers finds the job's nodes among the members of the clique. Their names in Slurm and
// in Kubernetes are the same.
func (s *State) addMembers(p *Peers, own string, nodes map[string]string) {
	if !s.Ready {
		p.Missing = append(p.Missing, nodes[own])
	}
	joined := false
	for _, m := range s.Members {
		short := shortName(m.Node)
		name := nodes[short]
		switch {
		case short == own:
			joined = true
		case name != "":
			p.Others = true
			if !m.Ready {
				p.Missing = append(p.Missing, name)
			}
		}
	}
	p.Alone = joined && !p.Others
}

// addPeers finds the job's other nodes among the peers: by name if this node has its own name
// there, and by address. A node that is not found may be any peer without a name.
func (s *State) addPeers(p *Peers, own string, nodes map[string]string, addresses Addresses) {
	named := slices.ContainsFunc(s.Peers, func(peer topology.IMEXPeer) bool {
		return peer.State == topology.PeerSelf && peer.Name != "" && shortName(peer.Name) == own
	})
	at := map[string]int{} // by short name and by address
	for i, peer := range s.Peers {
		if peer.State == topology.PeerSelf {
			continue
		}
		at[peer.Address] = i
		if named && peer.Name != "" {
			at[shortName(peer.Name)] = i
		}
	}
	found := map[int]bool{}
	var lost []string
	for short, name := range nodes {
		i, is := at[short]
		for _, address := range addresses[name] {
			if !is {
				i, is = at[address]
			}
		}
		if !is {
			lost = append(lost, name)
			continue
		}
		found[i], p.Others = true, true
		switch s.Peers[i].State {
		case topology.PeerDead:
			p.Missing, p.Apart = append(p.Missing, name), true
		case topology.PeerUnknown:
			p.Unknown = append(p.Unknown, name)
		}
	}
	for i, peer := range s.Peers {
		apart := peer.State == topology.PeerDead || peer.State == topology.PeerUnknown
		if apart && !found[i] && (!named || peer.Name == "") && len(lost) > 0 {
			p.Unnamed = append(p.Unnamed, peer.Address)
		}
	}
	if len(p.Unnamed) > 0 || s.PeersUnknown != "" {
		p.Unknown = append(p.Unknown, lost...)
	}
}
