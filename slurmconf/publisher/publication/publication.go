// Package publication is the configuration of one Slurm cluster's set of files: which
// nodes it takes, how Slurm names them, what is written and where. A Publication is what a
// site writes. A Cluster is a Publication that was completed, checked and compiled.
package publication

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Publication is one Slurm cluster's set of files: which nodes it takes, how
// Slurm names them, what is written and where. The zero value of a field means
// its default.
type Publication struct {
	// Name is the publication's key among the publications.
	Name string `yaml:"-"`
	// Namespace is the namespace of the ConfigMap.
	Namespace string `yaml:"namespace" default:"slurm" plan:"yes"`
	// ConfigMap is the name of the ConfigMap that gets the files. A directory store has them in
	// published/<namespace>/<configMap>. Empty: quoin-slurm for the publication default,
	// quoin-slurm-NAME for another one.
	ConfigMap string `yaml:"configMap" default:"quoin-slurm" plan:"no"`
	// Nodes chooses among the cluster's nodes.
	Nodes Selection `yaml:"nodes"`
	// SlurmNames says how Slurm calls a node: "short" (up to the first dot), "full", "label:KEY",
	// "annotation:KEY", or "s/REGEXP/REPLACEMENT/", which must match the whole name. "pod:SELECTOR"
	// takes the name of the pod on the node that has these labels, in the publication's namespace.
	// "slinky", "slinky:CONTROLLER" and "slinky:NAMESPACE/CONTROLLER" take the name from Slinky's
	// pods. With nodes.slinky the default is its Controller, which "slinky" means too.
	SlurmNames string `yaml:"slurmNames" default:"short" plan:"yes"`
	// SlurmVersion is the release that loads the files, such as "26.05". Empty: the release that runs,
	// as slurm.url or slurm.scontrol says, else the tag of the image of Slinky's Controller. While none is
	// seen, the files are for 25.05 and newer. 24.11 gets no blocks: set topology to "tree".
	SlurmVersion string `yaml:"slurmVersion" plan:"yes"`
	// Format is "conf" (topology.conf) or "yaml" (topology.yaml, 25.05 and newer). The
	// default is "yaml" if the release takes it. Without slurmVersion a published topology.conf stays.
	Format string `yaml:"format" words:"conf yaml" plan:"yes"`
	// Topology is "block", "tree", or "auto": blocks if there are NVLink domains, else
	// the tree of network tiers.
	Topology string `yaml:"topology" words:"auto block tree" default:"auto" plan:"yes"`
	// DefaultTopology is the topology of partitions that name none: "nvl", "leaf" or one of their
	// parts, "fabric" or "flat". Empty: the blocks with most GPUs, else the tree. It needs format
	// "yaml".
	DefaultTopology string `yaml:"defaultTopology" plan:"yes"`
	// FlatTopology adds the topology "flat", or writes it alone if no block and no switch is known. It
	// needs format "yaml".
	FlatTopology bool `yaml:"flatTopology" plan:"yes"`
	// BlocksBy is what makes a block: "nvlink", the NVLink domain, or "leaf", the
	// nearest switch.
	BlocksBy string `yaml:"blocksBy" words:"nvlink leaf" default:"nvlink" plan:"yes"`
	// ParentBlocks is the number of blocks in a domain above them, such as a group of racks: a power
	// of two. Such blocks stay together. 0: none.
	ParentBlocks int `yaml:"parentBlocks" unit:"blocks" plan:"yes"`
	// DomainLabels are node labels that name the NVLink domain if nvidia.com/gpu.clique does not. The label
	// that most nodes have counts, of equals the first. "auto" stands for all known ones.
	DomainLabels []string `yaml:"domainLabels" default:"[auto]" plan:"yes"`
	// TierLabels are node labels that name the switches above a node, nearest first. "auto", alone,
	// takes the labels of the known source that most nodes have.
	TierLabels []string `yaml:"tierLabels" default:"[auto]" plan:"yes"`
	// FabricFiles are outputs of ibnetdiscover, which go before labels: absolute paths of files or of
	// directories with one file for each fabric, or "configmaps:SELECTOR" for ConfigMaps in Quoin's
	// namespace, which together are one output. gzip is understood.
	FabricFiles []string `yaml:"fabricFiles" plan:"yes"`
	// ComputeAdapters are the network adapters that jobs compute with: names, or patterns such as
	// "mlx5_[0-7]". Empty: the adapters that quoin discover shows as compute.
	ComputeAdapters []string `yaml:"computeAdapters" plan:"yes"`
	// RootSwitch is the name of the one switch above all others, if no label names it. Empty: switches
	// that no label joins get the root switch "fabric" (finding RootAssumed), unless they are known to
	// be separate fabrics.
	RootSwitch string `yaml:"rootSwitch" plan:"yes"`
	// Fabrics is "separate" if switches that no label joins have no link: no job spans them. Empty:
	// see rootSwitch.
	Fabrics string `yaml:"fabrics" words:"separate" plan:"yes"`
	// BaseBlockSize is the first of Slurm's BlockSizes, one for all racks. 0: chosen from the domains
	// at the first publication.
	BaseBlockSize int `yaml:"baseBlockSize" unit:"nodes" plan:"yes"`
	// BlockSizes are the further BlockSizes, each the base times a power of two.
	BlockSizes []int `yaml:"blockSizes" unit:"nodes" plan:"yes"`
	// SizeClasses are the base block sizes of racks of different sizes, the largest first. Each has a
	// topology of its own. Empty: racks of all sizes are in one topology.
	SizeClasses []int `yaml:"sizeClasses" unit:"nodes" plan:"yes"`
	// MaxDomainGPUs says how many GPUs one NVLink domain may have, by the chip in the product's name,
	// such as {GB200: 144}; 0 says that NVLink ends in the machine. Nodes of a larger domain join no
	// block, and need no IMEX. Quoin's own limits are 72 for GB200 and GB300, 256 for GH200, and one
	// machine for H100 and the like. Other products have none: name the chip here.
	MaxDomainGPUs Pairs[int] `yaml:"maxDomainGPUs" plan:"yes"`
	// ForgetBlocks are blocks without nodes whose places are given up.
	ForgetBlocks []string `yaml:"forgetBlocks" plan:"yes"`
	// ForgetSwitches are leaf switches without nodes that are given up.
	ForgetSwitches []string `yaml:"forgetSwitches" plan:"yes"`
	// Gres says how gres.conf lists GPUs.
	Gres Gres `yaml:"gres"`
	// Annotate writes topology.slinky.slurm.net/spec on Nodes, if the release takes it.
	Annotate *bool `yaml:"annotate" default:"true" plan:"no"`
	// Labels writes the place of each node as labels of its Node, for other schedulers:
	// quoin.dev/block, quoin.dev/leaf, quoin.dev/spine and quoin.dev/clique, once Slurm has loaded the
	// place. It needs Kubernetes.
	Labels bool `yaml:"labels" plan:"no"`
	// Membership says what places nodes: "file", the topology file, or "annotation", the Node
	// annotation. Then the file has blocks and switches alone, and a node that comes, goes or moves
	// changes no file. Empty: "annotation" if Slinky's worker pods name the nodes, else "file".
	Membership string `yaml:"membership" words:"file annotation" plan:"yes"`
	// Slurm says how the running Slurm is asked what it has loaded.
	Slurm Slurm `yaml:"slurm"`
	// SettleTime is how long facts must stay the same before they are published. Facts that keep
	// changing delay it 6 times as long at most. The first publication also waits until no node is
	// added for 6 times as long (unless baseBlockSize is set), and up to 30 times as long for unknown
	// NVLink domains. With parentBlocks a new block waits as long for its switches.
	SettleTime Duration `yaml:"settleTime" default:"10s" most:"1h" plan:"no"`
	// FabricWait is how long GPUs may take to register with their NVLink fabric. After that the node's
	// fabric counts as not ready.
	FabricWait Duration `yaml:"fabricWait" default:"10m" most:"24h" plan:"no"`
	// FabricPartitions says that Fabric Manager gives out partitions of a machine's NVLink (FABRIC_MODE=1),
	// as for virtual machines. Then nobody waits for GPUs that are in no active partition. False: it is so
	// on the machines where Fabric Manager's configuration says it.
	FabricPartitions bool `yaml:"fabricPartitions" plan:"no"`
	// RemoveAfter is how long a node stays in the files after its Node object, its worker pod or,
	// without Kubernetes, its report has gone, or after the publication no longer takes it. It leaves
	// at once if the key nodes was changed.
	RemoveAfter Duration `yaml:"removeAfter" default:"10m" plan:"no"`
	// LoadTimeout is the time in which slurmctld loads published files. A Node annotation with a new
	// block or leaf switch waits as long. Later the files count as never loaded.
	LoadTimeout Duration `yaml:"loadTimeout" default:"2m" plan:"no"`
	// MaxChange is the share of published nodes that may move, leave or get another name within
	// an hour. More waits for approval. In Kubernetes a node whose Node object or worker pod is
	// gone does not count. 1 turns the limit off. With 0 one node may still change.
	MaxChange *float64 `yaml:"maxChange" unit:"share, 0 to 1" default:"0.2" plan:"no"`
}

// SettleMost is how long facts that keep changing delay a publication at most. Before the
// first publication no node is added for as long.
func (p *Publication) SettleMost() time.Duration { return 6 * p.SettleTime.Duration }

// FirstMost is how long the first publication waits at most. A new block waits as long for
// the switches above it.
func (p *Publication) FirstMost() time.Duration { return 30 * p.SettleTime.Duration }

// Selection chooses nodes. The zero value takes all.
type Selection struct {
	// Selector is a Kubernetes label selector, such as "slurm.example.com/cluster=a".
	Selector string `yaml:"selector" plan:"yes"`
	// Slinky is CONTROLLER or NAMESPACE/CONTROLLER of Slinky: its nodes are those on which its worker
	// pods run.
	Slinky string `yaml:"slinky" plan:"yes"`
}

// WhyNone says in a message why the selection takes no node at all.
func (s *Selection) WhyNone() string {
	switch {
	case s.Slinky != "":
		return "no node has a worker pod of nodes.slinky, which is " + s.Slinky
	case s.Selector != "":
		return "no node has the labels of nodes.selector, which is " + s.Selector
	}
	return "no node is known"
}

// Slurm says how the running Slurm is asked. Without URL and Scontrol nobody asks, and
// LoadTimeout is the time in which slurmctld loads files.
type Slurm struct {
	// URL is the address of slurmrestd (Slurm 25.05 or newer): http://HOST:PORT, https://HOST:PORT or
	// unix:/PATH.
	URL string `yaml:"url" plan:"no"`
	// TokenFile holds a token of any Slurm user for slurmrestd. It is read for each question.
	TokenFile string `yaml:"tokenFile" plan:"no"`
	// Scontrol is the program that is asked instead, such as "scontrol".
	Scontrol string `yaml:"scontrol" plan:"no"`
	// Reconfigure tells slurmctld to read its files again, once for each revision, if it has not done
	// so loadTimeout after they were published. The user must be an operator.
	Reconfigure bool `yaml:"reconfigure" plan:"no"`
}

// Gres is what a site can choose of gres.conf.
type Gres struct {
	// Naming says how a product becomes a Type: "model", "full" or "short".
	Naming string `yaml:"naming" words:"model full short" default:"model" plan:"yes"`
	// Types are the Types of products that naming is not to name.
	Types Pairs[string] `yaml:"types" plan:"yes"`
	// LeaveOut are GPUs that gres.conf leaves out, by node or host list of nodes: UUIDs and device
	// files, such as {"n[01-04]": [/dev/nvidia4]} for the GPU of a display. The node needs a report,
	// and Gres= in slurm.conf must count only its other GPUs.
	LeaveOut Pairs[[]string] `yaml:"leaveOut" plan:"yes"`
	// Cores writes the cores of each GPU's socket. slurm.conf must have the nodes' real sockets and
	// cores.
	Cores bool `yaml:"cores" plan:"yes"`
	// AutoDetect is how all nodes detect their GPUs: "nvidia", "nvml" or "full". "off" only lists
	// GPUs. Empty: GPUs are listed, and nodes without a report detect them, unless labels say MIG. If
	// annotations place the nodes, a node detects its GPUs if slurmd registers the same GPUs by that.
	AutoDetect string `yaml:"autoDetect" words:"off nvidia nvml full" plan:"yes"`
}

// Pairs are values by name.
type Pairs[V any] map[string]V

// UnmarshalYAML implements yaml.Unmarshaler: what is read replaces what was there.
func (p *Pairs[V]) UnmarshalYAML(n *yaml.Node) error {
	*p = nil
	return n.Decode((*map[string]V)(p))
}

// gpusByNode returns the names of GPUs by node, of those by host list.
func gpusByNode(left Pairs[[]string]) (map[string][]string, error) {
	gpus := make(map[string][]string)
	for _, list := range slices.Sorted(maps.Keys(left)) {
		nodes, err := hostlist.Expand(list)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", list, err)
		}
		for _, node := range nodes {
			if gpus[node] != nil {
				return nil, fmt.Errorf("node %s is named twice: want all its GPUs in one list", node)
			}
			gpus[node] = left[list]
		}
	}
	return gpus, nil
}

// Duration is a time.Duration that YAML holds as text such as "30s". Its zero
// value means the default; 0s, once read, means 0s.
type Duration struct {
	time.Duration
	read bool
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: cannot unmarshal %s `%s` into time.Duration", n.Line, n.ShortTag(), n.Value)}}
	}
	*d = Duration{v, true}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// DefaultName is the name of the publication if none is configured.
const DefaultName = "default"

// Default is what a field means that a site leaves out.
func Default() Publication {
	p := Publication{Name: DefaultName}
	p.fillIn()
	return p
}

// complete fills in defaults, first those that follow other keys.
func (p *Publication) complete() {
	p.Name = cmp.Or(p.Name, DefaultName)
	if p.Nodes.Slinky != "" && (p.SlurmNames == "" || p.SlurmNames == "slinky") {
		p.SlurmNames = "slinky:" + p.Nodes.Slinky
	}
	if p.Name != DefaultName {
		p.ConfigMap = cmp.Or(p.ConfigMap, Default().ConfigMap+"-"+p.Name)
	}
	if r, err := slurmconf.ParseRelease(p.SlurmVersion); err == nil && p.Format == "" { // else it follows the release that is seen
		p.Format = formatConf
		if r.Does(slurmconf.TopologyYAML) {
			p.Format = formatYAML
		}
	}
	p.fillIn()
}
