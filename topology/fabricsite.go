package topology

import (
	"fmt"
	"slices"
	"strings"
)

// fabricSite is what all nodes say.
type fabricSite struct {
	nodes   []FabricNode
	bounds  Bounds
	seen    []fabricSeen // beside nodes
	kinds   map[fabricKindKey]*fabricKind
	domains map[Clique]*fabricDomain
	// chassis are by serial number, nil as long as no node needs them.
	chassis map[string]*fabricNeighbours
}

// fabricSeen counts the GPUs of a node by what they say.
type fabricSeen struct {
	kind   *fabricKind
	domain *fabricDomain // of the first GPU that joined one, nil without a clique
	// How many GPUs have joined a clique, register, have not begun to, failed, have no fabric, and say
	// nothing.
	joined, inProgress, notStarted, failed, none, unread uint8
	// two says that the GPUs have joined two cliques, and flawed that a GPU's health is not as it should be.
	two, flawed bool
	// least and links are the fewest and the most links of a GPU without MIG whose links are known, toSwitch
	// that one of them ends in a switch. Without such a GPU least is maxLinks.
	least, links uint8
	toSwitch     bool
}

// clique is that of the first GPU that has joined one.
func (s *fabricSeen) clique() Clique {
	if s.domain == nil {
		return Clique{}
	}
	return s.domain.clique
}

// fabricKindKey is what nodes that are alike have in common.
type fabricKindKey struct {
	product string
	gpus    int
}

// fabricKind are the nodes of one product and number of GPUs.
type fabricKind struct {
	fabricKindKey
	fabricNeighbours
	chip  string
	bound int  // GPUs of a domain
	known bool // the bound
	// alike counts nodes by their links: every GPU of such a node has that many.
	alike [maxLinks + 1]int32
	usual int // what usualLinks returns, 0 before it is known, and -1 for none
}

// inMachine reports whether NVLink joins none of these nodes with another one.
func (k *fabricKind) inMachine() bool { return k.known && k.bound == inMachine }

// usualLinks returns how many links each GPU of most nodes has, or 0.
func (k *fabricKind) usualLinks() int {
	if k.usual == 0 {
		k.usual = -1
		for links, nodes := range k.alike {
			if 2*int(nodes) > k.nodes && k.nodes > 1 {
				k.usual = links
			}
		}
	}
	return max(k.usual, 0)
}

// fabricNeighbours counts nodes with a report, and those of them whose GPUs have joined a clique.
type fabricNeighbours struct{ nodes, joined int }

func (n *fabricNeighbours) add(s *fabricSeen) {
	n.nodes++
	if s.joined > 0 {
		n.joined++
	}
}

// fabricDomain is one clique.
type fabricDomain struct {
	clique      Clique
	nodes, gpus int
	chip        string
	bound       int
	unbound     bool // a node's product is not known
	// block is the domain's own block, and inBlock counts the GPUs of its nodes by their block. They are set if
	// the domain is too large. isOwn says that the block was published as this domain.
	block   string
	isOwn   bool
	inBlock map[string]int
}

// tooLarge reports whether the domain has more GPUs than its product allows.
func (d *fabricDomain) tooLarge() bool {
	return !d.unbound && d.bound > inMachine && d.gpus > d.bound
}

// refuses reports whether a node is one too many of the domain. Nodes of the domain's own block are none, so
// that nobody else's claim takes their domain from them.
func (d *fabricDomain) refuses(n *FabricNode) bool {
	return d.tooLarge() && (n.Block == nil || n.Block.Name != d.block || d.inBlock[d.block] > d.bound)
}

// see reads what node i says.
func (t *fabricSite) see(i int) {
	n, s := &t.nodes[i], &t.seen[i]
	var key fabricKindKey
	var clique Clique
	switch {
	case n.Report != nil:
		if key.gpus = len(n.Report.GPUs); key.gpus > 0 {
			key.product = n.Report.GPUs[0].Product
		}
		clique = s.read(n.Report)
	case n.Labels != nil:
		key, clique = fabricKindKey{n.Labels.Product, n.Labels.GPUs}, n.Labels.Clique
	}
	if i > 0 && t.seen[i-1].kind.fabricKindKey == key { // as most nodes are
		s.kind = t.seen[i-1].kind
	} else {
		s.kind = t.kindOf(key)
	}
	if n.Report != nil {
		s.kind.add(s)
		if s.links == s.least && s.links > 0 {
			s.kind.alike[s.links]++
		}
	}
	if clique.IsZero() {
		return
	}
	if i > 0 && t.seen[i-1].domain != nil && t.seen[i-1].domain.clique == clique {
		s.domain = t.seen[i-1].domain
	} else {
		s.domain = t.domainOf(clique)
	}
	d := s.domain
	d.nodes++
	d.gpus += key.gpus
	d.unbound = d.unbound || !s.kind.known
	if d.chip == "" || s.kind.bound > d.bound {
		d.chip, d.bound = s.kind.chip, s.kind.bound
	}
}

// findBlocks finds the own blocks of domains that are too large: the one that was published as the domain, or
// that most of its nodes are in.
func (t *fabricSite) findBlocks() {
	large := false
	for _, d := range t.domains {
		large = large || d.tooLarge()
	}
	for i := 0; large && i < len(t.nodes); i++ {
		d, n := t.seen[i].domain, &t.nodes[i]
		if d == nil || !d.tooLarge() || n.Block == nil || n.Report == nil {
			continue
		}
		if d.inBlock == nil {
			d.inBlock = map[string]int{}
		}
		d.inBlock[n.Block.Name] += len(n.Report.GPUs)
		is := n.Block.Clique == d.clique
		if is || !d.isOwn && d.inBlock[n.Block.Name] > d.inBlock[d.block] {
			d.block, d.isOwn = n.Block.Name, is
		}
	}
}

func (t *fabricSite) kindOf(key fabricKindKey) *fabricKind {
	k := t.kinds[key]
	if k == nil {
		k = &fabricKind{fabricKindKey: key}
		k.chip, k.bound, k.known = t.bounds.Of(key.product)
		t.kinds[key] = k
	}
	return k
}

func (t *fabricSite) domainOf(c Clique) *fabricDomain {
	d := t.domains[c]
	if d == nil {
		d = &fabricDomain{clique: c}
		t.domains[c] = d
	}
	return d
}

// read counts the GPUs of a report. It returns the clique of the first GPU that has joined one.
func (s *fabricSeen) read(n *Node) (clique Clique) {
	s.least = maxLinks
	for i := range n.GPUs {
		g := &n.GPUs[i]
		f := &g.Fabric
		switch f.standing() {
		case gpuJoined:
			if s.joined++; s.joined == 1 {
				clique = Clique{f.ClusterUUID, f.CliqueID}
			} else if f.CliqueID != clique.ID || f.ClusterUUID != clique.ClusterUUID {
				s.two = true
			}
		case gpuFailed:
			s.failed++
		case gpuInProgress:
			s.inProgress++
		case gpuNotStarted:
			s.notStarted++
		case gpuNone:
			s.none++
		default:
			s.unread++
		}
		reason, _ := f.flaw()
		s.flawed = s.flawed || reason != ""
		if g.usesMIG() || g.Links == nil {
			continue
		}
		links := uint8(min(g.Links.Active(), maxLinks)) //nolint:gosec // maxLinks is small
		s.least, s.links = min(s.least, links), max(s.links, links)
		s.toSwitch = s.toSwitch || g.Links.Switch > 0
	}
	return clique
}

// usesMIG reports whether MIG is on, which turns NVLinks off.
func (g *GPU) usesMIG() bool { return g.MIGEmpty || len(g.MIG) > 0 }

func chassisOf(n *Node) string {
	if n.Platform == nil {
		return ""
	}
	return n.Platform.ChassisSerial
}

// findNeighbours counts the nodes in each chassis.
func (t *fabricSite) findNeighbours() {
	if t.chassis != nil {
		return
	}
	t.chassis = map[string]*fabricNeighbours{}
	for i := range t.nodes {
		if t.nodes[i].Report == nil {
			continue
		}
		serial := chassisOf(t.nodes[i].Report)
		if t.chassis[serial] == nil {
			t.chassis[serial] = &fabricNeighbours{}
		}
		t.chassis[serial].add(&t.seen[i])
	}
}

// linksDown returns how many links a GPU should have if one of the node's GPUs has fewer, or 0. GPUs that
// are joined by switches have as many links as their siblings, and most nodes of the kind show how many
// that are.
func (t *fabricSite) linksDown(s *fabricSeen) int {
	want := 0
	if s.toSwitch {
		want = int(s.links)
	}
	want = max(want, s.kind.usualLinks())
	if int(s.least) >= want {
		return 0
	}
	return want
}

// withoutFabric returns one finding if no node of a product and number of GPUs has a fabric although racks are
// built of the product.
func (t *fabricSite) withoutFabric() []Finding {
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
	return []Finding{{Reason: ReasonFabricMissing, Message: strings.Join(kinds, ", ") + " report no NVLink fabric. This is right for NVL4 boards, workstations and GPUs that are passed to virtual machines; it is wrong for trays of an NVL72 rack"}}
}

// maxNamed bounds the nodes that a finding of the site names.
const maxNamed = 3

// notRegistered returns one finding for each product and number of GPUs whose NVLink ends in the machine, if GPUs of
// nodes have not registered for long. It is not known whether that is a fault of each node.
func (t *fabricSite) notRegistered(verdicts []FabricVerdict) (found []Finding) {
	names := map[*fabricKind][]string{}
	for i := range verdicts {
		if v := &verdicts[i]; v.Reason == ReasonFabricNotReady && v.Severity == Unknown {
			names[t.seen[i].kind] = append(names[t.seen[i].kind], t.nodes[i].Report.Name)
		}
	}
	for k, nodes := range names {
		slices.Sort(nodes)
		text := strings.Join(nodes[:min(len(nodes), maxNamed)], ", ")
		if more := len(nodes) - maxNamed; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		found = append(found, Finding{Reason: ReasonFabricNotReady, Message: fmt.Sprintf("%d nodes with %d GPUs of %s have GPUs that no CUDA program can use (%s): %s. What to do: %s", len(nodes), k.gpus, k.product, text, saidManager, remedyManager)})
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Message, b.Message) })
	return found
}

// allWithout reports whether no node of a kind has a fabric, now or before.
func (t *fabricSite) allWithout(k *fabricKind) bool {
	for i := range t.nodes {
		if s := &t.seen[i]; s.kind == k && t.nodes[i].Report != nil && (s.none == 0 || int(s.none) < len(t.nodes[i].Report.GPUs) || (&fabricCase{&t.nodes[i], s, t}).lost() != "") {
			return false
		}
	}
	return true
}
