package slurmctld

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Difference is one point in which Slurm's topology is not the file's.
type Difference struct {
	// Node is a node's name, or empty for a block, switch or size.
	Node string
	// Wanted is what the file says, and Shown what Slurm says. Empty: nothing.
	Wanted, Shown string
	// What names the unit or the size if Node is empty.
	What string
}

// The reasons of differences.
const (
	ReasonNotInSlurm  = "NotInSlurm"
	ReasonNotInFile   = "NotInFile"
	ReasonOtherPlace  = "OtherPlace"
	ReasonUnitDiffers = "UnitDiffers"
)

// Reason says in a word what differs.
func (d Difference) Reason() string {
	switch {
	case d.Node == "":
		return ReasonUnitDiffers
	case d.Shown == "":
		return ReasonNotInSlurm
	case d.Wanted == "":
		return ReasonNotInFile
	}
	return ReasonOtherPlace
}

// Message says for people what is in the file and what is in Slurm.
func (d Difference) Message() string {
	return fmt.Sprintf("%s in the file, %s in Slurm", cmp.Or(d.Wanted, "absent"), cmp.Or(d.Shown, "absent"))
}

// CompareShown compares what ParseShown read with a topology file, conf or yaml by the
// end of its name. If the file has several topologies,
// CompareShown takes the default one, or the one that has most of the shown blocks, or the first of the kind that is shown. It
// compares sizes if the file has them, as far as Slurm shows them. If the file names no
// node, because nodes register with their places, it compares no nodes. It returns the
// differences, nodes first, and how many nodes it compared.
func CompareShown(shown slurmconf.Topology, name string, data []byte) ([]Difference, int, error) {
	wanted, err := topologyLike(shown, name, data)
	if err != nil {
		return nil, 0, err
	}
	wantedPlaces, err := places(wanted)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	shownPlaces, err := places(shown)
	if err != nil {
		return nil, 0, fmt.Errorf("read shown topology: %w", err)
	}
	if len(wantedPlaces) == 0 {
		shownPlaces = nil
	}
	all := maps.Clone(wantedPlaces)
	maps.Copy(all, shownPlaces)
	nodes := slices.Sorted(maps.Keys(all))
	var out []Difference
	for _, n := range nodes {
		if w, s := wantedPlaces[n], shownPlaces[n]; w != s {
			out = append(out, Difference{Node: n, Wanted: w, Shown: s})
		}
	}
	return append(out, unitDifferences(wanted, shown)...), len(nodes), nil
}

// topologyLike returns the topology of the file that Slurm should show.
func topologyLike(shown slurmconf.Topology, name string, data []byte) (slurmconf.Topology, error) {
	all, err := slurmconf.ParseTopologies(name, data)
	if err != nil {
		return slurmconf.Topology{}, err
	}
	best := max(0, slices.IndexFunc(all, func(t slurmconf.Topology) bool { return t.Default }))
	if kindOf(all[best]) != kindOf(shown) {
		if i := slices.IndexFunc(all, func(t slurmconf.Topology) bool { return kindOf(t) == kindOf(shown) }); i >= 0 {
			best = i
		}
	}
	for i := range all { // scontrol may have been asked for another block topology
		if sharedBlocks(all[i], shown) > sharedBlocks(all[best], shown) {
			best = i
		}
	}
	return all[best], nil
}

// sharedBlocks counts the blocks that both have.
func sharedBlocks(a, b slurmconf.Topology) int {
	if a.Block == nil || b.Block == nil {
		return 0
	}
	named := make(map[string]bool, len(a.Block.Blocks))
	for i := range a.Block.Blocks {
		named[a.Block.Blocks[i].Name] = true
	}
	shared := 0
	for i := range b.Block.Blocks {
		if named[b.Block.Blocks[i].Name] {
			shared++
		}
	}
	return shared
}

// places returns the block or leaf of every node.
func places(t slurmconf.Topology) (map[string]string, error) {
	out := map[string]string{}
	var failed error
	add := func(kind, unit, nodes string) {
		err := hostlist.Walk(nodes, func(node []byte) {
			if other := out[string(node)]; other != "" {
				out[string(node)] = other + " and " + kind + " " + unit
			} else {
				out[string(node)] = kind + " " + unit
			}
		})
		if err != nil && failed == nil {
			failed = fmt.Errorf("%s %s: %w", kind, unit, err)
		}
	}
	if t.Block != nil {
		for _, b := range t.Block.Blocks {
			add("block", b.Name, b.Nodes)
		}
	}
	if t.Tree != nil {
		for _, s := range t.Tree.Switches {
			add("switch", s.Name, s.Nodes)
		}
	}
	return out, failed
}

// unitDifferences compares sizes, the order of blocks, and the tree above the
// leaves.
func unitDifferences(wanted, loaded slurmconf.Topology) []Difference {
	var out []Difference
	if w, s := kindOf(wanted), kindOf(loaded); w != s {
		return []Difference{{What: "topology", Wanted: w, Shown: s}}
	}
	differ := func(what, w, s string) {
		if w != s {
			out = append(out, Difference{What: what, Wanted: w, Shown: s})
		}
	}
	if wanted.Block != nil {
		if len(wanted.Block.Sizes) > 0 && len(loaded.Block.Sizes) > 0 {
			differ("base block size", fmt.Sprint(wanted.Block.Sizes[0]), fmt.Sprint(loaded.Block.Sizes[0]))
			differ("further block sizes", furtherSizes(wanted.Block, len(loaded.Block.Blocks)), furtherSizes(loaded.Block, len(loaded.Block.Blocks)))
		}
		for i := range max(len(wanted.Block.Blocks), len(loaded.Block.Blocks)) {
			differ(fmt.Sprintf("block at place %d", i), nameAt(wanted.Block.Blocks, i), nameAt(loaded.Block.Blocks, i))
		}
	}
	if wanted.Tree != nil {
		w, s := childrenOf(wanted.Tree), childrenOf(loaded.Tree)
		for _, sw := range wanted.Tree.Switches {
			if _, ok := s[sw.Name]; !ok {
				differ("switch "+sw.Name, "present", "")
				continue
			}
			differ("switches below "+sw.Name, w[sw.Name], s[sw.Name])
		}
		for _, sw := range loaded.Tree.Switches {
			if _, ok := w[sw.Name]; !ok {
				differ("switch "+sw.Name, "", "present")
			}
		}
	}
	return out
}

// furtherSizes returns the sizes behind the base that Slurm uses for so many base
// blocks, up to the first size that spans all of them. Slurm does not show larger
// sizes.
func furtherSizes(b *slurmconf.BlockTopology, blocks int) string {
	sizes := slices.Compact(slices.Sorted(slices.Values(b.Sizes)))
	base := sizes[0]
	if i := slices.IndexFunc(sizes, func(size int) bool { return size >= base*blocks }); i >= 0 {
		sizes = sizes[:i+1]
	}
	return cmp.Or(slurmconf.JoinNumbers(sizes[1:]), "none")
}

func kindOf(t slurmconf.Topology) string {
	switch {
	case t.Block != nil:
		return "block"
	case t.Tree != nil:
		return "tree"
	}
	return "flat"
}

func nameAt(blocks []slurmconf.Block, i int) string {
	if i < len(blocks) {
		return blocks[i].Name
	}
	return ""
}

// childrenOf returns every switch's children in one order.
func childrenOf(t *slurmconf.TreeTopology) map[string]string {
	out := make(map[string]string, len(t.Switches))
	for _, s := range t.Switches {
		names, err := hostlist.Expand(s.Children)
		if err != nil {
			out[s.Name] = s.Children
			continue
		}
		out[s.Name] = hostlist.Compress(names)
	}
	return out
}
