package lint_test

import (
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// badConf are the known kinds of bad topology.conf.
func badConf() []topologyCase {
	const four = "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-008]\nBlockName=b3 Nodes=n[009-012]\nBlockName=b4 Nodes=n[013-016]\n"
	long := strings.Repeat("a", 63)
	block := map[string]string{
		"good":                         four + "BlockSizes=4\n",
		"node in two blocks":           "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[004-008]\nBlockSizes=4\n",
		"node not in slurm.conf":       "BlockName=b1 Nodes=n[001-004],zz9\nBlockSizes=4\n",
		"only unknown nodes":           "BlockName=b1 Nodes=zz[1-4]\nBlockSizes=4\n",
		"only unknown nodes, no sizes": "BlockName=b1 Nodes=zz[1-4]\n",
		"first block unknown":          "BlockName=b1 Nodes=zz[1-4]\nBlockName=b2 Nodes=n[001-004]\n",
		"nodes in no block":            "BlockName=b1 Nodes=n[001-004]\nBlockSizes=4\n",
		"oversize":                     "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-010]\nBlockSizes=4\n",
		"short":                        "BlockName=b1 Nodes=n[001-003]\nBlockName=b2 Nodes=n[004-008]\nBlockSizes=4\n",
		"short without sizes":          "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-006]\n",
		"base above all":               four + "BlockSizes=18\n",
		"duplicate name":               "BlockName=b1 Nodes=n[001-004]\nBlockName=b1 Nodes=n[005-008]\nBlockSizes=4\n",
		"nothing after Nodes=":         "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=\nBlockSizes=4\n",
		"Nodes of nothing":             "BlockName=b1 Nodes=n[001-004]\nBlockName=b2 Nodes=\"\"\n",
		"placeholder":                  "BlockName=b1 Nodes=n[001-004]\nBlockName=b2\nBlockSizes=4\n",
		"placeholders, sizes":          "BlockName=b1\nBlockName=b2\nBlockSizes=4\n",
		"placeholders, no sizes":       "BlockName=b1\nBlockName=b2\n",
		"empty":                        "",
		"comment only":                 "# nothing\n",
		"sizes only":                   "BlockSizes=4\n",
		"unknown key":                  "BlockName=b1 Nodes=n[001-004] Foo=1\nBlockSizes=4\n",
		"switch under block":           "BlockName=b1 Nodes=n[001-004]\nSwitchName=s1 Nodes=n[005-008]\n",
		"broken host list":             "BlockName=b1 Nodes=n[001-\n",
		"space in name":                "BlockName=b 1 Nodes=n[001-004]\n",
		"quoted space in name":         "BlockName=\"b 1\" Nodes=\"n[001-004]\"\n",
		"odd names":                    "BlockName=9f1c.2 Nodes=n[001-004]\nBlockName=rack-7_clique:32766 Nodes=n[005-008]\nBlockName=b[3-4] Nodes=n[009-012]\nBlockSizes=4\n",
		"uuid name":                    "BlockName=0d7cbfa4-59ea-4b5f-9a39-5b2f9a2f7a11.32766 Nodes=n[001-004]\nBlockName=b5 Nodes=n[005-016]\nBlockSizes=4,8\n",
		"broken name, aggregated":      "BlockName=b[1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-008]\n",
		"broken name, one size":        "BlockName=b[1 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-008]\nBlockSizes=4\n",
		"long name":                    "BlockName=" + long + long + " Nodes=n[001-004]\n",
		"name of digits":               "BlockName=b1234567890123456789012345 Nodes=n[001-004]\nBlockName=b2 Nodes=n[005-008]\n",
		"stray bracket":                "BlockName=b1 Nodes=n001]\nBlockName=b2 Nodes=n001\nBlockSizes=1\n",
		"two keys on a line":           "BlockSizes=4 BlockName=b1 Nodes=n[001-004]\n",
		"sizes twice":                  "BlockSizes=abc\nBlockName=b1 Nodes=n[001-004]\nBlockSizes=4\n",
		"nodes twice":                  "BlockName=b1 Nodes=n[001-004] Nodes=n[005-008]\n",
		"no value":                     "BlockName=b1 Nodes=n[001-004]\nhello\n",
		"case and spaces":              "blockNAME = b1 NODES += n[001-004]\n",
		"continued":                    "BlockName=b1 \\\n  Nodes=n[001-004]\n",
		"range too wide":               "BlockName=b1 Nodes=n[1-65537]\nBlockSizes=1\n",
	}
	for _, sizes := range []string{"4,6", "8,4", "abc", "0", "1,65536", "1,32768", "4,8,16,12", "4,16,8", "4,4", "4x,8", "-4", "4,", ",4,,8", ",", `""`, "65536", "65537", "4294967300"} {
		block["sizes "+sizes] = four + "BlockSizes=" + sizes + "\n"
	}
	tree := map[string]string{
		"tree good":               "SwitchName=s1 Nodes=n[001-008]\nSwitchName=s2 Nodes=n[009-016]\nSwitchName=t Switches=s[1-2]\n",
		"tree two leaves":         "SwitchName=s1 Nodes=n[001-004]\nSwitchName=s2 Nodes=n[004-008]\nSwitchName=s3 Switches=s[1-2]\n",
		"tree both":               "SwitchName=s1 Nodes=n[001-004] Switches=s2\nSwitchName=s2 Nodes=n[005-016]\n",
		"tree no root":            "SwitchName=s1 Nodes=n[001-004]\nSwitchName=s2 Nodes=n[005-016]\n",
		"tree loop":               "SwitchName=s1 Switches=s2\nSwitchName=s2 Switches=s1\n",
		"tree itself":             "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=s2\n",
		"tree unknown child":      "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=s9\n",
		"tree duplicate":          "SwitchName=s1 Nodes=n[001-008]\nSwitchName=s1 Nodes=n[009-016]\n",
		"tree name of 64":         "SwitchName=" + long + "a Nodes=n[001-016]\n",
		"tree name of 65":         "SwitchName=" + long + "aa Nodes=n[001-016]\n",
		"tree neither":            "SwitchName=s1\nSwitchName=s2 Nodes=n[001-016]\n",
		"tree roots only":         "SwitchName=s1\n",
		"tree empty":              "",
		"tree empty nodes":        "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Nodes=\"\"\n",
		"tree empty switches":     "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=\"\"\n",
		"tree broken children":    "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=s[1-\n",
		"tree two parents":        "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=s1\nSwitchName=s3 Switches=s1\n",
		"tree child twice":        "SwitchName=s1 Nodes=n[001-016]\nSwitchName=s2 Switches=s1,s1\n",
		"tree link speed":         "SwitchName=s1 Nodes=n[001-016] LinkSpeed=100\n",
		"tree bad link speed":     "SwitchName=s1 Nodes=n[001-016] LinkSpeed=fast\n",
		"tree block line":         "BlockName=s1 Nodes=n[001-016]\n",
		"tree block sizes":        "SwitchName=s1 Nodes=n[001-016]\nBlockSizes=4\n",
		"tree unknown nodes only": "SwitchName=s1 Nodes=zz[1-3]\n",
		"tree deep, parents last": deepTree(25, false),
		"tree deep, up to 20":     deepTree(20, true),
		"tree deep, 22":           deepTree(22, true),
		"tree deep, parents 1st":  deepTree(25, true),
	}
	for _, list := range oddLists() {
		block["nodes "+list] = "BlockName=b1 Nodes=\"" + list + "\"\nBlockName=b2 Nodes=n[009-016]\nBlockSizes=1\n"
		tree["nodes "+list] = "SwitchName=s1 Nodes=\"" + list + "\"\n"
		tree["switches "+list] = "SwitchName=n001 Nodes=n[001-008]\nSwitchName=n002 Nodes=n[009-016]\nSwitchName=t Switches=\"" + list + "\"\n"
	}
	var cases []topologyCase
	for name, conf := range block {
		cases = append(cases, topologyCase{name: name, plugin: lint.PluginBlock, conf: conf})
	}
	for name, conf := range tree {
		cases = append(cases, topologyCase{name: name, plugin: lint.PluginTree, conf: conf})
	}
	return append(cases,
		topologyCase{name: "partition of default", plugin: lint.PluginBlock, conf: four, partitions: []string{"default"}},
		topologyCase{name: "partition of unknown", plugin: lint.PluginBlock, conf: four, partitions: []string{"nvl"}})
}

// oddLists are host lists that are not as they should be.
func oddLists() []string {
	return []string{"n[001-002", "n001,n[001", "n[002-001]", "n[0-65536]", "n001,,n002", ",", "n*", "n001;n002", "n001 n002", "n[1-2]", "n[001-]", "n[001;002]"}
}

// deepTree is a chain of n switches over one leaf.
func deepTree(n int, parentsFirst bool) string {
	lines := []string{"SwitchName=s0 Nodes=n[001-016]"}
	for i := range n {
		line := "SwitchName=s" + strconv.Itoa(i+1) + " Switches=s" + strconv.Itoa(i)
		if parentsFirst {
			lines = append([]string{line}, lines...)
		} else {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// badYAML are the known kinds of bad topology.yaml, beside a good
// topology.conf that older releases read.
func badYAML() []topologyCase {
	const good = "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [4]\n    blocks:\n      - block: b1\n        nodes: n[001-004]\n"
	const tree = "- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - switch: spine\n        children: leaf[1-2]\n      - switch: leaf1\n        nodes: n[001-008]\n      - switch: leaf2\n        nodes: n[009-016]\n"
	yaml := map[string]string{
		"good": good, "two": good + tree, "comment only": "# x\n", "document start": "---\n", "null": "null\n", "empty list": "[]\n", "scalar": "hello\n", "list of words": "- hello\n",
		"syntax": good + "   - x\n", "open quote": strings.Replace(good, "n[001", "\"n[001", 1), "tab": strings.Replace(good, "  block:", "\tblock:", 1),
		"mapping": "topology: nvl\nflat: true\n", "alias": strings.Replace(good, "b1", "&x b1", 1) + "      - block: *x\n",
		"unknown key": good + "        foo: 1\n", "no default": strings.Replace(good, "true", "false", 1), "no default key": strings.Replace(good, "  cluster_default: true\n", "", 1),
		"two defaults": good + strings.Replace(tree, "false", "true", 1), "default list": strings.Replace(good, "true", "[true]", 1), "default junk": strings.Replace(good, "true", "junk", 1),
		"same names": good + good, "no name": strings.Replace(good, "- topology: nvl\n ", "-", 1), "name list": strings.Replace(good, "nvl", "[a]", 1), "keys in capitals": strings.Replace(good, "block:", "Block:", 1),
		"block and tree": good + "  tree:\n    switches: []\n", "block and empty tree": good + "  tree: {}\n", "neither": "- topology: nvl\n", "block and flat": good + "  flat: true\n", "block, not flat": good + "  flat: false\n",
		"flat": "- topology: f\n  flat: true\n", "flat false": "- topology: f\n  flat: false\n", "flat mapping": "- topology: f\n  flat: {}\n", "flat list": "- topology: f\n  flat: []\n", "flat none": "- topology: f\n  flat: none\n", "flat null": "- topology: f\n  flat:\n", "flat no": "- topology: f\n  flat: No\n",
		"block null": "- topology: f\n  block:\n", "block empty": "- topology: f\n  block: {}\n", "no blocks": "- topology: f\n  block:\n    block_sizes: [4]\n", "blocks null": "- topology: f\n  block:\n    blocks:\n", "blocks mapping": "- topology: f\n  block:\n    blocks:\n      block: b\n      nodes: n001\n", "blocks words": "- topology: f\n  block:\n    blocks: [b]\n",
		"blocks twice": good + "    blocks:\n      - block: b9\n", "block twice": good + "  block:\n    block_sizes: [8]\n    blocks:\n      - block: b9\n", "nodes twice": good + "        nodes: n[005-008]\n",
		"placeholder": good + "      - block: b2\n", "nodes null": strings.Replace(good, "n[001-004]", "", 1), "nodes null, no sizes": strings.Replace(strings.Replace(good, "n[001-004]", "", 1), "    block_sizes: [4]\n", "", 1), "nodes list": strings.Replace(good, "n[001-004]", "[n001, n002]", 1), "nodes broken": strings.Replace(good, "n[001-004]", "n[001-", 1),
		"no block name": strings.Replace(good, "- block: b1\n ", "-", 1), "empty block name": strings.Replace(good, "b1", "''", 1), "duplicate": good + "      - block: b1\n", "unknown twice": good + "    foo: 1\n    foo: 2\n", "unknown list twice": good + "    foo: [1]\n    foo: [1]\n", "unknown list twice before": strings.Replace(good, "    block_sizes", "    foo: [1]\n    foo: 2\n    block_sizes", 1), "unknown list twice at the top": strings.Replace(good, "  cluster_default", "  foo: [1]\n  foo: 2\n  cluster_default", 1), "null item": good + "      -\n",
		"tree loop": strings.Replace(tree, "leaf[1-2]", "spine", 1), "tree unknown child": strings.Replace(tree, "leaf[1-2]", "leaf[1-3]", 1), "tree both": strings.Replace(tree, "        children", "        nodes: n001\n        children", 1), "tree no children": strings.Replace(tree, "leaf[1-2]", "''", 1), "tree skeleton": "- topology: f\n  tree:\n    switches:\n      - switch: spine\n", "tree long name": strings.ReplaceAll(tree, "spine", strings.Repeat("s", 80)), "tree no switches": "- topology: f\n  tree:\n    switches: []\n", "tree odd key": "- topology: f\n  tree:\n    x: 1\n",
		"ring": "- topology: r\n  ring:\n    rings:\n      - ring: r1\n        nodes: n[001-016]\n", "block and ring": good + "  ring:\n    rings: []\n",
		"two documents": good + "---\n[\n", "control": strings.Replace(good, "nvl", "n\x01l", 1), "json": `[{"topology": "nvl", "block": {"block_sizes": [4], "blocks": [{"block": "b1", "nodes": "n[001-004]"}]}}]`,
	}
	for _, head := range []string{"%YAML 1.2\n---\n", "%YAML 1.1\n---\n", "%YAML 1.3\n---\n", "%YAML 1.0\n---\n", "%YAML 2.0\n---\n", "%YAML 1.2\n", "%YAML 1.20\n---\n", "%YAML x\n---\n", "# x\n\n%YAML 1.2 # c\n---\n", " %YAML 1.2\n---\n", "%YAML 1.2\n%YAML 1.2\n---\n", "%TAG ! tag:x,2000:\n%YAML 1.2\n---\n", "%FOO bar\n---\n", "---\n%YAML 1.2\n---\n"} {
		yaml["directive "+head] = head + good
	}
	for _, list := range append(oddLists(), "block{b1}") {
		quoted := "'" + list + "'"
		yaml["nodes "+list] = strings.Replace(good, "n[001-004]", quoted, 1) + "      - block: b2\n        nodes: n[009-016]\n"
		yaml["children "+list] = strings.NewReplacer("leaf[1-2]", quoted, "leaf", "n00").Replace(tree)
	}
	for _, sizes := range []string{"4", "'4'", "[4, 8]", "[4, 6]", "[8, 4]", "[4, 16, 8]", "[4, 4]", "[0]", "[-4]", "[abc]", "[4x]", "[]", "", "[4.0]", "[65536]", "[1, 65536]", "[1, 32768]", "[65537]", "[4294967300]", "[4, [8]]", "[null]", "{a: 4}", "'4,8'", "[0x4]", "[+4]", "[010, 16]", "['4 ']", "[' 4']", "[18]"} {
		yaml["sizes "+sizes] = strings.Replace(good, "[4]", sizes, 1)
	}
	var cases []topologyCase
	add := func(c topologyCase) {
		c.plugin, c.conf = lint.PluginBlock, "BlockName=b1 Nodes=n[001-016]\n"
		cases = append(cases, c)
	}
	for name, text := range yaml {
		add(topologyCase{name: "yaml " + name, yaml: text})
	}
	add(topologyCase{name: "yaml empty", emptyYAML: true})
	add(topologyCase{name: "yaml partition", yaml: good + tree, partitions: []string{"fabric"}})
	add(topologyCase{name: "yaml partition unknown", yaml: good + tree, partitions: []string{"Fabric"}})
	return cases
}
