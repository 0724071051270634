// Package fabric says whether the NVLink fabric of a node is as it should be.
//
// [Site.Judge] puts one verdict on each node into its facts. The plan, the conditions of Nodes, the map and the
// commands read that verdict. An agent has [Site.Alone] for its own machine. All verdicts come from one table.
//
// The package also knows what the product of a GPU says of its NVLink ([Bounds]), and what an Xid asks of people
// ([XidOf]). It is pure: no clock, environment, files or network.
package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Site is what is known of NVLink fabrics beside the facts of the nodes.
type Site struct {
	// Bounds, Partitions and DomainLabels are the keys maxDomainGPUs, fabricPartitions and domainLabels.
	Bounds       Bounds
	Partitions   bool
	DomainLabels []string
	// Plan is what is published. It is nil if nothing is, or if nobody has a plan.
	Plan *topology.Plan
	// Since says by Node since when a fabric is not ready, in words. It lacks a registration in progress that is
	// nothing to speak of yet.
	Since map[string]string
}

// Judge puts the verdict on each node into its facts: what the machine says against its product, its place before,
// its neighbours and its sibling GPUs. It takes labels off the facts that can't name an NVLink domain. The nodes of
// all lists count together. The findings are of the whole site.
func (s *Site) Judge(lists ...[]topology.Facts) []topology.Finding {
	t := s.read(lists)
	for i := range t.nodes {
		t.nodes[i].Fabric = t.nodes[i].judge()
	}
	judged := map[string]*topology.Facts{}
	for _, facts := range lists {
		for i := range facts {
			f := &facts[i]
			if of := judged[f.Name]; of != nil {
				f.Fabric, f.Labels = of.Fabric, of.Labels
			} else if f.Shared {
				judged[f.Name] = f
			}
		}
	}
	return append(t.withoutFabric(), t.notRegistered()...)
}

// Alone judges a node by its report and the site's keys, as its agent does. n is nil without a report.
func (s *Site) Alone(n *topology.Node) topology.FabricVerdict {
	facts := []topology.Facts{{Report: n}}
	s.Judge(facts)
	return facts[0].Fabric
}

// Verdicts returns the verdicts on nodes that have a report, by Node.
func Verdicts(lists ...[]topology.Facts) map[string]topology.FabricVerdict {
	out := map[string]topology.FabricVerdict{}
	for _, facts := range lists {
		for i := range facts {
			if f := &facts[i]; f.Report != nil {
				out[f.Name] = f.Fabric
			}
		}
	}
	return out
}

// row is a row of the table. The first row that holds is the node's.
type row struct {
	reason   string
	severity topology.Severity
	place    topology.FabricPlace
	imex     topology.FabricIMEX
	holds    func(*node) bool
	message  func(*node) string
	// remedy goes before that of the reason word. It is empty, too, if there is nothing to do.
	remedy string
}

// What to do.
const (
	remedyWait     = "wait while the GPUs register with the NVLink fabric; if that takes long, read the log of Fabric Manager or NMX, and run quoin discover on the node"
	remedyNotReady = "read the log of Fabric Manager or NMX, and look whether it runs, waits for a switch, or has another version than the driver; run quoin discover on the node"
	remedyFailed   = "the registration failed, so waiting does not help: read the log of Fabric Manager or NMX, repair what it names, then reset the GPUs or restart the machine"
	remedyManager  = "start nvidia-fabricmanager of the driver's version (journalctl -u nvidia-fabricmanager says why it ended); if it gives out partitions, activate one, or set fabricPartitions: true"
)

// table are the rows.
var table = []row{
	{topology.ReasonTwoCliques, topology.Warning, topology.PlaceKept, topology.IMEXNotReady,
		func(c *node) bool { return c.two && !c.kind.inMachine() },
		func(c *node) string {
			return "its GPUs report two NVLink domains, " + c.clique().String() + " and " + c.second().String()
		}, ""},

	// Products whose NVLink ends in the machine.
	{topology.ReasonDomainImplausible, topology.Warning, topology.PlaceNone, topology.IMEXNone,
		func(c *node) bool { return c.kind.inMachine() && c.joined > 0 && c.domain.nodes > 1 },
		func(c *node) string {
			return fmt.Sprintf("its GPUs report clique %s, which %d nodes with %d GPUs have, and NVLink of %s ends in the machine: it is no NVLink domain between nodes", c.clique(), c.domain.nodes, c.domain.gpus, c.kind.chip)
		}, ""},
	{topology.ReasonFabricNotReady, topology.Warning, topology.PlaceKept, topology.IMEXNone,
		func(c *node) bool { return c.kind.inMachine() && c.failed > 0 },
		func(c *node) string { return c.each(topology.GPUFailed) }, remedyFailed},
	{topology.ReasonFabricInProgress, topology.OK, topology.PlaceKept, topology.IMEXNone,
		func(c *node) bool { return c.registersInside() && c.site.partitioned(c.Report) },
		func(c *node) string {
			return fmt.Sprintf("%d of %d GPUs are in no active partition: Fabric Manager gives out partitions", c.inProgress+c.notStarted, len(c.Report.GPUs))
		}, ""},
	{topology.ReasonFabricNotReady, topology.Unknown, topology.PlaceKept, topology.IMEXNone,
		func(c *node) bool { return c.registersInside() && c.since() != "" },
		(*node).notInside, remedyManager},
	{topology.ReasonFabricInProgress, topology.OK, topology.PlaceKept, topology.IMEXNone,
		(*node).registersInside, (*node).notInside, "wait while Fabric Manager registers the GPUs; if that takes long, " + remedyManager},
	{topology.ReasonFabricHealthy, topology.OK, topology.PlaceNone, topology.IMEXNone,
		func(c *node) bool { return c.kind.inMachine() && c.joined > 0 },
		func(*node) string { return saidHealthy }, ""},
	{topology.ReasonNoFabric, topology.OK, topology.PlaceNone, topology.IMEXNone,
		func(c *node) bool { return c.kind.inMachine() && c.none > 0 && c.unread == 0 },
		func(*node) string { return saidNone }, ""},
	{topology.ReasonFabricUnread, topology.Unknown, topology.PlaceByLabel, topology.IMEXNone,
		func(c *node) bool { return c.kind.inMachine() },
		func(*node) string { return saidUnread }, ""},

	// Products whose NVLink joins machines, and unknown products.
	{topology.ReasonDomainImplausible, topology.Warning, topology.PlaceKept, topology.IMEXNone,
		func(c *node) bool { return c.joined > 0 && c.domain.refuses(c) },
		func(c *node) string {
			return fmt.Sprintf("its GPUs report clique %s, which %d nodes with %d GPUs have, and NVLink joins %d GPUs of %s at most", c.clique(), c.domain.nodes, c.domain.gpus, c.domain.bound, cmp.Or(c.domain.chip, "this product"))
		}, ""},
	{topology.ReasonFabricNotReady, topology.Warning, topology.PlaceInClique, topology.IMEXNotReady,
		func(c *node) bool { return c.failed > 0 },
		func(c *node) string { return c.each(topology.GPUFailed) + c.sinceText() }, remedyFailed},
	{topology.ReasonFabricNotReady, topology.Warning, topology.PlaceInClique, topology.IMEXNotReady,
		func(c *node) bool { return c.notStarted > 0 || c.inProgress > 0 && c.since() != "" },
		func(c *node) string { return c.each(topology.GPUNotStarted, topology.GPUInProgress) + c.sinceText() }, remedyNotReady},
	{topology.ReasonFabricInProgress, topology.OK, topology.PlaceInClique, topology.IMEXNotReady,
		func(c *node) bool { return c.inProgress > 0 },
		func(c *node) string { return c.each(topology.GPUInProgress) }, remedyWait},
	{topology.ReasonGPUOutsideClique, topology.Warning, topology.PlaceInClique, topology.IMEXNotReady,
		func(c *node) bool { return c.joined > 0 && c.none > 0 },
		func(c *node) string {
			return fmt.Sprintf("%d of %d GPUs have no NVLink domain, and the others are in clique %s: %s", c.none, len(c.Report.GPUs), c.clique(), c.names(topology.GPUNone))
		}, ""},
	{topology.ReasonFabricHealthy, topology.OK, topology.PlaceInClique, topology.IMEXWanted,
		func(c *node) bool { return c.joined > 0 },
		func(*node) string { return saidHealthy }, ""},
	{topology.ReasonFabricUnread, topology.Unknown, topology.PlaceByLabel, topology.IMEXWanted,
		func(c *node) bool { return c.unread > 0 && !c.Report.Domain.Clique.IsZero() },
		func(*node) string { return saidUnread }, ""},
	{topology.ReasonFabricUnread, topology.Unknown, topology.PlaceByLabel, topology.IMEXNone,
		func(c *node) bool { return c.unread > 0 && c.Report.Domain.None && c.lost() == "" },
		func(*node) string { return saidUnread }, ""},
	{topology.ReasonFabricUnread, topology.Unknown, topology.PlaceByLabel, topology.IMEXUnknown,
		func(c *node) bool { return c.unread > 0 || len(c.Report.GPUs) == 0 },
		func(*node) string { return saidUnread }, ""},
	{topology.ReasonFabricMissing, topology.Warning, topology.PlaceKept, topology.IMEXNotReady,
		func(c *node) bool { return c.lost() != "" },
		func(c *node) string {
			return fmt.Sprintf("none of its %d GPUs has an NVLink fabric, and %s", len(c.Report.GPUs), c.lost())
		}, ""},
	{topology.ReasonNoFabric, topology.OK, topology.PlaceNone, topology.IMEXNone,
		func(*node) bool { return true },
		func(*node) string { return saidNone }, ""},
}

// What is said of many nodes.
const (
	// saidManager are the two causes that look alike.
	saidManager = "Fabric Manager does not run or is not done, or it gives out partitions (FABRIC_MODE=1) and none is active"
	saidHealthy = "the NVLink fabric of all GPUs that have one is healthy"
	saidNone    = "no GPU has an NVLink fabric"
	saidUnread  = "the report says nothing of its GPUs' NVLink fabric"
)

// judge finds the row of a node, and adds what is wrong with GPUs and links.
func (c *node) judge() topology.FabricVerdict {
	if c.Report == nil {
		return c.withoutReport()
	}
	row := &table[slices.IndexFunc(table, func(r row) bool { return r.holds(c) })]
	f := topology.Finding{Severity: row.severity, Reason: row.reason, Message: row.message(c), Remedy: row.remedy}
	if f.Severity == topology.Warning {
		f.Remedy = cmp.Or(f.Remedy, topology.Explain(f.Reason).Remedy)
	}
	c.addFlaws(&f)
	v := topology.FabricVerdict{Finding: c.site.share(f), Place: row.place, IMEX: row.imex, Clique: c.clique(), MaxNodes: c.kind.maxNodes()}
	if v.Place == topology.PlaceInClique && c.joined == 0 {
		v.Place = topology.PlaceKept
	}
	return v
}

// withoutReport says what labels and the product say of a node without a report.
func (c *node) withoutReport() topology.FabricVerdict {
	v := topology.FabricVerdict{Finding: &topology.Finding{Severity: topology.Unknown, Reason: topology.ReasonFabricUnread, Message: "there is no report"}}
	switch none := c.saysNone(); {
	case none != "":
		v.IMEX, v.Message = topology.IMEXNone, none
	case c.kind.inMachine():
		v.IMEX, v.Message = topology.IMEXNone, fmt.Sprintf("NVLink of %s ends in the machine", c.Product())
	}
	return v
}

// saysNone returns what labels say if they say that there is no NVLink domain, else "". They do not if the clique's
// label can't be read, or if the product is one that has NVLink between machines: then its driver may not be up.
func (c *node) saysNone() (message string) {
	for _, p := range c.Labels.Problems {
		switch p.Reason {
		case topology.ReasonCliqueMalformed:
			return ""
		case topology.ReasonLabelWithoutDomain:
			message = cmp.Or(message, p.Message)
		}
	}
	if c.kind.bound > inMachine {
		return ""
	}
	return message
}

// second returns another clique than the first GPU's.
func (c *node) second() topology.Clique {
	for i := range c.Report.GPUs {
		if other, joined := c.Report.GPUs[i].Fabric.Clique(); joined && other != c.clique() {
			return other
		}
	}
	return topology.Clique{}
}

// registersInside reports whether GPUs whose NVLink ends in the machine have not registered with its switches.
func (c *node) registersInside() bool {
	return c.kind.inMachine() && c.inProgress+c.notStarted > 0
}

// notInside says that they have not.
func (c *node) notInside() string {
	return fmt.Sprintf("%d of %d GPUs have not registered with the NVLink switches of the machine, and no CUDA program can use them: %s", c.inProgress+c.notStarted, len(c.Report.GPUs), saidManager) + c.sinceText()
}

func (c *node) since() string { return c.site.Since[c.Name] }

// sinceText says since when the fabric is not ready.
func (c *node) sinceText() string {
	if c.since() == "" {
		return ""
	}
	return "; since " + c.since()
}

// names lists the GPUs with a standing.
func (c *node) names(standing topology.Standing) string {
	var out []string
	for i := range c.Report.GPUs {
		if g := &c.Report.GPUs[i]; g.Fabric.Standing() == standing {
			out = append(out, g.UUID)
		}
	}
	return strings.Join(out, ", ")
}

// each says of the GPUs with one of the standings how their registration is. GPUs with the same
// standing are named together.
func (c *node) each(of ...topology.Standing) string {
	var words []string
	gpus := map[string][]string{}
	for _, standing := range of {
		for i := range c.Report.GPUs {
			g := &c.Report.GPUs[i]
			if g.Fabric.Standing() != standing {
				continue
			}
			what := map[topology.Standing]string{topology.GPUFailed: "failed with " + g.Fabric.Status, topology.GPUNotStarted: "has not started", topology.GPUInProgress: "is in progress"}[standing]
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

// lost says why the node should have a fabric although its GPUs say that there is none, or nothing.
func (c *node) lost() string {
	r := c.Report
	if before := cmp.Or(r.Domain.Clique, r.EarlierClique); !before.IsZero() {
		return "the node was in clique " + before.String() + " before"
	}
	if c.block != nil {
		return "the node is published in block " + c.block.Name
	}
	if nodes := r.IMEXNodes; nodes != nil && *nodes > 1 {
		return "the machine's nodes_config.cfg names other nodes"
	}
	if in := c.site.chassis[chassisOf(r)]; in != nil && in.joined > 0 {
		return fmt.Sprintf("%d of %d nodes in its chassis %s have one", in.joined, in.nodes, chassisOf(r))
	}
	if k := c.kind; 2*k.joined > k.nodes {
		return fmt.Sprintf("%d of %d nodes with %d GPUs of %s have one", k.joined, k.nodes, k.gpus, cmp.Or(k.product, "the same product"))
	}
	return ""
}

// addFlaws adds to a finding what is wrong with single GPUs. It takes the reason of the worst if the finding says
// nothing worse.
func (c *node) addFlaws(f *topology.Finding) {
	if f.Reason == topology.ReasonFabricInProgress || f.Reason == topology.ReasonFabricNotReady && f.Severity == topology.Unknown {
		return // health and links mean nothing yet
	}
	links, worst := c.usualLinks(), len(flaws)
	if !c.ill && c.least >= links { // no GPU has a flaw
		return
	}
	var said []string
	for i := range c.Report.GPUs {
		g := &c.Report.GPUs[i]
		add := func(reason, what string) {
			if reason != "" {
				said = append(said, fmt.Sprintf("GPU %d, %s: %s", g.Index, g.UUID, what))
				worst = min(worst, slices.Index(flaws, reason))
			}
		}
		add(flaw(&g.Fabric))
		if g.Links != nil && g.Links.Active() < links && !g.UsesMIG() {
			add(topology.ReasonLinksDown, fmt.Sprintf("%d of %d NVLinks are active", g.Links.Active(), links))
		}
	}
	if text := strings.Join(said, "; "); f.Severity == topology.Warning {
		f.Message += "; " + text
	} else {
		*f = topology.Finding{Severity: topology.Warning, Reason: flaws[worst], Message: text, Remedy: topology.Explain(flaws[worst]).Remedy}
	}
}

// flaws are what may be wrong with a GPU that has joined its fabric, the worst first.
var flaws = []string{topology.ReasonMisconfigured, topology.ReasonUnhealthy, topology.ReasonLinksDown, topology.ReasonLimitedCapacity}
