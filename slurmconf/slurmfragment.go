package slurmconf

import (
	"fmt"
	"slices"
	"strings"

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
	// Plugin is what reads topology.conf, empty with topology.yaml.
	Plugin Plugin
	// MultiNodeNVLink says that NVLink domains span nodes: their jobs need IMEX.
	MultiNodeNVLink bool
}

// fragmentHeader says how to use the file.
const fragmentHeader = `Include this file in slurm.conf. What it does not say of the nodes, such as
RealMemory, belongs on a line NodeName=DEFAULT before it.`

// Render writes the fragment: every node with GPUs, and every other one whose
// processors are known. Alike nodes are on one line. header becomes comment
// lines.
func (f *Fragment) Render(header string) ([]byte, error) {
	lines, err := GresByNode(f.Gres)
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
	names := make([]string, 0, len(f.Facts))
	words := make(map[string]string, len(f.Facts))
	for i := range f.Facts {
		node := &f.Facts[i]
		if w := nodeWords(node, lines[node.SlurmName]); w != "" {
			words[node.SlurmName], names = w, append(names, node.SlurmName)
		}
	}
	groups, order := map[string][]string{}, []string(nil)
	ordered, err := ExpandHostlist(CompressHostlist(names))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", SlurmNodesFile, err)
	}
	for _, name := range ordered {
		w := words[name]
		if groups[w] == nil {
			order = append(order, w)
		}
		groups[w] = append(groups[w], name)
	}
	for _, w := range order {
		fmt.Fprintf(&b, "NodeName=%s%s\n", CompressHostlist(groups[w]), w)
	}
	return []byte(b.String()), nil
}

// nodeWords are what follows on a node's line, empty for a node that the
// fragment leaves out.
func nodeWords(f *topology.Facts, lines []GresLine) string {
	words := ""
	if f.Report != nil {
		if shape, _ := shapeOf(f.Report.Sockets); shape.sockets > 0 {
			words = fmt.Sprintf(" Sockets=%d CoresPerSocket=%d ThreadsPerCore=%d", shape.sockets, shape.cores, shape.threads)
		}
	}
	if gres := slurmGres(f, lines); gres != "" {
		words += " Gres=" + gres
	}
	return words
}

// slurmGres is the node's Gres= in slurm.conf. Of GPUs that slurmd detects the
// type is left out, for it is not known what it will be.
func slurmGres(f *topology.Facts, lines []GresLine) string {
	if len(lines) > 0 && lines[0].Name == "" {
		return fmt.Sprintf("gpu:%d", f.GPUCount())
	}
	counts := map[string]int{}
	var types []string
	for _, l := range lines {
		if counts[l.Type] == 0 {
			types = append(types, l.Type)
		}
		counts[l.Type] += devices([]GresLine{l})
	}
	for i, t := range types {
		types[i] = fmt.Sprintf("gpu:%s:%d", t, counts[t])
	}
	return strings.Join(types, ",")
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
