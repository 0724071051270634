package slurmconf_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// topologyCase is one configuration that Lint and slurmctld both judge.
type topologyCase struct {
	name       string
	plugin     slurmconf.Plugin
	conf       string
	noConf     bool
	yaml       string // empty: no file
	emptyYAML  bool
	partitions []string
}

func (c topologyCase) config() realConfig {
	r := realConfig{plugin: c.plugin, files: map[string]string{}}
	if !c.noConf {
		r.files["topology.conf"] = c.conf
	}
	if c.yaml != "" || c.emptyYAML {
		r.files["topology.yaml"] = c.yaml
	}
	for _, p := range c.partitions {
		r.partition += " Topology=" + p
	}
	return r
}

func (c topologyCase) lint(release slurmconf.Release) []slurmconf.Finding {
	known, err := slurmconf.ExpandHostlist(realNodes)
	if err != nil {
		panic(err)
	}
	var files []slurmconf.File
	for _, name := range []string{"topology.conf", "topology.yaml"} {
		if text, ok := c.config().files[name]; ok {
			files = append(files, slurmconf.File{Name: name, Data: []byte(text)})
		}
	}
	return slurmconf.Lint(files, slurmconf.Options{Release: release, Plugin: c.plugin, KnownNodes: known, PartitionTopologies: c.partitions})
}

// compare has both judge every case.
func compare(t *testing.T, release slurmconf.Release, cases []topologyCase) (fatal int) {
	t.Helper()
	s := startSlurm(t, release)
	for _, c := range cases {
		if len(c.partitions) > 0 && !release.YAML() {
			continue // slurm.conf itself would be refused
		}
		lines, rc := s.run("ctl", "", c.config())
		findings := c.lint(release)
		if rc != "0" {
			fatal++
		}
		if got, want := slurmconf.HasFatal(findings), rc != "0"; got != want {
			t.Errorf("Slurm %s, %s: Lint says fatal=%t, slurmctld %t\nconf:\n%s\nyaml:\n%s\nfindings: %v\nlog:\n%s",
				release, c.name, got, want, c.conf, c.yaml, findings, complaints(lines))
		}
	}
	return fatal
}

func eachRelease(t *testing.T, f func(t *testing.T, release slurmconf.Release)) {
	t.Helper()
	t.Parallel()
	for release := range realReleases {
		t.Run(release.String(), func(t *testing.T) {
			t.Parallel()
			f(t, release)
		})
	}
}

// TestRealBadInput has Lint and slurmctld judge every known kind of bad input.
func TestRealBadInput(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		cases := append(badConf(), badYAML()...)
		if n := compare(t, release, cases); n == 0 || n == len(cases) {
			t.Errorf("%d of %d cases were fatal: the rig does not tell them apart", n, len(cases))
		}
	})
}

// TestRealMissingFile waits out the minute that Slurm waits for a file.
func TestRealMissingFile(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		compare(t, release, []topologyCase{{name: "file missing", plugin: slurmconf.PluginBlock, noConf: true}})
	})
}

// TestRealGenerated compares generated topologies, good and spoilt.
func TestRealGenerated(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		const seed, count = 20260, 400
		rng := rand.New(rand.NewPCG(seed, 1))
		cases := make([]topologyCase, count)
		for i := range cases {
			cases[i] = generateCase(rng, i)
		}
		n := compare(t, release, cases)
		t.Logf("Slurm %s: %d of %d generated topologies were fatal", release, n, count)
		if n < count/10 || n > count*9/10 {
			t.Errorf("%d of %d were fatal: the generator is lopsided", n, count)
		}
	})
}

// generateCase makes one topology, and in most cases spoils it.
func generateCase(rng *rand.Rand, i int) topologyCase {
	c := topologyCase{name: fmt.Sprintf("generated %d", i), plugin: slurmconf.PluginBlock}
	tree := rng.IntN(3) == 0
	var text []string
	if tree {
		c.plugin, text = slurmconf.PluginTree, generateTree(rng)
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
		sizes := fmt.Sprint(size)
		for s := size * 2; rng.IntN(2) == 0 && s < 40; s *= 2 {
			sizes += fmt.Sprintf(",%d", s)
		}
		lines = append(lines, "BlockSizes="+sizes)
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
	switch rng.IntN(14) {
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
	return strings.ReplaceAll(text, "n[", pick(rng, "n[0", "q[", "n["))
}

// TestRealHostlists compares host lists with scontrol, both ways.
func TestRealHostlists(t *testing.T) {
	eachRelease(t, func(t *testing.T, release slurmconf.Release) {
		s := startSlurm(t, release)
		rng := rand.New(rand.NewPCG(7, 7))
		for round := range 12 {
			names := generateNames(rng, 600)
			list := strings.Join(names, ",")
			got := strings.Join(s.hosts("hostlistsorted", list), "\n")
			if want := slurmconf.CompressHostlist(names); got != want {
				t.Errorf("round %d: CompressHostlist differs from hostlistsorted of %s:\n got  %s\n real %s", round, list, want, got)
			}
		}
		lists := []string{"n[1-3]", "n[001-018]", "a[1-2]b[01-03]", "a[1-2]b[1-2]c[1-2]", "a[1-2]b[1-2]c[1-2]d[1-2]", "n[1-2]-ib", "r[1-2]n[1-2]-ib", "n[3,1,2]", "n[1,1]", "n[08-11]", "n[8-011]",
			"a,b c\td", ",,a,,", "n1]", "n[1-]", "n[007,9,1-3]", "rack1n[1-2],rack2n[01-02]", "9", "[1-3]", "0[1-3]", "a[0-2]5", "a[1]", "x[1-2],x[3-4],y"}
		for range 300 {
			lists = append(lists, generateHostlist(rng))
		}
		for _, list := range lists {
			names, err := slurmconf.ExpandHostlist(list)
			if err != nil {
				t.Errorf("ExpandHostlist(%q): %v", list, err)
				continue
			}
			if real := s.hosts("hostnames", list); !slices.Equal(names, real) {
				t.Errorf("ExpandHostlist(%q) = %q, scontrol %q", list, names, real)
			}
		}
	})
}

func (s *realSlurm) hosts(what, list string) []string {
	s.t.Helper()
	lines, rc := s.run("hosts", what, realConfig{files: map[string]string{"list": list}})
	if rc != "0" {
		s.t.Fatalf("scontrol show %s %q: exit %s: %v", what, list, rc, lines)
	}
	return lines
}

// generateNames makes names of every shape, each once, in no order.
func generateNames(rng *rand.Rand, n int) []string {
	prefixes := []string{"n", "n0", "rack1-n", "rack2-n", "rack10-n", "rack01-n", "gpu", "gpu-b", "A", "a1b2c", "a1b02c", "x-", "x_9_"}
	seen := make(map[string]bool)
	for len(seen) < n {
		prefix := pick(rng, prefixes...)
		switch rng.IntN(8) {
		case 0:
			seen[prefix+pick(rng, "login", "mgmt", "z", "", "ib")+pick(rng, "a", "b", "-c")] = true
		case 1:
			seen[fmt.Sprintf("%s%d", prefix, rng.IntN(2000))] = true
		case 2:
			from, width := rng.IntN(120), 1+rng.IntN(4)
			for k := range rng.IntN(12) {
				seen[fmt.Sprintf("%s%0*d", prefix, width, from+k)] = true
			}
		case 3:
			seen[fmt.Sprintf("%s%d-%c%d", prefix, rng.IntN(20), 'a'+rune(rng.IntN(3)), rng.IntN(9))] = true
		default:
			seen[fmt.Sprintf("%s%0*d", prefix, 3+rng.IntN(2), rng.IntN(300))] = true
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// generateHostlist makes a host list of several brackets.
func generateHostlist(rng *rand.Rand) string {
	var b strings.Builder
	for i := range 1 + rng.IntN(3) {
		if i > 0 {
			b.WriteString(pick(rng, ",", ", ", " "))
		}
		for range 1 + rng.IntN(3) {
			b.WriteString(pick(rng, "n", "rack", "r1-", "a0"))
			if rng.IntN(4) > 0 {
				width, from := 1+rng.IntN(3), rng.IntN(20)
				fmt.Fprintf(&b, "[%0*d-%0*d,%d]", width, from, width, from+rng.IntN(4), rng.IntN(200))
			}
		}
		b.WriteString(pick(rng, "", "", "-ib", "9"))
	}
	return b.String()
}
