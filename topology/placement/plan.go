package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Plan is where every node belongs. Its order is part of it: Slurm aggregates
// consecutive blocks.
type Plan struct {
	// ByLeaf says that blocks are leaf switches, not NVLink domains.
	ByLeaf bool `json:"byLeaf,omitempty"`
	// BaseBlockSize is 0 when there is no block.
	BaseBlockSize int `json:"baseBlockSize,omitempty"`
	// BlockSizes are Slurm's: the base first.
	BlockSizes []int `json:"blockSizes,omitempty"`
	// Blocks includes placeholders, which have no nodes.
	Blocks []Block `json:"blocks,omitempty"`
	// Switches lists every switch after its children.
	Switches []Switch `json:"switches,omitempty"`
	// Placements has one entry per node, in the order of SlurmName.
	Placements []Placement        `json:"placements"`
	Problems   []topology.Problem `json:"problems,omitempty"`
}

// Block is one NVLink domain, the place of one that has gone or is to come, or the
// nodes of one leaf switch (Plan.ByLeaf).
type Block struct {
	Name string `json:"name"`
	// Clique is zero in a placeholder that was read from a file.
	Clique topology.Clique `json:"clique,omitzero"`
	// Nodes are Slurm names, sorted; empty in a placeholder.
	Nodes []string `json:"nodes,omitempty"`
}

// Switch is one switch of the tree.
type Switch struct {
	Name string `json:"name"`
	// Nodes are the Slurm names below a leaf, Children the switches below any
	// other; sorted, and never both.
	Nodes    []string `json:"nodes,omitempty"`
	Children []string `json:"children,omitempty"`
}

// Placement says where a node is and why, or why it is nowhere.
type Placement struct {
	Node      string `json:"node"`
	SlurmName string `json:"slurmName"`
	Block     string `json:"block,omitempty"`
	// Switch is the leaf above the node.
	Switch string `json:"switch,omitempty"`
	// Source is nvml, label, switch or previous; empty without a block.
	Source string `json:"source,omitempty"`
	// Reason is one CamelCase word, Message says it for people.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Previous is what a plan carries on: order, names and sizes of what was
// published before, as a topology file holds them.
type Previous struct {
	// ByLeaf says that the blocks are leaf switches. A topology.conf does not tell.
	ByLeaf bool
	// BlocksElsewhere says that the plan's blocks get a topology of another name, and
	// that the one of these is kept beside it for as long as it is in use.
	BlocksElsewhere bool
	BaseBlockSize   int
	Blocks          []Block
	Switches        []Switch
	// Reported are the Slurm names of nodes whose published devices came from
	// reports.
	Reported map[string]bool
	// InUse are the blocks and leaf switches that a node may still register with,
	// such as those that Slinky's annotations name: slurmctld drains a node that
	// names one it does not know. They stay, empty if need be, where the release
	// takes empty ones (Policy.ShortBlocks).
	InUse map[string]bool
}

// planner holds the state of one MakePlan.
type planner struct {
	facts   []*topology.Facts // sorted by SlurmName
	prev    Previous
	policy  Policy
	plan    *Plan
	was     []int32   // beside facts: index into prev.Blocks, noBlock for none
	read    []reading // beside facts
	domains []labelled
	groups  []group
	groupOf []int32 // beside facts: index into groups, noBlock for none
	// doubtful, beside facts, are nodes that only a label puts elsewhere than
	// they are published.
	doubtful []bool
	silent   []silence // beside prev.Blocks
	agents   bool      // any node has a report, readable or not
}

// noBlock stands for no block and no group.
const noBlock = -1

// reading is what placing a node needs of its facts. They are many and spread
// over memory, so they are gone through once.
type reading struct {
	clique topology.Clique
	// domain is the index into planner.domains, counted from 1, where only
	// labels name the domain.
	domain  int32
	tiers   []string
	hasGPUs bool
	// keep says that the node stays in its previous block, if it had one.
	keep bool
}

// group is the nodes of one clique or labelled domain, or of a previous block
// that no node's facts name now.
type group struct {
	identity
	title string // of a labelled domain or a leaf
	prev  int    // index into prev.Blocks, -1 when new
	name  string
	names [3]string // that the block of the clique or domain may have
	// aliases are names that a block made from labels of the clique may have.
	aliases []string
	nodes   []int // indices into facts
	gone    []string
}

// String names the NVLink domain, or what else the block is of, in words.
func (g *group) String() string {
	if g.title != "" {
		return g.title
	}
	return "NVLink domain " + g.clique.String()
}

// MakePlan decides where every node belongs. previous may be nil. It fails only
// on input that no plan can be made from: two nodes of one Slurm name, or a
// policy out of range. All else is named in the plan's placements and problems.
func MakePlan(facts []topology.Facts, previous *Previous, policy Policy) (*Plan, error) {
	if err := policy.validate(); err != nil {
		return nil, err
	}
	p := &planner{policy: policy, plan: &Plan{}, facts: make([]*topology.Facts, len(facts))}
	for i := range facts {
		p.facts[i] = &facts[i]
	}
	if previous != nil {
		p.prev = *previous
	}
	p.plan.ByLeaf = policy.ByLeaf
	p.leaveKind()
	if p.policy.MinBlockNodes == 0 {
		p.policy.MinBlockNodes = 2
	}
	if err := p.indexNodes(); err != nil {
		return nil, err
	}
	p.readFacts()
	if !policy.ByLeaf {
		p.readDomains()
	}
	p.chooseTiers()
	if policy.ByLeaf {
		p.readLeaves()
	}
	p.groupNodes()
	p.matchPrevious()
	p.nameGroups()
	p.dropSmall()
	if err := p.sizeBlocks(); err != nil {
		return nil, err
	}
	p.makeTree()
	p.orderBlocks()
	p.placeBySwitch()
	p.findProblems()
	return p.plan, nil
}

// indexNodes sorts the facts and refuses two nodes of one name.
func (p *planner) indexNodes() error {
	slices.SortFunc(p.facts, func(a, b *topology.Facts) int {
		if n := strings.Compare(a.SlurmName, b.SlurmName); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	p.plan.Placements = make([]Placement, len(p.facts))
	for i := range p.facts {
		f := p.facts[i]
		if f.SlurmName == "" {
			return fmt.Errorf("node %q has no Slurm name", f.Name)
		}
		if i > 0 && p.facts[i-1].SlurmName == f.SlurmName {
			return fmt.Errorf("nodes %q and %q both have the Slurm name %q: give one of them another", p.facts[i-1].Name, f.Name, f.SlurmName)
		}
		p.plan.Placements[i] = Placement{Node: f.Name, SlurmName: f.SlurmName}
	}
	p.findPublished()
	return nil
}

// findPublished finds the published block of every node. Blocks list their nodes
// sorted, so the next one is mostly the next of facts.
func (p *planner) findPublished() {
	if len(p.prev.Blocks) == 0 {
		return
	}
	p.was = make([]int32, len(p.facts))
	for i := range p.was {
		p.was[i] = noBlock
	}
	next := 0
	for b := range p.prev.Blocks {
		for _, n := range p.prev.Blocks[b].Nodes {
			if next >= len(p.facts) || p.facts[next].SlurmName != n {
				at, ok := p.find(n)
				if !ok {
					continue
				}
				next = at
			}
			p.was[next] = int32(b)
			next++
		}
	}
}

// readFacts finds every node's NVLink domain, or why it has none, and what its
// facts say is wrong.
func (p *planner) readFacts() {
	p.read = make([]reading, len(p.facts))
	for i, f := range p.facts {
		p.agents = p.agents || f.Report != nil || f.ReportUnreadable
		d := p.keepUnlessNone(i, decideDomain(f))
		p.read[i] = reading{clique: d.clique, keep: d.keep, tiers: f.Tiers(), hasGPUs: f.GPUCount() > 0}
		pl := &p.plan.Placements[i]
		pl.Source, pl.Reason, pl.Message = string(d.source), d.reason, d.message
		for _, pr := range f.Labels.Problems {
			p.problem(f.Name, pr.Reason, pr.Message)
		}
		if f.Report != nil {
			for _, pr := range f.Report.Problems {
				p.problem(f.Name, pr.Reason, pr.Message)
			}
		}
		switch {
		case d.source == fromNVML && !f.Labels.Clique.IsZero() && f.Labels.Clique != d.clique:
			p.problem(f.Name, ReasonCliqueDiffers, fmt.Sprintf("NVML reports clique %s, the node's label says %s; NVML is followed", d.clique, f.Labels.Clique))
		case d.reason == ReasonNoDomain && !d.keep && f.Labels.NamesDomain():
			p.problem(f.Name, ReasonDomainDiffers, fmt.Sprintf("NVML reports no NVLink domain between nodes, the node's label says %s; NVML is followed", f.Labels.DomainText()))
		}
	}
}

// groupNodes gathers the nodes of each clique and each labelled domain, those
// after these, each in their own order.
func (p *planner) groupNodes() {
	var ids []identity // in the order of their first nodes
	var counts []int
	known := make(map[topology.Clique]int32)
	domains := make([]int32, len(p.domains)) // index into ids, counted from 1
	p.groupOf = make([]int32, len(p.read))   // first an index into ids
	last, placed := int32(-1), 0
	for i := range p.read {
		id := identity{p.read[i].clique, p.read[i].domain}
		if p.groupOf[i] = noBlock; id == (identity{}) {
			continue
		}
		if last < 0 || ids[last] != id { // neighbours mostly share theirs
			at := &last
			ok := false
			if id.domain != 0 {
				at = &domains[id.domain-1]
				ok = *at > 0
				last = *at - 1
			} else {
				last, ok = known[id.clique]
			}
			if !ok {
				last = int32(len(ids))
				ids, counts = append(ids, id), append(counts, 0)
				if id.domain != 0 {
					*at = last + 1
				} else {
					known[id.clique] = last
				}
			}
		}
		p.groupOf[i] = last
		counts[last]++
		placed++
	}
	order := make([]int32, len(ids))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return p.compare(ids[a], ids[b]) })
	p.groups = make([]group, len(order))
	at := make([]int32, len(ids)) // index into ids -> index into groups
	all := make([]int, placed)    // one array for all, each group with its share
	for g, id := range order {
		p.groups[g] = p.newGroup(ids[id])
		p.groups[g].nodes = all[:0:counts[id]]
		all = all[counts[id]:]
		at[id] = int32(g)
	}
	for i, id := range p.groupOf {
		if id >= 0 {
			g := at[id]
			p.groupOf[i] = g
			p.groups[g].nodes = append(p.groups[g].nodes, i)
		}
	}
	p.addAliases()
}

func (p *planner) newGroup(id identity) group {
	g := group{identity: id, prev: noBlock}
	if id.domain != 0 {
		d := &p.domains[id.domain-1]
		if g.title, g.names = "NVLink domain "+d.String(), domainBlockNames(d.Domain); p.policy.ByLeaf {
			g.title, g.names = "leaf switch "+d.Value, leafBlockNames(d.Value)
		}
	} else {
		g.names = blockNames(id.clique)
	}
	return g
}

// compare orders cliques before labelled domains.
func (p *planner) compare(a, b identity) int {
	switch {
	case a.domain == 0 && b.domain == 0:
		return a.clique.Compare(b.clique)
	case a.domain == 0:
		return -1
	case b.domain == 0:
		return 1
	}
	return p.domains[a.domain-1].Compare(p.domains[b.domain-1].Domain)
}

// addAliases gives groups the names of the labelled domains that stand for them.
func (p *planner) addAliases() {
	if len(p.prev.Blocks) == 0 {
		return
	}
	for i := range p.domains {
		d := &p.domains[i]
		if d.conflict != "" || len(d.witnesses) == 0 {
			continue
		}
		if g := p.groupOf[d.witnesses[0].first]; g >= 0 && p.groups[g].identity == d.is {
			names := domainBlockNames(d.Domain)
			p.groups[g].aliases = append(p.groups[g].aliases, names[:]...)
		}
	}
}

// findProblems adds what the plan found to what the facts said, in the order of
// nodes.
func (p *planner) findProblems() {
	for i := range p.plan.Placements {
		switch pl := &p.plan.Placements[i]; pl.Reason {
		case ReasonFabricFailed, ReasonTwoCliques, ReasonBelowBase:
			p.problem(pl.Node, pl.Reason, pl.Message)
		case ReasonNoDomain:
			if pl.Source == string(fromPrevious) && p.facts[i].Report != nil { // of labels it is named already
				p.problem(pl.Node, pl.Reason, pl.Message)
			}
		case ReasonNoGPUs:
			if pl.Source == string(fromPrevious) {
				p.problem(pl.Node, pl.Reason, pl.Message)
			}
		}
	}
	slices.SortStableFunc(p.plan.Problems, func(a, b topology.Problem) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
}

func (p *planner) problem(node, reason, message string) {
	p.plan.Problems = append(p.plan.Problems, topology.Problem{Node: node, Reason: reason, Message: message})
}

// find returns the index of the facts of a Slurm name.
func (p *planner) find(slurmName string) (int, bool) {
	return slices.BinarySearchFunc(p.facts, slurmName, func(f *topology.Facts, name string) int { return strings.Compare(f.SlurmName, name) })
}

// leave takes the node out of all blocks and says why.
func (p *planner) leave(i int, reason, message string) {
	pl := &p.plan.Placements[i]
	pl.Source, pl.Reason, pl.Message = "", reason, message
}
