package lint

import (
	"errors"
	"fmt"
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
	var all []partition
	for i := range l.Partitions {
		p := &l.Partitions[i]
		l.File = p.File
		nodes := l.partitionNodes(p)
		l.lintTopologyOf(p, given)
		if s := l.sectionOf(p); l.members[s] != nil && !l.members[s].partly && len(nodes) > 0 {
			outside := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !l.lacks(s, n) })
			all = append(all, partition{p, s, nodes, outside})
		}
	}
	served := map[string]bool{} // nodes with a partition in which they run jobs of any size
	for _, p := range all {
		for _, n := range p.nodes {
			served[n] = served[n] || p.apart() || !l.lacks(p.topology, n)
		}
	}
	for _, p := range all {
		l.lintNowhere(p, served)
	}
	return l.All
}

const reasonUnknownTopology = "UnknownTopology"

// lintTopologyOf judges Topology= of a partition.
func (l *linter) lintTopologyOf(p *Partition, given bool) {
	switch {
	case p.Topology == "":
	case !l.Release.Does(slurmconf.TopologyYAML):
		l.Fatal(p.Line, reasonUnknownTopology, "take it out", "Slurm %s does not know Topology= of PartitionName, and does not start", l.Release)
	case l.sectionOf(p) != nil:
	case given && len(l.topologies) > 0 && !l.yaml:
		l.Fatal(p.Line, reasonUnknownTopology, "take Topology= of the partition out, or write topology.yaml, which has names", "partition %s uses topology %q, and topology.conf has one topology, which is called %s: slurmctld does not start", p.Name, p.Topology, topology.ConfTopology)
	case given && len(l.topologies) > 0:
		l.Fatal(p.Line, reasonUnknownTopology, "add the topology, or correct Topology= of the partition", "partition %s uses topology %q, which is not in the file: slurmctld does not start", p.Name, p.Topology)
	case !given && l.Files >= ThisHost && p.Topology != topology.ConfTopology:
		l.Fatal(p.Line, reasonUnknownTopology, "write topology.yaml, or take Topology= of the partition out", "partition %s uses topology %q, and there is no topology.yaml: slurmctld does not start", p.Name, p.Topology)
	}
}

// partition is a partition whose nodes and topology are known. outside are the nodes that the topology lacks.
type partition struct {
	*Partition
	topology       *slurmconf.Section
	nodes, outside []string
}

// apart reports whether Slurm runs jobs of any size in a partition although no block has its nodes. A tree that
// has no node of a partition runs jobs of one node only.
func (p *partition) apart() bool {
	return p.topology.Kind == topology.KindBlock && len(p.outside) == len(p.nodes)
}

// sectionOf returns the topology that a partition names, or else the default one. It is nil if there is none.
func (l *linter) sectionOf(p *Partition) *slurmconf.Section {
	at := slices.IndexFunc(l.topologies, func(s slurmconf.Section) bool { return s.Name == p.Topology || p.Topology == "" && s.Default })
	switch {
	case at >= 0:
		return &l.topologies[at]
	case p.Topology == "" && len(l.topologies) > 0:
		return &l.topologies[0]
	}
	return nil
}

// lacks reports whether neither a topology nor slurm.conf gives a node a place.
func (l *linter) lacks(s *slurmconf.Section, name string) bool {
	n, ok := l.known[name]
	return ok && !l.members[s].has(n) && !l.placed[name]
}

// lintNowhere judges the nodes of a partition that its topology lacks. A partition of many kinds of nodes, such as
// one of all nodes, is fine if each kind has a partition of its own too.
func (l *linter) lintNowhere(p partition, served map[string]bool) {
	nowhere := p.outside
	if p.Topology == "" && !p.apart() {
		nowhere = slices.DeleteFunc(slices.Clone(nowhere), func(n string) bool { return served[n] })
	}
	if len(nowhere) == 0 {
		return
	}
	other := "" // a topology that has them
	for i := range l.topologies {
		s := &l.topologies[i]
		if l.members[s] != nil && !slices.ContainsFunc(nowhere, func(n string) bool { return l.lacks(s, n) }) {
			other = s.Name
			break
		}
	}
	l.File = p.File
	list := hostlist.Compress(nowhere)
	switch {
	case p.apart() && other == "":
	case p.apart():
		l.Warn(p.Line, reasonNowhere, "write Topology="+other+" on the line PartitionName="+p.Name, "partition %s has no node of topology %s: Slurm does not see which of its nodes are near, as topology %s says", p.Name, p.topology.Name, other)
	default:
		what, remedy := "Slurm refuses jobs of more than one node there", "put them below a switch"
		if p.topology.Kind == topology.KindBlock {
			what, remedy = "a job of several nodes runs there only if it asks for such nodes alone", "give them a partition of their own"
		}
		if other != "" {
			remedy = fmt.Sprintf("give them a partition of their own, such as PartitionName=%s Topology=%[1]s Nodes=%s", other, list)
		}
		l.Warn(p.Line, reasonNowhere, remedy, "partition %s uses topology %s, which lacks %d of its %d nodes: %s: %s", p.Name, p.topology.Name, len(nowhere), len(p.nodes), what, hostlist.Shorten(list))
	}
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
		l.Fatal(p.Line, syntax.ReasonBadValue, "want such as n[001-018]", "partition %s: %v", p.Name, err)
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
