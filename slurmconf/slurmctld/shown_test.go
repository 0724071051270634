package slurmctld

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
)

func TestParseShown(t *testing.T) {
	const text = `BlockName=nvl-1 BlockIndex=0 Nodes=n[001-018] BlockSize=18
BlockName=nvl-2 BlockIndex=1 BlockSize=18
AggregatedBlock=nvl-[1-2] BlockIndex=2 Nodes=n[001-018] BlockSize=36

`
	got, err := ParseShown("scontrol", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	topology := slurmconf.Topology{Name: "default", Default: true, Block: &slurmconf.BlockTopology{Sizes: []int{18, 36}, Blocks: []slurmconf.Block{{Name: "nvl-1", Nodes: "n[001-018]"}, {Name: "nvl-2"}}}}
	if diff := cmp.Diff(topology, got); diff != "" {
		t.Errorf("ParseShown (-want +got):\n%s", diff)
	}
	tree, err := ParseShown("scontrol", []byte("SwitchName=spine Level=1 LinkSpeed=0 Nodes=n[001-072] Switches=leaf[1-4]\nSwitchName=leaf1 Level=0 LinkSpeed=0 Nodes=n[001-018]\n"))
	if err != nil {
		t.Fatal(err)
	}
	topology = slurmconf.Topology{Name: "default", Default: true, Tree: &slurmconf.TreeTopology{Switches: []slurmconf.Switch{{Name: "spine", Children: "leaf[1-4]"}, {Name: "leaf1", Nodes: "n[001-018]"}}}}
	if diff := cmp.Diff(topology, tree); diff != "" {
		t.Errorf("Topology of a tree (-want +got):\n%s", diff)
	}
}

func TestParseShownErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Topology is flat\n":                    "scontrol:1: Topology: not known in the output",
		"BlockName=a BlockSize=x":               "scontrol:1: BlockSize: \"x\" is no number",
		"BlockName=a BlockSize=1\nNodes=n1 x=2": "scontrol:2: x=2: not known",
	} {
		_, err := ParseShown("scontrol", []byte(text))
		var parse *slurmconf.ParseError
		if !errors.As(err, &parse) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q gave %v, want a ParseError beginning with %q", text, err, want)
		}
	}
}

func FuzzShown(f *testing.F) {
	for _, s := range []string{"BlockName=nvl-1 BlockIndex=0 Nodes=n[001-018] BlockSize=18\nAggregatedBlock=nvl-[1-2] BlockIndex=2 Nodes=n[001-036] BlockSize=36\n", "SwitchName=spine Level=1 LinkSpeed=0 Nodes=n[001-072] Switches=leaf[1-4]\n", "BlockName=b Nodes=(null)", "SwitchName=s BlockIndex=1", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		topology, err := ParseShown("scontrol", data)
		if err != nil || topology.Flat {
			return
		}
		text, err := slurmconf.RenderConf(topology, "")
		if err != nil {
			return
		}
		back, err := slurmconf.ParseTopologies("topology.conf", text)
		if err != nil {
			return // sizes or keys that no file has
		}
		if topology.Block != nil && back[0].Block != nil && len(back[0].Block.Blocks) != len(topology.Block.Blocks) {
			t.Fatalf("%d blocks shown, %d read back of\n%s", len(topology.Block.Blocks), len(back[0].Block.Blocks), text)
		}
	})
}
