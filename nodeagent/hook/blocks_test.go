package hook

import (
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// twoRacks is a topology.yaml with n1 and n2 in different blocks.
const twoRacks = `---
- topology: nvl
  cluster_default: true
  block:
    block_sizes: [2]
    blocks:
      - block: b1
        nodes: n[1,3]
      - block: b2
        nodes: n[2,4]
- topology: fabric
  cluster_default: false
  tree:
    switches:
      - switch: leaf1
        nodes: n[1-4]
`

// FuzzBlocks reads any text: blocks are known only if the text has both nodes.
func FuzzBlocks(f *testing.F) {
	f.Add([]byte(twoRacks))
	f.Add([]byte("BlockName=a Nodes=n[1-2]\n"))
	f.Add([]byte("blocks:\nnodes: '"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, blocks := range []blocksOf{yamlBlocks, confBlocks} {
			var with1, with2 bool
			err := blocks(text, func(b block) {
				n1, n2 := false, false
				_ = hostlist.Walk(b.nodes, func(name []byte) { n1, n2 = n1 || string(name) == "n1", n2 || string(name) == "n2" })
				with1, with2 = with1 || n1, with2 || n2
			})
			if found, known := findBlocks(text, blocks, "n[1-2]"); known && (err != nil || !with1 || !with2 || len(found) == 0) {
				t.Errorf("found %v, error %v, %t %t", found, err, with1, with2)
			}
		}
	})
}
