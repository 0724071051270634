package slurmconf

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// small keeps fuzzed host lists from growing to millions of names.
func small(data []byte) bool { return len(data) < 2000 && !fiveDigits.Match(data) }

var fiveDigits = regexp.MustCompile(`\d{5}`)

// inOrder has all names in the order of a written list, each once.
func inOrder(topologies []topology.Topology) []topology.Topology {
	ordered := func(names topology.Names) topology.Names { return hosts.In(hostlist.Compress(names)) }
	for i := range topologies {
		t := &topologies[i]
		for k := range t.Blocks {
			t.Blocks[k].Nodes = ordered(t.Blocks[k].Nodes)
		}
		for k := range t.Switches {
			t.Switches[k].Nodes, t.Switches[k].Children = ordered(t.Switches[k].Nodes), ordered(t.Switches[k].Children)
		}
	}
	return topologies
}

func FuzzTopologyConf(f *testing.F) {
	for _, s := range []string{blockConf, treeConf, "", "BlockSizes=4\n", "BlockName=\"a b\" Nodes= n1 \\\n# x\nblocksizes += 4,8", "SwitchName=s\nSwitchName=t Switches=s,t", "Include x\n", "BlockName=a[1 Nodes=n1]\nBlockName=b", `BlockName=a\#b Nodes=n1`, "BlockName=a Nodes=n[1z-3],block{a}\nBlockName=b Nodes=r[x]s[1]n[1]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := ParseTopologies("topology.conf", data)
		if err != nil {
			return
		}
		text, err := RenderConf(first[0], "")
		if err != nil {
			return // a name that Slurm would take and we do not write
		}
		second, err := ParseTopologies("topology.conf", text)
		if err != nil {
			t.Fatalf("ParseTopologies of what RenderConf wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(inOrder(first), second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
		if _, err := RenderConf(Skeleton(first[0]), ""); err != nil {
			t.Fatalf("RenderConf of the Skeleton: %v", err)
		}
	})
}

func FuzzTopologyYAML(f *testing.F) {
	for _, s := range []string{bothYAML, "", "[]", "topology: a\nflat: {}\n", "- topology: a\n  block: {block_sizes: 0x4, blocks: {block: b, nodes: }}\n", "- &a [*a]\n", "- ? [x]\n  : y\n", "- topology: !!binary aGk=\n  flat: yes\n", "- topology: |\n    a\n  tree: {switches: [{switch: s, nodes: n1, children: t}]}\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !small(data) {
			return
		}
		first, err := ParseTopologies("topology.yaml", data)
		if err != nil {
			return
		}
		text, err := RenderYAML(first, "a header")
		if err != nil {
			return
		}
		second, err := ParseTopologies("topology.yaml", text)
		if err != nil {
			t.Fatalf("ParseTopologies of what RenderYAML wrote: %v\n%s", err, text)
		}
		if diff := cmp.Diff(inOrder(first), second); diff != "" {
			t.Fatalf("(-first +second):\n%s\nof\n%s", diff, text)
		}
	})
}
