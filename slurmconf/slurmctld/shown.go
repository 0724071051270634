// Package slurmctld reads what Slurm says of itself: the answers of scontrol and slurmrestd
// about nodes, jobs, reservations and topologies, and a slurm.conf with the files that it
// includes. CompareShown lists where Slurm's topology is not the one of a file.
//
// The package is pure: it is given texts, and a function that opens the included files.
// An answer is read as a stream and within bounds. Package client asks.
package slurmctld

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// shownKeys are the words of scontrol's lines about blocks and switches.
var shownKeys = []string{"BlockName", "AggregatedBlock", "SwitchName", "BlockIndex", "BlockSize", "Level", "LinkSpeed", "Nodes", "Switches"}

// ParseShown reads the output of `scontrol show topology` of any release as the
// topology "default". Blocks have the sizes that Slurm shows, and of switches only the
// leaves have nodes. Without a line the topology is flat. Of another kind, such as a ring, nothing but
// the kind is read. name stands for the output in messages. Errors are *syntax.ParseError.
func ParseShown(name string, data []byte) (topology.Topology, error) {
	t := topology.Topology{Name: topology.ConfTopology, Default: true, Kind: topology.KindFlat}
	number, names := 0, 0
	for line := range strings.Lines(string(data)) {
		number++
		fail := func(word, message string) (topology.Topology, error) {
			return topology.Topology{}, &syntax.ParseError{File: name, Line: number, Key: word, Message: message}
		}
		first, _, _ := strings.Cut(strings.TrimSpace(line), "=")
		if kind := slurmconf.KindOfLine(first); kind != "" && kind != topology.KindBlock && kind != topology.KindTree {
			t.Kind = kind
			continue
		}
		values := map[string]string{}
		for word := range strings.FieldsSeq(line) {
			key, value, ok := strings.Cut(word, "=")
			if !ok || !slices.Contains(shownKeys, key) {
				return fail(word, "not known in the output of `scontrol show topology`: want lines of BlockName=, AggregatedBlock= or SwitchName=")
			}
			values[key] = strings.TrimPrefix(value, "(null)")
		}
		nodes, err := hostlist.Expand(values["Nodes"])
		if err != nil {
			return fail("Nodes", err.Error())
		}
		children, err := hostlist.Expand(values["Switches"])
		if err != nil {
			return fail("Switches", err.Error())
		}
		if names += len(nodes) + len(children); names > hostlist.MaxHosts {
			return fail("Nodes", fmt.Sprintf("more than %d names in one topology: no site is so large", hostlist.MaxHosts))
		}
		block, isBlock := values["BlockName"]
		_, isAggregate := values["AggregatedBlock"]
		if isBlock || isAggregate {
			t.Kind = topology.KindBlock
			size, err := strconv.Atoi(values["BlockSize"])
			if err != nil {
				return fail("BlockSize", fmt.Sprintf("%q is no number", values["BlockSize"]))
			}
			if n := len(t.Sizes); n == 0 || size > t.Sizes[n-1] {
				t.Sizes = append(t.Sizes, size)
			}
		}
		if isBlock {
			t.Blocks = append(t.Blocks, topology.Block{Name: block, Nodes: nodes})
		}
		if sw := values["SwitchName"]; sw != "" {
			if t.Kind = topology.KindTree; len(children) > 0 {
				nodes = nil // those of all leaves below it
			}
			t.Switches = append(t.Switches, topology.Switch{Name: sw, Nodes: nodes, Children: children})
		}
	}
	return t, nil
}
