package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

func TestNeighbours(t *testing.T) {
	conf := func(text string) string { return "conf:" + text }
	for _, tt := range []struct {
		name, text, list string
		want             neighbours
	}{
		{"apart", twoRacks, "n[1-2]", neighboursNone},
		{"together", twoRacks, "n[1,3]", neighboursSome},
		{"together, and one apart", twoRacks, "n[1-3]", neighboursSome},
		{"together, and one in no block", twoRacks, "n[1,3,9]", neighboursSome},
		{"one in no block", twoRacks, "n[1-2,9]", neighboursUnknown},
		{"this node in no block", strings.Replace(twoRacks, "n[1,3]", "n3", 1), "n[1-2]", neighboursUnknown},
		{"this node in no block, the others together", strings.Replace(twoRacks, "n[1,3]", "n3", 1), "n[1-2,4]", neighboursUnknown},
		{"this node not of the job", twoRacks, "n[2-3]", neighboursUnknown},
		{"a list that cannot be read", twoRacks, "n[1-", neighboursUnknown},
		{"blocks without nodes", "- topology: nvl\n  block:\n    blocks:\n      - block: b1\n      - block: b2\n", "n[1-2]", neighboursUnknown},
		{"a tree alone", twoRacks[strings.Index(twoRacks, "- topology: fabric"):], "n[1-2]", neighboursUnknown},
		{"a tree before blocks", "- topology: fabric\n  tree:\n    switches:\n      - switch: s\n        nodes: n[1-4]\n" + twoRacks[4:strings.Index(twoRacks, "- topology: fabric")], "n[1-2]", neighboursNone},
		{"nodes before the block's name", "- topology: nvl\n  block:\n    blocks:\n      - nodes: n1\n        block: b1\n      - nodes: n2\n        block: b2\n", "n[1-2]", neighboursNone},
		{"quotes and comments", "- topology: nvl # all\n  block:\n    blocks: # racks\n    - block: 'b1'\n      nodes: \"n1\" # one\n    # nodes: n[1-2]\n    - block: b2\n      nodes: n2 # two\n", "n[1-2]", neighboursNone},
		{"in two blocks", "- topology: a\n  block:\n    blocks:\n      - block: b1\n        nodes: n1\n      - block: b2\n        nodes: n2\n- topology: b\n  block:\n    blocks:\n      - block: b1\n        nodes: n[1-2]\n", "n[1-2]", neighboursSome},
		{"flow style", "- topology: nvl\n  block:\n    blocks: [{block: b1, nodes: n1}, {block: b2, nodes: n2}]\n", "n[1-2]", neighboursUnknown},
		{"a block that cannot be read", strings.Replace(twoRacks, "n[2,4]", "n[2,", 1), "n[1-2]", neighboursUnknown},
		{"a value over two lines", strings.Replace(twoRacks, "n[2,4]", "n4,\n          n2", 1), "n[1-2]", neighboursUnknown},
		{"conf, apart", conf("BlockName=a Nodes=n1\nblockname=b nodes=n2 # n1\nBlockSizes=1\n"), "n[1-2]", neighboursNone},
		{"conf, over two lines", conf("BlockName=a \\\nNodes=n1,n2\n"), "n[1-2]", neighboursSome},
		{"conf, a tree", conf("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n"), "n[1-2]", neighboursUnknown},
		{"conf, aggregates", conf("BlockName=a BlockIndex=0 Nodes=n1 BlockSize=1\nBlockName=b BlockIndex=1 Nodes=n2 BlockSize=1\nAggregatedBlock=[a-b] BlockIndex=2 Nodes=n[1-2] BlockSize=2\n"), "n[1-2]", neighboursNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			name, text := "topology.yaml", tt.text
			if c, is := strings.CutPrefix(text, "conf:"); is {
				name, text = "topology.conf", c
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := readNeighbours(filepath.Join(dir, "slurm.conf"), "n1", tt.list); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
	if got := readNeighbours(filepath.Join(t.TempDir(), "slurm.conf"), "n1", "n[1-2]"); got != neighboursUnknown {
		t.Errorf("no file: %d", got)
	}
}

// FuzzBlocks reads any text: a node is a neighbour only if the text has a list with both.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte(twoRacks))
	f.Add([]byte("BlockName=a Nodes=n[1-2]\n"))
	f.Add([]byte("blocks:\nnodes: '"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, blocks := range []blocksOf{yamlBlocks, confBlocks} {
			var with1, with2, both bool
			err := blocks(text, func(b block) {
				n1, n2 := false, false
				_ = hostlist.Walk(b.nodes, func(name []byte) { n1, n2 = n1 || string(name) == "n1", n2 || string(name) == "n2" })
				with1, with2, both = with1 || n1, with2 || n2, both || n1 && n2
			})
			switch got := findNeighbours(text, blocks, "n1", "n[1-2]"); {
			case got == neighboursSome && (err != nil || !both), got == neighboursNone && (err != nil || both || !with1 || !with2):
				t.Errorf("got %d, error %v, %t %t %t", got, err, with1, with2, both)
			}
			if found, known := findBlocks(text, blocks, "n[1-2]"); known && (err != nil || !with1 || !with2 || len(found) == 0) {
				t.Errorf("found %v, error %v, %t %t", found, err, with1, with2)
			}
		}
	})
}

// BenchmarkNeighbours reads the topology of 10,008 nodes for a job on 556 racks.
func BenchmarkNeighbours(b *testing.B) {
	var text, list strings.Builder
	text.WriteString("---\n- topology: nvl\n  cluster_default: true\n  block:\n    block_sizes: [18]\n    blocks:\n")
	for i := range 556 {
		fmt.Fprintf(&text, "      - block: nvl-%04d\n        nodes: gpu[%05d-%05d]\n", i, 18*i+1, 18*i+18)
		fmt.Fprintf(&list, ",gpu%05d", 18*i+1)
	}
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "topology.yaml"), []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, job := range []struct {
		name, list string
		want       neighbours
	}{{"one of each rack", list.String()[1:], neighboursNone}, {"two nodes", "gpu[00001-00002]", neighboursSome}} {
		b.Run(job.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if got := readNeighbours(filepath.Join(dir, "slurm.conf"), "gpu00001", job.list); got != job.want {
					b.Fatal(got)
				}
			}
		})
	}
}
