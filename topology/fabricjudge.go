package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What a node's NVLink fabric is. README.md has the table.
const (
	ReasonFabricHealthy = "FabricHealthy"
	ReasonNoFabric      = "NoFabric"
	ReasonFabricUnread  = "FabricUnread"
	// ReasonFabricInProgress: the GPUs register, and have not done so for long yet.
	ReasonFabricInProgress = "FabricInProgress"
	// ReasonFabricNotReady: the GPUs have not registered for long, or their registration failed.
	ReasonFabricNotReady = "FabricNotReady"
	// ReasonFabricMissing: the GPUs say that they have no fabric, and the node should have one.
	ReasonFabricMissing     = "FabricMissing"
	ReasonDomainImplausible = "DomainImplausible"
	ReasonTwoCliques        = "TwoCliques"
	ReasonGPUOutsideClique  = "GPUOutsideClique"
	ReasonMisconfigured     = "FabricMisconfigured"
	ReasonUnhealthy         = "FabricUnhealthy"
	ReasonLinksDown         = "LinksDown"
	ReasonLimitedCapacity   = "FabricLimitedCapacity"
)

// FabricPlace is what a verdict means for a node's place.
type FabricPlace uint8

// The places.
const (
	// PlaceByLabel: the GPUs say nothing, so that labels count. Without any the node stays in its block.
	PlaceByLabel FabricPlace = iota
	// PlaceInClique: the node belongs to the block of the verdict's clique. A row of the table says
	// PlaceInClique also of nodes of which no GPU has joined: then the verdict is PlaceKept.
	PlaceInClique
	// PlaceKept: the node stays in its block. It joins none.
	PlaceKept
	// PlaceNone: the node is in no block of an NVLink domain.
	PlaceNone
)

// FabricIMEX is what a verdict means for IMEX, and so for the gate.
type FabricIMEX uint8

// What IMEX needs.
const (
	// IMEXUnknown: nobody knows whether jobs need IMEX.
	IMEXUnknown FabricIMEX = iota
	// IMEXNone: NVLink joins the node with no other node.
	IMEXNone
	// IMEXWanted: jobs across nodes need IMEX in the verdict's clique.
	IMEXWanted
	// IMEXNotReady: jobs across nodes need a fabric that is not there.
	IMEXNotReady
)

// FabricVerdict says what the NVLink fabric of a node is, and what that means. The finding is shared
// by many nodes and must not be changed.
type FabricVerdict struct {
	*Finding
	Place FabricPlace
	IMEX  FabricIMEX
	// Clique is the one that the GPUs report. The node belongs to it if the verdict says so.
	Clique Clique
}

// Faulty reports whether something is wrong with the fabric.
func (v *FabricVerdict) Faulty() bool { return v.Severity == Warning || v.Severity == Fatal }

// FabricNode is what a fabric is judged by.
type FabricNode struct {
	// Report is nil if the node has none. Then Labels count for its neighbours, if they are not nil.
	Report *Node
	Labels *FabricLabels
	// Block is where the plan has the node. It is nil if the plan has the node in no block, or if
	// nobody has a plan.
	Block *Block
	// Since says when the fabric began to be not ready, in words. It is empty as long as a registration
	// in progress is nothing to speak of.
	Since string
	// Peers says that the machine's own files name it as a node of an IMEX domain.
	Peers bool
}

// FabricLabels are what labels say of a node without a report.
type FabricLabels struct {
	Product string
	GPUs    int
	Clique  Clique
}

// JudgeFabric judges the fabric of a node by what is known on the node. bounds may be nil.
func JudgeFabric(n *FabricNode, bounds Bounds) FabricVerdict {
	verdicts, _ := JudgeFabrics([]FabricNode{*n}, bounds)
	return verdicts[0]
}

// JudgeFabrics judges the fabrics of nodes: what each machine says against its product, its place
// before, its neighbours and its sibling GPUs. The verdicts are beside the nodes. bounds may
// be nil. The findings are of the whole site.
func JudgeFabrics(nodes []FabricNode, bounds Bounds) ([]FabricVerdict, []Finding) {
	t := &fabricSite{nodes: nodes, bounds: bounds, seen: make([]fabricSeen, len(nodes)), kinds: map[fabricKindKey]*fabricKind{}, domains: map[Clique]*fabricDomain{}}
	for i := range nodes {
		t.see(i)
	}
	t.findBlocks()
	verdicts := make([]FabricVerdict, len(nodes))
	for i := range nodes {
		verdicts[i] = t.judge(i)
	}
	return verdicts, t.withoutFabric()
}

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
	// least and links are the fewest and the most links of a GPU without MIG, toSwitch that one of them ends
	// in a switch.
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
	// alike counts the nodes of which every GPU has so many links.
	alike [maxLinks + 1]int32
	usual int // what usualLinks returns, 0 before it is known, and -1 for none
}

// maxLinks is how many NVLinks of a GPU a report holds.
const maxLinks = 64

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
		if g.usesMIG() {
			continue
		}
		links := uint8(min(len(g.NVLinks), maxLinks)) //nolint:gosec // a report holds 64
		s.least, s.links = min(s.least, links), max(s.links, links)
		s.toSwitch = s.toSwitch || len(g.NVLinks) > 0 && g.NVLinks[0].Remote == remoteSwitch
	}
	s.least = min(s.least, s.links)
	return clique
}

// remoteSwitch is what NVLink.Remote says of a link to a switch.
const remoteSwitch = "switch"

// usesMIG reports whether MIG is on, which turns NVLinks off.
func (g *GPU) usesMIG() bool { return g.MIGEmpty || len(g.MIG) > 0 }

// gpuStanding is what one GPU's fabric state means. Only this file reads the words of the state.
type gpuStanding uint8

const (
	gpuUnread gpuStanding = iota
	gpuJoined
	gpuInProgress
	gpuNotStarted
	gpuFailed
	gpuNone
)

// standing returns what the state of a GPU means.
func (f *Fabric) standing() gpuStanding {
	switch f.State {
	case FabricNotSupported:
		return gpuNone
	case FabricNotStarted:
		return gpuNotStarted
	case FabricInProgress:
		return gpuInProgress
	case FabricCompleted:
		switch {
		case f.Status != "":
			return gpuFailed
		case f.ClusterUUID.IsZero():
			return gpuNone
		}
		return gpuJoined
	}
	return gpuUnread
}

// Supported reports whether NVML says that the GPU has a fabric.
func (f *Fabric) Supported() bool { return f.State != "" && f.State != FabricNotSupported }

// Clique returns the domain that the GPU has joined, false if it has joined none.
func (f *Fabric) Clique() (Clique, bool) {
	if f.standing() != gpuJoined {
		return Clique{}, false
	}
	return Clique{ClusterUUID: f.ClusterUUID, ID: f.CliqueID}, true
}

// Registers says how the registration of the node's GPUs stands: waits if one is in progress, stuck if one
// failed or has not begun. Nobody awaits GPUs whose NVLink ends in the machine. bounds may be nil.
func (n *Node) Registers(bounds Bounds) (waits, stuck bool) {
	for i := range n.GPUs {
		switch n.GPUs[i].Fabric.standing() {
		case gpuInProgress:
			waits = true
		case gpuNotStarted, gpuFailed:
			stuck = true
		}
	}
	if !waits && !stuck {
		return false, false
	}
	spans := n.SpansMachines(bounds)
	return waits && spans, stuck && spans
}

// Joined returns the NVLink domain that all of the node's GPUs have joined, or None
// if all have none to join. It is zero if a GPU's registration is in progress,
// failed or unread, or if two GPUs differ. None is what the GPUs say; JudgeFabric says whether
// that is believed.
func (n *Node) Joined() NVLinkDomain {
	var joined NVLinkDomain
	for i := range n.GPUs {
		f := &n.GPUs[i].Fabric
		c, ok := f.Clique()
		d := NVLinkDomain{Clique: c, None: f.standing() == gpuNone}
		if !ok && !d.None || i > 0 && d != joined {
			return NVLinkDomain{}
		}
		joined = d
	}
	return joined
}

// fabricCase is one node with all that it is judged by.
type fabricCase struct {
	*FabricNode
	*fabricSeen
	site *fabricSite
}

// fabricRow is a row of the table. The first row that holds is the node's.
type fabricRow struct {
	reason   string
	severity Severity
	place    FabricPlace
	imex     FabricIMEX
	holds    func(*fabricCase) bool
	message  func(*fabricCase) string
	remedy   string
}

// What to do.
const (
	remedyWait     = "wait while the GPUs register with the NVLink fabric; if that takes long, read the log of Fabric Manager or NMX, and run quoin discover on the node"
	remedyNotReady = "read the log of Fabric Manager or NMX, and look whether it runs, waits for a switch, or has another version than the driver; run quoin discover on the node"
	remedyFailed   = "the registration failed, so waiting does not help: read the log of Fabric Manager or NMX, repair what it names, then reset the GPUs or restart the machine"
	remedyMissing  = "look at Fabric Manager or NMX, at the NVLink switches and at nvidia-smi -q, section Fabric, then restart the machine; if the machine is no longer part of an NVLink rack, delete its NodeReport and restart its agent, after the node has left Slurm for removeAfter"
	remedyDomain   = "look at Fabric Manager's partitions and at who reports the clique; if NVLink really joins so many GPUs, set maxDomainGPUs"
)

// fabricTable are the rows.
var fabricTable = []fabricRow{
	{ReasonTwoCliques, Warning, PlaceKept, IMEXNotReady,
		func(c *fabricCase) bool { return c.two && !c.kind.inMachine() },
		func(c *fabricCase) string {
			return "its GPUs report two NVLink domains, " + c.clique().String() + " and " + c.second().String()
		}, "look at the cabling and the NVLink partitions"},

	// Products whose NVLink ends in the machine.
	{ReasonDomainImplausible, Warning, PlaceNone, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.joined > 0 && c.domain.nodes > 1 },
		func(c *fabricCase) string {
			return fmt.Sprintf("its GPUs report clique %s, which %d nodes with %d GPUs have, and NVLink of %s ends in the machine: it is no NVLink domain between nodes", c.clique(), c.domain.nodes, c.domain.gpus, c.kind.chip)
		}, remedyDomain},
	{ReasonUnhealthy, Warning, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.failed > 0 },
		func(c *fabricCase) string { return c.each(gpuFailed) }, remedyFailed},
	{ReasonFabricInProgress, OK, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.inProgress+c.notStarted > 0 },
		func(c *fabricCase) string {
			return fmt.Sprintf("%d of %d GPUs have not registered with the NVLink switches of the machine: Fabric Manager is not done, or it gives out partitions (FABRIC_MODE=1) and none is active", c.inProgress+c.notStarted, len(c.Report.GPUs))
		}, ""},
	{ReasonFabricHealthy, OK, PlaceNone, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.joined > 0 },
		func(*fabricCase) string { return saidHealthy }, ""},
	{ReasonNoFabric, OK, PlaceNone, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.none > 0 && c.unread == 0 },
		func(*fabricCase) string { return saidNone }, ""},
	{ReasonFabricUnread, Unknown, PlaceByLabel, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() },
		func(*fabricCase) string { return saidUnread }, ""},

	// Products whose NVLink joins machines, and products of which nothing is known.
	{ReasonDomainImplausible, Warning, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.joined > 0 && c.domain.refuses(c.FabricNode) },
		func(c *fabricCase) string {
			return fmt.Sprintf("its GPUs report clique %s, which %d nodes with %d GPUs have, and NVLink joins %d GPUs of %s at most", c.clique(), c.domain.nodes, c.domain.gpus, c.domain.bound, cmp.Or(c.domain.chip, "this product"))
		}, remedyDomain},
	{ReasonFabricNotReady, Warning, PlaceInClique, IMEXNotReady,
		func(c *fabricCase) bool { return c.failed > 0 },
		func(c *fabricCase) string { return c.each(gpuFailed) + c.since() }, remedyFailed},
	{ReasonFabricNotReady, Warning, PlaceInClique, IMEXNotReady,
		func(c *fabricCase) bool { return c.notStarted > 0 || c.inProgress > 0 && c.Since != "" },
		func(c *fabricCase) string { return c.each(gpuNotStarted, gpuInProgress) + c.since() }, remedyNotReady},
	{ReasonFabricInProgress, OK, PlaceInClique, IMEXNotReady,
		func(c *fabricCase) bool { return c.inProgress > 0 },
		func(c *fabricCase) string { return c.each(gpuInProgress) }, remedyWait},
	{ReasonGPUOutsideClique, Warning, PlaceInClique, IMEXNotReady,
		func(c *fabricCase) bool { return c.joined > 0 && c.none > 0 },
		func(c *fabricCase) string {
			return fmt.Sprintf("%d of %d GPUs have no NVLink domain, and the others are in clique %s: %s", c.none, len(c.Report.GPUs), c.clique(), c.names(gpuNone))
		}, "look at Fabric Manager, the GPUs named and the NVLink partitions"},
	{ReasonFabricHealthy, OK, PlaceInClique, IMEXWanted,
		func(c *fabricCase) bool { return c.joined > 0 },
		func(*fabricCase) string { return saidHealthy }, ""},
	{ReasonFabricUnread, Unknown, PlaceByLabel, IMEXWanted,
		func(c *fabricCase) bool { return c.unread > 0 && !c.Report.Domain.Clique.IsZero() },
		func(*fabricCase) string { return saidUnread }, ""},
	{ReasonFabricUnread, Unknown, PlaceByLabel, IMEXNone,
		func(c *fabricCase) bool { return c.unread > 0 && c.Report.Domain.None && c.lost() == "" },
		func(*fabricCase) string { return saidUnread }, ""},
	{ReasonFabricUnread, Unknown, PlaceByLabel, IMEXUnknown,
		func(c *fabricCase) bool { return c.unread > 0 || len(c.Report.GPUs) == 0 },
		func(*fabricCase) string { return saidUnread }, ""},
	{ReasonFabricMissing, Warning, PlaceKept, IMEXNotReady,
		func(c *fabricCase) bool { return c.lost() != "" },
		func(c *fabricCase) string {
			return fmt.Sprintf("none of its %d GPUs has an NVLink fabric, and %s", len(c.Report.GPUs), c.lost())
		}, remedyMissing},
	{ReasonNoFabric, OK, PlaceNone, IMEXNone,
		func(*fabricCase) bool { return true },
		func(*fabricCase) string { return saidNone }, ""},
}

// What is said of many nodes.
const (
	saidHealthy = "the NVLink fabric of all GPUs that have one is healthy"
	saidNone    = "no GPU has an NVLink fabric"
	saidUnread  = "the report says nothing of its GPUs' NVLink fabric"
)

// The verdicts on most nodes, and on nodes without a report.
var (
	healthyFabric = &Finding{Severity: OK, Reason: ReasonFabricHealthy, Message: saidHealthy}
	withoutOne    = &Finding{Severity: OK, Reason: ReasonNoFabric, Message: saidNone}
	noReport      = &Finding{Severity: Unknown, Reason: ReasonFabricUnread, Message: "there is no report"}
)

// judge finds the row of a node, and adds what is wrong with GPUs and links.
func (t *fabricSite) judge(i int) FabricVerdict {
	n, s := &t.nodes[i], &t.seen[i]
	if n.Report == nil {
		v := FabricVerdict{Finding: noReport}
		if s.kind.inMachine() {
			v.IMEX = IMEXNone
		}
		return v
	}
	down := t.linksDown(s)
	if gpus := len(n.Report.GPUs); int(s.joined) == gpus && gpus > 0 && !s.two && !s.flawed && down == 0 && !s.kind.inMachine() && !s.domain.refuses(n) { // as most nodes are
		return FabricVerdict{healthyFabric, PlaceInClique, IMEXWanted, s.domain.clique}
	}
	if s.kind.inMachine() && int(s.none) == len(n.Report.GPUs) && s.none > 0 && down == 0 {
		return FabricVerdict{Finding: withoutOne, Place: PlaceNone, IMEX: IMEXNone}
	}
	c := &fabricCase{n, s, t}
	row := &fabricTable[slices.IndexFunc(fabricTable, func(r fabricRow) bool { return r.holds(c) })]
	f := &Finding{Severity: row.severity, Reason: row.reason, Message: row.message(c), Remedy: row.remedy}
	c.addFlaws(f, down)
	v := FabricVerdict{Finding: f, Place: row.place, IMEX: row.imex, Clique: s.clique()}
	if v.Place == PlaceInClique && s.joined == 0 {
		v.Place = PlaceKept
	}
	return v
}

// second returns another clique than the first GPU's.
func (c *fabricCase) second() Clique {
	for i := range c.Report.GPUs {
		if other, joined := c.Report.GPUs[i].Fabric.Clique(); joined && other != c.clique() {
			return other
		}
	}
	return Clique{}
}

// since says since when the fabric is not ready.
func (c *fabricCase) since() string {
	if c.Since == "" {
		return ""
	}
	return "; since " + c.Since
}

// names lists the GPUs with a standing.
func (c *fabricCase) names(is gpuStanding) string {
	var out []string
	for i := range c.Report.GPUs {
		if g := &c.Report.GPUs[i]; g.Fabric.standing() == is {
			out = append(out, g.UUID)
		}
	}
	return strings.Join(out, ", ")
}

// each says of the GPUs with one of the standings how their registration is. GPUs of which the same
// is said are said together.
func (c *fabricCase) each(of ...gpuStanding) string {
	var words []string
	gpus := map[string][]string{}
	for _, is := range of {
		for i := range c.Report.GPUs {
			g := &c.Report.GPUs[i]
			if g.Fabric.standing() != is {
				continue
			}
			what := map[gpuStanding]string{gpuFailed: "failed with " + g.Fabric.Status, gpuNotStarted: "has not started", gpuInProgress: "is in progress"}[is]
			if gpus[what] == nil {
				words = append(words, what)
			}
			gpus[what] = append(gpus[what], fmt.Sprintf("GPU %d (%s)", g.Index, g.UUID))
		}
	}
	for i, what := range words {
		who := "its GPUs"
		if len(gpus[what]) < len(c.Report.GPUs) {
			who = strings.Join(gpus[what], " and ")
		}
		words[i] = "the fabric registration of " + who + " " + what
	}
	return strings.Join(words, "; ")
}

// lost says why a node should have a fabric whose GPUs say that there is none. It is empty if nothing says so.
func (c *fabricCase) lost() string {
	r := c.Report
	if before := cmp.Or(r.Domain.Clique, r.EarlierClique); !before.IsZero() {
		return "the node was in clique " + before.String() + " before"
	}
	if c.Block != nil {
		return "the node is published in block " + c.Block.Name
	}
	if c.Peers {
		return "the machine's nodes_config.cfg names other nodes"
	}
	c.site.findNeighbours()
	if serial := chassisOf(r); serial != "" && c.site.chassis[serial].joined > 0 {
		return fmt.Sprintf("%d of %d nodes in its chassis %s have one", c.site.chassis[serial].joined, c.site.chassis[serial].nodes, serial)
	}
	if k := c.kind; 2*k.joined > k.nodes {
		return fmt.Sprintf("%d of %d nodes with %d GPUs of %s have one", k.joined, k.nodes, k.gpus, cmp.Or(k.product, "the same product"))
	}
	return ""
}

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

// addFlaws adds to a finding what is wrong with single GPUs. It takes the reason of the worst if the finding says
// nothing worse. links is how many links a GPU should have, or 0.
func (c *fabricCase) addFlaws(f *Finding, links int) {
	if f.Reason == ReasonFabricInProgress {
		return // health and links mean nothing yet
	}
	var said []string
	worst := len(flaws)
	for i := range c.Report.GPUs {
		g := &c.Report.GPUs[i]
		add := func(reason, what string) {
			if reason != "" {
				said = append(said, fmt.Sprintf("GPU %d, %s: %s", g.Index, g.UUID, what))
				worst = min(worst, slices.Index(flaws, reason))
			}
		}
		add(g.Fabric.flaw())
		if n := len(g.NVLinks); n < links && !g.usesMIG() && !c.linksUnread(g) {
			add(ReasonLinksDown, fmt.Sprintf("%d of %d NVLinks are active", n, links))
		}
	}
	switch text := strings.Join(said, "; "); {
	case text == "":
	case f.Severity == Warning:
		f.Message += "; " + text
	default:
		*f = Finding{Severity: Warning, Reason: flaws[worst], Message: text, Remedy: flawRemedies[flaws[worst]]}
	}
}

// linksUnread reports whether NVML did not answer for all links of a GPU.
func (c *fabricCase) linksUnread(g *GPU) bool {
	return slices.ContainsFunc(c.Report.Problems, func(p Finding) bool {
		return p.Reason == ReasonFactUnreadable && strings.HasPrefix(p.Message, "NVLink ") && strings.Contains(p.Message, g.UUID)
	})
}

// flaws are what may be wrong with a GPU that has joined its fabric, the worst first.
var flaws = []string{ReasonMisconfigured, ReasonUnhealthy, ReasonLinksDown, ReasonLimitedCapacity}

// flawRemedies are what to do, by flaw.
var flawRemedies = map[string]string{
	ReasonMisconfigured: "look at Fabric Manager and the GPU; drain the node", ReasonUnhealthy: "look at Fabric Manager and the GPU; drain the node",
	ReasonLinksDown: "look at nvidia-smi nvlink -s and the kernel log of the node, and plan a repair", ReasonLimitedCapacity: "plan a repair",
}

func isTrue(b *bool) bool { return b != nil && *b }

// flaw returns the worst that a GPU's health says, or "".
func (f *Fabric) flaw() (reason, what string) {
	incorrect := f.HealthFields.IncorrectConfiguration
	switch {
	case incorrect != "" && incorrect != "none":
		return ReasonMisconfigured, "incorrect configuration: " + incorrect
	case f.Health == HealthUnhealthy:
		return ReasonUnhealthy, "its health is " + string(f.Health)
	case isTrue(f.HealthFields.RouteUnhealthy):
		return ReasonUnhealthy, "unhealthy route"
	case f.Health == HealthLimitedCapacity:
		return ReasonLimitedCapacity, "its capacity is limited"
	case isTrue(f.HealthFields.DegradedBandwidth):
		return ReasonLimitedCapacity, "degraded bandwidth"
	}
	return "", ""
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

// allWithout reports whether no node of a kind has a fabric, now or before.
func (t *fabricSite) allWithout(k *fabricKind) bool {
	for i := range t.nodes {
		if s := &t.seen[i]; s.kind == k && t.nodes[i].Report != nil && (s.none == 0 || int(s.none) < len(t.nodes[i].Report.GPUs) || (&fabricCase{&t.nodes[i], s, t}).lost() != "") {
			return false
		}
	}
	return true
}
