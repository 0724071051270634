package slurmctld

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
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
	want := topology.Topology{Name: "default", Default: true, Kind: "block", Sizes: []int{18, 36}, Blocks: []topology.Block{{Name: "nvl-1", Nodes: hosts.In("n[001-018]")}, {Name: "nvl-2"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseShown (-want +got):\n%s", diff)
	}
	tree, err := ParseShown("scontrol", []byte("SwitchName=spine Level=1 LinkSpeed=0 Nodes=n[001-072] Switches=leaf[1-4]\nSwitchName=leaf1 Level=0 LinkSpeed=0 Nodes=n[001-018]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want = topology.Topology{Name: "default", Default: true, Kind: "tree", Switches: []topology.Switch{{Name: "spine", Children: hosts.In("leaf[1-4]")}, {Name: "leaf1", Nodes: hosts.In("n[001-018]")}}}
	if diff := cmp.Diff(want, tree); diff != "" {
		t.Errorf("Topology of a tree (-want +got):\n%s", diff)
	}
	for text, kind := range map[string]string{"RingName=r Nodes=n[1-4] RingSize=4\n": "ring", "TorusName=t Dims=2x2x2 Nodes=n[1-8]\n  TorusName=t PlacementDims=2x1x1(2) Anchors=8\n": "torus3d"} {
		if other, err := ParseShown("scontrol", []byte(text)); err != nil || other.Kind != kind {
			t.Errorf("%q is of kind %q (%v), want %s", text, other.Kind, err, kind)
		}
	}
}

func TestParseShownErrors(t *testing.T) {
	for text, want := range map[string]string{
		"Topology is flat\n":                                  "scontrol:1: Topology: not known in the output",
		"BlockName=a BlockSize=x":                             "scontrol:1: BlockSize: \"x\" is no number",
		"BlockName=a BlockSize=1\nNodes=n1 x=2":               "scontrol:2: x=2: not known",
		"BlockName=a Nodes=n[1- BlockSize=1":                  "scontrol:1: Nodes: host list \"n[1-\"",
		"SwitchName=s Switches=l[1-":                          "scontrol:1: Switches: host list \"l[1-\"",
		strings.Repeat("SwitchName=s Nodes=n[1-65536]\n", 17): "scontrol:17: Nodes: more than 1048576 names in one topology",
	} {
		_, err := ParseShown("scontrol", []byte(text))
		var parse *syntax.ParseError
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
		if !small(data) {
			return
		}
		shown, err := ParseShown("scontrol", data)
		if err != nil || shown.Kind == "flat" {
			return
		}
		text, err := slurmconf.RenderConf(shown, "")
		if err != nil {
			return
		}
		back, err := slurmconf.ParseTopologies("topology.conf", text)
		if err != nil {
			return // sizes or keys that no file has
		}
		if back[0].Kind == shown.Kind && len(back[0].Blocks) != len(shown.Blocks) {
			t.Fatalf("%d blocks shown, %d read back of\n%s", len(shown.Blocks), len(back[0].Blocks), text)
		}
	})
}
