package lint

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
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
	// Plugin that slurm.conf names. If it is empty, the first line of topology.conf
	// decides.
	Plugin Plugin
	// KnownNodes are slurm.conf's nodes. If it is nil, every node is known.
	KnownNodes []string
	// PartitionTopologies are the names that partitions' Topology= use.
	PartitionTopologies []string
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

// Lint says what slurmctld, and for gres.conf slurmd, does with the files.
// Together they are the files of one cluster: topology.conf, topology.yaml and
// gres.conf, told apart by the end of their names. A file that the release does
// not read is named and not looked into. Findings stand in the order of files
// and lines.
func Lint(files []File, o Options) []Finding {
	l := newLinter(o)
	conf, yaml := -1, -1
	for i, f := range files {
		switch {
		case strings.HasSuffix(f.Name, ".yaml") || strings.HasSuffix(f.Name, ".yml"):
			yaml = i
		case !strings.HasSuffix(f.Name, "gres.conf"):
			conf = i
		}
	}
	if yaml >= 0 && !l.Release.YAML() {
		l.file = files[yaml].Name
		l.warn(1, "YAMLNotRead", "write topology.conf for this release", fmt.Sprintf("Slurm %s does not read topology.yaml", l.Release))
		yaml = -1
	}
	switch {
	case yaml >= 0:
		l.lintYAML(files[yaml])
		if conf >= 0 {
			l.file = files[conf].Name
			l.warn(1, "ConfNotRead", "remove one of the two files", "Slurm does not read topology.conf because there is a topology.yaml")
		}
	case conf >= 0:
		l.lintConf(files[conf])
	case l.Plugin == PluginBlock || l.Plugin == PluginTree:
		l.file = "topology.conf"
		l.fatal(1, "MissingFile", "write the file before slurmctld starts", fmt.Sprintf("topology/%s needs a topology.conf and there is none", l.Plugin))
	}
	for _, f := range files {
		if strings.HasSuffix(f.Name, "gres.conf") {
			l.lintGres(f)
		}
	}
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f.Name] = i
	}
	slices.SortStableFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return l.findings
}

// linter judges the files of one cluster.
type linter struct {
	report
	Options
	known map[string]int32 // node -> its number
	hosts hostlist.Walker
	open  bool // every node is known, and gets a number when it is first named
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
	l.file = f.Name
	sections := readYAML(&l.report, f)
	names, defaults := make(map[string]int), 0
	for i := range sections {
		s := &sections[i]
		if line, ok := names[s.name]; ok {
			l.warn(s.line, "DuplicateTopology", "rename one", fmt.Sprintf("topology %q was already given in line %d", s.name, line))
		}
		names[s.name] = s.line
		if s.isDefault {
			defaults++
		}
		l.lintSection(s)
	}
	if len(sections) == 0 {
		return
	}
	if defaults != 1 {
		l.warn(sections[0].line, "ClusterDefault", "set cluster_default: true in exactly one topology", fmt.Sprintf("%d topologies are the default: Slurm takes the first", defaults))
	}
	l.lintPartitions(names)
}

// lintConf judges topology.conf.
func (l *linter) lintConf(f File) {
	l.file = f.Name
	if l.Plugin == PluginFlat {
		l.warn(1, "ConfNotRead", "set TopologyPlugin, or remove the file", "topology/flat does not read topology.conf")
		return
	}
	s, whole := readConf(&l.report, f, l.Plugin)
	if !whole {
		return
	}
	l.lintSection(s)
	if l.Release.YAML() {
		l.lintPartitions(map[string]int{"default": 1})
	}
}

func (l *linter) lintPartitions(names map[string]int) {
	for _, p := range l.PartitionTopologies {
		if _, ok := names[p]; !ok {
			l.fatal(1, "UnknownTopology", "add the topology, or correct Topology= of the partition", fmt.Sprintf("a partition uses topology %q, which is not in the file", p))
		}
	}
}

// isFunction reports whether a name is a host list function such as block{b1}.
func isFunction(name []byte) bool { return bytes.IndexByte(name, '{') >= 0 }
