package topology

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// Plan says where every node of a publication is.
type Plan struct {
	// ByLeaf: the blocks are leaf switches, not NVLink domains.
	ByLeaf bool `json:"byLeaf,omitempty"`
	// Topologies are in the order of the file.
	Topologies []Topology `json:"topologies"`
	// Nodes say of every node why it is where it is, in the order of their Slurm names.
	Nodes    []Placement `json:"nodes,omitempty"`
	Problems []Finding   `json:"problems,omitempty"`
}

// Placement says why a node is where it is, or why it is nowhere. Its place is in the
// topologies: Plan.Places has the places of all nodes.
type Placement struct {
	// Node is the name in Kubernetes, and SlurmName the name in Slurm.
	Node      string `json:"node,omitempty"`
	SlurmName string `json:"name"`
	// NodeUnknown says that nobody knows which Node has the name: Node is no Node's name.
	NodeUnknown bool `json:"nodeUnknown,omitempty"`
	// Source is what said the block: nvml, label, switch, previous or file. It is empty without a
	// block.
	Source string `json:"source,omitempty"`
	// Reason is one CamelCase word. Message explains it.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// SourceFile is the Source of nodes of which nothing but a topology file is known, and
// ReasonNoBlock the Reason of those that the file has in no block.
const (
	SourceFile    = "file"
	ReasonNoBlock = "NoBlock"
)

// ReasonLeavesApart is said of a plan and of a file in which no switch is above all nodes.
const ReasonLeavesApart = "LeavesApart"

// The names of topologies. If there are several block topologies, their names begin with
// that of their kind.
const (
	NVLinkTopology = "nvl"     // blocks of NVLink domains
	LeafTopology   = "leaf"    // blocks of leaf switches
	FabricTopology = "fabric"  // the tree
	FlatTopology   = "flat"    // no places
	ConfTopology   = "default" // Slurm's name for the only topology of topology.conf
)

// The kinds of topologies.
const (
	KindBlock = "block"
	KindTree  = "tree"
	KindFlat  = "flat" // knows no places
)

// Topology is one topology of a Slurm cluster: blocks, a switch tree, or flat.
type Topology struct {
	// Name is what a partition's Topology= names. The only topology of topology.conf is
	// called "default".
	Name string `json:"name"`
	// Default marks the topology of partitions that name none.
	Default bool `json:"default,omitempty"`
	// Kind is block, tree or flat.
	Kind string `json:"kind"`
	// Source is what the switches of a tree are known from if neither labels nor reports name them: cables
	// or LLDP. A file does not tell.
	Source string `json:"source,omitempty"`
	// Fabric is the root switch above the racks, empty if it was never known.
	Fabric string `json:"fabric,omitempty"`
	// Sizes are Slurm's BlockSizes, the base first. Without any, the first block with
	// nodes sets the base.
	Sizes []int `json:"sizes,omitempty"`
	// Blocks are in the order of the file: Slurm aggregates consecutive ones.
	Blocks   []Block  `json:"blocks,omitempty"`
	Switches []Switch `json:"switches,omitempty"`
}

// WithNodes returns the topology with other nodes in each block and switch. of returns the new nodes for the old ones.
func (t Topology) WithNodes(of func(Names) Names) Topology {
	t.Blocks, t.Switches = slices.Clone(t.Blocks), slices.Clone(t.Switches)
	for i := range t.Blocks {
		t.Blocks[i].Nodes = of(t.Blocks[i].Nodes)
	}
	for i := range t.Switches {
		t.Switches[i].Nodes = of(t.Switches[i].Nodes)
	}
	return t
}

// Block is one block in its place. A placeholder has no nodes.
type Block struct {
	Name  string `json:"name"`
	Nodes Names  `json:"nodes,omitempty"`
	// Size is the most nodes that the block's domain has had, those without a name in Slurm too. So a
	// rack that lost nodes counts as what it is. A file does not tell.
	Size int `json:"size,omitempty"`
	// Clique is the NVLink domain that the block is. It is zero as long as nothing but labels of
	// other forms has named the domain. A file does not tell.
	Clique Clique `json:"clique,omitzero"`
}

// Switch is one switch: a leaf with Nodes, or another one with Children, never both.
type Switch struct {
	Name string `json:"name"`
	// Nodes are Slurm names. Children are the names of the switches below.
	Nodes    Names `json:"nodes,omitempty"`
	Children Names `json:"children,omitempty"`
	// Joined: no label names the switch above this one. Quoin put it below one root with
	// others, because nothing says that they are separate fabrics.
	Joined bool `json:"joined,omitempty"`
	// Value is what nodes call the switch: its name may be from a file. It is empty as long as no node
	// has named the switch. A file does not tell.
	Value string `json:"value,omitempty"`
}

// Names are names of nodes or switches. Their text is a host list.
type Names []string

// MarshalText returns the names as a host list.
func (n Names) MarshalText() ([]byte, error) { return []byte(hostlist.Compress(n)), nil }

// UnmarshalText reads a host list.
func (n *Names) UnmarshalText(list []byte) error {
	names, err := hostlist.Expand(string(list))
	if err != nil {
		return fmt.Errorf("read names: %w", err)
	}
	*n = names
	return nil
}

// Unit is a block or a leaf switch.
type Unit struct {
	Topology, Name string
	// Kind is that of the topology: block or tree.
	Kind  string
	Nodes Names
}

// String returns the unit as Topology= names it: TOPOLOGY:UNIT.
func (u *Unit) String() string { return u.Topology + ":" + u.Name }

// UnitsOf returns the units of topologies, in their order.
func UnitsOf(topologies []Topology) []Unit {
	var units []Unit
	for i := range topologies {
		t := &topologies[i]
		for k := range t.Blocks {
			units = append(units, Unit{t.Name, t.Blocks[k].Name, t.Kind, t.Blocks[k].Nodes})
		}
		for k := range t.Switches {
			if s := &t.Switches[k]; len(s.Children) == 0 {
				units = append(units, Unit{t.Name, s.Name, t.Kind, s.Nodes})
			}
		}
	}
	return units
}

// Units returns the blocks and leaf switches of all topologies, in the order of the file.
func (p *Plan) Units() []Unit { return UnitsOf(p.Topologies) }

// Own returns the topologies that the plan is about: the first block topology with the others
// of its plan, and the first tree. Any other topology is flat, or on its way out of the file.
func (p *Plan) Own() []Topology {
	var own []Topology
	blocks, tree := "", false
	for i := range p.Topologies {
		t := &p.Topologies[i]
		switch {
		case t.Kind == KindBlock && (blocks == "" || sameFamily(blocks, t.Name)):
			own = append(own, *t)
			if blocks == "" {
				blocks = t.Name
			}
		case t.Kind == KindTree && !tree:
			own, tree = append(own, *t), true
		}
	}
	return own
}

// BlockTopologies returns the plan's own block topologies.
func (p *Plan) BlockTopologies() []Topology {
	return slices.DeleteFunc(p.Own(), func(t Topology) bool { return t.Kind != KindBlock })
}

// NamesLeaves reports whether the plan's block topologies are named as those of leaf switches
// are. The only topology of topology.conf does not tell.
func (p *Plan) NamesLeaves() bool {
	own := p.BlockTopologies()
	return len(own) > 0 && BlockFamily(own[0].Name) == LeafTopology
}

// Blocks returns the blocks of the plan's own block topologies, in their order.
func (p *Plan) Blocks() []Block {
	own := p.BlockTopologies()
	if len(own) == 1 {
		return own[0].Blocks
	}
	var blocks []Block
	for i := range own {
		blocks = append(blocks, own[i].Blocks...)
	}
	return blocks
}

// Switches returns every switch of the plan's own tree.
func (p *Plan) Switches() []Switch {
	for _, t := range p.Own() {
		if t.Kind == KindTree {
			return t.Switches
		}
	}
	return nil
}

// SwitchSource returns the Source of the plan's own tree.
func (p *Plan) SwitchSource() string {
	for _, t := range p.Own() {
		if t.Kind == KindTree {
			return t.Source
		}
	}
	return ""
}

// InnerSwitches returns the names of the switches that have switches below them. p may be nil.
func (p *Plan) InnerSwitches() []string {
	if p == nil {
		return nil
	}
	var inner []string
	for _, s := range p.Switches() {
		if len(s.Children) > 0 {
			inner = append(inner, s.Name)
		}
	}
	return inner
}

// BaseBlockSize returns the base block size of the default block topology, or else of the
// first that has one. It is 0 without any.
func (p *Plan) BaseBlockSize() int {
	base := 0
	for _, t := range p.BlockTopologies() {
		if len(t.Sizes) > 0 && (base == 0 || t.Default) {
			base = t.Sizes[0]
		}
	}
	return base
}

// Fabrics are the fabrics of the block topologies.
func (p *Plan) Fabrics() []string {
	var fabrics []string
	for _, t := range p.BlockTopologies() {
		if t.Fabric != "" && !slices.Contains(fabrics, t.Fabric) {
			fabrics = append(fabrics, t.Fabric)
		}
	}
	return fabrics
}

// LostTopologies returns the block topologies of an old plan that the plan no longer has. A
// partition that names one ends slurmctld, so people decide. Topologies of another kind,
// which the configuration chose, are not among them. old may be nil.
func (p *Plan) LostTopologies(old *Plan) []string {
	own := p.BlockTopologies()
	if old == nil || old.ByLeaf != p.ByLeaf || len(own) == 0 {
		return nil
	}
	var lost []string
	for _, t := range old.BlockTopologies() {
		if t.Name != ConfTopology && !slices.ContainsFunc(own, func(o Topology) bool { return o.Name == t.Name }) {
			lost = append(lost, t.Name)
		}
	}
	return lost
}

// Place is a node's block and leaf switch, each empty if there is none.
type Place struct {
	Block string `json:"block,omitempty"`
	Leaf  string `json:"leaf,omitempty"`
}

// Places returns the place of every node in the plan's own topologies.
func (p *Plan) Places() map[string]Place {
	units := UnitsOf(p.Own())
	places := make(map[string]Place, countNodes(units))
	for i := range units {
		for _, n := range units[i].Nodes {
			at := places[n]
			if units[i].Kind == KindBlock {
				at.Block = units[i].Name
			} else {
				at.Leaf = units[i].Name
			}
			places[n] = at
		}
	}
	return places
}

// SpecsOf returns the Topology= string of every node: its units in the order of the
// topologies, such as "nvl:nvl-8a61c302-1,fabric:leaf-7".
func SpecsOf(topologies []Topology) map[string]string {
	units := UnitsOf(topologies)
	specs := make(map[string]string, countNodes(units))
	for i := range units {
		unit := units[i].String()
		before, after := "", unit // the nodes of a unit mostly share what they had before
		for _, n := range units[i].Nodes {
			if had := specs[n]; had != before {
				before, after = had, strings.TrimPrefix(had+","+unit, ",")
			}
			specs[n] = after
		}
	}
	return specs
}

// SpecUnits returns the units that a Topology= string names, as TOPOLOGY:UNIT. In a tree the string may have a path
// of switches from a root, which stands for its leaf.
func SpecUnits(spec string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for unit := range strings.SplitSeq(spec, ",") {
			if first, last := strings.IndexByte(unit, ':'), strings.LastIndexByte(unit, ':'); first < last {
				unit = unit[:first] + unit[last:]
			}
			if unit != "" && !yield(unit) {
				return
			}
		}
	}
}

// countNodes returns how many nodes the largest topology of the units has.
func countNodes(units []Unit) int {
	most, counts := 0, make(map[string]int)
	for i := range units {
		u := &units[i]
		counts[u.Topology] += len(u.Nodes)
		most = max(most, counts[u.Topology])
	}
	return most
}

// BlockFamily returns what block topologies of a plan are called by: "nvl" for nvl and
// nvl-18, "leaf" for leaf and leaf-a, and the name itself for any other.
func BlockFamily(name string) string {
	for _, family := range []string{NVLinkTopology, LeafTopology} {
		if strings.HasPrefix(name, family+"-") {
			return family
		}
	}
	return name
}

// sameFamily reports whether two block topologies are of one plan: both are parts of one
// kind. The whole and a part are not, because one of them is on its way out of the file.
func sameFamily(a, b string) bool {
	return a == b || a != BlockFamily(a) && BlockFamily(a) == BlockFamily(b) && b != BlockFamily(b)
}

// MaxTiers bounds the way up from a leaf, because a file that was edited may hold a loop.
const MaxTiers = 20

// PathsAbove returns by leaf the switches above it, from the top, each after a slash.
// Leaves without any are absent.
func PathsAbove(switches []Switch) map[string]string {
	above := ParentsOf(switches)
	paths := make(map[string]string)
	for i := range switches {
		leaf, path := switches[i].Name, ""
		if len(switches[i].Children) > 0 {
			continue
		}
		for tier, up := 0, above[leaf]; up != "" && tier < MaxTiers; tier, up = tier+1, above[up] {
			path = "/" + up + path
		}
		if path != "" {
			paths[leaf] = path
		}
	}
	return paths
}

// NamedSwitches returns the tree as labels name it: no switch is below one that Quoin put
// there, and a root that nothing else is below is left out.
func NamedSwitches(switches []Switch) []Switch {
	joined := make(map[string]bool)
	for i := range switches {
		if switches[i].Joined {
			joined[switches[i].Name] = true
		}
	}
	if len(joined) == 0 {
		return switches
	}
	named := make([]Switch, 0, len(switches))
	for _, s := range switches {
		s.Joined = false
		if children := s.Children; len(children) > 0 {
			s.Children = slices.DeleteFunc(slices.Clone(children), func(c string) bool { return joined[c] })
			if len(s.Children) == 0 {
				continue
			}
		}
		named = append(named, s)
	}
	return named
}

// ParentsOf returns the switch above each switch.
func ParentsOf(switches []Switch) map[string]string {
	above := make(map[string]string, len(switches))
	for i := range switches {
		for _, c := range switches[i].Children {
			above[c] = switches[i].Name
		}
	}
	return above
}
