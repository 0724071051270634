package fabric

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Registers says how the registration of the GPUs in a report stands: waits if it may still end well, stuck if one
// failed or has not begun. If NVLink ends in the machine, GPUs wait for Fabric Manager, and nobody awaits those that
// it gives out in partitions.
func (s *Site) Registers(n *topology.Node) (waits, stuck bool) {
	var idle, failed bool
	for i := range n.GPUs {
		switch n.GPUs[i].Fabric.Standing() {
		case topology.GPUInProgress:
			waits = true
		case topology.GPUNotStarted:
			idle = true
		case topology.GPUFailed:
			failed = true
		}
	}
	if !waits && !idle && !failed {
		return false, false
	}
	if !s.Bounds.EndInside(n.GPUs[0].Product) {
		return waits, idle || failed
	}
	return (waits || idle) && !s.partitioned(n), false
}

// partitioned reports whether the site says that Fabric Manager gives out partitions, or something that was read on
// the machine does. Then GPUs in no active partition register for ever, and nothing is wrong.
func (s *Site) partitioned(n *topology.Node) bool {
	switch mode := n.FabricMode; {
	case s.Partitions:
		return true
	case mode != nil:
		return *mode != fabricModeWhole
	}
	assigned := func(g topology.GPU) bool { return isTrue(g.Fabric.HealthFields.PartitionAssigned) }
	return !n.Domain.Clique.IsZero() || slices.ContainsFunc(n.GPUs, assigned)
}

// fabricModeWhole is the FABRIC_MODE in which Fabric Manager gives out no partitions.
const fabricModeWhole = 0

func isTrue(b *bool) bool { return b != nil && *b }

// healthBits are the details of a GPU's health that name a fault, the worst first. A recovery
// passes: the GPU works with less meanwhile.
var healthBits = [...]struct {
	of           func(*topology.FabricHealth) *bool
	reason, what string
}{
	{func(h *topology.FabricHealth) *bool { return h.RouteUnhealthy }, topology.ReasonUnhealthy, "unhealthy route"},
	{func(h *topology.FabricHealth) *bool { return h.RouteRecovery }, topology.ReasonLimitedCapacity, "route recovery in progress"},
	{func(h *topology.FabricHealth) *bool { return h.AccessTimeoutRecovery }, topology.ReasonLimitedCapacity, "access timeout recovery in progress"},
	{func(h *topology.FabricHealth) *bool { return h.DegradedBandwidth }, topology.ReasonLimitedCapacity, "degraded bandwidth"},
}

// Faults returns what the details say is wrong, and the reason of the worst, or "".
func Faults(h *topology.FabricHealth) (reason string, all []string) {
	if wrong := h.IncorrectConfiguration; wrong != "" && wrong != "none" {
		reason, all = topology.ReasonMisconfigured, append(all, "incorrect configuration: "+wrong)
	}
	for i := range healthBits {
		if bit := &healthBits[i]; isTrue(bit.of(h)) {
			reason, all = cmp.Or(reason, bit.reason), append(all, bit.what)
		}
	}
	return reason, all
}

// flaw returns the worst that a GPU's health says, or "". The summary counts only if the details say
// nothing.
func flaw(f *topology.Fabric) (reason, what string) {
	switch reason, all := Faults(&f.HealthFields); {
	case reason != "":
		return reason, strings.Join(all, ", ")
	case f.Health == topology.HealthUnhealthy:
		return topology.ReasonUnhealthy, "its health is " + string(f.Health)
	case f.Health == topology.HealthLimitedCapacity:
		return topology.ReasonLimitedCapacity, "its capacity is limited"
	}
	return "", ""
}
