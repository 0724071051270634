package publisher

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// fabricGPU is a GPU that has joined a clique, changed.
func fabricGPU(index int, change func(*topology.Fabric)) topology.GPU {
	g := topology.GPU{Index: index, UUID: "GPU-" + string(rune('a'+index)), Fabric: topology.Fabric{ClusterUUID: topology.UUID{1}, State: topology.FabricCompleted, Health: topology.HealthHealthy}}
	if change != nil {
		change(&g.Fabric)
	}
	return g
}

func TestFabricCondition(t *testing.T) {
	yes, no := true, false
	tests := []struct {
		name   string
		gpus   []topology.GPU
		reason string // empty where nothing is known
		is     bool
		said   string
	}{
		{"no GPU", nil, "", false, ""},
		{"GPUs that have not said", []topology.GPU{{}}, "", false, ""},
		{"well", []topology.GPU{fabricGPU(0, nil), fabricGPU(1, func(f *topology.Fabric) { f.HealthFields.DegradedBandwidth = &no })}, "FabricHealthy", false, "is healthy"},
		{"none", []topology.GPU{{Fabric: topology.Fabric{State: topology.FabricNotSupported}}}, "NoFabric", false, "no GPU has"},
		{"not yet", []topology.GPU{{Fabric: topology.Fabric{State: topology.FabricInProgress}}}, "NoFabric", false, ""},
		{"one has failed", []topology.GPU{fabricGPU(0, nil), fabricGPU(1, func(f *topology.Fabric) { f.Status = "ERROR_UNKNOWN" })}, "FabricFailed", true, "GPU 1, GPU-b: its registration ended with ERROR_UNKNOWN"},
		{"unhealthy", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.Health = topology.HealthUnhealthy }), fabricGPU(1, nil)}, "FabricUnhealthy", true, "GPU 0, GPU-a: its health is unhealthy"},
		{"a route", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.HealthFields.RouteUnhealthy = &yes })}, "FabricUnhealthy", true, "unhealthy route"},
		{"limited", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.Health = topology.HealthLimitedCapacity })}, "FabricLimitedCapacity", true, "limited"},
		{"slow", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.HealthFields.DegradedBandwidth = &yes })}, "FabricLimitedCapacity", true, "degraded bandwidth"},
		{"misconfigured", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.HealthFields.IncorrectConfiguration = "noPartition" })}, "FabricMisconfigured", true, "noPartition"},
		{"the worst counts, all are named", []topology.GPU{fabricGPU(0, func(f *topology.Fabric) { f.Health = topology.HealthLimitedCapacity }), fabricGPU(1, func(f *topology.Fabric) { f.Health = topology.HealthUnhealthy })},
			"FabricUnhealthy", true, "GPU 0, GPU-a: its capacity is limited; GPU 1, GPU-b: its health is unhealthy"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, known := fabricCondition(&topology.Node{GPUs: tt.gpus})
			if known != (tt.reason != "") || known && (c.Reason != tt.reason || c.True != tt.is || !strings.Contains(c.Message, tt.said) || c.Type != ConditionFabric) {
				t.Errorf("known %t, %+v", known, c)
			}
		})
	}
	if c, known := fabricCondition(nil); known {
		t.Errorf("without a report: %+v", c)
	}
}

func TestDriftCondition(t *testing.T) {
	if c := driftCondition(nil); c.True || c.Reason != "Agrees" {
		t.Errorf("%+v", c)
	}
	label := topology.Problem{Node: "n", Reason: placement.ReasonCliqueDiffers, Message: "b"}
	many := []topology.Problem{{Node: "n", Reason: placement.ReasonTwoCliques, Message: "a"}, label, label}
	want := inputs.Condition{Type: ConditionDrift, True: true, Reason: placement.ReasonCliqueDiffers, Message: "b; a"}
	if diff := cmp.Diff(want, driftCondition(many)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := driftCondition([]topology.Problem{{Reason: "X", Message: strings.Repeat("ü", maxConditionMessage)}})
	if len(long.Message) > maxConditionMessage || !strings.HasSuffix(long.Message, "ü...") {
		t.Errorf("%d bytes, %q", len(long.Message), long.Message[len(long.Message)-10:])
	}
}

// TestKeepConditions writes each condition once, again when it changes, and goes on
// trying where it may not.
func TestKeepConditions(t *testing.T) {
	snap := racks(t)
	store := newMemory(snap)
	n := snap.Nodes[4].Name
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		if got := store.conditions[n]; len(store.conditions) != 72 || got[ConditionFabric].Reason != "FabricHealthy" || got[ConditionDrift].Reason != "Agrees" || store.conditionWrites != 72 {
			t.Fatalf("%d nodes with conditions by %d writes, %s has %+v", len(store.conditions), store.conditionWrites, n, got)
		}
		store.edit(func() {
			snap.Reports[n].GPUs[1].Fabric.Health = topology.HealthUnhealthy
			snap.Nodes[4].Labels = map[string]string{"nvidia.com/gpu.clique": "8a61c302-0000-4000-8000-000000000009.3"}
		})
		store.pass(time.Hour)
		if got := store.conditions[n]; !got[ConditionFabric].True || got[ConditionDrift].Reason != placement.ReasonCliqueDiffers || store.conditionWrites > 74 { // what a pass finds may come later
			t.Errorf("%d writes, %s has %+v", store.conditionWrites, n, got)
		}
		before := store.conditionWrites
		store.edit(func() {
			store.refuses = errors.New("forbidden")
			snap.Reports[n].GPUs[1].Fabric.Health = topology.HealthHealthy
		})
		store.pass(time.Hour)
		if tries := store.conditionWrites - before; tries < 8 || tries > 20 || !store.conditions[n][ConditionFabric].True {
			t.Errorf("%d tries in an hour in which it was refused", tries)
		}
		store.edit(func() { store.refuses = nil })
		store.pass(time.Hour)
		if store.conditions[n][ConditionFabric].True {
			t.Error("it was not written when it was allowed again")
		}
	})
}
