package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// site is what all nodes say.
type site struct {
	*Site
	nodes   []node
	kinds   map[kindKey]*kind
	domains map[topology.Clique]*domain
	chassis map[string]*neighbours // by serial number
	last    *topology.Finding
}

// share returns a finding. Nodes that follow each other mostly have the same finding, and share one.
func (t *site) share(f topology.Finding) *topology.Finding {
	if t.last == nil || *t.last != f {
		t.last = new(f)
	}
	return t.last
}

// node is a node with all that it is judged by.
type node struct {
	*topology.Facts
	site  *site
	block *topology.Block // where the node is published, nil for nowhere

	kind   *kind
	domain *domain // of the first GPU that joined one, nil without a clique
	// How many GPUs have joined a clique, register, have not begun to, failed, have no fabric, and say
	// nothing.
	joined, inProgress, notStarted, failed, none, unread int
	two                                                  bool // the GPUs have joined two cliques
	ill                                                  bool // the health of a GPU says that something is wrong
	// least and links are the fewest and the most links of a GPU without MIG whose links are known, toSwitch
	// that one of them ends in a switch. Without such a GPU least is more than links.
	least, links int
	toSwitch     bool
}

// clique is that of the first GPU that has joined one.
func (c *node) clique() topology.Clique {
	if c.domain == nil {
		return topology.Clique{}
	}
	return c.domain.clique
}

// usualLinks is how many links each GPU should have, or 0 if nobody knows. GPUs that are joined by switches have as
// many links as their siblings, and most nodes of the kind show how many that are.
func (c *node) usualLinks() int {
	want := c.kind.usualLinks()
	if c.toSwitch {
		want = max(want, c.links)
	}
	return want
}

// kindKey is what nodes that are alike have in common.
type kindKey struct {
	product string
	gpus    int
}

// kind are the nodes of one product and number of GPUs.
type kind struct {
	kindKey
	neighbours
	chip  string
	bound int  // GPUs of a domain
	known bool // the bound
	// alike counts nodes by their links: every GPU of such a node has that many.
	alike map[int]int
}

// inMachine reports whether NVLink joins none of these nodes with another one.
func (k *kind) inMachine() bool { return k.known && k.bound == inMachine }

// maxNodes returns how many of these nodes NVLink joins at most, or 0.
func (k *kind) maxNodes() int {
	if k.gpus == 0 {
		return 0
	}
	return (k.bound + k.gpus - 1) / k.gpus
}

// usualLinks returns how many links each GPU of most nodes has, or 0.
func (k *kind) usualLinks() int {
	for links, nodes := range k.alike {
		if 2*nodes > k.nodes && k.nodes > 1 {
			return links
		}
	}
	return 0
}

// neighbours counts nodes with a report, and the nodes whose GPUs have joined a clique.
type neighbours struct{ nodes, joined int }

func (n *neighbours) add(c *node) {
	n.nodes++
	if c.joined > 0 {
		n.joined++
	}
}

// size is how large a domain is that nodes name, and how large their products let it be.
type size struct {
	nodes, gpus int
	chip        string
	bound       int  // GPUs
	unbound     bool // a node's product is not known
}

// add adds a node.
func (s *size) add(k *kind) {
	s.nodes++
	s.gpus += k.gpus
	s.unbound = s.unbound || !k.known
	if s.chip == "" || k.bound > s.bound {
		s.chip, s.bound = k.chip, k.bound
	}
}

// tooLarge reports whether the domain has more GPUs than NVLink of the product joins.
func (s *size) tooLarge() bool { return !s.unbound && s.bound > inMachine && s.gpus > s.bound }

// domain is one clique.
type domain struct {
	size
	clique topology.Clique
	// block is the domain's own block, and inBlock counts the GPUs of its nodes by their block. They are set if
	// the domain is too large.
	block   *topology.Block
	inBlock map[*topology.Block]int
}

// refuses reports whether a node is one too many of the domain. Nodes of the domain's own block are none, so
// that nobody else's claim takes their domain from them.
func (d *domain) refuses(c *node) bool {
	return d.tooLarge() && (c.block == nil || c.block != d.block || d.inBlock[d.block] > d.bound)
}

// read reads what all nodes say.
func (s *Site) read(lists [][]topology.Facts) *site {
	t := &site{Site: s, kinds: map[kindKey]*kind{}, domains: map[topology.Clique]*domain{}, chassis: map[string]*neighbours{}}
	t.checkLabels(lists)
	nodes := 0
	for _, facts := range lists {
		nodes += len(facts)
	}
	t.nodes = make([]node, 0, nodes)
	blocks, names := s.published()
	for f := range allOf(lists) {
		c := node{Facts: f, site: t}
		if f.Report != nil {
			c.block = blocks[cmp.Or(f.SlurmName, names[f.Name])]
		}
		t.see(&c)
		t.nodes = append(t.nodes, c)
	}
	t.findBlocks()
	return t
}

// published returns the blocks by Slurm name, and the Slurm names by Node.
func (s *Site) published() (blocks map[string]*topology.Block, names map[string]string) {
	blocks, names = map[string]*topology.Block{}, map[string]string{}
	if s.Plan == nil || s.Plan.ByLeaf {
		return blocks, names
	}
	all := s.Plan.Blocks()
	for i := range all {
		for _, n := range all[i].Nodes {
			blocks[n] = &all[i]
		}
	}
	for i := range s.Plan.Nodes {
		names[s.Plan.Nodes[i].Node] = s.Plan.Nodes[i].SlurmName
	}
	return blocks, names
}

// see reads what a node says. Labels and slices count if it has no report: an agent judges the same report without
// them.
func (t *site) see(c *node) {
	key, clique := kindKey{c.Product(), c.GPUCount()}, c.Labels.Clique
	if c.Report != nil {
		key.product = ""
		if key.gpus > 0 {
			key.product = c.Report.GPUs[0].Product
		}
		clique = c.count()
	}
	c.kind = t.kindOf(key)
	if c.Report != nil {
		c.kind.add(c)
		if c.links == c.least && c.links > 0 {
			c.kind.alike[c.links]++
		}
		if serial := chassisOf(c.Report); serial != "" {
			if t.chassis[serial] == nil {
				t.chassis[serial] = &neighbours{}
			}
			t.chassis[serial].add(c)
		}
	}
	if clique.IsZero() {
		return
	}
	d := t.domains[clique]
	if d == nil {
		d = &domain{clique: clique, inBlock: map[*topology.Block]int{}}
		t.domains[clique] = d
	}
	c.domain = d
	d.add(c.kind)
}

func (t *site) kindOf(key kindKey) *kind {
	k := t.kinds[key]
	if k == nil {
		k = &kind{kindKey: key, alike: map[int]int{}}
		k.chip, k.bound, k.known = t.Bounds.Of(key.product)
		t.kinds[key] = k
	}
	return k
}

// findBlocks finds the own blocks of domains that are too large: the one that was published as the domain, or
// that most of its nodes are in.
func (t *site) findBlocks() {
	for i := range t.nodes {
		if c := &t.nodes[i]; c.domain != nil && c.domain.tooLarge() && c.block != nil {
			c.domain.inBlock[c.block] += len(c.Report.GPUs)
		}
	}
	for _, d := range t.domains {
		if len(d.inBlock) == 0 {
			continue
		}
		gpus := func(b *topology.Block) int {
			if b.Clique == d.clique {
				return d.gpus + 1
			}
			return d.inBlock[b]
		}
		d.block = slices.MaxFunc(slices.Collect(maps.Keys(d.inBlock)), func(a, b *topology.Block) int {
			return cmp.Or(cmp.Compare(gpus(a), gpus(b)), strings.Compare(b.Name, a.Name))
		})
	}
}

// count counts the GPUs of the report. It returns the clique of the first GPU that has joined one.
func (c *node) count() (clique topology.Clique) {
	c.least = math.MaxInt
	for i := range c.Report.GPUs {
		g := &c.Report.GPUs[i]
		switch g.Fabric.Standing() {
		case topology.GPUJoined:
			of, _ := g.Fabric.Clique()
			if c.joined++; c.joined == 1 {
				clique = of
			}
			c.two = c.two || of != clique
		case topology.GPUFailed:
			c.failed++
		case topology.GPUInProgress:
			c.inProgress++
		case topology.GPUNotStarted:
			c.notStarted++
		case topology.GPUNone:
			c.none++
		default:
			c.unread++
		}
		reason, _ := flaw(&g.Fabric)
		c.ill = c.ill || reason != ""
		if g.UsesMIG() || g.Links == nil {
			continue
		}
		links := g.Links.Active()
		c.least, c.links = min(c.least, links), max(c.links, links)
		c.toSwitch = c.toSwitch || g.Links.Switch > 0
	}
	return clique
}

func chassisOf(n *topology.Node) string {
	if n.Platform == nil {
		return ""
	}
	return n.Platform.ChassisSerial
}

// withoutFabric returns one finding if no node of a product and number of GPUs has a fabric although racks are
// built of the product.
func (t *site) withoutFabric() []topology.Finding {
	var kinds []string
	for _, k := range t.kinds {
		if k.chip != "" && k.bound > inMachine && k.nodes > 0 && k.joined == 0 && !standsAlone[k.chip] && t.allWithout(k) {
			kinds = append(kinds, fmt.Sprintf("%d nodes with %d GPUs of %s", k.nodes, k.gpus, k.product))
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	return []topology.Finding{{Reason: topology.ReasonFabricMissing, Message: strings.Join(kinds, ", ") + " report no NVLink fabric. This is right for NVL4 boards, workstations and GPUs that are passed to virtual machines; it is wrong for trays of an NVL72 rack"}}
}

// maxNamed bounds the nodes that a finding of the site names.
const maxNamed = 3

// notRegistered returns one finding for each product and number of GPUs whose NVLink ends in the machine, if GPUs of
// nodes have not registered for long. It is not known whether that is a fault of each node.
func (t *site) notRegistered() (found []topology.Finding) {
	names := map[*kind][]string{}
	for i := range t.nodes {
		if c := &t.nodes[i]; c.Fabric.Reason == topology.ReasonFabricNotReady && c.Fabric.Severity == topology.Unknown {
			names[c.kind] = append(names[c.kind], c.Report.Name)
		}
	}
	for k, nodes := range names {
		slices.Sort(nodes)
		text := strings.Join(nodes[:min(len(nodes), maxNamed)], ", ")
		if more := len(nodes) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		found = append(found, topology.Finding{Reason: topology.ReasonFabricNotReady, Message: fmt.Sprintf("%d nodes with %d GPUs of %s have GPUs that no CUDA program can use (%s): %s. What to do: %s", len(nodes), k.gpus, k.product, text, saidManager, remedyManager)})
	}
	slices.SortFunc(found, func(a, b topology.Finding) int { return strings.Compare(a.Message, b.Message) })
	return found
}

// allWithout reports whether no node of a kind has a fabric, now or before.
func (t *site) allWithout(k *kind) bool {
	for i := range t.nodes {
		if c := &t.nodes[i]; c.kind == k && c.Report != nil && (c.none == 0 || c.none < len(c.Report.GPUs) || c.lost() != "") {
			return false
		}
	}
	return true
}
