package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Plan is where every node belongs. Its order is part of it: Slurm aggregates
// consecutive blocks.
type Plan struct {
	// BaseBlockSize is 0 when there is no block.
	BaseBlockSize int `json:"baseBlockSize,omitempty"`
	// BlockSizes are Slurm's: the base first.
	BlockSizes []int `json:"blockSizes,omitempty"`
	// Blocks includes placeholders, which have no nodes.
	Blocks []Block `json:"blocks,omitempty"`
	// Switches lists every switch after its children.
	Switches []Switch `json:"switches,omitempty"`
	// Placements has one entry per node, in the order of SlurmName.
	Placements []Placement `json:"placements"`
	Problems   []Problem   `json:"problems,omitempty"`
}

// Block is one NVLink domain, or the place of one that has gone.
type Block struct {
	Name string `json:"name"`
	// Clique is zero in a placeholder that was read from a file.
	Clique Clique `json:"clique,omitzero"`
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
	// Source is nvml, label or previous; empty without a block.
	Source string `json:"source,omitempty"`
	// Reason is one CamelCase word, Message says it for people.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Previous is what a plan carries on: order, names and sizes of what was
// published before, as a topology file holds them.
type Previous struct {
	BaseBlockSize int
	Blocks        []Block
	Switches      []Switch
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
	facts   []*Facts // sorted by SlurmName
	prev    Previous
	policy  Policy
	plan    *Plan
	inBlock map[string]int // Slurm name -> index into prev.Blocks
	read    []reading      // beside facts
	groups  []group
}

// reading is what placing a node needs of its facts. They are many and spread
// over memory, so they are gone through once.
type reading struct {
	clique  Clique
	tiers   []string
	hasGPUs bool
	// keep says that the node stays in its previous block, if it had one.
	keep bool
}

// group is the nodes of one clique, or of a previous block that no node's
// facts name now.
type group struct {
	clique Clique
	prev   int // index into prev.Blocks, -1 when new
	name   string
	names  [3]string // that the clique's block may have
	nodes  []int     // indices into facts
	gone   []string
}

// MakePlan decides where every node belongs. previous may be nil. It fails only
// on input that no plan can be made from: two nodes of one Slurm name, or a
// policy out of range. All else is named in the plan's placements and problems.
func MakePlan(facts []Facts, previous *Previous, policy Policy) (*Plan, error) {
	if err := policy.validate(); err != nil {
		return nil, err
	}
	p := &planner{policy: policy, plan: &Plan{}, facts: make([]*Facts, len(facts))}
	for i := range facts {
		p.facts[i] = &facts[i]
	}
	if previous != nil {
		p.prev = *previous
	}
	if p.policy.MinBlockNodes == 0 {
		p.policy.MinBlockNodes = 2
	}
	if err := p.indexNodes(); err != nil {
		return nil, err
	}
	p.readFacts()
	p.doubtLabels()
	p.groupNodes()
	p.matchPrevious()
	p.nameGroups()
	p.dropSmall()
	if err := p.sizeBlocks(); err != nil {
		return nil, err
	}
	p.orderBlocks()
	p.makeTree()
	p.findProblems()
	return p.plan, nil
}

// indexNodes sorts the facts and refuses two nodes of one name.
func (p *planner) indexNodes() error {
	slices.SortFunc(p.facts, func(a, b *Facts) int {
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
	if len(p.prev.Blocks) > 0 {
		p.inBlock = make(map[string]int, len(p.facts))
	}
	for b := range p.prev.Blocks {
		for _, n := range p.prev.Blocks[b].Nodes {
			p.inBlock[n] = b
		}
	}
	return nil
}

// readFacts finds every node's NVLink domain, or why it has none, and what its
// facts say is wrong.
func (p *planner) readFacts() {
	p.read = make([]reading, len(p.facts))
	for i, f := range p.facts {
		d := f.domain()
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
		if d.source == fromNVML && !f.Labels.Clique.IsZero() && f.Labels.Clique != d.clique {
			p.problem(f.Name, ReasonCliqueDiffers, fmt.Sprintf("NVML reports clique %s, the node's label says %s; NVML is followed", d.clique, f.Labels.Clique))
		}
	}
}

// doubtLabels keeps a published node in its block when only a label says
// otherwise and agents are at work: a report that is missing for a while, or
// that cannot be read, moves nothing. Where any node has a report, readable or
// not, labels alone move none. Where none has, they move those that never had
// one, for there they are all that is known; a node that once had one stays
// until its report is back or the node has been away, so that deleting all
// reports is no way to move nodes.
func (p *planner) doubtLabels() {
	if len(p.inBlock) == 0 {
		return
	}
	agents := slices.ContainsFunc(p.facts, func(f *Facts) bool { return f.Report != nil || f.ReportUnreadable })
	for i, f := range p.facts {
		pl := &p.plan.Placements[i]
		b, was := p.inBlock[f.SlurmName]
		if pl.Source != string(fromLabel) || !was || !agents && !p.prev.Reported[f.SlurmName] {
			continue
		}
		c := p.read[i].clique
		if names := blockNames(c); slices.Contains(names[:], p.prev.Blocks[b].Name) {
			continue
		}
		p.read[i].clique, p.read[i].keep = Clique{}, true
		pl.Source, pl.Reason = "", ReasonNoFacts
		pl.Message = fmt.Sprintf("no report confirms clique %s, which only its label says", c)
		p.problem(f.Name, ReasonCliqueDiffers, fmt.Sprintf("its label says clique %s, it is published in block %s, and no report of it can be read: it stays", c, p.prev.Blocks[b].Name))
	}
}

// groupNodes gathers the nodes of each clique, cliques in their own order.
func (p *planner) groupNodes() {
	var cliques []Clique // in the order of their first nodes
	var counts []int
	known := make(map[Clique]int)
	of := make([]int, len(p.read)) // node -> index into cliques
	last, placed := -1, 0
	for i := range p.read {
		c := p.read[i].clique
		if of[i] = -1; c.IsZero() {
			continue
		}
		if last < 0 || cliques[last] != c { // neighbours mostly share a clique
			var ok bool
			if last, ok = known[c]; !ok {
				last = len(cliques)
				known[c] = last
				cliques, counts = append(cliques, c), append(counts, 0)
			}
		}
		of[i] = last
		counts[last]++
		placed++
	}
	order := make([]int, len(cliques))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cliques[a].Compare(cliques[b]) })
	p.groups = make([]group, len(order))
	groupOf := make([]*group, len(cliques))
	all := make([]int, placed) // one array for all, each group with its share
	for g, c := range order {
		p.groups[g] = group{clique: cliques[c], prev: -1, names: blockNames(cliques[c]), nodes: all[:0:counts[c]]}
		all = all[counts[c]:]
		groupOf[c] = &p.groups[g]
	}
	for i, c := range of {
		if c >= 0 {
			groupOf[c].nodes = append(groupOf[c].nodes, i)
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
	slices.SortStableFunc(p.plan.Problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Message, b.Message))
	})
}

func (p *planner) problem(node, reason, message string) {
	p.plan.Problems = append(p.plan.Problems, Problem{Node: node, Reason: reason, Message: message})
}

// find returns the index of the facts of a Slurm name.
func (p *planner) find(slurmName string) (int, bool) {
	return slices.BinarySearchFunc(p.facts, slurmName, func(f *Facts, name string) int { return strings.Compare(f.SlurmName, name) })
}

// leave takes the node out of all blocks and says why.
func (p *planner) leave(i int, reason, message string) {
	pl := &p.plan.Placements[i]
	pl.Source, pl.Reason, pl.Message = "", reason, message
}
