package fabric_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

const (
	gb200 = "NVIDIA GB200"
	h100  = "NVIDIA H100 80GB HBM3"
)

var (
	notSupported = topology.Fabric{State: topology.FabricNotSupported}
	notStarted   = topology.Fabric{State: topology.FabricNotStarted}
	inProgress   = topology.Fabric{State: topology.FabricInProgress}
	failed       = topology.Fabric{State: topology.FabricCompleted, Status: "ERROR_INSUFFICIENT_RESOURCES"}
	joinedFabric = inClique(1)
)

func inClique(id uint32) topology.Fabric {
	return topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{0x8a}, CliqueID: id}
}

// tray is a node, and what a site knows of it.
type tray struct {
	topology.Facts
	Block      *topology.Block
	Since      string
	Partitions bool
}

// judge judges trays. Their blocks are published.
func judge(trays []tray, bounds fabric.Bounds) (verdicts []topology.FabricVerdict, found []topology.Finding) {
	site := fabric.Site{Bounds: bounds, Plan: &topology.Plan{}, Since: map[string]string{}}
	var facts []topology.Facts
	var blocks []topology.Block
	for i := range trays {
		f := trays[i].Facts
		f.Name = fmt.Sprintf("n%02d", i+1)
		f.SlurmName = f.Name
		facts = append(facts, f)
		site.Since[f.Name], site.Partitions = trays[i].Since, site.Partitions || trays[i].Partitions
		if b := trays[i].Block; b != nil {
			at := slices.IndexFunc(blocks, func(of topology.Block) bool { return of.Name == b.Name })
			if at < 0 {
				at, blocks = len(blocks), append(blocks, *b)
			}
			blocks[at].Nodes = append(blocks[at].Nodes, f.SlurmName)
		}
	}
	site.Plan.Topologies = []topology.Topology{{Name: "nvlink", Kind: topology.KindBlock, Blocks: blocks}}
	found = site.Judge(facts)
	for i := range facts {
		verdicts = append(verdicts, facts[i].Fabric)
	}
	return verdicts, found
}

// trays are nodes that are alike: each GPU has 18 links to switches, and the nodes share a chassis.
func trays(n, gpus int, product string, f topology.Fabric) []tray {
	out := make([]tray, n)
	for i := range out {
		r := &topology.Node{Name: fmt.Sprintf("n%02d", i+1), Platform: &topology.Platform{ChassisSerial: "1820"}}
		for g := range gpus {
			r.GPUs = append(r.GPUs, topology.GPU{Index: g, UUID: fmt.Sprintf("GPU-%02d-%d", i+1, g), Product: product, Links: &topology.Links{Switch: 18}, Fabric: f})
		}
		out[i].Report = r
	}
	return out
}

// say gives all GPUs of a node a fabric.
func say(n *tray, f topology.Fabric) {
	for g := range n.Report.GPUs {
		n.Report.GPUs[g].Fabric = f
	}
}

// TestFabricTable has a row of the table each time: the first node of a site is spoiled.
func TestFabricTable(t *testing.T) {
	const since = "2026-11-26 16:10 UTC"
	rack := func() []tray { return trays(18, 4, gb200, joinedFabric) }
	alone := func(product string, f topology.Fabric) func() []tray {
		return func() []tray { return trays(1, 4, product, f) }
	}
	links := func(gpu, n int) func([]tray) {
		return func(nodes []tray) { nodes[0].Report.GPUs[gpu].Links.Switch = n }
	}
	set := func(f topology.Fabric) func([]tray) {
		return func(nodes []tray) { say(&nodes[0], f) }
	}
	yes := new(true)
	health := func(summary topology.Health, bits topology.FabricHealth) func([]tray) {
		return func(nodes []tray) {
			f := &nodes[0].Report.GPUs[1].Fabric
			f.Health, f.HealthFields = summary, bits
		}
	}
	// late has the first node wait for long.
	late := func(more func(*tray)) func([]tray) {
		return func(nodes []tray) {
			if nodes[0].Since = since; more != nil {
				more(&nodes[0])
			}
		}
	}
	for _, tt := range []struct {
		name   string
		site   func() []tray
		spoil  func([]tray)
		bounds fabric.Bounds
		reason string
		place  topology.FabricPlace
		imex   topology.FabricIMEX
		says   string
	}{
		{name: "a tray of a rack", site: rack, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "in progress", site: rack, spoil: set(inProgress), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "the fabric registration of its GPUs is in progress"},
		{name: "in progress for long", site: rack, spoil: func(n []tray) { say(&n[0], inProgress); n[0].Since = since }, reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "; since 2026-11-26 16:10 UTC"},
		{name: "not started", site: rack, spoil: set(notStarted), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "has not started"},
		{name: "failed", site: rack, spoil: set(failed), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "the fabric registration of its GPUs failed with ERROR_INSUFFICIENT_RESOURCES"},
		{name: "one GPU failed", site: rack, spoil: func(n []tray) { n[0].Report.GPUs[2].Fabric = failed }, reason: "FabricNotReady", place: topology.PlaceInClique, imex: topology.IMEXNotReady, says: "the fabric registration of GPU 2 (GPU-01-2) failed"},
		{name: "one GPU has none", site: rack, spoil: func(n []tray) { n[0].Report.GPUs[2].Fabric = notSupported }, reason: "GPUOutsideClique", place: topology.PlaceInClique, imex: topology.IMEXNotReady, says: "1 of 4 GPUs have no NVLink domain"},
		{name: "two cliques", site: rack, spoil: func(n []tray) { n[0].Report.GPUs[2].Fabric = inClique(2) }, reason: "TwoCliques", place: topology.PlaceKept, imex: topology.IMEXNotReady},
		{name: "unread", site: rack, spoil: set(topology.Fabric{}), reason: "FabricUnread", place: topology.PlaceByLabel, imex: topology.IMEXUnknown},
		{name: "unread, and a clique was confirmed in this boot", site: rack, spoil: func(n []tray) {
			say(&n[0], topology.Fabric{})
			n[0].Report.Domain.Clique = topology.Clique{ID: 1}
		}, reason: "FabricUnread", place: topology.PlaceByLabel, imex: topology.IMEXWanted},
		{name: "no report", site: rack, spoil: func(n []tray) { n[0].Report = nil }, reason: "FabricUnread", place: topology.PlaceByLabel, imex: topology.IMEXUnknown},

		{name: "no fabric, in the chassis of others that have one", site: rack, spoil: set(notSupported), reason: "FabricMissing", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "none of its 4 GPUs has an NVLink fabric, and 17 of 18 nodes in its chassis 1820 have one"},
		{name: "no fabric, beside others of its kind that have one", site: rack, spoil: func(n []tray) { say(&n[0], notSupported); n[0].Report.Platform = nil }, reason: "FabricMissing", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "17 of 18 nodes with 4 GPUs of NVIDIA GB200"},
		{name: "no fabric, and it is published in a block", site: alone(gb200, notSupported), spoil: func(n []tray) { n[0].Block = &topology.Block{Name: "nvl-1"} }, reason: "FabricMissing", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "published in block nvl-1"},
		{name: "no fabric, and it had a clique before this boot", site: alone(gb200, notSupported), spoil: func(n []tray) { n[0].Report.EarlierClique.ID = 1 }, reason: "FabricMissing", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: ".1 before"},
		{name: "no fabric, and its nodes_config.cfg names others", site: alone(gb200, notSupported), spoil: func(n []tray) { n[0].Report.IMEXNodes = new(2) }, reason: "FabricMissing", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "nodes_config.cfg"},
		{name: "NVL4 boards", site: alone(gb200, notSupported), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "a Grace Hopper alone", site: alone("NVIDIA GH200 480GB", notSupported), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "a product that nobody knows", site: alone("NVIDIA XX1", notSupported), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},

		{name: "72 GPUs on more than 18 nodes", site: func() []tray { return trays(36, 2, gb200, joinedFabric) }, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "76 GPUs", site: func() []tray { return trays(19, 4, gb200, joinedFabric) }, reason: "DomainImplausible", place: topology.PlaceKept, imex: topology.IMEXNone, says: "19 nodes with 76 GPUs have, and NVLink joins 72 GPUs of GB200 at most"},
		{name: "76 GPUs, one node known by its label", site: rack, spoil: func(n []tray) {
			n[1] = tray{Facts: topology.Facts{Labels: topology.Labels{Product: gb200, GPUs: 8, Clique: topology.Clique{ClusterUUID: topology.UUID{0x8a}, ID: 1}}}}
		}, reason: "DomainImplausible", place: topology.PlaceKept, imex: topology.IMEXNone},
		{name: "76 GPUs, one node known by its ResourceSlices", site: rack, spoil: func(n []tray) {
			n[1] = tray{Facts: topology.Facts{Slices: &topology.Node{GPUs: slices.Repeat([]topology.GPU{{Product: gb200}}, 8)}, Labels: topology.Labels{Clique: topology.Clique{ClusterUUID: topology.UUID{0x8a}, ID: 1}}}}
		}, reason: "DomainImplausible", place: topology.PlaceKept, imex: topology.IMEXNone, says: "76 GPUs"},
		{name: "76 GPUs as the site says", site: func() []tray { return trays(19, 4, gb200, joinedFabric) }, bounds: fabric.Bounds{"GB200": 144}, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "a large domain of an unknown product", site: func() []tray { return trays(144, 4, "NVIDIA XX1", joinedFabric) }, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "H100 with one clique", site: func() []tray { return trays(32, 8, h100, joinedFabric) }, reason: "DomainImplausible", place: topology.PlaceNone, imex: topology.IMEXNone, says: "32 nodes with 256 GPUs have, and NVLink of H100 ends in the machine"},
		{name: "H100 with one clique as the site says", site: func() []tray { return trays(32, 8, h100, joinedFabric) }, bounds: fabric.Bounds{"H100": 256}, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},

		{name: "H100 with a clique of its own", site: alone(h100, joinedFabric), reason: "FabricHealthy", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "H100", site: alone(h100, notSupported), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "H100 with a healthy fabric of its own without a clique", site: alone(h100, topology.Fabric{State: topology.FabricCompleted}), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "H100 that registers", site: alone(h100, inProgress), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "4 of 4 GPUs have not registered with the NVLink switches of the machine, and no CUDA program can use them: Fabric Manager does not run"},
		{name: "H100 that has registered for long", site: alone(h100, inProgress), spoil: late(nil), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone, says: "none is active; since 2026-11-26 16:10 UTC"},
		{name: "H100 that has not started for long", site: alone(h100, notStarted), spoil: late(nil), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone, says: "Fabric Manager does not run"},
		{name: "H100 that has registered for long, and its links are down", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.GPUs[2].Links = &topology.Links{} }), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone},
		{name: "H100 with FABRIC_MODE=0 and no Fabric Manager", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.FabricMode, n.Report.Domain.Clique.ID = new(0), 1 }), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone},
		{name: "H100 with FABRIC_MODE=1 and no partition", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.FabricMode = new(1) }), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "4 of 4 GPUs are in no active partition"},
		{name: "H100 with FABRIC_MODE=2", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.FabricMode = new(2) }), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "in no active partition"},
		{name: "H100 with partitions as the site says", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Partitions, n.Report.FabricMode = true, new(0) }), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "in no active partition"},
		{name: "H100 with a clique before in this boot", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.Domain.Clique.ID = 1 }), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "in no active partition"},
		{name: "H100 with a clique before this boot", site: alone(h100, inProgress), spoil: late(func(n *tray) { n.Report.EarlierClique.ID = 1 }), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone},
		{name: "H100 with a partition of one GPU", site: alone(h100, inProgress), spoil: late(func(n *tray) {
			n.Report.GPUs[0].Fabric = topology.Fabric{State: topology.FabricCompleted, HealthFields: topology.FabricHealth{PartitionAssigned: yes}}
		}), reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNone, says: "3 of 4 GPUs are in no active partition"},
		{name: "H100 with a GPU that does not register", site: alone(h100, topology.Fabric{State: topology.FabricCompleted}), spoil: late(func(n *tray) { n.Report.GPUs[2].Fabric = inProgress }), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone, says: "1 of 4 GPUs have not registered"},
		{name: "H100 whose registration failed", site: alone(h100, failed), reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNone},
		{name: "H100 beside others with a clique", site: func() []tray { return trays(3, 8, h100, joinedFabric) }, spoil: set(notSupported), reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "H100 that says nothing", site: alone(h100, topology.Fabric{}), reason: "FabricUnread", place: topology.PlaceByLabel, imex: topology.IMEXNone},
		{name: "H100 without a report", site: alone(h100, joinedFabric), spoil: func(n []tray) {
			n[0] = tray{Facts: topology.Facts{Labels: topology.Labels{Product: h100, GPUs: 8}}}
		}, reason: "FabricUnread", place: topology.PlaceByLabel, imex: topology.IMEXNone},

		{name: "a GPU with 17 of 18 links", site: rack, spoil: links(2, 17), reason: "LinksDown", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 2, GPU-01-2: 17 of 18 NVLinks are active"},
		{name: "a GPU without links", site: rack, spoil: links(3, 0), reason: "LinksDown", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "0 of 18"},
		{name: "all GPUs with 9 links, other nodes with 18", site: rack, spoil: func(n []tray) {
			for g := range n[0].Report.GPUs {
				links(g, 9)(n)
			}
		}, reason: "LinksDown", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "9 of 18"},
		{name: "H100 with 17 of 18 links", site: alone(h100, notSupported), spoil: links(2, 17), reason: "LinksDown", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "MIG turns links off", site: rack, spoil: func(n []tray) { links(2, 0)(n); n[0].Report.GPUs[2].MIGEmpty = true }, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "links that nobody could read", site: rack, spoil: func(n []tray) { n[0].Report.GPUs[2].Links = nil }, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "no GPU's links known", site: rack, spoil: func(n []tray) {
			for g := range n[0].Report.GPUs {
				n[0].Report.GPUs[g].Links = nil
			}
		}, reason: "FabricHealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted},
		{name: "links of a machine that starts", site: rack, spoil: func(n []tray) { say(&n[0], inProgress); links(2, 0)(n) }, reason: "FabricInProgress", place: topology.PlaceKept, imex: topology.IMEXNotReady},
		{name: "bridges between two of four cards", site: alone("NVIDIA A100 80GB PCIe", notSupported), spoil: func(n []tray) {
			for g := range n[0].Report.GPUs {
				links(g, 0)(n)
			}
			n[0].Report.GPUs[0].Links.AddGPU("")
			n[0].Report.GPUs[1].Links.AddGPU("")
		}, reason: "NoFabric", place: topology.PlaceNone, imex: topology.IMEXNone},
		{name: "failed, and a link is down", site: rack, spoil: func(n []tray) { say(&n[0], failed); links(2, 17)(n) }, reason: "FabricNotReady", place: topology.PlaceKept, imex: topology.IMEXNotReady, says: "; GPU 2, GPU-01-2: 17 of 18 NVLinks are active"},
		{name: "unhealthy", site: rack, spoil: func(n []tray) { n[0].Report.GPUs[1].Fabric.Health = topology.HealthUnhealthy }, reason: "FabricUnhealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 1, GPU-01-1: its health is unhealthy"},
		{name: "unhealthy, and a route is", site: rack, spoil: health(topology.HealthUnhealthy, topology.FabricHealth{RouteUnhealthy: yes, DegradedBandwidth: yes}), reason: "FabricUnhealthy", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 1, GPU-01-1: unhealthy route, degraded bandwidth"},
		{name: "unhealthy while a route recovers", site: rack, spoil: health(topology.HealthUnhealthy, topology.FabricHealth{RouteRecovery: yes, RouteUnhealthy: new(bool)}), reason: "FabricLimitedCapacity", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 1, GPU-01-1: route recovery in progress"},
		{name: "unhealthy after an access timeout", site: rack, spoil: health(topology.HealthUnhealthy, topology.FabricHealth{AccessTimeoutRecovery: yes}), reason: "FabricLimitedCapacity", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 1, GPU-01-1: access timeout recovery in progress"},
		{name: "limited capacity, and the bandwidth is degraded", site: rack, spoil: health(topology.HealthLimitedCapacity, topology.FabricHealth{DegradedBandwidth: yes}), reason: "FabricLimitedCapacity", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "GPU 1, GPU-01-1: degraded bandwidth"},
		{name: "limited capacity", site: rack, spoil: health(topology.HealthLimitedCapacity, topology.FabricHealth{}), reason: "FabricLimitedCapacity", place: topology.PlaceInClique, imex: topology.IMEXWanted, says: "its capacity is limited"},
	} {
		nodes := tt.site()
		if tt.spoil != nil {
			tt.spoil(nodes)
		}
		verdicts, _ := judge(nodes, tt.bounds)
		v := verdicts[0]
		if v.Reason != tt.reason || v.Place != tt.place || v.IMEX != tt.imex || !strings.Contains(v.Message, tt.says) {
			t.Errorf("%s: %s, place %d, IMEX %d: %s\nwant %s, place %d, IMEX %d: %s", tt.name, v.Reason, v.Place, v.IMEX, v.Message, tt.reason, tt.place, tt.imex, tt.says)
		}
		if v.Faulty() && !v.Asks() {
			t.Errorf("%s: nothing says what to do", tt.name)
		}
		if v.Place == topology.PlaceInClique && v.Clique.IsZero() {
			t.Errorf("%s: clique %s", tt.name, v.Clique)
		}
		for i := 1; i < len(nodes) && tt.spoil != nil && tt.reason != "DomainImplausible"; i++ {
			if v := &verdicts[i]; v.Faulty() && !strings.Contains(tt.name, "H100") {
				t.Errorf("%s: node %d is %s: %s", tt.name, i+1, v.Reason, v.Message)
			}
		}
	}
}

// TestMockMachines judges what agents report of machines that NVIDIA's mock NVML plays (test/rig/nvml has its
// profiles): nothing is wrong with one of them, nor with two that are alike. Two H100 machines of the mock report
// one clique, which cannot be.
func TestMockMachines(t *testing.T) {
	for _, tt := range []struct {
		machine   string
		one, both string
		imex      topology.FabricIMEX
	}{
		{"a100-mig", "NoFabric", "NoFabric", topology.IMEXNone},
		{"h100", "FabricHealthy", "DomainImplausible", topology.IMEXNone},
		{"b200", "NoFabric", "NoFabric", topology.IMEXNone},
		{"t4", "NoFabric", "NoFabric", topology.IMEXNone},
		{"gb200", "FabricHealthy", "FabricHealthy", topology.IMEXWanted},
		{"gb300", "FabricHealthy", "FabricHealthy", topology.IMEXWanted},
	} {
		text, err := os.ReadFile("../../test/rig/nvml/" + tt.machine + ".json")
		if err != nil {
			t.Fatal(err)
		}
		report, err := topology.ParseReport(tt.machine, text)
		if err != nil {
			t.Fatal(err)
		}
		if v := new(fabric.Site).Alone(report); v.Reason != tt.one || v.IMEX != tt.imex || v.Severity != topology.OK {
			t.Errorf("%s: %s, IMEX %d: %s", tt.machine, v.Reason, v.IMEX, v.Message)
		}
		verdicts, _ := judge([]tray{{Facts: topology.Facts{Report: report}}, {Facts: topology.Facts{Report: report}}}, nil)
		for _, v := range verdicts {
			if v.Reason != tt.both || v.IMEX != tt.imex {
				t.Errorf("two of %s: %s, IMEX %d: %s", tt.machine, v.Reason, v.IMEX, v.Message)
			}
		}
	}
}

// TestDomainOfBlock has 18 trays of a block whose domain others claim too: the block keeps its domain.
func TestDomainOfBlock(t *testing.T) {
	own, other := &topology.Block{Name: "own", Clique: topology.Clique{ClusterUUID: topology.UUID{0x8a}, ID: 1}}, &topology.Block{Name: "other"}
	for _, tt := range []struct {
		name                      string
		members, movers, newcomer int
		clique                    topology.Clique
		refused                   string
	}{
		{"one newcomer", 18, 0, 1, own.Clique, "the newcomer"},
		{"one mover", 18, 1, 0, own.Clique, "the mover"},
		{"most say so", 8, 14, 0, own.Clique, "the mover"},
		{"a block that was made from labels", 18, 14, 1, topology.Clique{}, "the mover and the newcomer"},
		{"one that takes a free place", 17, 1, 0, own.Clique, ""},
		{"a block that is too large", 19, 0, 0, own.Clique, "the member"},
		{"no block", 0, 0, 19, own.Clique, "the newcomer"},
	} {
		nodes := trays(tt.members+tt.movers+tt.newcomer, 4, gb200, joinedFabric)
		own.Clique = tt.clique
		for i := range nodes {
			if i < tt.members {
				nodes[i].Block = own
			} else if i < tt.members+tt.movers {
				nodes[i].Block = other
			}
		}
		var refused []string
		verdicts, _ := judge(nodes, nil)
		last := map[int]string{tt.members - 1: "the member", tt.members + tt.movers - 1: "the mover", len(nodes) - 1: "the newcomer"}
		if tt.newcomer == 0 {
			last[len(nodes)-1] = "the mover"
		}
		if tt.newcomer+tt.movers == 0 {
			last[len(nodes)-1] = "the member"
		}
		for i := range verdicts {
			if what := last[i]; what != "" && verdicts[i].Reason == topology.ReasonDomainImplausible {
				refused = append(refused, what)
			}
		}
		if got := strings.Join(refused, " and "); got != tt.refused {
			t.Errorf("%s: refused %q, want %q", tt.name, got, tt.refused)
		}
	}
}

// TestSiteWithoutFabric has at most one finding for a site of which no node has a fabric.
func TestSiteWithoutFabric(t *testing.T) {
	mixed := append(trays(3, 4, gb200, notSupported), trays(2, 8, h100, notSupported)...)
	for _, tt := range []struct {
		name  string
		nodes []tray
		want  string
	}{
		{"a rack", trays(18, 4, gb200, joinedFabric), "[]"},
		{"NVL4 boards beside HGX", mixed, "[3 nodes with 4 GPUs of NVIDIA GB200 report no NVLink fabric."},
		{"Grace Hoppers", trays(4, 1, "NVIDIA GH200 480GB", notSupported), "[]"},
		{"HGX", trays(4, 8, h100, notSupported), "[]"},
		{"an unknown product", trays(4, 8, "NVIDIA XX1", notSupported), "[]"},
		{"a rack that starts", trays(4, 4, gb200, inProgress), "[]"},
	} {
		_, found := judge(tt.nodes, nil)
		if got := fmt.Sprint(found); len(found) > 1 || !strings.HasPrefix(strings.Replace(got, "FabricMissing: ", "", 1), tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestSiteNotRegistered has one finding for each product whose GPUs have not registered inside the machine for
// long, and none of a node.
func TestSiteNotRegistered(t *testing.T) {
	late := func(nodes []tray) []tray {
		for i := range nodes {
			nodes[i].Since = "2026-11-26 16:10 UTC"
		}
		return nodes
	}
	partitions := late(trays(2, 8, h100, inProgress))
	for i := range partitions {
		partitions[i].Report.FabricMode = new(1)
	}
	for _, tt := range []struct {
		name  string
		nodes []tray
		want  []string // what each finding begins with
	}{
		{"not for long", trays(4, 8, h100, inProgress), nil},
		{"one", append(late(trays(1, 8, h100, inProgress)), trays(3, 8, h100, notSupported)[1:]...), []string{"1 nodes with 8 GPUs of NVIDIA H100 80GB HBM3 have GPUs that no CUDA program can use (n01): Fabric Manager does not run or is not done, or"}},
		{"many", late(trays(5, 8, h100, inProgress)), []string{"5 nodes with 8 GPUs of NVIDIA H100 80GB HBM3 have GPUs that no CUDA program can use (n01, n02, n03 and 2 more): "}},
		{"two products", append(late(trays(2, 8, h100, inProgress)), late(trays(1, 8, "NVIDIA B200", notStarted))...), []string{"1 nodes with 8 GPUs of NVIDIA B200 ", "2 nodes with 8 GPUs of NVIDIA H100 "}},
		{"partitions", partitions, nil},
		{"a rack", late(trays(4, 4, gb200, inProgress)), nil},
	} {
		verdicts, found := judge(tt.nodes, nil)
		if len(found) != len(tt.want) {
			t.Errorf("%s: %v, want %d findings", tt.name, found, len(tt.want))
			continue
		}
		for i, f := range found {
			if f.Reason != "FabricNotReady" || f.Node != "" || !strings.HasPrefix(f.Message, tt.want[i]) || !strings.Contains(f.Message, "start nvidia-fabricmanager of the driver's version") || len(f.Message) > topology.MaxMessage {
				t.Errorf("%s: %s, want %s", tt.name, f, tt.want[i])
			}
		}
		for i := range verdicts {
			if strings.Contains(tt.nodes[i].Report.GPUs[0].Product, "GB200") {
				continue
			}
			if v := &verdicts[i]; v.Faulty() || v.IMEX != topology.IMEXNone || v.Asks() != (v.Reason == "FabricNotReady") {
				t.Errorf("%s: node %d is %s, severity %s, IMEX %d", tt.name, i+1, v.Reason, v.Severity, v.IMEX)
			}
		}
	}
}

// TestJudgeNodeOnce judges a rack whose nodes have two Slurm names each: its domain is not twice as large.
func TestJudgeNodeOnce(t *testing.T) {
	var facts []topology.Facts
	for _, n := range trays(18, 4, "NVIDIA GB200", joinedFabric) {
		for _, name := range []string{"a", "b"} {
			facts = append(facts, topology.Facts{Name: n.Report.Name, SlurmName: name + n.Report.Name, Shared: true, Report: n.Report})
		}
	}
	last := len(facts) - 1 // another Node has this name too, so nobody has it
	facts[last].SlurmName = ""
	found := (&fabric.Site{}).Judge(facts[:last], facts[last:])
	for i := range facts {
		if v := facts[i].Fabric; v.Reason != topology.ReasonFabricHealthy || len(found) > 0 {
			t.Errorf("%s: %s: %s, and of the site %v", facts[i].SlurmName, v.Reason, v.Message, found)
		}
	}
}
