package slurmconf_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
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
			[]string{"node n2: the file says block b1, Slurm has nowhere", "node n3: the file says block b3, Slurm has block b1"}},
		{"other order and size", blocks, "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=4\nBlockName=b3 BlockIndex=1 Nodes=n[3-4] BlockSize=4\nBlockName=b2 BlockIndex=2 BlockSize=4\n",
			[]string{"base block size: the file says 2, Slurm has 4", "block at place 1: the file says b2, Slurm has b3", "block at place 2: the file says b3, Slurm has b2"}},
		{"same tree", tree, "SwitchName=s Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=l[1-2]\nSwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n", nil},
		{"a switch less", tree, "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=n[1-2]\nSwitchName=l2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n", []string{"switch s: the file says it is there, Slurm has nowhere"}},
		{"blocks for a tree", tree, "BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4\n",
			[]string{"node n1: the file says switch l1, Slurm has block b1", "node n2: the file says switch l1, Slurm has block b1", "node n3: the file says switch l2, Slurm has block b1",
				"node n4: the file says switch l2, Slurm has block b1", "topology: the file says tree, Slurm has block"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shown, err := slurmconf.ParseShown("shown", []byte(tt.shown))
			if err != nil {
				t.Fatal(err)
			}
			differences, nodes, err := slurmconf.CompareShown(shown, "topology.conf", []byte(tt.file))
			if err != nil || nodes != 4 {
				t.Fatalf("%d nodes, %v", nodes, err)
			}
			var got []string
			for _, d := range differences {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, _, err := slurmconf.CompareShown(slurmconf.Shown{}, "topology.conf", []byte("BlockName=a Nods=1\n")); err == nil || !strings.HasPrefix(err.Error(), "topology.conf:1:") {
		t.Errorf("error %v", err)
	}
}
