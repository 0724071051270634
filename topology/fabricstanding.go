package topology

import (
	"cmp"
	"slices"
	"strings"
)

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

// Registers says how the registration of the GPUs in the node's report stands: waits if it may still end well,
// stuck if one failed or has not begun. Where NVLink ends in the machine, GPUs wait for Fabric Manager, and nobody
// awaits those that it gives out in partitions. bounds may be nil.
func (n *FabricNode) Registers(bounds Bounds) (waits, stuck bool) {
	var idle, failed bool
	for i := range n.Report.GPUs {
		switch n.Report.GPUs[i].Fabric.standing() {
		case gpuInProgress:
			waits = true
		case gpuNotStarted:
			idle = true
		case gpuFailed:
			failed = true
		}
	}
	if !waits && !idle && !failed || n.Report.SpansMachines(bounds) {
		return waits, idle || failed
	}
	return (waits || idle) && !n.partitioned(), false
}

// partitioned reports whether the site says that Fabric Manager gives out partitions, or something that was read on
// the machine does. Then GPUs in no active partition register for ever, and nothing is wrong.
func (n *FabricNode) partitioned() bool {
	switch mode := n.Report.FabricMode; {
	case n.Partitions:
		return true
	case mode != nil:
		return *mode != fabricModeWhole
	}
	assigned := func(g GPU) bool { return isTrue(g.Fabric.HealthFields.PartitionAssigned) }
	return !n.Report.Domain.Clique.IsZero() || slices.ContainsFunc(n.Report.GPUs, assigned)
}

// fabricModeWhole is the FABRIC_MODE in which Fabric Manager gives out no partitions.
const fabricModeWhole = 0

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

func isTrue(b *bool) bool { return b != nil && *b }

// healthBits are the details of a GPU's health that name a fault, the worst first. A recovery
// passes: the GPU works with less meanwhile.
var healthBits = [...]struct {
	of           func(*FabricHealth) *bool
	reason, what string
}{
	{func(h *FabricHealth) *bool { return h.RouteUnhealthy }, ReasonUnhealthy, "unhealthy route"},
	{func(h *FabricHealth) *bool { return h.RouteRecovery }, ReasonLimitedCapacity, "route recovery in progress"},
	{func(h *FabricHealth) *bool { return h.AccessTimeoutRecovery }, ReasonLimitedCapacity, "access timeout recovery in progress"},
	{func(h *FabricHealth) *bool { return h.DegradedBandwidth }, ReasonLimitedCapacity, "degraded bandwidth"},
}

// Faults returns what the details say is wrong, and the reason of the worst, or "".
func (h *FabricHealth) Faults() (reason string, all []string) {
	if wrong := h.IncorrectConfiguration; wrong != "" && wrong != "none" {
		reason, all = ReasonMisconfigured, append(all, "incorrect configuration: "+wrong)
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
func (f *Fabric) flaw() (reason, what string) {
	switch reason, all := f.HealthFields.Faults(); {
	case reason != "":
		return reason, strings.Join(all, ", ")
	case f.Health == HealthUnhealthy:
		return ReasonUnhealthy, "its health is " + string(f.Health)
	case f.Health == HealthLimitedCapacity:
		return ReasonLimitedCapacity, "its capacity is limited"
	}
	return "", ""
}
