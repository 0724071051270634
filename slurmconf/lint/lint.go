package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/syntax"
	"github.com/quoin-hpc/quoin/topology"
)

// Plugin is slurm.conf's TopologyPlugin as it is written there.
type Plugin string

// The plugins that Quoin writes topology.conf for.
const (
	PluginBlock Plugin = "topology/block"
	PluginTree  Plugin = "topology/tree"
)

// File is a file's name and content.
type File struct {
	Name string
	// Data has the lines of included files in it, if syntax.Join has put them there.
	Data []byte
	// Included is what Join says of them.
	Included *syntax.Included
}

// Reach is for whom a source speaks. That something is absent is judged only by a source that would have it.
type Reach int

// The reaches of files.
const (
	// MayGrow: there may be other files beside these.
	MayGrow Reach = iota
	// ThisHost: what is not among the files is not on slurmctld's host. Other hosts may have files of their own.
	ThisHost
	// AllHosts: every host has these files and no others, because slurmctld sends them (enable_configless).
	AllHosts
)

// Options is what Lint knows beside the files.
type Options struct {
	// Release of Slurm that will load the files. 0 is the latest.
	Release slurmconf.Release
	// GRES says that the GRES of slurm.conf's nodes are judged although there is no gres.conf.
	GRES bool
	// Files is the reach of the files.
	Files Reach
	// Plugin that slurm.conf names. If it is empty and slurm.conf is not known, the first
	// line of topology.conf decides.
	Plugin Plugin
	// KnownNodes are slurm.conf's nodes. If it is nil, every node is known.
	KnownNodes []string
	// Partitions are the lines PartitionName of slurm.conf, and NodeSets the names of its lines
	// NodeSet.
	Partitions []Partition
	NodeSets   []string
	// NodeTopologies are the lines NodeName of slurm.conf that have Topology=.
	NodeTopologies []NodeTopology
	// SlurmConf is the name of slurm.conf, and Settings are its settings. Without a name
	// they are not known.
	SlurmConf string
	Settings  map[string]Setting
	// Words are the keys of the lines NodeName and PartitionName, by the line's own key and their own in lower case,
	// at the first line that has them.
	Words map[string]map[string]Setting
	// GresTypes are slurm.conf's. If it is nil, every name in gres.conf is one. If it is
	// empty, Slurm does not open gres.conf.
	GresTypes []string
	// Nodes are slurm.conf's nodes with their processors and GPUs. If they are
	// given, Lint compares gres.conf with them, and what has slurmctld drain one of
	// them is fatal.
	Nodes map[string]*Node
	// Found is what nodes register that detect their GPUs, by labels or reports. It is compared with Nodes.
	Found map[string]gres.Registration
}

// Node is what slurm.conf says of a node's processors and GPUs.
type Node struct {
	// Sockets, CoresPerSocket and ThreadsPerCore are 1 or more, as slurmctld reads
	// the line. Sockets are the sockets of all boards.
	Sockets, CoresPerSocket, ThreadsPerCore int
	// Gres is what Gres= counts.
	Gres gres.Counts
	// Cloud says that State is CLOUD: slurmctld reads the node's lines of gres.conf itself.
	Cloud bool
	// File and Line are the place of the line NodeName.
	File string
	Line int
}

// Cores is how many cores the node has. Hyperthreads do not count.
func (n *Node) Cores() int { return n.Sockets * n.CoresPerSocket }

// Reasons that this package alone has, or names for itself. The publisher says ReasonForAll, too.
const (
	ReasonForAll       = "GresForAll"
	reasonUnknown      = "UnknownNode"
	reasonNotRead      = "NotRead"
	reasonAutoDetect   = gres.ReasonAutoDetect
	reasonUnknownGres  = "UnknownGres"
	reasonGresLine     = gres.ReasonLine
	reasonCores        = "Cores"
	reasonFewerGPUs    = gres.ReasonFewerGPUs
	reasonMoreGPUs     = "MoreGPUs"
	reasonDuplicate    = "Duplicate"
	reasonPlaceholder  = "Placeholder"
	reasonNotATree     = "NotATree"
	reasonTreeSize     = "TreeTooLarge"
	reasonNodeTopology = "NodeTopology"
	reasonNowhere      = "NodesNowhere"
	reasonChannels     = "ImexChannels"
	reasonProlog       = "PrologTooShort"
	reasonDevices      = "DevicesNotConstrained"
	reasonNoBlockRank  = "NoBlockRank"
)

// Lint says what slurmctld, and for gres.conf slurmd, does with the files.
// Together they are the files of one cluster: topology.conf, topology.yaml, gres.conf and, after
// it, cgroup.conf, told apart by the end of their names. Fatal means that slurmctld, or for
// gres.conf slurmd, does not start with the file, or that no topology file is read. It also
// means that slurmctld would drain nodes, if Options.Nodes say what slurm.conf has. Findings
// stand in the order of files and lines.
func Lint(files []File, o Options) []topology.Finding {
	findings, _ := Judge(files, o)
	return findings
}

// Judge returns what Lint finds, and counts the nodes whose GPUs agree.
func Judge(files []File, o Options) ([]topology.Finding, GPULines) {
	l := newLinter(o)
	l.yaml = l.Release.Does(slurmconf.TopologyYAML) && slices.ContainsFunc(files, isYAML)
	findings := append(l.lintWords(), l.lintPlugin()...)
	for _, f := range files {
		findings = append(findings, l.lintFile(f, files)...)
	}
	if !slices.ContainsFunc(files, isConf) && !l.yaml && l.Files >= ThisHost && l.kind != "" && l.kind != topology.KindFlat {
		findings = append(findings, topology.Finding{Subject: topology.Subject{File: "topology.conf", Line: 1}, Severity: topology.Fatal, Reason: slurmconf.ReasonNoTopology,
			Message: fmt.Sprintf("%s needs a topology.conf and there is none: slurmctld waits a minute for it and then does not start", l.Plugin), Remedy: "write the file before slurmctld starts, or take TopologyPlugin out"})
	}
	findings = append(findings, l.lintCounted(slices.ContainsFunc(files, isGres))...)
	findings = append(findings, l.lintPartitions(slices.ContainsFunc(files, isTopology))...)
	findings = append(findings, l.lintNodeTopologies()...)
	findings = append(findings, lintRank(&l.Options, l.topologies)...)
	if !l.GRES && !slices.ContainsFunc(files, isGres) { // nobody asks
		return findings, GPULines{}
	}
	return findings, l.gpuLines()
}

// lintPlugin notes what the release reads topology.conf as, and names a TopologyPlugin that
// it does not have. With a topology.yaml the plugin does not matter.
func (l *linter) lintPlugin() []topology.Finding {
	if l.yaml || l.Plugin == "" && l.SlurmConf == "" {
		return nil
	}
	kind, known := l.Release.TopologyPlugin(string(l.Plugin))
	l.kind = kind
	if known {
		return nil
	}
	s := l.setting("topologyplugin")
	l.Findings = syntax.Findings{}
	s.Key = "TopologyPlugin"
	l.unknownPlugin(s, string(l.Plugin), "write topology/block or topology/tree, or take the key out if there is no topology.conf")
	return l.All
}

// setting returns a key of slurm.conf, or the first line of slurm.conf.
func (o *Options) setting(key string) Setting {
	if s, ok := o.Settings[key]; ok {
		return s
	}
	return Setting{File: cmp.Or(o.SlurmConf, "slurm.conf"), Line: 1}
}

// lintFile judges one of the files.
func (l *linter) lintFile(f File, files []File) []topology.Finding {
	l.Findings, l.noted = syntax.Findings{File: f.Name}, map[int]bool{}
	if !isYAML(f) {
		if f.Included == nil {
			f.Data, f.Included = syntax.Join(f.Name, f.Data, nil)
		}
		if len(f.Included.Unread) > 0 { // without these lines nothing is known of the whole
			return f.Included.Unread
		}
	}
	switch {
	case isGres(f):
		l.about(slices.Collect(maps.Keys(l.Nodes)), func() { l.lintGres(f) })
	case isCgroup(f):
		l.lintCgroup(f)
	case isYAML(f) && l.yaml:
		l.lintYAML(f)
	case isYAML(f) && slices.ContainsFunc(files, isConf):
		l.Warn(1, reasonNotRead, "remove it", "Slurm %s does not read topology.yaml", l.Release)
	case isYAML(f):
		l.Fatal(1, reasonNotRead, "write topology.conf for this release", "Slurm %s does not read topology.yaml", l.Release)
	case l.yaml:
		l.Warn(1, reasonNotRead, "remove one of the two files", "Slurm does not read topology.conf because there is a topology.yaml")
	default:
		l.lintConf(f)
	}
	slices.SortStableFunc(l.All, func(a, b topology.Finding) int { return cmp.Compare(a.Line, b.Line) })
	for i := range l.All {
		l.All[i].File, l.All[i].Line = f.Included.At(f.Name, l.All[i].Line)
	}
	return l.All
}

func isGres(f File) bool { return strings.HasSuffix(f.Name, "gres.conf") }
func isYAML(f File) bool {
	return strings.HasSuffix(f.Name, ".yaml") || strings.HasSuffix(f.Name, ".yml")
}
func isCgroup(f File) bool   { return strings.HasSuffix(f.Name, "cgroup.conf") }
func isConf(f File) bool     { return isTopology(f) && !isYAML(f) }
func isTopology(f File) bool { return !isGres(f) && !isCgroup(f) }

// linter judges the files of one cluster, one after another.
type linter struct {
	syntax.Findings
	Options
	known map[string]int32 // node -> its number
	open  bool             // every node is known, and gets a number when it is first named
	// placed are the nodes that slurm.conf itself gives a place.
	placed map[string]bool
	// yaml says that Slurm reads a topology.yaml, and kind is what it otherwise reads
	// topology.conf as. kind is empty if that is not known.
	yaml bool
	kind string
	// topologies are what Slurm reads from the topology file.
	topologies []slurmconf.Section
	// members are the nodes of the topologies that are judged.
	members map[*slurmconf.Section]*membership
	// gpus says that nodes have GPUs, by slurm.conf or gres.conf. unread says that slurmd does not read lines for
	// gpus, because of GresTypes.
	gpus, unread bool
	// verdicts are by node of slurm.conf. noted are the findings of All of which about has noted the nodes.
	verdicts map[string]verdict
	noted    map[int]bool
}

func newLinter(o Options) *linter {
	l := &linter{Options: o, members: map[*slurmconf.Section]*membership{}, verdicts: map[string]verdict{}}
	if l.Release == 0 {
		l.Release = slurmconf.Latest
	}
	if l.Files == ThisHost && strings.Contains(strings.ToLower(l.Settings["slurmctldparameters"].Value), "enable_configless") {
		l.Files = AllHosts
	}
	l.known, l.open = make(map[string]int32, max(64, len(o.KnownNodes))), o.KnownNodes == nil
	for i, n := range o.KnownNodes {
		l.known[n] = int32(i)
	}
	for _, n := range o.Nodes {
		l.gpus = l.gpus || len(n.Gres.GPUs) > 0
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
			l.Warn(s.Line, reasonDuplicate, "rename one", "topology %q was already given in line %d", s.Name, line)
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
		l.Warn(sections[0].Line, slurmconf.ReasonBadTopology, "set cluster_default: true in exactly one topology", "%d topologies are the default: Slurm takes the first", defaults)
	}
}

// lintConf judges topology.conf.
func (l *linter) lintConf(f File) {
	if l.kind == topology.KindFlat {
		l.topologies = []slurmconf.Section{{Name: topology.ConfTopology, Kind: topology.KindFlat}}
		like, _ := slurmconf.ReadConf(f.Name, f.Data, "")
		why := fmt.Sprintf("TopologyPlugin is %s", l.Plugin)
		if l.Plugin == "" {
			why = l.SlurmConf + " has no TopologyPlugin"
		}
		l.Fatal(1, reasonNotRead, fmt.Sprintf("set TopologyPlugin=topology/%s, or remove the file", like.Kind), "%s: Slurm does not read topology.conf and starts without a topology", why)
		return
	}
	s, found := slurmconf.ReadConf(f.Name, f.Data, l.kind)
	l.All = append(l.All, found...)
	l.topologies = []slurmconf.Section{s}
	l.lintSection(&l.topologies[0])
}
