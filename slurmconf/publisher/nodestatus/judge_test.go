package nodestatus_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// TestJudge judges the nodes of a site without Kubernetes by their reports, the plan, and what is
// held.
func TestJudge(t *testing.T) {
	major := 235
	report := func(name string, change func(*topology.Node)) *topology.Node {
		clique := topology.Clique{ClusterUUID: topology.UUID{0x8a, 0x61}, ID: 7}
		n := &topology.Node{Name: name, Domain: topology.NVLinkDomain{Clique: clique}, IMEX: &topology.IMEX{ChannelMajor: &major, HostService: true, DaemonState: "READY"},
			GPUs: []topology.GPU{{UUID: "GPU-1", Fabric: topology.Fabric{ClusterUUID: topology.UUID{0x8a, 0x61}, CliqueID: 7, State: topology.FabricCompleted, Health: topology.HealthHealthy}}}}
		change(n)
		return n
	}
	snap := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "well"}, {Name: "waits"}, {Name: "ill"}, {Name: "moved"}, {Name: "two"}, {Name: "silent"}, {Name: "registers"}, {Name: "late"}, {Name: "lost"},
		{Name: "kept", Conditions: map[string]inputs.Condition{nodestatus.ConditionIMEX: {Type: nodestatus.ConditionIMEX, Reason: "Ready"}}}}, Reports: map[string]*topology.Node{}}
	for name, change := range map[string]func(*topology.Node){
		"well":  func(*topology.Node) {},
		"waits": func(n *topology.Node) { n.IMEX.DaemonState = "WAITING_FOR_PEERS" },
		"ill":   func(n *topology.Node) { n.GPUs[0].Fabric.Health = topology.HealthUnhealthy },
		"moved": func(n *topology.Node) { n.IMEX.HostService, n.IMEX.DaemonState = false, "" },
		"two":   func(*topology.Node) {},
		"kept":  func(*topology.Node) {},
		"registers": func(n *topology.Node) {
			n.Domain, n.GPUs[0].Fabric = topology.NVLinkDomain{}, topology.Fabric{State: topology.FabricInProgress}
		},
		"late": func(n *topology.Node) {
			n.Domain, n.GPUs[0].Fabric = topology.NVLinkDomain{}, topology.Fabric{State: topology.FabricInProgress}
		},
		"lost": func(n *topology.Node) {
			n.Domain, n.GPUs[0].Fabric = topology.NVLinkDomain{None: true}, topology.Fabric{State: topology.FabricNotSupported}
		},
	} {
		snap.Reports[name] = report(name, change)
	}
	plan := &topology.Plan{Topologies: []topology.Topology{{Name: "nvl", Kind: topology.KindBlock, Blocks: []topology.Block{{Name: "nvl-1", Nodes: topology.Names{"lost-slurm"}}}}}, Nodes: []topology.Placement{{Node: "lost", SlurmName: "lost-slurm", Reason: "Placed"}, {Node: "two", SlurmName: "two", Reason: placement.ReasonUnconfirmed, Message: "seen once"}}}
	moved := []topology.Finding{{Subject: topology.Subject{Node: "moved"}, Reason: nodestatus.ReasonPublishedDiffers, Message: "moved moves from a to b"}}
	config := imex.Config{Join: imex.JoinHost}
	var facts []topology.Facts
	for i := range snap.Nodes {
		facts = append(facts, snap.Facts(&snap.Nodes[i], nodelabels.Keys{}))
	}
	site := fabric.Site{Plan: plan, Since: map[string]string{"late": "2026-11-26 16:10 UTC"}}
	site.Judge(facts)
	fabrics := nodestatus.Fabrics(snap, &site, fabric.Verdicts(facts))
	got := nodestatus.Judge(snap, plan, fabrics, imex.NewHosts(config), moved)
	for _, tt := range []struct {
		node, condition string
		wrong           bool
		reason, message string
	}{
		{"well", nodestatus.ConditionIMEX, false, imex.ReasonReady, "jobs across nodes may use IMEX here"},
		{"well", nodestatus.ConditionDrift, false, "Agrees", "agree"},
		{"well", nodestatus.ConditionFabric, false, "FabricHealthy", "healthy"},
		{"waits", nodestatus.ConditionIMEX, true, imex.ReasonNotReady, "nvidia-imex.service says WAITING_FOR_PEERS. What to do: wait"},
		{"ill", nodestatus.ConditionFabric, true, "FabricUnhealthy", "GPU 0"},
		{"moved", nodestatus.ConditionIMEX, true, imex.ReasonNotReady, "does not run on the host"},
		{"moved", nodestatus.ConditionDrift, true, nodestatus.ReasonPublishedDiffers, "moved moves from a to b"},
		{"registers", nodestatus.ConditionFabric, false, "FabricInProgress", "the fabric registration of its GPUs is in progress"},
		{"registers", nodestatus.ConditionIMEX, true, imex.ReasonFabricNotReady, "What to do: wait while the GPUs register"},
		{"late", nodestatus.ConditionFabric, true, "FabricNotReady", "in progress; since 2026-11-26 16:10 UTC. What to do: "},
		{"late", nodestatus.ConditionIMEX, true, imex.ReasonFabricNotReady, "since 2026-11-26 16:10 UTC"},
		{"lost", nodestatus.ConditionFabric, true, "FabricMissing", "the node is published in block nvl-1"},
		{"lost", nodestatus.ConditionIMEX, true, imex.ReasonFabricNotReady, "none of its 1 GPUs has an NVLink fabric"},
		{"two", nodestatus.ConditionDrift, true, placement.ReasonUnconfirmed, "seen once"},
	} {
		c := got[tt.node][tt.condition]
		if c.True != tt.wrong || c.Reason != tt.reason || !strings.Contains(c.Message, tt.message) {
			t.Errorf("%s: %+v, want %+v", tt.node, c, tt)
		}
	}
	if _, judged := got["kept"]; judged || len(got["silent"]) != 0 {
		t.Errorf("kept %v, silent %v: want neither judged", got["kept"], got["silent"])
	}
	if c := nodestatus.Judge(snap, plan, fabrics, nil, nil)["well"]; c[nodestatus.ConditionIMEX].Reason != "" || c[nodestatus.ConditionDrift].Reason != "Agrees" {
		t.Errorf("without hosts: %v", c)
	}
}
