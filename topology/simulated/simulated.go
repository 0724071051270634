// Package simulated makes machines and racks from a site file in YAML, for demos
// and tests: the report of each machine, the labels of its Kubernetes node, and
// faults over a day. The same file always gives the same machines. The package
// reads no files except sites.
package simulated

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

//go:embed clusters/*.yaml
var shipped embed.FS

// Shipped lists the names of the clusters that come with Quoin.
func Shipped() []string {
	files, err := fs.Glob(shipped, "clusters/*.yaml")
	if err != nil {
		panic("simulated: " + err.Error()) // the pattern is constant
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return files
}

// Open returns a cluster that comes with Quoin.
func Open(name string) (*Cluster, error) {
	data, err := shipped.ReadFile("clusters/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no site %q: want one of %s, or a file", name, strings.Join(Shipped(), ", "))
	}
	return Parse(name+".yaml", data)
}

// Load returns a cluster that comes with Quoin, or that of a site file. A name with a dot
// or a slash is that of a file.
func Load(site string) (*Cluster, error) {
	if !strings.ContainsAny(site, "./") {
		return Open(site)
	}
	data, err := os.ReadFile(site)
	if err != nil {
		return nil, fmt.Errorf("read site: %w", err)
	}
	return Parse(site, data)
}

// Machine is one simulated machine.
type Machine struct {
	Name string
	// Labels are the labels of its Kubernetes node.
	Labels map[string]string
	// Report is nil if the machine has no agent, or if the agent is silent. Its
	// Domain is confirmed once the agent would have confirmed it.
	Report *topology.Node
	// Exists is false while the machine is out of its rack.
	Exists bool
}

// Cluster is a simulated site.
type Cluster struct {
	Name, About string
	Steps       []Step
	machines    []machine
	index       map[string]int
}

// machine is one machine's place and what is wrong with it now.
type machine struct {
	name   string
	group  *group
	home   place
	place  place // other than home while it is moved
	faults []Fault
	boot   int
	// domain is the domain that its agent confirmed last in boot domainBoot, zero if
	// none. domainChanged: it was another clique earlier in that boot.
	domain        topology.NVLinkDomain
	domainBoot    int
	domainChanged bool
	// earlier is the clique that its agent confirmed in an earlier boot.
	earlier topology.Clique
}

// place is one tray of one rack.
type place struct {
	cluster string // the group whose NVLink fabric the rack is of
	rack    int    // from 1, over all groups
	tray    int    // from 1, in its rack
	tiers   []string
}

// Machines returns every machine as it is now, in the file's order.
func (c *Cluster) Machines() []Machine {
	out := make([]Machine, len(c.machines))
	for i := range c.machines {
		out[i] = c.machines[i].now()
	}
	return out
}

// Machine returns one machine as it is now.
func (c *Cluster) Machine(name string) (Machine, error) {
	i, ok := c.index[name]
	if !ok {
		return Machine{}, fmt.Errorf("no machine %q in cluster %q: it has %d, such as %s", name, c.Name, len(c.machines), c.machines[0].name)
	}
	return c.machines[i].now(), nil
}

// Apply makes the changes of a step. Steps have to be applied in their order.
// Faults of unknown machines are ignored.
func (c *Cluster) Apply(s Step) {
	for _, f := range s.Do {
		if i, ok := c.index[f.Node]; ok {
			c.machines[i].apply(c, f)
		}
	}
}

func (m *machine) apply(c *Cluster, f Fault) {
	old := m.place
	switch {
	case f.Clear:
		m.faults, m.place = nil, m.home
	case f.MoveTo != "":
		if i, ok := c.index[f.MoveTo]; ok {
			m.moveTo(&c.machines[i])
		}
	default:
		m.faults = append(m.faults, f)
	}
	carried := m.place.cluster != old.cluster || m.place.rack != old.rack || m.place.tray != old.tray
	if f.Reboot || carried {
		m.boot++
	}
	m.confirm()
}

// moveTo puts the machine into the rack of another, into its tray if that one
// is absent.
func (m *machine) moveTo(other *machine) {
	tray := m.place.tray
	if slices.ContainsFunc(other.faults, func(f Fault) bool { return f.Absent }) {
		tray = other.place.tray
	}
	m.place = other.place
	m.place.tray = tray
}

// now makes the machine's report and labels.
func (m *machine) now() Machine {
	out := Machine{Name: m.name, Exists: true, Labels: m.labels()}
	n := m.report()
	for _, f := range m.faults {
		switch {
		case f.Absent:
			out.Exists = false
		case f.NoReport:
			n = nil
		case f.Label != nil:
			out.Labels[topology.CliqueLabel] = *f.Label
		case n != nil:
			f.strike(n)
		}
	}
	if out.Exists {
		out.Report = n
	}
	return out
}

// labels returns the labels that GPU Feature Discovery and Topograph would write.
func (m *machine) labels() map[string]string {
	l := map[string]string{"kubernetes.io/hostname": m.name}
	for i, key := range tierLabels {
		if i < len(m.place.tiers) {
			l[key] = m.place.tiers[i]
		}
	}
	g := &m.group.GPUs
	if g.Count == 0 {
		return l
	}
	l["nvidia.com/gpu.present"], l["nvidia.com/gpu.count"] = "true", fmt.Sprint(g.Count)
	l["nvidia.com/gpu.product"] = strings.ReplaceAll(g.Product, " ", "-")
	if c, ok := m.clique(); ok {
		l[topology.CliqueLabel] = c.String()
	}
	return l
}

// tierLabels name the switches above a machine, nearest first.
var tierLabels = []string{"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/core"}

// clique returns the machine's NVLink domain, false if it has none.
func (m *machine) clique() (topology.Clique, bool) {
	switch m.group.NVLink {
	case nvlinkRack:
		return topology.Clique{ClusterUUID: uuidOf("cluster", m.place.cluster, m.place.rack), ID: uint32(m.place.rack)}, true
	case nvlinkNode:
		return topology.Clique{ClusterUUID: uuidOf("node", m.name, 0), ID: 0}, true
	}
	return topology.Clique{}, false
}

// report returns the machine's report without any fault.
func (m *machine) report() *topology.Node {
	n := &topology.Node{Name: m.name, BootID: uuidOf("boot", m.name, m.boot).String(), Domain: m.domain, DomainChanged: m.domainChanged, IMEX: m.group.IMEX.facts(), Tiers: slices.Clone(m.place.tiers)}
	if m.domain.Clique.IsZero() {
		n.EarlierClique = m.earlier
	}
	g := &m.group.GPUs
	for rail := range m.group.Rails {
		n.Adapters = append(n.Adapters, m.adapter(rail))
	}
	if g.Count == 0 {
		return n
	}
	n.DriverVersion, n.NVMLVersion, n.CUDAVersion = m.group.Driver, "13."+m.group.Driver, "13.0"
	if m.group.Platform {
		n.Platform = &topology.Platform{ChassisSerial: fmt.Sprintf("18%011d", m.place.rack), Slot: slotOf(m.place.tray), Tray: m.place.tray - 1, HostID: 1}
	}
	for i := range g.Count {
		n.GPUs = append(n.GPUs, m.gpu(i))
	}
	for s := range g.NUMANodes {
		if per := g.CPUs / g.NUMANodes; per > 0 {
			n.Sockets = append(n.Sockets, topology.Socket{CPUs: cpus(s, per), Cores: per})
		}
	}
	return n
}

// cpus returns the CPU list of a socket.
func cpus(socket, per int) string { return fmt.Sprintf("%d-%d", socket*per, (socket+1)*per-1) }

// slotOf returns the slot of a compute tray in an NVL72 rack. From the bottom there
// are eight compute trays, nine switch trays, then the other compute trays.
func slotOf(tray int) int {
	const below, switches = 8, 9
	if tray > below {
		return tray + switches
	}
	return tray
}

func (m *machine) gpu(i int) topology.GPU {
	spec := &m.group.GPUs
	minor, numa := i, numaOf(i, spec.Count, spec)
	if len(spec.Minors) > 0 {
		minor = spec.Minors[i]
	}
	g := topology.GPU{Index: i, UUID: "GPU-" + uuidOf("gpu", m.name, i).String(), Minor: &minor, PCIBusID: busID(numa, i, 1),
		Product: spec.Product, MemoryMiB: spec.MemoryMiB, NUMANode: &numa, Links: &topology.Links{Switch: spec.NVLinks}, DCGMID: &i}
	if spec.CPUs > 0 && spec.NUMANodes > 0 {
		g.CPUAffinity = cpus(numa, spec.CPUs/spec.NUMANodes)
	}
	g.MIG = m.mig(i, minor)
	g.Fabric = topology.Fabric{State: topology.FabricNotSupported}
	if c, ok := m.clique(); ok {
		g.Fabric = topology.Fabric{ClusterUUID: c.ClusterUUID, CliqueID: c.ID, State: topology.FabricCompleted}
		setHealth(&g.Fabric, topology.HealthHealthy)
	}
	return g
}

// numaOf returns the NUMA node of the GPU or adapter i of count.
func numaOf(i, count int, spec *gpus) int { return i * max(spec.NUMANodes, 1) / count }

// busID returns the PCI bus id of a device below the PCI switch i.
func busID(numa, i, device int) string { return fmt.Sprintf("%08X:%02X:00.0", numa, device+16*(i%15)) }

// GUID returns the node GUID of an adapter of a machine, which is that of its port too. Rails
// count from 0.
func GUID(machine string, rail int) string { return uuidOf("adapter", machine, rail).Hex()[:16] }

// adapter returns the adapter of a rail.
func (m *machine) adapter(rail int) topology.Adapter {
	spec, rails := &m.group.GPUs, m.group.Rails
	numa := numaOf(rail, rails, spec)
	a := topology.Adapter{Name: fmt.Sprintf("mlx5_%d", rail), Model: "MT4129", NodeGUID: GUID(m.name, rail), PCIBusID: busID(numa, rail, 2), NUMANode: &numa,
		Ports: []topology.AdapterPort{{Port: 1, GUID: GUID(m.name, rail), LinkLayer: topology.LinkInfiniBand, RateGbps: 400}}}
	if m.group.NVLink == nvlinkRack {
		return a
	}
	for i := rail * spec.Count / rails; i < (rail+1)*spec.Count/rails; i++ {
		a.GPUs = append(a.GPUs, busID(numaOf(i, spec.Count, spec), i, 1))
	}
	return a
}

// setHealth sets the health of a fabric, and fields that fit.
func setHealth(f *topology.Fabric, h topology.Health) {
	answer := func(v bool) *bool { return &v }
	f.Health = h
	f.HealthFields = topology.FabricHealth{DegradedBandwidth: answer(h == topology.HealthLimitedCapacity), RouteRecovery: answer(false),
		RouteUnhealthy: answer(h == topology.HealthUnhealthy), AccessTimeoutRecovery: answer(false), PartitionAssigned: answer(true), IncorrectConfiguration: "none"}
}

// mig returns the GPU's MIG instances. Their device files follow the driver's
// numbering: per GPU 135 capabilities from 3 on, 9 of them per GPU instance.
func (m *machine) mig(i, minor int) []topology.MIGInstance {
	var out []topology.MIGInstance
	for k := range m.group.MIG.Instances {
		gi := m.group.MIG.FirstID + k
		first := minor*135 + 3 + gi*9
		out = append(out, topology.MIGInstance{UUID: "MIG-" + uuidOf("mig", m.name, i*100+gi).String(), Profile: m.group.MIG.Profile, GPUInstanceID: gi,
			Capabilities: []string{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", first), fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", first+1)}})
	}
	return out
}

// uuidOf derives a UUID from a name, so that the same file always gives the same
// machines.
func uuidOf(kind, name string, number int) topology.UUID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", kind, name, number))
	u := topology.UUID(sum[:16])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}
