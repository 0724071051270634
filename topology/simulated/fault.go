package simulated

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// The kinds of faults by their keys. A fault of the fabric needs an NVLink fabric,
// and a fault of GPUs may be of one GPU.
var (
	ofMachine = []string{"absent", "noReport", "label", "moveTo", "imex", "clear"}
	ofGPU     = []string{"fabric", "health", "clique", "lost", "xid", "use"}
	ofFabric  = ofGPU[:3]
)

// kinds returns the keys of the kinds that are set.
func (f *Fault) kinds() []string {
	set := map[string]bool{
		"absent": f.Absent, "noReport": f.NoReport, "label": f.Label != nil, "moveTo": f.MoveTo != "", "imex": f.IMEX != nil, "clear": f.Clear,
		"fabric": f.Fabric != "", "health": f.Health != "", "clique": f.Clique != nil, "lost": f.Lost, "xid": f.Xid != 0, "use": f.Use != nil,
	}
	return slices.DeleteFunc(slices.Concat(ofMachine, ofGPU), func(key string) bool { return !set[key] })
}

// check returns what is wrong with a fault in this cluster.
func (c *Cluster) check(f *Fault) error {
	i, ok := c.index[f.Node]
	if !ok {
		return bad("node", "no machine %q: want one of the groups' machines, such as %s", f.Node, c.machines[0].name)
	}
	kinds := f.kinds()
	if len(kinds) > 1 || len(kinds) == 0 && !f.Reboot {
		return bad("", "want exactly one of %s, or reboot alone", strings.Join(slices.Concat(ofMachine, ofGPU), ", "))
	}
	kind := strings.Join(kinds, "")
	if _, ok := c.index[f.MoveTo]; f.MoveTo != "" && !ok {
		return bad("moveTo", "no machine %q: want one of the groups' machines, such as %s", f.MoveTo, c.machines[0].name)
	}
	if slices.Contains(ofFabric, kind) && c.machines[i].group.NVLink == nvlinkNone {
		return bad("node", "%s has no NVLink fabric: want a machine of a group with nvlink: rack or node", f.Node)
	}
	if f.GPU != nil && !slices.Contains(ofGPU, kind) {
		return bad("gpu", "%d: want it with %s only", *f.GPU, strings.Join(ofGPU, ", "))
	}
	for _, err := range []error{f.Use.check(), f.IMEX.check(), f.checkFabric(), f.checkDevice(c.machines[i].group)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkFabric checks state, status and health of the fabric registration.
func (f *Fault) checkFabric() error {
	states := []topology.FabricState{"", topology.FabricNotSupported, topology.FabricNotStarted, topology.FabricInProgress, topology.FabricCompleted}
	healths := []topology.Health{"", topology.HealthUnhealthy, topology.HealthLimitedCapacity}
	switch completed := f.Fabric == string(topology.FabricCompleted); {
	case !slices.Contains(states, topology.FabricState(f.Fabric)):
		return bad("fabric", "%q: want notSupported, notStarted, inProgress, or completed with a status", f.Fabric)
	case completed && f.Status == "":
		return bad("status", "missing: want the NVML error that the registration ended with, such as ERROR_UNKNOWN")
	case !completed && f.Status != "":
		return bad("status", "%q: want it with fabric: completed only", f.Status)
	case !slices.Contains(healths, topology.Health(f.Health)):
		return bad("health", "%q: want unhealthy or limitedCapacity", f.Health)
	}
	return nil
}

// checkDevice checks the GPU or MIG instance of a fault in group g.
func (f *Fault) checkDevice(g *group) error {
	switch {
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
	if f.IMEX != nil {
		n.IMEX = f.IMEX.facts()
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if f.GPU != nil && *f.GPU != g.Index {
			continue
		}
		switch {
		case f.Lost:
			n.Problems = append(n.Problems, topology.GPULostProblem(g.PCIBusID))
			n.GPUs = slices.Delete(n.GPUs, i, i+1)
			return
		case f.Xid != 0:
			var xids fabric.Xids
			xids.Take(n)
			xids.Add(g.UUID, f.Xid)
			xids.Show(n)
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

// confirm does what the machine's agent does over time. It keeps the last clique
// of a boot that all GPUs have joined, or None until there is one.
func (m *machine) confirm() {
	if m.boot != m.domainBoot {
		m.earlier = cmp.Or(m.domain.Clique, m.earlier)
		m.domain, m.domainBoot, m.domainChanged = topology.NVLinkDomain{}, m.boot, false
	}
	n := m.report()
	for _, f := range m.faults {
		f.strike(n)
	}
	first := m.domain.Clique.IsZero()
	if d := n.Joined(); !d.Clique.IsZero() || first && d.None {
		m.domainChanged = m.domainChanged || !first && d != m.domain
		m.domain = d
	}
	if m.domain.None && !m.earlier.IsZero() { // its agent does not believe it
		m.domain = topology.NVLinkDomain{}
	}
}

// imexState matches a state as nvidia-imex-ctl prints it.
var imexState = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// maxIMEXChannels is how many channels the driver has.
const maxIMEXChannels = 2048

// check returns what is wrong. nil is valid.
func (i *imexFacts) check() error {
	switch {
	case i == nil:
		return nil
	case i.Major != nil && (*i.Major < 0 || *i.Major > 4095):
		return bad("imex.major", "%d: want 0 to 4095", *i.Major)
	case i.Channels < 0 || i.Channels > maxIMEXChannels:
		return bad("imex.channels", "%d: want 0 to %d", i.Channels, maxIMEXChannels)
	case i.Major == nil && *i != (imexFacts{}):
		return bad("imex.major", "missing: want it, such as 235, beside any other key of imex")
	case i.Daemon != "" && !imexState.MatchString(i.Daemon):
		return bad("imex.daemon", "%q: want a state such as READY or WAITING_FOR_PEERS", i.Daemon)
	case i.Domain != "" && !imexState.MatchString(i.Domain):
		return bad("imex.domain", "%q: want a state such as UP, DEGRADED or DOWN", i.Domain)
	}
	return nil
}

// facts returns the IMEX part of a report.
func (i *imexFacts) facts() *topology.IMEX {
	if i == nil {
		return nil
	}
	return &topology.IMEX{ChannelMajor: i.Major, Channels: i.Channels, DaemonState: i.Daemon, DomainState: i.Domain, HostService: i.HostService}
}
