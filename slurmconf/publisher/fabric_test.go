package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/series"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestFabricDay has a tray of a rack reboot in each of the ways in which fabrics fail. The files stay as they are,
// the condition says what it is and since when, and nothing is written for time that passes.
func TestFabricDay(t *testing.T) {
	tray := func(f simulated.Fault) *inputs.Snapshot {
		f.Node, f.Reboot = "gb200-005", true
		return racks(t, f)
	}
	for _, tt := range []struct {
		name         string
		snap         *inputs.Snapshot
		early, later string // the condition's reason after a minute and after an hour
		says         string
		since        bool
	}{
		{"in progress", tray(simulated.Fault{Fabric: "inProgress"}), "FabricInProgress", "FabricNotReady", "is in progress; since ", true},
		{"not started", tray(simulated.Fault{Fabric: "notStarted"}), "FabricNotReady", "FabricNotReady", "has not started; since ", true},
		{"failed", tray(simulated.Fault{Fabric: "completed", Status: "ERROR_UNKNOWN"}), "FabricNotReady", "FabricNotReady", "failed with ERROR_UNKNOWN; since ", true},
		{"not supported", tray(simulated.Fault{Fabric: "notSupported"}), "FabricMissing", "FabricMissing", "none of its 4 GPUs has an NVLink fabric", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(racks(t))
			pubs := complete(t, Publication{})
			var files map[string]string
			var since time.Time
			is := func(when, reason string) inputs.Condition {
				t.Helper()
				c := store.conditions["gb200-005"][nodestatus.ConditionFabric]
				if c.Reason != reason || c.True != (reason != "FabricInProgress" && reason != "FabricHealthy") {
					t.Errorf("%s: %+v, want %s", when, c, reason)
				}
				store.filesAre(t, when, files)
				return c
			}
			inBubble(t, store, pubs, func() {
				store.pass(time.Hour)
				files = textOf(store.get("slurm/quoin-slurm").Files)
				store.change(tt.snap)
				store.pass(time.Minute)
				is("after a minute", tt.early)
				store.pass(59 * time.Minute)
				if c := is("after an hour", tt.later); !strings.Contains(c.Message, tt.says) {
					t.Errorf("it says %q", c.Message)
				}
				if since = store.plan(t).FabricSince["gb200-005"]; since.IsZero() == tt.since {
					t.Errorf("the plan has it since %s", since)
				}
				store.rests(t, 24*time.Hour)
			})
			conditions := store.conditionWrites
			inBubble(t, store, pubs, func() { // another publisher leads
				store.pass(time.Hour)
				if now := store.plan(t).FabricSince["gb200-005"]; !now.Equal(since) {
					t.Errorf("the next leader has it since %s, want %s", now, since)
				}
				is("the next leader", tt.later)
				if store.conditionWrites != conditions {
					t.Errorf("the next leader wrote %d conditions", store.conditionWrites-conditions)
				}
				store.change(racks(t, simulated.Fault{Node: "gb200-005", Reboot: true}))
				store.pass(time.Hour)
				is("well again", "FabricHealthy")
				if left := store.plan(t).FabricSince; len(left) > 0 {
					t.Errorf("well again, and the plan has %v", left)
				}
			})
		})
	}
}

// TestDomainImplausible has 32 HGX machines report one clique: they get no block, and IMEX is wanted of none.
func TestDomainImplausible(t *testing.T) {
	clique := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{1}, CliqueID: 1}
	snap := withGPUs(hgxSite(t, 0), func(_ string, g *topology.GPU) { g.Product, g.Fabric = "NVIDIA H100 80GB HBM3", clique })
	for _, tt := range []struct {
		bounds publication.Pairs[int]
		blocks int
		reason string
	}{{nil, 0, topology.ReasonDomainImplausible}, {publication.Pairs[int]{"H100": 256}, 1, "FabricHealthy"}} {
		store := newMemory(snap)
		inBubble(t, store, complete(t, Publication{MaxDomainGPUs: tt.bounds}), func() {
			store.pass(time.Hour)
			plan := &store.plan(t).Current.Plan
			if got := len(plan.Blocks()); got != tt.blocks {
				t.Errorf("%v: %d blocks, want %d", tt.bounds, got, tt.blocks)
			}
			for name := range snap.Reports {
				if c := store.conditions[name][nodestatus.ConditionFabric]; c.Reason != tt.reason {
					t.Errorf("%v: %s has %+v, want %s", tt.bounds, name, c, tt.reason)
				}
			}
		})
	}
}

// TestSitesWithoutFabric has sites that need no NVLink between machines: no condition is true, so that nobody
// drains their nodes, and at most one finding is of the site.
func TestSitesWithoutFabric(t *testing.T) {
	none, waits := topology.Fabric{State: topology.FabricNotSupported}, topology.Fabric{State: topology.FabricInProgress}
	for _, tt := range []struct {
		name, product string
		fabric        topology.Fabric
		mode          *int   // of Fabric Manager
		said          bool   // fabricPartitions
		reason        string // of the conditions
		findings      int
	}{
		{"NVL4 boards", "NVIDIA GB200", none, nil, false, topology.ReasonNoFabric, 1},
		{"Grace Hoppers alone", "NVIDIA GH200 480GB", none, nil, false, topology.ReasonNoFabric, 0},
		{"workstations", "NVIDIA GB300", none, nil, false, topology.ReasonNoFabric, 1},
		{"HGX", "NVIDIA H200", none, nil, false, topology.ReasonNoFabric, 0},
		{"HGX with FABRIC_MODE=1", "NVIDIA H200", waits, new(1), false, topology.ReasonFabricInProgress, 0},
		{"HGX with partitions as the site says", "NVIDIA H200", waits, nil, true, topology.ReasonFabricInProgress, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := withGPUs(hgxSite(t, 0), func(_ string, g *topology.GPU) { g.Product, g.Fabric = tt.product, tt.fabric })
			for _, r := range snap.Reports {
				r.FabricMode = tt.mode
			}
			store := newMemory(snap)
			inBubble(t, store, complete(t, Publication{FabricPartitions: tt.said}), func() {
				store.pass(24 * time.Hour)
				plan := store.plan(t)
				findings := 0
				for _, p := range plan.Current.Plan.Problems {
					if p.Reason == topology.ReasonFabricMissing || p.Reason == topology.ReasonFabricNotReady {
						findings++
					}
				}
				if findings != tt.findings || len(plan.FabricSince) > 0 || len(plan.Current.Plan.Blocks()) > 0 {
					t.Errorf("%d findings, want %d; not ready %v; problems %v", findings, tt.findings, plan.FabricSince, plan.Current.Plan.Problems)
				}
				for name := range snap.Reports {
					if c := store.conditions[name][nodestatus.ConditionFabric]; c.True || c.Reason != tt.reason || tt.said && !strings.Contains(c.Message, "in no active partition") {
						t.Errorf("%s has %+v, want %s", name, c, tt.reason)
					}
				}
			})
		})
	}
}

// TestPeersOfFiles has GB200 machines without a fabric. The nodes_config.cfg of one names peers, that of another names
// none, and nobody could read the others. The publisher judges each machine as its own agent does.
func TestPeersOfFiles(t *testing.T) {
	none := topology.Fabric{State: topology.FabricNotSupported}
	snap := withGPUs(hgxSite(t, 0), func(_ string, g *topology.GPU) { g.Product, g.Fabric = "NVIDIA GB200", none })
	names := slices.Sorted(maps.Keys(snap.Reports))
	snap.Reports[names[0]].IMEXNodes, snap.Reports[names[1]].IMEXNodes = new(2), new(1)
	store := newMemory(snap)
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		placed := map[string]string{}
		for _, n := range store.plan(t).Current.Plan.Nodes {
			placed[n.Node] = n.Reason
		}
		for i, name := range names {
			fabricIs, place := topology.ReasonNoFabric, placement.ReasonNoDomain
			if i == 0 {
				fabricIs, place = topology.ReasonFabricMissing, topology.ReasonFabricMissing
			}
			agent := new(fabric.Site).Alone(snap.Reports[name])
			if c := store.conditions[name][nodestatus.ConditionFabric]; c.Reason != fabricIs || c.True != (i == 0) || agent.Reason != fabricIs || placed[name] != place {
				t.Errorf("%s: condition %+v, agent %s, plan %s, want %s and %s", name, c, agent.Reason, placed[name], fabricIs, place)
			}
		}
	})
}

// TestNoFabricManager has two of eight HGX machines on which Fabric Manager does not run. After fabricWait the site has
// one problem, and the series of the alert name the machines. No condition is true, so nobody drains them.
func TestNoFabricManager(t *testing.T) {
	snap := withGPUs(hgxSite(t, 0), func(name string, g *topology.GPU) {
		g.Product, g.Fabric = "NVIDIA H200", topology.Fabric{State: topology.FabricNotSupported}
		if name == "h01" || name == "h02" {
			g.Fabric.State = topology.FabricInProgress
		}
	})
	reg := prometheus.NewRegistry()
	store := newMemory(snap)
	prepare := func(p *Publisher) {
		p.metrics = NewMetrics(reg)
		p.metrics.occupancy.Watch(p.jobs, store, p.log)
	}
	is := func(when, condition string, late bool, want map[string]float64) {
		t.Helper()
		c := store.conditions["h01"][nodestatus.ConditionFabric]
		if c.True || c.Reason != condition || strings.Contains(c.Message, "What to do: start nvidia-fabricmanager of the driver's version") != late {
			t.Errorf("%s: h01 has %+v", when, c)
		}
		got := series.Values(t, reg)
		maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.Contains(name, `reason="Fabric`) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: series (-want +got):\n%s", when, diff)
		}
	}
	inBubbleWith(t, store, complete(t, Publication{}), prepare, func(*Publisher) {
		store.pass(time.Minute)
		is("after a minute", topology.ReasonFabricInProgress, false, map[string]float64{})
		store.pass(time.Hour)
		is("after an hour", topology.ReasonFabricNotReady, true, map[string]float64{`quoin_publisher_problems{publication="default",reason="FabricNotReady"}`: 1,
			`quoin_publisher_fabric_faults{node="h01",reason="FabricNotReady"}`: 1, `quoin_publisher_fabric_faults{node="h02",reason="FabricNotReady"}`: 1})
	})
}
