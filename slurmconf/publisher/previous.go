package publisher

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Previous is what the published files say. New files continue from it. Its zero value is
// that of no files.
type Previous struct {
	// Topology is nil if no topology file is published.
	Topology *placement.Previous
	// Gres has the lines of gres.conf by node.
	Gres map[string][]gres.Line
	// topologies are those of the file.
	topologies []slurmconf.Topology
	// leaving are the nodes of AnnotationLeaving.
	leaving []string
	// renamed is the number of nodes whose name differs from the files.
	renamed int
}

// readPrevious reads published files back.
func readPrevious(was *published.Set) (prev Previous, err error) {
	if len(was.Own()) == 0 {
		return prev, nil
	}
	prev.leaving, _ = hostlist.Expand(was.Annotations[published.AnnotationLeaving]) // absent or not ours: none
	lines, err := gres.Parse("gres.conf", []byte(was.Files["gres.conf"]))
	if err != nil {
		return prev, err
	}
	if prev.Gres, err = gres.ByNode(lines); err != nil {
		return prev, err
	}
	for _, name := range []string{"topology.yaml", "topology.conf"} {
		if text := was.Files[name]; text != "" {
			if prev.topologies, err = slurmconf.ParseTopologies(name, []byte(text)); err != nil {
				return prev, err
			}
			prev.Topology, err = slurmconf.PreviousOf(name, prev.topologies)
			return prev, err
		}
	}
	return prev, nil
}

// resume puts the configured topologies first, even if retired ones precede them in the
// file, so that a configuration change can be reverted while they are still there.
func (prev *Previous) resume(p *publication.Cluster) error {
	if prev.Topology == nil {
		return nil
	}
	names := slurmconf.NamesOf(p.Policy().ByLeaf, p.Format == "yaml")
	wanted := func(t slurmconf.Topology) int {
		if t.Name == names.Blocks || t.Name == names.Tree {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(prev.topologies, func(a, b slurmconf.Topology) int { return wanted(a) - wanted(b) })
	var err error
	if prev.Topology, err = slurmconf.PreviousOf("topology", prev.topologies); err != nil {
		return err
	}
	at := slices.IndexFunc(prev.topologies, func(t slurmconf.Topology) bool { return t.Block != nil })
	prev.Topology.BlocksElsewhere = at >= 0 && prev.topologies[at].Name != names.Blocks
	return nil
}

// nodes are the nodes of all files. Without a topology there are none, because all is
// made from scratch.
func (prev Previous) nodes() []string {
	if prev.Topology == nil {
		return nil
	}
	placed := prev.Topology.Places()
	names := slices.Collect(maps.Keys(placed))
	for n := range prev.Gres {
		if _, ok := placed[n]; !ok {
			names = append(names, n)
		}
	}
	return names
}

// specs are the Topology= strings that go with the files of p.
func (prev *Previous) specs(p *publication.Cluster) map[string]string {
	if prev.Topology == nil {
		return nil
	}
	placed := prev.Topology.Places()
	names := prev.names(p)
	specs := make(map[string]string, len(placed))
	for node, at := range placed {
		specs[node] = names.Spec(at.Block, at.Leaf)
	}
	return specs
}

// touch is what somebody did to published files since.
type touch int

const (
	untouched touch = iota
	edited
	replaced // by a topology without a node, as a chart does that seeds it
)

// touchedSince compares the files, parsed as prev, with their annotations. Files that the
// publisher has not written count as untouched.
func touchedSince(p *published.Set, prev Previous) touch {
	switch {
	case prev.Topology == nil || p.Annotations[published.AnnotationDigest] == published.Digest(p.Own()):
		return untouched
	case len(prev.Topology.Places()) == 0:
		return replaced
	case p.Annotations[published.AnnotationDigest] == "":
		return untouched
	}
	return edited
}
