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

// site is a published site.
type site struct {
	pub   *publication.Cluster
	nodes []inputs.Node
	prev  publisher.Previous
	text  string
}

// publish makes the files for these nodes. It goes on from what is published.
func (s *site) publish(nodes []inputs.Node) (text string, prev publisher.Previous, err error) {
	made, err := publisher.Make(s.pub, s.pub.Rules.Gather(&inputs.Snapshot{Nodes: nodes}), s.prev)
	if err != nil {
		return "", prev, fmt.Errorf("publish %d nodes: %w", len(nodes), err)
	}
	if made.Refused != "" {
		return "", prev, fmt.Errorf("publish %d nodes: %s: %s", len(nodes), made.Refused, made.Message)
	}
	return made.Files["topology.conf"], publisher.ReadPlan(s.pub, &made.Stored), nil
}

// start publishes the first files.
func (s *site) start(nodes []inputs.Node) (err error) {
	s.prev, s.nodes = publisher.Previous{}, nodes
	s.text, s.prev, err = s.publish(nodes)
	return err
}

// changed is how many lines the next file takes away from the published one, and adds to it.
func (s *site) changed(nodes []inputs.Node) (int, error) {
	text, _, err := s.publish(nodes)
	if err != nil {
		return 0, err
	}
	count := map[string]int{}
	for line := range strings.Lines(s.text) {
		count[line]--
	}
	for line := range strings.Lines(text) {
		count[line]++
	}
	n := 0
	for c := range maps.Values(count) {
		n += max(c, -c)
	}
	return n, nil
}

// lines counts the lines of topology.conf that change when racks and nodes come and go.
func lines(_ context.Context, o options) ([]figure, error) {
	c, err := racksOf(o.racks)
	if err != nil {
		return nil, err
	}
	compiled, err := publication.Compile([]publication.Publication{{Format: "conf"}}, nil)
	if err != nil {
		return nil, err
	}
	s := &site{pub: compiled[0]}
	var all []inputs.Node
	for _, m := range c.Machines() {
		all = append(all, inputs.Node{Name: m.Name, Labels: m.Labels})
	}
	first := firstRack(all)
	others := slices.Concat(all[:first], all[first+rackNodes:])
	if err := s.start(others); err != nil {
		return nil, err
	}
	comes, err := s.changed(all)
	if err != nil {
		return nil, err
	}
	if err := s.start(all); err != nil {
		return nil, err
	}
	figures := []figure{{fmt.Sprintf("lines of topology.conf that change, %d racks: a rack comes that sorts first", o.racks), fmt.Sprint(comes)}}
	for _, event := range []struct {
		what  string
		nodes []inputs.Node
	}{
		{"two racks say an NVLink domain of zeros", zeros(all, 2*rackNodes)},
		{"a whole rack is gone", others},
		{"one node is gone", all[1:]},
	} {
		n, err := s.changed(event.nodes)
		if err != nil {
			return nil, err
		}
		figures = append(figures, figure{"  " + event.what, fmt.Sprint(n)})
	}
	return figures, nil
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

// zeros has the first n nodes say an NVLink domain of zeros.
func zeros(nodes []inputs.Node, n int) []inputs.Node {
	changed := slices.Clone(nodes)
	for i := range n {
		changed[i].Labels = maps.Clone(changed[i].Labels)
		changed[i].Labels[cliqueLabel] = "00000000-0000-0000-0000-000000000000.0"
	}
	return changed
}
