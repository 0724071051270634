package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// rackNodes are the nodes of a rack.
const rackNodes = 18

// racksOf are racks of 18 nodes that are known by the labels of their Nodes alone, which is all
// that a tool without an agent has.
func racksOf(n int) (*simulated.Cluster, error) {
	return simulated.Parse("site.yaml", fmt.Appendf(nil, `
groups:
  - racks: %d
    nodes: %d
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144}
`, n, rackNodes))
}

// cliqueLabel is the label of GPU Operator that names a node's NVLink domain.
const cliqueLabel = "nvidia.com/gpu.clique"

// lines counts the lines of topology.conf that change when the rack joins whose NVLink domain sorts first.
func lines(_ context.Context, o options) ([]figure, error) {
	c, err := racksOf(o.racks)
	if err != nil {
		return nil, err
	}
	compiled, err := publication.Compile([]publication.Publication{{Format: "conf"}}, nil)
	if err != nil {
		return nil, err
	}
	var all []inputs.Node
	for _, m := range c.Machines() {
		all = append(all, inputs.Node{Name: m.Name, Labels: m.Labels})
	}
	first := firstRack(all)
	count, prev := map[string]int{}, publisher.Previous{}
	for _, step := range []struct {
		nodes []inputs.Node
		add   int
	}{{slices.Concat(all[:first], all[first+rackNodes:]), -1}, {all, 1}} {
		made, err := publisher.Make(compiled[0], compiled[0].Rules.Gather(&inputs.Snapshot{Nodes: step.nodes}), prev)
		if err == nil && made.Refused != "" {
			err = fmt.Errorf("%s: %s", made.Refused, made.Message)
		}
		if err != nil {
			return nil, fmt.Errorf("publish %d nodes: %w", len(step.nodes), err)
		}
		for line := range strings.Lines(made.Files["topology.conf"]) {
			count[line] += step.add
		}
		prev = publisher.ReadPlan(compiled[0], &made.FilePlan)
	}
	changed := 0
	for n := range maps.Values(count) {
		changed += max(n, -n)
	}
	return []figure{{fmt.Sprintf("lines of topology.conf that change, %d racks: a rack joins that sorts first", o.racks), fmt.Sprint(changed)}}, nil
}

// firstRack is where the nodes of the rack begin whose NVLink domain sorts first.
func firstRack(nodes []inputs.Node) int {
	first := 0
	for i := range nodes {
		if nodes[i].Labels[cliqueLabel] < nodes[first].Labels[cliqueLabel] {
			first = i
		}
	}
	return first
}
