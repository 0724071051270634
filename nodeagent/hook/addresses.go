package hook

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// lookUpWait bounds all questions for the addresses of a job's nodes together.
	lookUpWait = time.Second
	// maxLookUps is how many names are looked up. A clique has at most 18 nodes as a rule.
	maxLookUps = 64
	// maxQuoted bounds a list that is printed, in bytes.
	maxQuoted = 200
)

// lookUp returns the addresses of a name.
type lookUp func(ctx context.Context, name string) ([]netip.Addr, error)

// resolver asks what the machine's programs ask: /etc/hosts, DNS and what else nsswitch.conf names. A
// program does it, because Go's own resolver would make each call of the hook slower.
func resolver(ctx context.Context, name string) (all []netip.Addr, err error) {
	cmd := exec.CommandContext(ctx, "/usr/bin/getent", "ahosts", "--", name)
	cmd.WaitDelay = lookUpWait
	out, err := cmd.Output()
	for line := range strings.Lines(string(out)) {
		text, _, _ := strings.Cut(line, " ")
		if address, err := netip.ParseAddr(text); err == nil && !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all, err
}

// addressesOf looks up the addresses of nodes, all at once. A name without an answer in time
// has none, and so have names beyond maxLookUps. Addresses of the loopback are left out,
// because a machine may have its own name there.
func (l lookUp) addressesOf(ctx context.Context, names []string) gate.Addresses {
	ctx, cancel := context.WithTimeout(ctx, lookUpWait)
	defer cancel()
	names = names[:min(len(names), maxLookUps)]
	type answer struct {
		name string
		all  []netip.Addr
	}
	answers := make(chan answer, len(names)) // with room for answers that come too late
	for _, name := range names {
		go func() {
			all, _ := l(ctx, name) // without an answer nothing is known
			answers <- answer{name, all}
		}()
	}
	found := gate.Addresses{}
	for range names {
		select {
		case a := <-answers:
			for _, address := range a.all {
				if address = address.Unmap().WithZone(""); !address.IsLoopback() && !address.IsUnspecified() {
					found[a.name] = append(found[a.name], address)
				}
			}
		case <-ctx.Done():
			return found
		}
	}
	return found
}

// settle is about an open gate that lists nodes which may be nodes of the job, and may not be
// connected. The addresses of the job's nodes may tell, and are looked up once.
func (g *gateWait) settle(ctx context.Context, open string) (p passage, settled bool) {
	node := g.h.env("SLURMD_NODENAME")
	unknown := g.inBlock(node, g.peers.Unknown)
	if len(unknown) > 0 && len(g.peers.Unnamed) > 0 && g.addresses == nil {
		look := g.h.lookUp
		if look == nil {
			look = resolver
		}
		g.addresses = look.addressesOf(ctx, append([]string{node}, unknown...))
		g.peers = g.now.PeersOf(node, g.h.env("SLURM_JOB_NODELIST"), g.addresses)
		unknown = g.inBlock(node, g.peers.Unknown)
	}
	to := topology.Cut(hostlist.Compress(unknown), maxQuoted)
	switch {
	case g.peers.Apart:
		return passage{}, false
	case len(unknown) > 0:
	case g.hidden():
		to = "the nodes of the job's other components"
	default:
		return passage{word: open}, true
	}
	why := "whether this node is connected to " + to + " is not known"
	switch {
	case g.now.PeersUnknown != "":
		why += ": " + g.now.PeersUnknown
	case len(unknown) == 0:
		why += ": it has " + topology.Cut(imex.PeersText(g.now.Peers), maxQuoted)
	case len(g.peers.Unnamed) > 0:
		why += ": the names in Slurm are not known of these peers: " + topology.Cut(strings.Join(g.peers.Unnamed, ", "), maxQuoted) + ". What to do: let quoin imex nodes-config --dir write the names beside nodes_config.cfg"
	default:
		why += ": nvidia-imex-ctl -N does not say it"
	}
	return passage{rundir.GateUnknown, g.lineOf("PeersUnknown", g.waited(), nil, why+"; the job goes on")}, true
}

// inBlock returns those of the nodes that are in the block of a node, or all if the topology
// does not say it. A block is a clique.
func (g *gateWait) inBlock(node string, nodes []string) []string {
	if len(nodes) == 0 {
		return nil
	}
	if g.block == nil {
		g.block = map[string]bool{}
		blocks, _ := readBlocks(g.h.env("SLURM_CONF"), g.h.env("SLURM_JOB_NODELIST"))
		for _, b := range blocks {
			of := map[string]bool{}
			if hostlist.Walk(b.nodes, func(name []byte) { of[string(name)] = true }) == nil && of[node] {
				g.block = of
			}
		}
	}
	if len(g.block) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return !g.block[name] })
}
