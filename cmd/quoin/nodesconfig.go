package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/imex/local"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// addressesOf returns the addresses of nodes, by name: the name in Kubernetes, or without it
// the name in Slurm.
type addressesOf func(ctx context.Context, nodes []string) (map[string]netip.Addr, error)

// printNodesConfig prints the nodes_config.cfg of nvidia-imex for a clique of the published plan:
// the address of each of its nodes, in order, so that it is the same wherever it is made. With
// dir it writes the file there, and beside it the nodes' names in Slurm, which the gate of jobs
// needs: nvidia-imex does not know the name of a node that is down.
func printNodesConfig(ctx context.Context, w io.Writer, d *plandoc.Document, clique, dir string, addresses addressesOf) error {
	nodes, err := nodesOf(&d.Current.Plan.Plan, clique)
	if err != nil {
		return err
	}
	known, err := addresses(ctx, slices.Sorted(maps.Keys(nodes)))
	if err != nil {
		return err
	}
	names, by := make(map[netip.Addr]string, len(known)), make(map[netip.Addr]string, len(known))
	for _, node := range slices.Sorted(maps.Keys(known)) {
		if other, taken := by[known[node]]; taken {
			return fmt.Errorf("nodes %s and %s have one address, %s: want one for each node", other, node, known[node])
		}
		by[known[node]], names[known[node]] = node, nodes[node]
	}
	list, named := local.FormatNodes(names)
	if dir == "" {
		_, err := w.Write(list)
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{local.NamesFile, named}, {local.NodesFile, list}} {
		path := filepath.Join(dir, f.name)
		if err := atomicfile.WriteDurably(path, f.data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if _, err := fmt.Fprintln(w, "wrote", path); err != nil {
			return err
		}
	}
	return nil
}

// maxNames bounds the blocks that an error names.
const maxNames = 8

// nodesOf returns the nodes of a clique's block: their names in Slurm, by those in Kubernetes.
// The block's own name does too.
func nodesOf(p *topology.Plan, clique string) (map[string]string, error) {
	wanted := []string{clique}
	if parsed, err := topology.ParseClique(clique); err == nil {
		candidates := parsed.BlockNames()
		wanted = candidates[:]
	}
	var there []string
	for i := range p.Topologies {
		for _, b := range p.Topologies[i].Blocks {
			if !topology.IsCliqueBlock(b.Name) || len(b.Nodes) == 0 {
				continue
			}
			there = append(there, b.Name)
			if slices.Contains(wanted, b.Name) {
				return nodesIn(p, b.Nodes), nil
			}
		}
	}
	slices.Sort(there)
	there = slices.Compact(there)
	if len(there) == 0 {
		return nil, fmt.Errorf("--clique %s: the published plan has no block of a clique: quoin plan show lists its blocks", clique)
	}
	more := ""
	if len(there) > maxNames {
		there, more = there[:maxNames], fmt.Sprintf(" and %d more", len(there)-maxNames)
	}
	return nil, fmt.Errorf("--clique %s: no block of the published plan: want a clique as quoin discover prints it on a node, or one of the blocks %s%s", clique, strings.Join(there, ", "), more)
}

// nodesIn returns nodes that have these names in Slurm, by their names in Kubernetes.
func nodesIn(p *topology.Plan, names []string) map[string]string {
	other := make(map[string]string, len(p.Nodes))
	for i := range p.Nodes {
		other[p.Nodes[i].SlurmName] = p.Nodes[i].Node
	}
	nodes := make(map[string]string, len(names))
	for _, name := range names {
		nodes[cmp.Or(other[name], name)] = name
	}
	return nodes
}
