// Package slurmctld reads what Slurm says of itself: the output of scontrol show
// topology, and a slurm.conf with the files that it includes. CompareShown lists
// where Slurm's topology is not the one of a file.
//
// The package opens no file and starts no program: it is given texts, and a function
// that opens the included files.
package slurmctld

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// shownKeys are the words of scontrol's lines.
var shownKeys = []string{"BlockName", "AggregatedBlock", "SwitchName", "BlockIndex", "BlockSize", "Level", "LinkSpeed", "Nodes", "Switches"}

// ParseShown reads the output of `scontrol show topology` of any release as the
// topology "default". Blocks have the sizes that Slurm shows, and of switches only the
// leaves have nodes. Without a line the topology is flat. name stands for the output in
// messages. Errors are *slurmconf.ParseError.
func ParseShown(name string, data []byte) (slurmconf.Topology, error) {
	t := slurmconf.Topology{Name: slurmconf.ConfTopology, Default: true}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		fail := func(word, message string) (slurmconf.Topology, error) {
			return slurmconf.Topology{}, &slurmconf.ParseError{File: name, Line: number, Key: word, Message: message}
		}
		values := map[string]string{}
		for word := range strings.FieldsSeq(line) {
			key, value, ok := strings.Cut(word, "=")
			if !ok || !slices.Contains(shownKeys, key) {
				return fail(word, "not known in the output of `scontrol show topology`: want lines of BlockName=, AggregatedBlock= or SwitchName=")
			}
			values[key] = strings.TrimPrefix(value, "(null)")
		}
		block, isBlock := values["BlockName"]
		_, isAggregate := values["AggregatedBlock"]
		if isBlock || isAggregate {
			if t.Block == nil {
				t.Block = &slurmconf.BlockTopology{}
			}
			size, err := strconv.Atoi(values["BlockSize"])
			if err != nil {
				return fail("BlockSize", fmt.Sprintf("%q is no number", values["BlockSize"]))
			}
			if n := len(t.Block.Sizes); n == 0 || size > t.Block.Sizes[n-1] {
				t.Block.Sizes = append(t.Block.Sizes, size)
			}
		}
		if isBlock {
			t.Block.Blocks = append(t.Block.Blocks, slurmconf.Block{Name: block, Nodes: values["Nodes"]})
		}
		if sw := values["SwitchName"]; sw != "" {
			addSwitch(&t, slurmconf.Switch{Name: sw, Nodes: values["Nodes"], Children: values["Switches"]})
		}
	}
	t.Flat = t.Block == nil && t.Tree == nil
	return t, nil
}

// addSwitch adds a shown switch, which has the nodes of all leaves below it.
func addSwitch(t *slurmconf.Topology, s slurmconf.Switch) {
	if s.Children != "" {
		s.Nodes = ""
	}
	if t.Tree == nil {
		t.Tree = &slurmconf.TreeTopology{}
	}
	t.Tree.Switches = append(t.Tree.Switches, s)
}
