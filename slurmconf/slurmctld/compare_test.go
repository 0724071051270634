package slurmctld_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

func TestCompareShown(t *testing.T) {
	const blocks = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2\nBlockName=b3 Nodes=n[3-4]\nBlockSizes=2\n"
	const tree = "SwitchName=l1 Nodes=n[1-2]\nSwitchName=l2 Nodes=n[3-4]\nSwitchName=s Switches=l[1-2]\n"
	tests := []struct {
		name, file, shown string
		want              []string
	}{
		{"same", blocks, "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\nBlockName=b3 BlockIndex=2 Nodes=n[3-4] BlockSize=2\n", nil},
		{"a node elsewhere, and one nowhere", blocks, "BlockName=b1 BlockIndex=0 Nodes=n[1,3] BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\nBlockName=b3 BlockIndex=2 Nodes=n4 BlockSize=2\n",
			[]string{"node n2: block b1 in the file, absent in Slurm", "node n3: block b3 in the file, block b1 in Slurm"}},
		{"other order and size", blocks, "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=4\nBlockName=b3 BlockIndex=1 Nodes=n[3-4] BlockSize=4\nBlockName=b2 BlockIndex=2 BlockSize=4\n",
			[]string{"base block size: 2 in the file, 4 in Slurm", "block at place 1: b2 in the file, b3 in Slurm", "block at place 2: b3 in the file, b2 in Slurm"}},
		{"other names", blocks, "BlockName=r1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\nBlockName=r3 BlockIndex=2 Nodes=n[3-4] BlockSize=2\n",
			[]string{"the same groups under other names: r1 = b1, r3 = b3"}},
		{"another name and another order", blocks, "BlockName=b2 BlockIndex=0 BlockSize=2\nBlockName=b3 BlockIndex=1 Nodes=n[3-4] BlockSize=2\nBlockName=r1 BlockIndex=2 Nodes=n[1-2] BlockSize=2\n",
			[]string{"the same groups under other names: r1 = b1", "block at place 0: b1 in the file, b2 in Slurm", "block at place 1: b2 in the file, b3 in Slurm", "block at place 2: b3 in the file, b1 in Slurm"}},
		{"half of the nodes under another name", blocks, "BlockName=r1 BlockIndex=0 Nodes=n1 BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\nBlockName=b3 BlockIndex=2 Nodes=n[3-4] BlockSize=2\n",
			[]string{"node n1: block b1 in the file, block r1 in Slurm", "node n2: block b1 in the file, absent in Slurm", "block at place 0: b1 in the file, r1 in Slurm"}},
		{"a name that the file gives to others", blocks, "BlockName=b3 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\nBlockName=b1 BlockIndex=2 Nodes=n[3-4] BlockSize=2\n",
			[]string{"node n1: block b1 in the file, block b3 in Slurm", "node n2: block b1 in the file, block b3 in Slurm", "node n3: block b3 in the file, block b1 in Slurm", "node n4: block b3 in the file, block b1 in Slurm",
				"block at place 0: b1 in the file, b3 in Slurm", "block at place 2: b3 in the file, b1 in Slurm"}},
		{"leaves under other names", tree, "SwitchName=s Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=ib[1-2]\nSwitchName=ib1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=ib2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n",
			[]string{"the same groups under other names: ib1 = l1, ib2 = l2"}},
		{"same tree", tree, "SwitchName=s Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\nSwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n", nil},
		{"a file without nodes", "BlockName=b1\nBlockName=b2\nBlockSizes=2\n", "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 BlockSize=2\n", nil},
		{"a file without nodes, and another block", "BlockName=b1\nBlockName=b2\nBlockSizes=2\n", "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b3 BlockIndex=1 Nodes=n3 BlockSize=2\n",
			[]string{"block at place 1: b2 in the file, b3 in Slurm"}},
		{"a tree without nodes", "SwitchName=l1\nSwitchName=s Switches=l1\n", "SwitchName=s Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l1\nSwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-4]\n", nil},
		{"a switch less", tree, "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n", []string{"switch s: present in the file, absent in Slurm"}},
		{"blocks for a tree", tree, "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n",
			[]string{"node n1: switch l1 in the file, block b1 in Slurm", "node n2: switch l1 in the file, block b1 in Slurm", "node n3: switch l2 in the file, block b1 in Slurm",
				"node n4: switch l2 in the file, block b1 in Slurm", "topology: tree in the file, block in Slurm"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, compareShown(t, tt.shown, "topology.conf", tt.file)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompareOneOfTwo has Slurm show the second of two block topologies.
func TestCompareOneOfTwo(t *testing.T) {
	const file = "- topology: large\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: a1, nodes: 'n[5-6]'}\n" +
		"- topology: small\n  cluster_default: false\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n      - {block: b2, nodes: 'n[3-4]'}\n"
	const shown = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2\n"
	if diff := cmp.Diff([]string(nil), compareShown(t, shown, "topology.yaml", file)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompareFurtherSizes has Slurm show three blocks, one of them empty.
func TestCompareFurtherSizes(t *testing.T) {
	const blocks = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2\nBlockName=b3 Nodes=n[3-4]\n"
	const base = "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes= BlockSize=2\nBlockName=b3 BlockIndex=2 Nodes=n[3-4] BlockSize=2\n"
	const pairs = "AggregatedBlock=b[1-2] BlockIndex=3 Nodes=n[1-2] BlockSize=4\n"
	const all = "AggregatedBlock=b[1-3] BlockIndex=4 Nodes=n[1-4] BlockSize=8\n"
	tests := []struct {
		name, sizes, shown string
		want               []string
	}{
		{"same", "2,4,8", base + pairs + all, nil},
		{"same, in another order and twice", "2,8,4,4", base + pairs + all, nil},
		{"no further ones", "2", base, nil},
		{"no sizes in the file, so that Slurm chooses", "", base + pairs + all, nil},
		{"too large to be shown", "2,4,8,16,32", base + pairs + all, nil},
		{"one less in Slurm", "2,4,8", base + pairs, []string{"further block sizes: 4,8 in the file, 4 in Slurm"}},
		{"one more in Slurm", "2,8", base + pairs + all, []string{"further block sizes: 8 in the file, 4,8 in Slurm"}},
		{"none in Slurm", "2,4,8", base, []string{"further block sizes: 4,8 in the file, none in Slurm"}},
		{"none in the file", "2", base + pairs, []string{"further block sizes: none in the file, 4 in Slurm"}},
		{"a larger one in Slurm", "2,4,8,16", base + pairs + strings.Replace(all, "BlockSize=8", "BlockSize=16", 1), []string{"further block sizes: 4,8 in the file, 4,16 in Slurm"}},
		{"another base too", "1,2,8", base + pairs + all, []string{"base block size: 1 in the file, 2 in Slurm", "further block sizes: 2,8 in the file, 4,8 in Slurm"}},
		{"a block less in Slurm", "2,4,8", strings.Join(strings.SplitAfter(base, "\n")[:2], "") + pairs,
			[]string{"node n3: block b3 in the file, absent in Slurm", "node n4: block b3 in the file, absent in Slurm", "block at place 2: b3 in the file, absent in Slurm"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf, yaml := blocks, ""
			if tt.sizes != "" {
				conf, yaml = blocks+"BlockSizes="+tt.sizes+"\n", "    block_sizes: ["+tt.sizes+"]\n"
			}
			yaml = "- topology: nvl\n  cluster_default: true\n  block:\n" + yaml + "    blocks:\n      - {block: b1, nodes: 'n[1-2]'}\n      - {block: b2}\n      - {block: b3, nodes: 'n[3-4]'}\n"
			for name, file := range map[string]string{"topology.conf": conf, "topology.yaml": yaml} {
				if diff := cmp.Diff(tt.want, compareShown(t, tt.shown, name, file)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

// compareShown returns the differences as lines. There are four nodes.
func compareShown(t *testing.T, text, name, file string) []string {
	t.Helper()
	shown, err := slurmctld.ParseShown("shown", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	topologies, err := slurmconf.ParseTopologies(name, []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	differences, nodes := slurmctld.CompareShown(shown, slurmctld.Like(shown, topologies))
	want := 4
	if !strings.Contains(strings.ToLower(file), "nodes") {
		want = 0
	}
	if nodes != want {
		t.Fatalf("%d nodes", nodes)
	}
	var lines []string
	for _, d := range differences {
		what := d.What
		if d.Node != "" {
			what = "node " + d.Node
		}
		lines = append(lines, what+": "+d.Finding().Message)
	}
	return lines
}

// TestCompareTheTree has Slurm show the tree of a file whose default topology is of blocks.
func TestCompareTheTree(t *testing.T) {
	const file = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [2]\n    blocks:\n      - {block: b1, nodes: 'n[5-6]'}\n" +
		"- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - {switch: l1, nodes: 'n[1-2]'}\n      - {switch: l2, nodes: 'n[3-4]'}\n      - {switch: s, children: 'l[1-2]'}\n"
	const shown = "SwitchName=s Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\nSwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n"
	if diff := cmp.Diff([]string(nil), compareShown(t, shown, "topology.yaml", file)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
