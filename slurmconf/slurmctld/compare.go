package slurmctld

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// Difference is one point in which Slurm's topology is not the file's. It has both places, and
// Finding says what that means.
type Difference struct {
	// Node is a node's name, or empty for a block, switch or size.
	Node string
	// Wanted is what the file says, and Shown what Slurm says. Empty: nothing.
	Wanted, Shown string
	// What names the unit or the size if Node is empty.
	What string
	// Same has the names of groups that are in both under other names, such as "rack1 = nvl-8a61c302-1".
	Same string
}

// The reasons of differences.
const (
	ReasonNotInSlurm = "NotInSlurm"
	ReasonNotInFile  = "NotInFile"
	ReasonDiffers    = "SlurmDiffers"
)

// Finding says what differs.
func (d Difference) Finding() topology.Finding {
	return topology.Finding{Subject: topology.Subject{Node: d.Node, Thing: d.What}, Severity: topology.Fatal, Reason: d.reason(), Message: d.message()}
}

// reason says in a word what differs.
func (d Difference) reason() string {
	switch {
	case d.Node != "" && d.Shown == "":
		return ReasonNotInSlurm
	case d.Node != "" && d.Wanted == "":
		return ReasonNotInFile
	}
	return ReasonDiffers
}

// message says for people what is in the file and what is in Slurm.
func (d Difference) message() string {
	if d.Same != "" {
		return d.Same
	}
	return fmt.Sprintf("%s in the file, %s in Slurm", cmp.Or(d.Wanted, "absent"), cmp.Or(d.Shown, "absent"))
}

// CompareShown compares what ParseShown read with a topology of a file. It compares sizes
// if the file has them, as far as Slurm shows them. If the file names no node, because nodes
// register with their places, it compares no nodes. A group with the same nodes under another name is
// one difference, and its nodes are none. It returns the differences, nodes first, and how many nodes it
// compared.
func CompareShown(shown, wanted topology.Topology) ([]Difference, int) {
	others := OtherNames(shown, wanted)
	shown = Renamed(shown, others)
	wantedPlaces, shownPlaces := places(wanted), places(shown)
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
	return slices.Concat(out, SameGroups(others), unitDifferences(wanted, shown)), len(nodes)
}

// OtherNames returns the names in a file, by the names in Slurm, of blocks and leaves whose name is in one of
// them alone: most nodes of either are in both.
func OtherNames(shown, wanted topology.Topology) map[string]string {
	others := map[string]string{}
	if shown.Kind != wanted.Kind {
		return others
	}
	inFile, inSlurm, unitOf := map[string]int{}, map[string]int{}, map[string]string{} // units have so many nodes
	for _, u := range topology.UnitsOf([]topology.Topology{wanted}) {
		inFile[u.Name] = len(u.Nodes)
		for _, n := range u.Nodes {
			unitOf[n] = u.Name
		}
	}
	units := topology.UnitsOf([]topology.Topology{shown})
	for _, u := range units {
		inSlurm[u.Name] = len(u.Nodes)
	}
	for _, u := range units {
		common := map[string]int{}
		for _, n := range u.Nodes {
			common[unitOf[n]]++
		}
		for name, nodes := range common {
			_, sameInFile := inFile[u.Name]
			_, sameInSlurm := inSlurm[name]
			if name != "" && !sameInFile && !sameInSlurm && 2*nodes > max(len(u.Nodes), inFile[name]) {
				others[u.Name] = name
			}
		}
	}
	return others
}

// Renamed returns a topology with other names of its blocks and leaves.
func Renamed(t topology.Topology, others map[string]string) topology.Topology {
	nameOf := func(name string) string { return cmp.Or(others[name], name) }
	t.Blocks, t.Switches = slices.Clone(t.Blocks), slices.Clone(t.Switches)
	for i := range t.Blocks {
		t.Blocks[i].Name = nameOf(t.Blocks[i].Name)
	}
	for i := range t.Switches {
		sw := &t.Switches[i]
		sw.Name, sw.Children = nameOf(sw.Name), slices.Clone(sw.Children)
		for k := range sw.Children {
			sw.Children[k] = nameOf(sw.Children[k])
		}
	}
	return t
}

// maxSame is how many groups under other names a difference names. It counts the others.
const maxSame = 6

// SameGroups returns the difference that groups have other names, or none. others are by the name in Slurm.
func SameGroups(others map[string]string) []Difference {
	if len(others) == 0 {
		return nil
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(others)) {
		pairs = append(pairs, name+" = "+others[name])
	}
	same := strings.Join(pairs[:min(len(pairs), maxSame)], ", ")
	if len(pairs) > maxSame {
		same = fmt.Sprintf("%s and %d more", same, len(pairs)-maxSame)
	}
	return []Difference{{What: "the same groups under other names", Same: same}}
}

// Like returns the topology of a file that Slurm should show. Slurm does not show its name: it
// is the one of the shown kind that has most of the shown blocks or switches, and among equals
// the default one, or else the first one. If the file has none of the kind, it is the default one.
func Like(shown topology.Topology, all []topology.Topology) topology.Topology {
	best := max(0, slices.IndexFunc(all, func(t topology.Topology) bool { return t.Default }))
	if all[best].Kind != shown.Kind {
		if i := slices.IndexFunc(all, func(t topology.Topology) bool { return t.Kind == shown.Kind }); i >= 0 {
			best = i
		}
	}
	for i := range all { // scontrol may have been asked for another one
		if sharedUnits(all[i], shown) > sharedUnits(all[best], shown) {
			best = i
		}
	}
	return all[best]
}

// sharedUnits counts the blocks and switches that both have.
func sharedUnits(a, b topology.Topology) int {
	named := make(map[string]bool, len(a.Blocks)+len(a.Switches))
	for i := range a.Blocks {
		named["block "+a.Blocks[i].Name] = true
	}
	for i := range a.Switches {
		named["switch "+a.Switches[i].Name] = true
	}
	shared := 0
	for i := range b.Blocks {
		if named["block "+b.Blocks[i].Name] {
			shared++
		}
	}
	for i := range b.Switches {
		if named["switch "+b.Switches[i].Name] {
			shared++
		}
	}
	return shared
}

// places returns the block or leaf of every node.
func places(t topology.Topology) map[string]string {
	out := map[string]string{}
	units := topology.UnitsOf([]topology.Topology{t})
	for i := range units {
		place := unitWord[units[i].Kind] + " " + units[i].Name
		for _, n := range units[i].Nodes {
			if other := out[n]; other != "" {
				out[n] = other + " and " + place
			} else {
				out[n] = place
			}
		}
	}
	return out
}

// unitWord is what a unit of each kind of topology is called.
var unitWord = map[string]string{topology.KindBlock: "block", topology.KindTree: "switch"}

// unitDifferences compares sizes, the order of blocks, and the tree above the
// leaves.
func unitDifferences(wanted, loaded topology.Topology) []Difference {
	var out []Difference
	if w, s := wanted.Kind, loaded.Kind; w != s {
		return []Difference{{What: "topology", Wanted: w, Shown: s}}
	}
	differ := func(what, w, s string) {
		if w != s {
			out = append(out, Difference{What: what, Wanted: w, Shown: s})
		}
	}
	if len(wanted.Sizes) > 0 && len(loaded.Sizes) > 0 {
		differ("base block size", fmt.Sprint(wanted.Sizes[0]), fmt.Sprint(loaded.Sizes[0]))
		differ("further block sizes", furtherSizes(wanted.Sizes, len(loaded.Blocks)), furtherSizes(loaded.Sizes, len(loaded.Blocks)))
	}
	for i := range max(len(wanted.Blocks), len(loaded.Blocks)) {
		differ(fmt.Sprintf("block at place %d", i), nameAt(wanted.Blocks, i), nameAt(loaded.Blocks, i))
	}
	w, s := childrenOf(wanted.Switches), childrenOf(loaded.Switches)
	for _, sw := range wanted.Switches {
		if _, ok := s[sw.Name]; !ok {
			differ("switch "+sw.Name, "present", "")
			continue
		}
		differ("switches below "+sw.Name, w[sw.Name], s[sw.Name])
	}
	for _, sw := range loaded.Switches {
		if _, ok := w[sw.Name]; !ok {
			differ("switch "+sw.Name, "", "present")
		}
	}
	return out
}

// furtherSizes returns the sizes behind the base that Slurm uses for so many base
// blocks, up to the first size that spans all of them. Slurm does not show larger
// sizes.
func furtherSizes(all []int, blocks int) string {
	sizes := slices.Compact(slices.Sorted(slices.Values(all)))
	base := sizes[0]
	if i := slices.IndexFunc(sizes, func(size int) bool { return size >= base*blocks }); i >= 0 {
		sizes = sizes[:i+1]
	}
	return cmp.Or(syntax.JoinNumbers(sizes[1:]), "none")
}

func nameAt(blocks []topology.Block, i int) string {
	if i < len(blocks) {
		return blocks[i].Name
	}
	return ""
}

// childrenOf returns every switch's children in one order.
func childrenOf(switches []topology.Switch) map[string]string {
	out := make(map[string]string, len(switches))
	for i := range switches {
		out[switches[i].Name] = hostlist.Compress(switches[i].Children)
	}
	return out
}
