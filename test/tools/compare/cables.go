package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// cables counts the nodes that get a place below their leaf switch in a fabric of 139 nodes, of
// whose adapters 69 say no host name: whole, and with one cable out.
func cables(ctx context.Context, o options) ([]figure, error) {
	f := ibrig.New(ibrig.Shape{Seed: 139, Groups: 4, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 8, Aggregation: true})
	f.AddGroup(11)
	f.TakeNames(69)
	var figures []figure
	for _, what := range []string{"all cables in", "one cable out"} {
		if len(figures) == 1 {
			f.PullCable(f.Nodes[7].Adapters[3])
		}
		placed, err := placed(ctx, o.dir, f)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{"nodes with a place below the right leaf switch, of 139: " + what, fmt.Sprint(placed)})
	}
	return figures, nil
}

// placed reads a fabric, and counts the nodes whose leaf is that of their group and of no other.
func placed(ctx context.Context, dir string, f *ibrig.Fabric) (n int, err error) {
	texts, err := ibrig.Discover(ctx, dir, f)
	if err != nil {
		return 0, err
	}
	var read []*switches.Fabric
	for _, text := range texts {
		fabric, err := switches.Read(strings.NewReader(text))
		if err != nil {
			return 0, err
		}
		read = append(read, fabric)
	}
	var nodes []switches.Node
	for _, node := range f.Nodes {
		n := switches.Node{Name: node.Name}
		for _, a := range node.Adapters {
			n.Adapters = append(n.Adapters, switches.Adapter{GUIDs: []string{fmt.Sprintf("%016x", a.GUID), fmt.Sprintf("%016x", a.Port)}})
		}
		nodes = append(nodes, n)
	}
	leaves, groups := map[string]string{}, map[string]string{} // by each other
	tiers := switches.Place(read, nodes, nil).Tiers
	for _, node := range f.Nodes {
		if path := tiers[node.Name]; len(path) > 0 {
			if leaves[node.Group] == "" {
				leaves[node.Group] = path[0]
			}
			if groups[path[0]] == "" {
				groups[path[0]] = node.Group
			}
			if leaves[node.Group] == path[0] && groups[path[0]] == node.Group {
				n++
			}
		}
	}
	return n, nil
}
