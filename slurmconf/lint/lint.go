package lint

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Plugin is slurm.conf's TopologyPlugin without "topology/".
type Plugin string

// The plugins that read topology.conf, and the one that does not.
const (
	PluginBlock Plugin = "block"
	PluginTree  Plugin = "tree"
	PluginFlat  Plugin = "flat"
)

// File is a file's name and content.
type File struct {
	Name string
	Data []byte
}

// Options is what Lint knows beside the files.
type Options struct {
	// Release of Slurm that will load the files. 0 is the latest.
	Release slurmconf.Release
	// DropsBlockSizes says that the patch level of the release is one that leaves wrong
	// block_sizes of topology.yaml out; see slurmconf.DropsBlockSizes.
	DropsBlockSizes bool
	// Plugin that slurm.conf names. If it is empty, the first line of topology.conf
	// decides.
	Plugin Plugin
	// KnownNodes are slurm.conf's nodes. If it is nil, every node is known.
	KnownNodes []string
	// PartitionTopologies are the names that partitions' Topology= use.
	PartitionTopologies []string
	// NodeTopologies are the lines NodeName of slurm.conf that have Topology=.
	NodeTopologies []NodeTopology
	// SlurmConf is the name of slurm.conf, and Settings are its settings. Without a name
	// they are not known.
	SlurmConf string
	Settings  map[string]Setting
	// GresTypes are slurm.conf's. If it is nil, every name in gres.conf is one.
	GresTypes []string
	// Nodes are slurm.conf's nodes with their processors and GPUs. If they are
	// given, Lint compares gres.conf with them, and what has slurmctld drain one of
	// them is fatal.
	Nodes map[string]*Node
}

// Node is what slurm.conf says of a node's processors and GPUs.
type Node struct {
	// Sockets, CoresPerSocket and ThreadsPerCore are 1 or more, as slurmctld reads
	// the line. Sockets are the sockets of all boards.
	Sockets, CoresPerSocket, ThreadsPerCore int
	// GPUs are the gpus that Gres= counts, in its order.
	GPUs []GPUCount
}

// GPUCount is a number of gpus of one Type. Type is empty if Gres= has none.
type GPUCount struct {
	Type  string
	Count uint64
}

// Cores is how many cores the node has. Hyperthreads do not count.
func (n *Node) Cores() int { return n.Sockets * n.CoresPerSocket }

// Reasons that several files of this package use.
const (
	reasonHostlist = "BrokenHostlist"
	reasonUnknown  = "UnknownNode"
)

// Lint says what slurmctld, and for gres.conf slurmd, does with the files.
// Together they are the files of one cluster: topology.conf, topology.yaml and
// gres.conf, told apart by the end of their names. A file that the release does
// not read is named and not looked into. Fatal means that slurmctld, or for gres.conf
// slurmd, does not start with the file. It also means that slurmctld would drain nodes, if
// Options.Nodes say what slurm.conf has. Findings stand in the order of files
// and lines.
func Lint(files []File, o Options) []topology.Finding {
	l := newLinter(o)
	var findings []topology.Finding
	conf, yaml := slices.ContainsFunc(files, isConf), slices.ContainsFunc(files, isYAML) && l.Release.YAML()
	for _, f := range files {
		l.Findings = slurmconf.Findings{File: f.Name}
		switch {
		case isGres(f):
			l.lintGres(f)
		case isYAML(f) && !yaml:
			l.Warn(1, "YAMLNotRead", "write topology.conf for this release", "Slurm %s does not read topology.yaml", l.Release)
		case isYAML(f):
			l.lintYAML(f)
		case yaml:
			l.Warn(1, "ConfNotRead", "remove one of the two files", "Slurm does not read topology.conf because there is a topology.yaml")
		default:
			l.lintConf(f)
		}
		slices.SortStableFunc(l.All, func(a, b topology.Finding) int { return cmp.Compare(a.Line, b.Line) })
		findings = append(findings, l.All...)
	}
	findings = append(findings, lintNodeTopologies(&l.Options, l.topologies)...)
	findings = append(findings, lintRank(&l.Options, l.topologies)...)
	if !conf && !yaml && (l.Plugin == PluginBlock || l.Plugin == PluginTree) {
		l.Findings = slurmconf.Findings{File: "topology.conf"}
		l.Fatal(1, "MissingFile", "write the file before slurmctld starts", "topology/%s needs a topology.conf and there is none", l.Plugin)
		findings = append(findings, l.All...)
	}
	return findings
}

func isGres(f File) bool { return strings.HasSuffix(f.Name, "gres.conf") }
func isYAML(f File) bool {
	return strings.HasSuffix(f.Name, ".yaml") || strings.HasSuffix(f.Name, ".yml")
}
func isConf(f File) bool { return !isGres(f) && !isYAML(f) }

// linter judges the files of one cluster, one after another.
type linter struct {
	slurmconf.Findings
	Options
	known map[string]int32 // node -> its number
	open  bool             // every node is known, and gets a number when it is first named
	// placed are the nodes that slurm.conf itself gives a place.
	placed map[string]bool
	// topologies are what Slurm reads from the topology file.
	topologies []slurmconf.Section
}

func newLinter(o Options) *linter {
	l := &linter{Options: o}
	if l.Release == 0 {
		l.Release = slurmconf.Latest
	}
	l.known, l.open = make(map[string]int32, max(64, len(o.KnownNodes))), o.KnownNodes == nil
	for i, n := range o.KnownNodes {
		l.known[n] = int32(i)
	}
	l.placed = map[string]bool{}
	for _, t := range o.NodeTopologies {
		for _, n := range t.Nodes {
			l.placed[n] = t.Value != ""
		}
	}
	return l
}

// number returns the number of a node that slurm.conf has.
func (l *linter) number(name []byte) (int32, bool) {
	n, ok := l.known[string(name)]
	if !ok && l.open {
		n, ok = int32(len(l.known)), true
		l.known[string(name)] = n
	}
	return n, ok
}

// lintYAML judges topology.yaml.
func (l *linter) lintYAML(f File) {
	sections, found := slurmconf.ReadYAML(f.Name, f.Data)
	l.All = append(l.All, found...)
	l.topologies = sections
	names, defaults := make(map[string]int), 0
	for i := range sections {
		s := &sections[i]
		if line, ok := names[s.Name]; ok {
			l.Warn(s.Line, "DuplicateTopology", "rename one", "topology %q was already given in line %d", s.Name, line)
		}
		names[s.Name] = s.Line
		if s.Default {
			defaults++
		}
		l.lintSection(s)
	}
	if len(sections) == 0 {
		return
	}
	if defaults != 1 {
		l.Warn(sections[0].Line, "ClusterDefault", "set cluster_default: true in exactly one topology", "%d topologies are the default: Slurm takes the first", defaults)
	}
	l.lintPartitions(names)
}

// lintConf judges topology.conf.
func (l *linter) lintConf(f File) {
	if l.Plugin == PluginFlat {
		l.topologies = []slurmconf.Section{{Name: topology.ConfTopology, Kind: string(PluginFlat)}}
		l.Warn(1, "ConfNotRead", "set TopologyPlugin, or remove the file", "topology/flat does not read topology.conf")
		return
	}
	s, found := slurmconf.ReadConf(f.Name, f.Data, string(l.Plugin))
	l.All = append(l.All, found...)
	l.topologies = []slurmconf.Section{s}
	l.lintSection(&s)
	if l.Release.YAML() {
		l.lintPartitions(map[string]int{s.Name: 1})
	}
}

func (l *linter) lintPartitions(names map[string]int) {
	for _, p := range l.PartitionTopologies {
		if _, ok := names[p]; !ok {
			l.Fatal(1, "UnknownTopology", "add the topology, or correct Topology= of the partition", "a partition uses topology %q, which is not in the file", p)
		}
	}
}
