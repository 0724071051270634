package publisher

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Previous is what published files say, which new ones carry on. The zero
// value is that of no files.
type Previous struct {
	// Topology is nil where no topology file is published.
	Topology *topology.Previous
	// Gres has the lines of gres.conf by node.
	Gres map[string][]slurmconf.GresLine
	// Nodes is what the fragment of slurm.conf says of each node, nil where there is
	// none.
	Nodes map[string]slurmconf.FragmentNode
	// topologies are those of the file.
	topologies []slurmconf.Topology
	// leaving are the nodes of AnnotationLeaving.
	leaving []string
	// renamed is how many nodes have another name in here than in the files.
	renamed int
}

// readPrevious reads published files back.
func readPrevious(was *Published) (prev Previous, err error) {
	if was.empty() {
		return prev, nil
	}
	prev.leaving, _ = slurmconf.ExpandHostlist(was.Annotations[AnnotationLeaving]) // absent or not ours: none
	lines, err := slurmconf.ParseGres("gres.conf", []byte(was.Files["gres.conf"]))
	if err != nil {
		return prev, err
	}
	if prev.Gres, err = slurmconf.GresByNode(lines); err != nil {
		return prev, err
	}
	if text, ok := was.Files[slurmconf.SlurmNodesFile]; ok {
		if prev.Nodes, err = slurmconf.ParseFragment(slurmconf.SlurmNodesFile, []byte(text)); err != nil {
			return prev, err
		}
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

// nodes are those of all files, none where there is no topology: then all is
// made anew.
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
	for n := range prev.Nodes {
		if _, ok := placed[n]; !ok && prev.Gres[n] == nil {
			names = append(names, n)
		}
	}
	return names
}

func (prev *Previous) switches() []topology.Switch {
	if prev.Topology == nil {
		return nil
	}
	return prev.Topology.Switches
}

// specs are the Topology= strings that go with the files of p.
func (prev *Previous) specs(p *Publication) map[string]string {
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
