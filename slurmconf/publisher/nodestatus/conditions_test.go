package nodestatus

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

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
		{"not yet", []topology.GPU{{Fabric: topology.Fabric{State: topology.FabricInProgress}}}, "FabricInProgress", false, "in progress"},
		{"not started", []topology.GPU{{Fabric: topology.Fabric{State: topology.FabricNotStarted}}}, "FabricNotReady", true, "has not started. What to do: "},
		{"one has failed", []topology.GPU{fabricGPU(0, nil), fabricGPU(1, func(f *topology.Fabric) { f.Status = "ERROR_UNKNOWN" })}, "FabricNotReady", true, "the fabric registration of GPU 1 (GPU-b) failed with ERROR_UNKNOWN. What to do: "},
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
			report := &topology.Node{GPUs: tt.gpus}
			v := new(fabric.Site).Alone(report)
			c, known := FabricCondition(report, &v)
			if known != (tt.reason != "") || known && (c.Reason != tt.reason || c.True != tt.is || !strings.Contains(c.Message, tt.said) || c.Type != ConditionFabric) {
				t.Errorf("known %t, %+v", known, c)
			}
		})
	}
	if c, known := FabricCondition(nil, nil); known {
		t.Errorf("without a report: %+v", c)
	}
}

func TestDriftCondition(t *testing.T) {
	if c := driftCondition(nil); c.True || c.Reason != "Agrees" {
		t.Errorf("%+v", c)
	}
	label := topology.Finding{Subject: topology.Subject{Node: "n"}, Reason: topology.ReasonLabelDiffers, Message: "b"}
	many := []topology.Finding{{Subject: topology.Subject{Node: "n"}, Reason: topology.ReasonTwoCliques, Message: "a"}, label, label}
	want := inputs.Condition{Type: ConditionDrift, True: true, Reason: topology.ReasonLabelDiffers, Message: "b; a"}
	if diff := cmp.Diff(want, driftCondition(many)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
