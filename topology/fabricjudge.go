package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// What a node's NVLink fabric is, by fabricTable.
const (
	ReasonFabricHealthy = "FabricHealthy"
	ReasonNoFabric      = "NoFabric"
	ReasonFabricUnread  = "FabricUnread"
	// ReasonFabricInProgress: the GPUs register, and have not done so for long yet.
	ReasonFabricInProgress = "FabricInProgress"
	// ReasonFabricNotReady: the GPUs have not registered for long, or their registration failed. If NVLink
	// ends in the machine, two causes look alike, and the verdict is unknown.
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
	// PlaceInClique: the node belongs to the block of the verdict's clique. Some rows of the table
	// have it although no GPU may have joined: then the verdict is PlaceKept.
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

// Asks reports whether somebody has to look at the fabric: it is faulty, or it could not be judged and there is
// something to do.
func (v *FabricVerdict) Asks() bool { return v.Severity != OK && v.Remedy != "" }

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
	// Partitions is the key fabricPartitions of the site.
	Partitions bool
}

// FabricNode returns what the facts of a node say of its fabric.
func (f *Facts) FabricNode() FabricNode {
	if f.Report != nil {
		return FabricNode{Report: f.Report}
	}
	return FabricNode{Labels: &FabricLabels{Product: f.Product(), GPUs: f.GPUCount(), Clique: f.Labels.Clique}}
}

// FabricLabels are what labels, ResourceSlices and the kubelet say of a node without a report.
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
	return verdicts, append(t.withoutFabric(), t.notRegistered(verdicts)...)
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
	remedyManager  = "start nvidia-fabricmanager of the driver's version (journalctl -u nvidia-fabricmanager says why it ended); if it gives out partitions, activate one, or set fabricPartitions: true"
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
	{ReasonFabricNotReady, Warning, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.failed > 0 },
		func(c *fabricCase) string { return c.each(gpuFailed) }, remedyFailed},
	{ReasonFabricInProgress, OK, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.registersInside() && c.partitioned() },
		func(c *fabricCase) string {
			return fmt.Sprintf("%d of %d GPUs are in no active partition: Fabric Manager gives out partitions", c.inProgress+c.notStarted, len(c.Report.GPUs))
		}, ""},
	{ReasonFabricNotReady, Unknown, PlaceKept, IMEXNone,
		func(c *fabricCase) bool { return c.registersInside() && c.Since != "" },
		(*fabricCase).notInside, remedyManager},
	{ReasonFabricInProgress, OK, PlaceKept, IMEXNone,
		(*fabricCase).registersInside, (*fabricCase).notInside, "wait while Fabric Manager registers the GPUs; if that takes long, " + remedyManager},
	{ReasonFabricHealthy, OK, PlaceNone, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.joined > 0 },
		func(*fabricCase) string { return saidHealthy }, ""},
	{ReasonNoFabric, OK, PlaceNone, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() && c.none > 0 && c.unread == 0 },
		func(*fabricCase) string { return saidNone }, ""},
	{ReasonFabricUnread, Unknown, PlaceByLabel, IMEXNone,
		func(c *fabricCase) bool { return c.kind.inMachine() },
		func(*fabricCase) string { return saidUnread }, ""},

	// Products whose NVLink joins machines, and unknown products.
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
	// saidManager are the two causes that look alike.
	saidManager = "Fabric Manager does not run or is not done, or it gives out partitions (FABRIC_MODE=1) and none is active"
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

// registersInside reports whether GPUs whose NVLink ends in the machine have not registered with its switches.
func (c *fabricCase) registersInside() bool {
	return c.kind.inMachine() && c.inProgress+c.notStarted > 0
}

// notInside says that they have not.
func (c *fabricCase) notInside() string {
	return fmt.Sprintf("%d of %d GPUs have not registered with the NVLink switches of the machine, and no CUDA program can use them: %s", c.inProgress+c.notStarted, len(c.Report.GPUs), saidManager) + c.since()
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

// lost says why the node should have a fabric although its GPUs say that there is none. It is empty if nothing says so.
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

// addFlaws adds to a finding what is wrong with single GPUs. It takes the reason of the worst if the finding says
// nothing worse. links is how many links a GPU should have, or 0.
func (c *fabricCase) addFlaws(f *Finding, links int) {
	if f.Reason == ReasonFabricInProgress || f.Reason == ReasonFabricNotReady && f.Severity == Unknown {
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
		if g.Links != nil && g.Links.Active() < links && !g.usesMIG() {
			add(ReasonLinksDown, fmt.Sprintf("%d of %d NVLinks are active", g.Links.Active(), links))
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

// flaws are what may be wrong with a GPU that has joined its fabric, the worst first.
var flaws = []string{ReasonMisconfigured, ReasonUnhealthy, ReasonLinksDown, ReasonLimitedCapacity}

// flawRemedies are what to do, by flaw.
var flawRemedies = map[string]string{
	ReasonMisconfigured: "look at Fabric Manager and the GPU; drain the node", ReasonUnhealthy: "look at Fabric Manager and the GPU; drain the node",
	ReasonLinksDown: "look at nvidia-smi nvlink -s and the kernel log of the node, and plan a repair", ReasonLimitedCapacity: "plan a repair if it lasts",
}
