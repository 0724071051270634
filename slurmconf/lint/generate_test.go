package lint_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/lint"
)

// generateCase makes one topology, and in most cases spoils it.
func generateCase(rng *rand.Rand, i int) topologyCase {
	c := topologyCase{name: fmt.Sprintf("generated %d", i), plugin: lint.PluginBlock}
	tree := rng.IntN(3) == 0
	var text []string
	if tree {
		c.plugin, text = lint.PluginTree, generateTree(rng)
	} else {
		text = generateBlocks(rng)
	}
	for range rng.IntN(3) {
		text = spoil(rng, text, tree)
	}
	c.conf = strings.Join(text, "\n") + "\n"
	if rng.IntN(5) < 2 {
		c.yaml = generateYAML(rng)
		if rng.IntN(4) == 0 {
			c.partitions = []string{[]string{"nvl", "fabric", "other"}[rng.IntN(3)]}
		}
	}
	return c
}

func pick(rng *rand.Rand, words ...string) string { return words[rng.IntN(len(words))] }

// generateNodes writes a range of known nodes, now and then of others.
func generateNodes(rng *rand.Rand, from, size int) string {
	switch rng.IntN(12) {
	case 0:
		return fmt.Sprintf("zz[%d-%d]", from, from+size)
	case 1:
		return fmt.Sprintf("n%03d,n[%03d-%03d],n%03d", from, from+1, from+size, from)
	}
	return fmt.Sprintf("n[%03d-%03d]", from, from+size-1)
}

func generateBlocks(rng *rand.Rand) []string {
	size := 1 + rng.IntN(5)
	var lines []string
	for i, at := 0, 1; at+size <= 17 && i < 6; i++ {
		n := size
		if rng.IntN(6) == 0 {
			n = max(1, size+rng.IntN(3)-1)
		}
		line := fmt.Sprintf("BlockName=b%d Nodes=%s", i+1, generateNodes(rng, at, n))
		if rng.IntN(15) == 0 {
			line = fmt.Sprintf("BlockName=b%d", i+1)
		}
		lines = append(lines, line)
		at += size
	}
	if rng.IntN(3) > 0 {
		sizes := []string{fmt.Sprint(size)}
		for s := size * 2; rng.IntN(2) == 0 && s < 40; s *= 2 {
			sizes = append(sizes, fmt.Sprint(s))
		}
		lines = append(lines, "BlockSizes="+strings.Join(sizes, ","))
	}
	return lines
}

func generateTree(rng *rand.Rand) []string {
	leaves := 1 + rng.IntN(4)
	var lines []string
	for i := range leaves {
		lines = append(lines, fmt.Sprintf("SwitchName=s%d Nodes=%s", i+1, generateNodes(rng, i*4+1, 4)))
	}
	if rng.IntN(4) > 0 {
		lines = append(lines, fmt.Sprintf("SwitchName=spine Switches=s[1-%d]", leaves))
		if rng.IntN(3) == 0 {
			lines = append(lines, "SwitchName=core Switches=spine")
		}
	}
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// spoil changes one thing, for the better or the worse.
func spoil(rng *rand.Rand, lines []string, tree bool) []string {
	lines = slices.Clone(lines)
	i := rng.IntN(len(lines))
	switch rng.IntN(16) {
	case 0:
		lines = append(lines, lines[i]) // a name twice
	case 1:
		lines[i] += pick(rng, " Foo=1", " x", " LinkSpeed=5", " LinkSpeed=x", " # comment", ` \`, " Nodes=n016", " Switches=s1", "#c", " Nodes=")
	case 2:
		lines[i] = strings.Replace(lines[i], "]", pick(rng, "", "]]", "-]", ",]", "x]", "-ib]", ",n]"), 1)
	case 3:
		lines[i] = strings.Replace(lines[i], "Name=", "Name="+pick(rng, "a b", "x.y-", "b:", "b[", "b[1-2]", strings.Repeat("a", 62), strings.Repeat("7", 20), `"q q"`, "ü"), 1)
	case 4:
		lines = slices.Delete(lines, i, i+1)
		if len(lines) == 0 {
			lines = []string{""}
		}
	case 5:
		lines = append(lines, "BlockSizes="+pick(rng, "4,6", "8,4", "abc", "0", "-1", "1,65536", "1,32768", "3", "4", "4,16,8", "4,,8", ",", "4x", "65536", "99999999999", "2,4,8,16,32", "4,4", ""))
	case 6:
		lines = append(lines, pick(rng, "", "junk", "BlockName=last", "SwitchName=last", "SwitchName=last Nodes=n001", "SwitchName=loop Switches=loop", "SwitchName=up Switches=nothere", "SwitchName=up Switches=spine", "SwitchName=up Switches=s1,s1"))
	case 7:
		lines[i] = strings.Replace(lines[i], "Nodes=n", pick(rng, "Nodes=", "Nodes= n", "nodes=n", "NODES+=n", "Nodes =n", `Nodes="" Nodes=n`, "Nodes=,n", "Node=n", "Nodes==n"), 1)
	case 8:
		lines[i] = strings.Replace(lines[i], "Name=", pick(rng, "name=", " Name=", "Name =", "names=", "Name"), 1)
	case 9:
		lines[i] = strings.Replace(lines[i], "n[", pick(rng, "n[0", "r[1-2]n[", "r[x]n[", "n[17,", "n[-", "n[1-70000,", "n[[", "n]["), 1)
	case 10:
		lines[i] = strings.Replace(lines[i], "=s[", pick(rng, "=s[0", "=s9,s[", "=spine,s[", "=s1,s["), 1)
	case 11:
		if tree {
			lines = append(lines, "SwitchName=x Switches=y", "SwitchName=y Switches=x")
		} else {
			lines = append(lines, "BlockName=wide Nodes=n[001-016]")
		}
	case 12:
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "BlockSizes") })
		if len(lines) == 0 {
			lines = []string{"# empty"}
		}
	case 13:
		lines[i] = strings.Replace(lines[i], "=", "= ", 1)
	case 14:
		lines[i] = strings.Replace(lines[i], "[", pick(rng, "[", "[", "[[", "]x[", "{", "[1]{x}[")+strings.ReplaceAll(generateOddRange(rng), " ", "")+",", 1)
	case 15:
		lines[i] = strings.Replace(lines[i], "Nodes=", "Nodes="+pick(rng, generateOddList(rng), `"`+generateOddList(rng)+`"`, "block{b1}", "x{b1}", "n00[1-2]{a}", "feature{x}", "block{b2}", "blockwith{n001}", "switch{s1}", "switchwith{n016}", "blockwith{zz}")+",", 1)
	}
	return lines
}

// generateYAML writes a topology.yaml, and in most cases spoils it.
func generateYAML(rng *rand.Rand) string {
	var b strings.Builder
	size := 1 + rng.IntN(4)
	fmt.Fprintf(&b, "- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [%d, %d]\n    blocks:\n", size, size*2)
	for i := range 4 {
		fmt.Fprintf(&b, "      - block: b%d\n", i+1)
		if rng.IntN(5) > 0 {
			fmt.Fprintf(&b, "        nodes: %s\n", generateNodes(rng, i*size+1, size))
		}
	}
	if rng.IntN(2) == 0 {
		b.WriteString("- topology: fabric\n  cluster_default: false\n  tree:\n    switches:\n      - switch: spine\n        children: leaf[1-2]\n      - switch: leaf1\n        nodes: n[001-008]\n      - switch: leaf2\n        nodes: n[009-016]\n")
	}
	text := b.String()
	for range rng.IntN(3) {
		text = spoilYAML(rng, text)
	}
	return text
}

func spoilYAML(rng *rand.Rand, text string) string {
	replace := func(old string, by ...string) string { return strings.Replace(text, old, pick(rng, by...), 1) }
	switch rng.IntN(12) {
	case 0:
		return replace("block: b2", "block: b1", "block: ''", "block:", "name: b2", "block: [b]", "block: 'b[1'", "block: 7", "blok: b2", "block: {}")
	case 1:
		return replace("block_sizes: [", "block_sizes: [0, ", "block_sizes: [3, ", "block_sizes: [x, ", "block_sizes: [null, ", "block_sizes: [2147483648, ", "sizes: [", "block_sizes: [1, ")
	case 2:
		return replace("nodes: n", "nodes: [n001]\n        x: n", "nodes: n[\n        x: n", "nodes: ''\n        x: n", "nodes: 12\n        x: n", "nodes:\n        x: n", "nodes: &a n")
	case 3:
		return replace("cluster_default: true", "cluster_default: [true]", "cluster_default: junk", "cluster_default: 0", "foo: bar", "flat: true", "flat: false", "flat: {}", "tree: {}", "tree: x", "ring: {}", "block: {}")
	case 4:
		return replace("children: leaf[1-2]", "children: leaf[1-3]", "children: spine", "children: ''", "nodes: n001", "children: [a]", "x: y", "children: leaf[1-2]\n        nodes: n001", "children: leaf[2-1]")
	case 5:
		return replace("topology: nvl", "topology: fabric", "topology: [nvl]", "topology:", "topology: 'a b'", "name: nvl")
	case 6:
		return replace("    blocks:\n", "    blocks: []\n    rest:\n", "    blocks: x\n    rest:\n", "    bloks:\n", "    blocks: {}\n    rest:\n")
	case 7:
		return text + pick(rng, "  extra: 1\n", "- x\n", "- {}\n", "---\n- x\n", "\t- y\n", "- topology: f2\n  flat: true\n", "- topology: f2\n  flat: false\n", "  bad indent\n", "...\n", "# end\n", "- [a]\n", "- topology: nvl\n  flat: yes\n")
	case 8:
		return replace("      - block: b3", "      - b3\n      - block: b3", "      - block: b3\n        foo: [1, {a: b}]", "      -\n      - block: b3", "      - block: b9\n      - block: b3")
	case 9:
		return replace("switch: leaf2", "switch: leaf1", "switch: ''", "node: leaf2", "switch: leaf"+strings.Repeat("2", 80))
	case 10:
		return pick(rng, "", "---\n", "# only\n", "[]\n", "{}\n", "hello\n", "[", "- topology: t\n", "topology: t\nflat: true\n") + pick(rng, text, "", "")
	}
	return strings.ReplaceAll(text, "n[", pick(rng, "n[0", "q[", "n[", "n[ ", "n[1z-2,", "n[01,,", "]n[", "block{b1},n["))
}
