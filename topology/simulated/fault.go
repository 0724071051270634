package simulated

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// check returns what is wrong with a fault in this cluster.
func (c *Cluster) check(f *Fault) error {
	i, ok := c.index[f.Node]
	if !ok {
		return bad("node", "no machine %q: want one of the groups' machines, such as %s", f.Node, c.example())
	}
	kinds := 0
	for _, set := range []bool{f.Absent, f.NoReport, f.Fabric != "", f.Health != "", f.Lost, f.Xid != 0, f.Clique != nil, f.Label != nil, f.MoveTo != "", f.Use != nil, f.IMEX != nil, f.Clear} {
		if set {
			kinds++
		}
	}
	if kinds > 1 || kinds == 0 && !f.Reboot {
		return bad("", "want exactly one of absent, noReport, fabric, health, lost, xid, clique, label, moveTo, use, imex and clear, or reboot alone")
	}
	if _, ok := c.index[f.MoveTo]; f.MoveTo != "" && !ok {
		return bad("moveTo", "no machine %q: want one of the groups' machines, such as %s", f.MoveTo, c.example())
	}
	if f.Use != nil {
		if err := f.Use.check(); err != nil {
			return err
		}
	}
	if err := f.IMEX.check(); err != nil {
		return err
	}
	return f.checkGPU(c.machines[i].group)
}

// checkGPU checks a fault of the GPUs of a machine in group g.
func (f *Fault) checkGPU(g *group) error {
	if err := f.checkFabric(); err != nil {
		return err
	}
	if err := f.checkDevice(g); err != nil {
		return err
	}
	if (f.Fabric != "" || f.Health != "" || f.Clique != nil) && g.NVLink == nvlinkNone {
		return bad("node", "%s has no NVLink fabric: want a machine of a group with nvlink: rack or node", f.Node)
	}
	return nil
}

// checkFabric checks state, status and health of the fabric registration.
func (f *Fault) checkFabric() error {
	states := []topology.FabricState{"", topology.FabricNotStarted, topology.FabricInProgress, topology.FabricCompleted}
	healths := []topology.Health{"", topology.HealthUnhealthy, topology.HealthLimitedCapacity}
	completed := f.Fabric == string(topology.FabricCompleted)
	switch {
	case !slices.Contains(states, topology.FabricState(f.Fabric)):
		return bad("fabric", "%q: want notStarted, inProgress, or completed with a status", f.Fabric)
	case completed && f.Status == "":
		return bad("status", "missing: want the NVML error that the registration ended with, such as ERROR_UNKNOWN")
	case !completed && f.Status != "":
		return bad("status", "%q: want it with fabric: completed only", f.Status)
	case !slices.Contains(healths, topology.Health(f.Health)):
		return bad("health", "%q: want unhealthy or limitedCapacity", f.Health)
	}
	return nil
}

// checkDevice checks the GPU or MIG instance of a fault.
func (f *Fault) checkDevice(g *group) error {
	ofGPU := f.Fabric != "" || f.Health != "" || f.Lost || f.Xid != 0 || f.Clique != nil || f.Use != nil
	switch {
	case f.GPU != nil && !ofGPU:
		return bad("gpu", "%d: want it with fabric, health, lost, xid, clique or use only", *f.GPU)
	case f.Instance != nil && (f.Use == nil || f.GPU == nil || g.MIG.Instances == 0):
		return bad("instance", "%d: want it with use and gpu, on a machine with mig", *f.Instance)
	case f.GPU != nil && (*f.GPU < 0 || *f.GPU >= g.GPUs.Count):
		return bad("gpu", "%d: want 0 to %d on machine %s", *f.GPU, g.GPUs.Count-1, f.Node)
	case f.Lost && f.GPU == nil:
		return bad("gpu", "missing: want the index of the lost GPU")
	case f.Xid < 0:
		return bad("xid", "%d: want the code of an Xid event, such as 79", f.Xid)
	}
	return nil
}

// strike changes the report by the fault.
func (f *Fault) strike(n *topology.Node) {
	if f.Lost {
		n.GPUs = slices.DeleteFunc(n.GPUs, func(g topology.GPU) bool {
			if g.Index != *f.GPU {
				return false
			}
			n.Problems = append(n.Problems, topology.Problem{Reason: "GPULost", Message: fmt.Sprintf("GPU %d, %s, has fallen off the bus", g.Index, g.UUID)})
			return true
		})
		return
	}
	if f.Use != nil {
		return // no fact of the report
	}
	if f.IMEX != nil {
		n.IMEX = f.IMEX.facts()
		return
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if f.GPU != nil && *f.GPU != g.Index || g.Fabric.IsZero() {
			continue
		}
		switch {
		case f.Xid != 0:
			n.AddXids(g.UUID, f.Xid)
		case f.Fabric == string(topology.FabricCompleted):
			g.Fabric.Status = f.Status
		case f.Fabric != "":
			g.Fabric = topology.Fabric{State: topology.FabricState(f.Fabric)}
		case f.Health != "":
			setHealth(&g.Fabric, topology.Health(f.Health))
		case f.Clique != nil:
			g.Fabric.CliqueID = *f.Clique
		}
	}
}

// confirm does what the machine's agent does over time. It keeps the first NVLink
// domain of a boot that all GPUs have joined, or None until there is one.
func (m *machine) confirm() {
	if m.boot != m.domainBoot {
		m.domain, m.domainBoot = topology.NVLinkDomain{}, m.boot
	}
	if !m.domain.Clique.IsZero() {
		return
	}
	n := m.report()
	for _, f := range m.faults {
		f.strike(n)
	}
	if d := n.Joined(); !d.IsZero() {
		m.domain = d
	}
}
