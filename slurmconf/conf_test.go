package slurmconf

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// twoTopologies are blocks with a placeholder, and a tree.
func twoTopologies() []topology.Topology {
	return []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{18, 36}, Blocks: []topology.Block{{Name: "nvl-1", Nodes: hosts.In("n[001-018]")}, {Name: "nvl-2"}, {Name: "nvl-3", Nodes: hosts.In("n[037-054],x9")}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "spine", Children: hosts.In("leaf[1-2]")}, {Name: "leaf1", Nodes: hosts.In("n[001-018]")}, {Name: "leaf2", Nodes: hosts.In("n[019-036]")}}},
	}
}

const (
	blockConf = "# made for\n# a test\nBlockName=nvl-1 Nodes=n[001-018]\nBlockName=nvl-2\nBlockName=nvl-3 Nodes=n[037-054],x9\nBlockSizes=18,36\n"
	treeConf  = "SwitchName=spine Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=n[001-018]\nSwitchName=leaf2 Nodes=n[019-036]\n"
	bothYAML  = "# made for\n# a test\n---\n" +
		"- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [18, 36]\n    blocks:\n      - block: nvl-1\n        nodes: n[001-018]\n      - block: nvl-2\n      - block: nvl-3\n        nodes: n[037-054],x9\n" +
		"- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - switch: spine\n        children: leaf[1-2]\n      - switch: leaf1\n        nodes: n[001-018]\n      - switch: leaf2\n        nodes: n[019-036]\n"
)

func TestConfBothWays(t *testing.T) {
	two := twoTopologies()
	for i, want := range []string{blockConf, treeConf} {
		header := ""
		if i == 0 {
			header = "made for\na test"
		}
		got, err := RenderConf(two[i], header)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("RenderConf (-want +got):\n%s", diff)
		}
		back, err := ParseTopologies("topology.conf", got)
		if err != nil {
			t.Fatal(err)
		}
		two[i].Name, two[i].Default = "default", true
		if diff := cmp.Diff(two[i:i+1], back); diff != "" {
			t.Errorf("ParseTopologies (-want +got):\n%s", diff)
		}
	}
}

func TestYAMLBothWays(t *testing.T) {
	two := twoTopologies()
	got, err := RenderYAML(two, "made for\na test")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bothYAML, string(got)); diff != "" {
		t.Errorf("RenderYAML (-want +got):\n%s", diff)
	}
	back, err := ParseTopologies("topology.yaml", got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(two, back); diff != "" {
		t.Errorf("ParseTopologies (-want +got):\n%s", diff)
	}
}

func TestYAMLQuotesWhatIsNoText(t *testing.T) {
	want := []topology.Topology{
		{Name: "true", Default: true, Kind: "block", Blocks: []topology.Block{{Name: "12", Nodes: hosts.In("[1-3]")}, {Name: "null", Nodes: hosts.In("n1")}, {Name: "-", Nodes: hosts.In("1e5")}}},
		{Name: "f", Kind: "flat"},
	}
	text, err := RenderYAML(want, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseTopologies("topology.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, text)
	}
}

func TestSkeleton(t *testing.T) {
	two := twoTopologies()
	want := []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{18, 36}, Blocks: []topology.Block{{Name: "nvl-1"}, {Name: "nvl-2"}, {Name: "nvl-3"}}},
		{Name: "fabric", Kind: "tree", Switches: []topology.Switch{{Name: "spine", Children: hosts.In("leaf[1-2]")}, {Name: "leaf1"}, {Name: "leaf2"}}},
	}
	for i := range two {
		if diff := cmp.Diff(want[i], Skeleton(two[i])); diff != "" {
			t.Errorf("Skeleton (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(twoTopologies(), two); diff != "" {
		t.Errorf("Skeleton changed its argument (-want +got):\n%s", diff)
	}
}

func TestRenderRefuses(t *testing.T) {
	block := func(name string, nodes ...string) topology.Topology {
		return topology.Topology{Name: "t", Default: true, Kind: "block", Blocks: []topology.Block{{Name: name, Nodes: nodes}}}
	}
	for name, bad := range map[string]topology.Topology{
		"nothing":       {Name: "t"},
		"no such kind":  {Name: "t", Kind: "ring"},
		"flat in conf":  {Name: "t", Kind: "flat"},
		"no name":       block("", "n1"),
		"space":         block("a b", "n1"),
		"comment":       block("a#b", "n1"),
		"line in nodes": block("a", "n1\nBlockName=b"),
		"switch of two": {Name: "t", Kind: "tree", Switches: []topology.Switch{{Name: "s", Nodes: hosts.In("n1"), Children: hosts.In("c")}}},
	} {
		if text, err := RenderConf(bad, ""); err == nil {
			t.Errorf("%s: RenderConf gave %q", name, text)
		}
	}
	for name, list := range map[string][]topology.Topology{
		"no default":   {{Name: "a", Kind: "flat"}},
		"two defaults": {{Name: "a", Kind: "flat", Default: true}, {Name: "b", Kind: "flat", Default: true}},
		"one name":     {{Name: "a", Kind: "flat", Default: true}, {Name: "a", Kind: "flat"}},
		"none":         nil,
	} {
		if text, err := RenderYAML(list, ""); err == nil {
			t.Errorf("%s: RenderYAML gave %q", name, text)
		}
	}
}

func TestParseErrors(t *testing.T) {
	conf := map[string]string{
		"# nothing\n": "topology.conf:1: no blocks and no switches",
		"BlockName=a Nodes=n1\nSwitchName=s Nodes=n1\n":       "topology.conf:2: key SwitchName does not begin a line with topology/block; want BlockName and BlockSizes",
		"SwitchName=s Nodes=n1\n\nBlockSizes=4\n":             "topology.conf:3: key BlockSizes does not begin a line with topology/tree; want SwitchName",
		"BlockName=a Foo=1\n":                                 "topology.conf:1: key Foo is not known after BlockName",
		"SwitchName=s Nodes=n1 nodes=n2\n":                    "topology.conf:1: key nodes is given twice",
		"BlockName=a Nodes=n1\nBlockSizes=0\n":                "topology.conf:2: block size 0: want 1 or more",
		"BlockName":                                           "topology.conf:1: \"BlockName\" is no Key=Value",
		"BlockName=a Nodes":                                   "topology.conf:1: \"Nodes\" is no Key=Value",
		"Default yes\n":                                       "topology.conf:1: \"Default yes\" is no Key=Value",
		"BlockName=a Nodes=\n":                                "topology.conf:1: \"Nodes=\" is no Key=Value",
		"BlockName=a Nodes=n1\nBlockSizes=4,x\n":              "topology.conf:2: BlockSizes: \"x\" is no plain number",
		"SwitchName=a Nodes=n1 Switches=b\n":                  "topology.conf:1: \"a\" has no name, or both nodes and switches",
		"BlockName=a \\\n Nodes=n1 \\\n\nInclude more.conf\n": "topology.conf:4: more.conf is included and was not looked into",
		strings.Repeat("BlockName=a Nodes=n[1-65536]\n", 17):  "topology.conf:17: more than 1048576 names in one file",
	}
	for text, want := range conf {
		_, err := ParseTopologies("topology.conf", []byte(text))
		checkParseError(t, text, err, want)
	}
	yaml := map[string]string{
		"":                         "topology.yaml:1: there is no topology in the file; want a list",
		"- topology: a\n  blok:\n": "topology.yaml:2: key \"blok\" of a topology is not known",
		"- topology: a\n  flat: true\n  foo: 1\n":                                   "topology.yaml:3: key \"foo\" of a topology is not known",
		"- topology: a\n  block:\n    block_sizes: [4, x]\n":                        "topology.yaml:3: block_sizes: \"x\" is no size; want numbers",
		"- topology: a\n  block:\n    blocks:\n      - block: b\n    nodes: [n1]\n": "topology.yaml:5: key \"nodes\" of block is not known",
		"- a: [\n": "topology.yaml:1: did not find expected node content",
		"- topology: a\n  flat: true\n  block: {blocks: []}\n": "topology.yaml:1: topology \"a\" has 2 kinds",
		"- topology: a\n  flat: maybe\n":                       "topology.yaml:2: flat: \"maybe\" counts as true; write true or false",
		"- topology: a\n  topology: b\n":                       "topology.yaml:2: key topology of a topology is given twice",
		"- flat: true\n":                                       "topology.yaml:1: the topology has no name",
		"- topology: a\n  tree:\n    switches:\n      - switch: s\n        nodes: n1\n        children: t\n": "topology.yaml:4: switch s has nodes and children",
		"- topology: a\n  block:\n    blocks:\n      - block: b\n      - nodes: n1\n":                        "topology.yaml:5: an item of blocks has no name",
		"- topology: a\n  block: {blocks: &x [], block_sizes: *x}\n":                                         "topology.yaml:2: Slurm does not read YAML aliases",
		"- topology: a\n\t- b\n":               "topology.yaml:2: found a tab character",
		"- topology: a\n  ring: {rings: []}\n": "topology.yaml:1: a topology of kind ring is not read here: want one of block, tree, flat",
	}
	for text, want := range yaml {
		_, err := ParseTopologies("topology.yaml", []byte(text))
		checkParseError(t, text, err, want)
	}
}

// TestEscapedAndQuoted reads what follows a backslash as it is, and values in quotes, at the end of the text too.
func TestEscapedAndQuoted(t *testing.T) {
	want := []topology.Topology{{Name: "default", Default: true, Kind: "block", Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n[1-2]")}}}}
	for _, text := range []string{"BlockName=\\b1 Nodes=n[1-2]\n", `BlockName="b1" Nodes="n[1-2]"`, "BlockName=\"b1\" Nodes=n[1-2]\n"} {
		got, err := ParseTopologies("topology.conf", []byte(text))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

// TestConfWithoutSizes writes no line for sizes that are not there.
func TestConfWithoutSizes(t *testing.T) {
	text, err := RenderConf(topology.Topology{Name: "nvl", Default: true, Kind: "block", Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("n1")}}}, "")
	if err != nil || string(text) != "BlockName=b1 Nodes=n1\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestLinesOfUnits names the line of each block and switch of either file.
func TestLinesOfUnits(t *testing.T) {
	lines := func(s Section) (out []int) {
		for _, u := range s.Units {
			out = append(out, u.Line)
		}
		return out
	}
	conf, _ := ReadConf("topology.conf", []byte("# a\nBlockName=b1 Nodes=n1\n\nBlockName=b2\n"), "block")
	yaml, _ := ReadYAML("topology.yaml", []byte("- topology: a\n  tree:\n    switches:\n      - switch: s1\n        nodes: n1\n      - switch: s2\n"))
	if diff := cmp.Diff([][]int{{2, 4}, {4, 6}}, [][]int{lines(conf), lines(yaml[0])}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func checkParseError(t *testing.T, text string, err error, want string) {
	t.Helper()
	var parse *syntax.ParseError
	if !errors.As(err, &parse) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%q gave %v, want a syntax.ParseError beginning with %q", text, err, want)
	}
}
