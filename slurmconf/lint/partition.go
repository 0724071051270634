package lint

import (
	"errors"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// Partition is a line PartitionName of slurm.conf.
type Partition struct {
	Name string
	// Nodes is Nodes= as written, and Topology is empty if the line has none.
	Nodes    string
	Topology string
	File     string
	Line     int
}

// lintPartitions judges the nodes and the topologies that partitions name. given says that a topology file
// is among the files.
func (l *linter) lintPartitions(given bool) []topology.Finding {
	l.Findings = syntax.Findings{}
	for i := range l.Partitions {
		p := &l.Partitions[i]
		l.File = p.File
		nodes := l.partitionNodes(p)
		if p.Topology == "" {
			continue
		}
		at := slices.IndexFunc(l.topologies, func(s slurmconf.Section) bool { return s.Name == p.Topology })
		switch {
		case !l.Release.YAML():
			l.Fatal(p.Line, reasonUnknownTopology, "take it out", "Slurm %s does not know Topology= of PartitionName, and does not start", l.Release)
		case at >= 0:
			l.lintOutside(p, nodes, &l.topologies[at])
		case given && len(l.topologies) > 0 && !l.yaml:
			l.Fatal(p.Line, reasonUnknownTopology, "take Topology= of the partition out, or write topology.yaml, which has names", "partition %s uses topology %q, and topology.conf has one topology, which is called %s: slurmctld does not start", p.Name, p.Topology, topology.ConfTopology)
		case given && len(l.topologies) > 0:
			l.Fatal(p.Line, reasonUnknownTopology, "add the topology, or correct Topology= of the partition", "partition %s uses topology %q, which is not in the file: slurmctld does not start", p.Name, p.Topology)
		case !given && l.Whole && p.Topology != topology.ConfTopology:
			l.Fatal(p.Line, reasonUnknownTopology, "write topology.yaml, or take Topology= of the partition out", "partition %s uses topology %q, and there is no topology.yaml: slurmctld does not start", p.Name, p.Topology)
		}
	}
	return l.All
}

const reasonUnknownTopology = "UnknownTopology"

// lintOutside judges a partition with nodes that are not in the topology that it names.
func (l *linter) lintOutside(p *Partition, nodes []string, s *slurmconf.Section) {
	if len(nodes) == 0 || s.Kind != "block" && s.Kind != "tree" {
		return
	}
	placed := map[string]bool{}
	for i := range s.Units {
		if hostlist.Walk(s.Units[i].Nodes, func(name []byte) { placed[string(name)] = true }) != nil {
			return
		}
	}
	outside := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return placed[n] || l.placed[n] })
	if len(placed) == 0 || len(outside) == 0 { // with no nodes at all the nodes name their places
		return
	}
	l.Warn(p.Line, "PartitionOutside", "name the topology that has the nodes, or add the nodes to it", "partition %s uses topology %s, which lacks %d of its %d nodes: Slurm refuses jobs of more than one node there: %s", p.Name, p.Topology, len(outside), len(nodes), hostlist.Shorten(hostlist.Compress(outside)))
}

// partitionNodes judges the nodes of a partition and returns them. It returns none if they are
// not known, as those of a node set.
func (l *linter) partitionNodes(p *Partition) []string {
	if l.open || p.Nodes == "" {
		return nil
	}
	if strings.EqualFold(p.Nodes, "ALL") {
		return l.KnownNodes
	}
	nodes, err := hostlist.Expand(p.Nodes)
	switch {
	case errors.Is(err, hostlist.ErrNotPlain):
		l.NotJudged(p.Line, "partition %s: %v", p.Name, err)
		return nil
	case err != nil:
		l.Fatal(p.Line, reasonHostlist, "want such as n[001-018]", "partition %s: %v", p.Name, err)
		return nil
	}
	var unknown []string
	sets := false
	for _, n := range nodes {
		switch _, ok := l.known[n]; {
		case ok:
		case slices.Contains(l.NodeSets, n):
			sets = true
		default:
			unknown = append(unknown, n)
		}
	}
	if len(unknown) > 0 {
		l.Fatal(p.Line, reasonUnknown, "add the nodes to slurm.conf, or take them out", "partition %s has nodes that no line NodeName has, and slurmctld does not start: %s", p.Name, hostlist.Shorten(hostlist.Compress(unknown)))
	}
	if sets {
		return nil
	}
	return nodes
}
