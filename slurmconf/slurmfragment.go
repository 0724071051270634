package slurmconf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// SlurmNodesFile is the usual name of a fragment of slurm.conf.
const SlurmNodesFile = "slurm-nodes.conf"

// Fragment is what a slurm.conf with static nodes needs to go with the other
// files.
type Fragment struct {
	Facts []topology.Facts
	// Gres are the lines of gres.conf. Their devices are what Gres= counts.
	Gres []GresLine
	// GresOptions are those that Gres was made with. They name the GPUs of nodes that
	// detect them.
	GresOptions GresOptions
	// Plugin is what reads topology.conf, empty with topology.yaml.
	Plugin Plugin
	// Topologies are those of topology.yaml, empty with topology.conf.
	Topologies []Topology
	// MultiNodeNVLink says that NVLink domains span nodes: their jobs need IMEX.
	MultiNodeNVLink bool
	// Was is what a fragment of before says of the nodes, as ParseFragment reads it.
	// It stays where the facts do not say now.
	Was map[string]FragmentNode
}

// fragmentHeader says how to use the file.
const fragmentHeader = `Include this file in slurm.conf. What it does not say of the nodes, such as
RealMemory, belongs on a line NodeName=DEFAULT before it.`

// Render writes the fragment: every node with GPUs, and every other one whose
// processors are known. Alike nodes are on one line. header becomes comment
// lines.
func (f *Fragment) Render(header string) ([]byte, error) {
	nodes, err := f.nodes()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	commentLines(&b, strings.TrimPrefix(header+"\n"+fragmentHeader, "\n"))
	if len(f.Gres) > 0 {
		b.WriteString("GresTypes=gpu\n")
	}
	if f.Plugin == PluginBlock || f.Plugin == PluginTree {
		fmt.Fprintf(&b, "TopologyPlugin=topology/%s\n", f.Plugin)
	}
	if f.MultiNodeNVLink {
		parameters := "imex_channel_count=2048"
		if major, ok := f.channelMajor(); ok {
			parameters += fmt.Sprintf(",imex_dev_major=%d", major)
		}
		commentLines(&b, "For jobs that use NVLink between nodes (no job may run while SwitchType changes):\nSwitchType=switch/nvidia_imex\nSwitchParameters="+parameters)
	}
	if err := writeFragmentNodes(&b, nodes); err != nil {
		return nil, err
	}
	if err := f.writePartitions(&b); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}

// writeFragmentNodes writes the lines NodeName, each at its first node.
func writeFragmentNodes(b *strings.Builder, nodes map[string]FragmentNode) error {
	names := make([]string, 0, len(nodes))
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	ordered, err := hostlist.Expand(hostlist.Compress(names))
	if err != nil {
		return fmt.Errorf("write %s: %w", SlurmNodesFile, err)
	}
	groups, order := map[FragmentNode][]string{}, []FragmentNode(nil)
	for _, name := range ordered {
		n := nodes[name]
		if groups[n] == nil {
			order = append(order, n)
		}
		groups[n] = append(groups[n], name)
	}
	for _, n := range order {
		fmt.Fprintf(b, "NodeName=%s%s\n", hostlist.Compress(groups[n]), n)
	}
	return nil
}

// writePartitions says in comments, for every topology of topology.yaml, how the
// line of a partition looks whose jobs are placed by it.
func (f *Fragment) writePartitions(b *strings.Builder) error {
	if len(f.Topologies) == 0 {
		return nil
	}
	commentLines(b, "Partitions choose a topology by its name, and have the default without one:")
	for i := range f.Topologies {
		t := &f.Topologies[i]
		nodes, err := f.nodesIn(t)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("PartitionName=%s Nodes=%s Topology=%s", t.Name, nodes, t.Name)
		if t.Default {
			line += " # the default"
		}
		commentLines(b, line)
	}
	return nil
}

// nodesIn is the host list of all nodes that a topology holds. A flat one holds
// every node.
func (f *Fragment) nodesIn(t *Topology) (string, error) {
	held, err := places(*t)
	if err != nil {
		return "", fmt.Errorf("write %s: topology %s: %w", SlurmNodesFile, t.Name, err)
	}
	names := make([]string, 0, len(held))
	for name := range held {
		names = append(names, name)
	}
	for i := range f.Facts {
		if t.Flat {
			names = append(names, f.Facts[i].SlurmName)
		}
	}
	return hostlist.Compress(names), nil
}

// channelMajor returns the device major of IMEX channels where all nodes that
// report one have the same.
func (f *Fragment) channelMajor() (major int, ok bool) {
	var seen []int
	for i := range f.Facts {
		if r := f.Facts[i].Report; r != nil && r.IMEX != nil && r.IMEX.ChannelMajor != nil && !slices.Contains(seen, *r.IMEX.ChannelMajor) {
			seen = append(seen, *r.IMEX.ChannelMajor)
		}
	}
	if len(seen) != 1 {
		return 0, false
	}
	return seen[0], true
}
