// Package topology is the model of GPU nodes, and of the plan that gives each its place.
//
// A [Node] is what is known of one machine: its GPUs, their NVLink fabric, its
// place in the rack. A report is a Node as JSON. [Facts] join a Node with what
// its Kubernetes labels say. A [Plan] has the blocks and switches. Their names are made
// here, and a name tells what a block is made of.
//
// The package is pure: no clock, environment, files or network. It decides
// nothing; package placement makes the plan.
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Node is what is known of one machine: facts only, no decisions. A fact that
// could not be read is absent, with a reason in Problems.
type Node struct {
	// Name is the name of the Kubernetes node, or of the host without Kubernetes.
	Name string `json:"node"`
	// BootID is /proc/sys/kernel/random/boot_id.
	BootID string `json:"bootID,omitempty"`
	// Domain is the confirmed NVLink domain: what Joined returned for two
	// consecutive readings in this boot. Only an agent can set it, because one
	// reading confirms nothing. A clique gives way to another clique only, and a
	// confirmed none to any clique.
	Domain NVLinkDomain `json:"domain,omitzero"`
	// DomainChanged: another clique was confirmed earlier in this boot. So the machine
	// has not moved: an NVLink partition was changed while it ran.
	DomainChanged bool `json:"domainChanged,omitempty"`
	// EarlierClique is the clique that was confirmed in an earlier boot. It is zero once a
	// clique is confirmed in this boot.
	EarlierClique Clique `json:"earlierClique,omitzero"`
	// DriverVersion and NVMLVersion are as nvmlSystemGet*Version print them.
	DriverVersion string `json:"driverVersion,omitempty"`
	NVMLVersion   string `json:"nvmlVersion,omitempty"`
	// CUDAVersion is the newest CUDA that the driver runs, such as "13.0".
	CUDAVersion string `json:"cudaVersion,omitempty"`
	GPUs        []GPU  `json:"gpus,omitempty" max:"64"`
	// Sockets are the processor packages in Slurm's order.
	Sockets  []Socket  `json:"sockets,omitempty" max:"64"`
	Platform *Platform `json:"platform,omitempty"`
	// FabricMode is FABRIC_MODE in the configuration of the machine's Fabric Manager: 0, or another number if
	// it gives out partitions of the machine's NVLink. It is absent if the file could not be read.
	FabricMode *int `json:"fabricMode,omitempty"`
	// IMEXNodes is how many nodes the list of the machine's own IMEX service (nodes_config.cfg) has. It is
	// absent if the list could not be read.
	IMEXNodes *int  `json:"imexNodes,omitempty"`
	IMEX      *IMEX `json:"imex,omitempty"`
	// Adapters are the RDMA network adapters, sorted by name. Functions of SR-IOV are not among
	// them: they have no cable of their own, and come and go with pods.
	Adapters []Adapter `json:"adapters,omitempty" max:"32"`
	// Tiers are the names of the network switches above the node, nearest first
	// (leaf, spine, core). Only simulated machines name them, and a publisher in
	// Kubernetes does not follow them.
	Tiers    []string  `json:"tiers,omitempty" max:"8"`
	Problems []Finding `json:"problems,omitempty" max:"64"`
}

// GPU is one physical GPU.
type GPU struct {
	// Index is NVML's index; it may differ from Minor.
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// Minor is N of /dev/nvidiaN (nvmlDeviceGetMinorNumber).
	Minor *int `json:"minor,omitempty"`
	// PCIBusID is in the form 00000000:07:00.0.
	PCIBusID string `json:"pciBusID,omitempty"`
	// Product is nvmlDeviceGetName, such as "NVIDIA GB200".
	Product   string `json:"product,omitempty"`
	MemoryMiB uint64 `json:"memoryMiB,omitempty"`
	NUMANode  *int   `json:"numaNode,omitempty"`
	// CPUAffinity is a list of Linux CPU numbers such as "0-35,72-107".
	CPUAffinity string `json:"cpuAffinity,omitempty" max:"4096"`
	// Links are the active NVLinks. They are nil if they could not be read, and zero if none is active.
	Links *Links        `json:"links,omitempty"`
	MIG   []MIGInstance `json:"mig,omitempty" max:"16"`
	// MIGEmpty is true if MIG is on and there is no instance, as after a boot. Then
	// no program can use the GPU.
	MIGEmpty bool `json:"migEmpty,omitempty"`
	// Xids are the codes of the Xid events seen since the node's boot, or since the GPU was
	// reset, sorted, each once. Package fabric says what a code asks for.
	Xids []int `json:"xids,omitempty" max:"256"`
	// Recovery is what NVML says has to be done before the GPU works again, "none" for
	// nothing. It is absent if the driver does not say it. The words are in the table of
	// recoveries of package fabric.
	Recovery string `json:"recovery,omitempty"`
	// DCGMID is the GPU's id in DCGM and its exporter, absent when unknown.
	DCGMID *int `json:"dcgmID,omitempty"`
	// Fabric is zero when it could not be read.
	Fabric Fabric `json:"fabric,omitzero"`
}

// Links counts the active NVLinks of a GPU by what is at their other end.
type Links struct {
	Switch  int `json:"switch,omitempty"`
	IBMNPU  int `json:"ibmnpu,omitempty"`
	Unknown int `json:"unknown,omitempty"`
	// GPUs are the GPUs at the other end.
	GPUs []LinksToGPU `json:"gpus,omitempty" max:"64"`
}

// LinksToGPU counts the NVLinks to one other GPU.
type LinksToGPU struct {
	// PCIBusID is empty if the other GPU's could not be read.
	PCIBusID string `json:"pciBusID,omitempty"`
	Count    int    `json:"count"`
}

// Active returns how many links are active.
func (l *Links) Active() int {
	n := l.Switch + l.IBMNPU + l.Unknown
	for _, g := range l.GPUs {
		n += g.Count
	}
	return n
}

// AddGPU counts one more link to a GPU.
func (l *Links) AddGPU(pciBusID string) {
	i := slices.IndexFunc(l.GPUs, func(g LinksToGPU) bool { return g.PCIBusID == pciBusID })
	if i < 0 {
		i, l.GPUs = len(l.GPUs), append(l.GPUs, LinksToGPU{PCIBusID: pciBusID})
	}
	l.GPUs[i].Count++
}

// maxLinks is the largest count of links in a report. It is above the 36 of NVML, which a later product may exceed.
const maxLinks = 64

func (l *Links) validate() error {
	if l == nil {
		return nil
	}
	counts := []int{l.Switch, l.IBMNPU, l.Unknown}
	for _, g := range l.GPUs {
		counts = append(counts, g.Count)
	}
	for _, n := range counts {
		if n < 0 || n > maxLinks {
			return fmt.Errorf("links: a count of %d: want 0 to %d", n, maxLinks)
		}
	}
	return nil
}

// Socket is one processor package.
type Socket struct {
	// CPUs is a list of Linux CPU numbers such as "0-35,72-107".
	CPUs string `json:"cpus" max:"4096"`
	// Cores is the number of physical cores.
	Cores int `json:"cores"`
}

// MIGInstance is one MIG compute instance of a GPU.
type MIGInstance struct {
	UUID string `json:"uuid"`
	// Profile is the profile's name, such as "1g.10gb".
	Profile           string `json:"profile,omitempty"`
	GPUInstanceID     int    `json:"gpuInstanceID"`
	ComputeInstanceID int    `json:"computeInstanceID"`
	// Capabilities are the device files that a process needs beside the GPU's
	// own, such as /dev/nvidia-caps/nvidia-cap21.
	Capabilities []string `json:"capabilities,omitempty" max:"16"`
}

// Platform is where the machine sits (nvmlDeviceGetPlatformInfo, Blackwell and
// newer).
type Platform struct {
	// ChassisSerial is the chassis' serial number, RackGUID the rack's GUID in
	// hexadecimal. NVML has one field for both: printable text is a serial number.
	ChassisSerial string `json:"chassisSerial,omitempty"`
	RackGUID      string `json:"rackGUID,omitempty"`
	Slot          int    `json:"slot"`
	Tray          int    `json:"tray"`
	HostID        int    `json:"hostID"`
}

// IMEX is the machine's own state of IMEX. Through IMEX the GPUs of an NVLink
// domain share memory across nodes.
type IMEX struct {
	// ChannelMajor is the device major of nvidia-caps-imex-channels, absent if the
	// loaded driver has no IMEX.
	ChannelMajor *int `json:"channelMajor,omitempty"`
	// Channels is how many channels have a device file on the machine. NVIDIA's DRA
	// driver makes channel files inside containers, and Slurm inside jobs. So 0 is
	// a fault only if the site's jobs use the machine's own files.
	Channels int `json:"channels,omitempty"`
	// DaemonState is what nvidia-imex-ctl -q prints of the daemon, such as READY or
	// WAITING_FOR_PEERS.
	DaemonState string `json:"daemonState,omitempty"`
	// DomainState is what nvidia-imex-ctl -N prints of the daemon and its peers:
	// UP, DEGRADED or DOWN. It is absent if the daemon runs in a pod, because the
	// peers' names are known in that pod only.
	DomainState string `json:"domainState,omitempty"`
	// DaemonAddress is the address that the configuration of the driver's daemon binds, and
	// DaemonFault why that daemon is not ready although it does not say so itself.
	DaemonAddress string `json:"daemonAddress,omitempty"`
	DaemonFault   string `json:"daemonFault,omitempty"`
	// Peers are the nodes of the daemon's domain, sorted by address. The list is empty if
	// DomainState is set and the node is connected to each of them.
	Peers []IMEXPeer `json:"peers,omitempty" max:"64"`
	// HostService is true while the machine's own nvidia-imex.service runs. Then a
	// daemon in a pod cannot work.
	HostService bool `json:"hostService,omitempty"`
}

// IMEXPeer is a node of an IMEX domain, as the daemon of one node sees it.
type IMEXPeer struct {
	// Address is how nodes_config.cfg names the node: an IP address, or a host name.
	Address string `json:"address"`
	// Name is the node's name in Slurm by nodes_names.cfg, empty if the file does not have it.
	Name string `json:"name,omitempty"`
	// State is PeerSelf, PeerConnected, PeerDead or PeerUnknown.
	State string `json:"state"`
}

// What the daemon of a node says of a node of its domain.
const (
	PeerSelf      = "self"      // it is the node itself
	PeerConnected = "connected" // the two have a connection
	PeerDead      = "dead"      // the two have none, or the other daemon says that it is not ready
	PeerUnknown   = "unknown"   // the daemon does not say it
)

// Reasons that agents report. The table Reasons explains them.
const (
	ReasonXidCritical     = "XidCritical"
	ReasonXidLook         = "XidLook"
	ReasonRecoveryNeeded  = "RecoveryNeeded"
	ReasonRecoveryAdvised = "RecoveryAdvised"
	ReasonGPUUnreadable   = "GPUUnreadable"
	ReasonGPULost         = "GPULost"
	ReasonGPUMissing      = "GPUMissing"
	ReasonMemoryErrors    = "MemoryErrors"
	ReasonFactUnreadable  = "FactUnreadable"
	ReasonFactsStale      = "FactsStale"
	ReasonUnsettled       = "FactsUnsettled"
	ReasonMoreProblems    = "MoreProblems"
)

// LosesGPU reports whether the problem is that the driver has a GPU that cannot be read.
func (p Finding) LosesGPU() bool { return p.Reason == ReasonGPUUnreadable || p.Reason == ReasonGPULost }

// ReasonOther is the reason of a reported problem whose own reason nobody knows. Series
// count by reason, and a machine can report any.
const ReasonOther = "other"

// Reported returns a problem of a report as the publisher names it.
func (p Finding) Reported() Finding {
	if !slices.ContainsFunc(Reasons[0].Words, func(w Word) bool { return w.Reason == p.Reason }) {
		p.Reason, p.Message = ReasonOther, p.Reason+": "+p.Message
	}
	return p
}

// Reasons of problems that a node's labels have, or that a comparison with its neighbours shows.
const (
	ReasonLabelDiffers       = "LabelDiffers"
	ReasonLabelWithoutDomain = "LabelWithoutDomain"
	ReasonCliqueMalformed    = "CliqueLabelMalformed"
	ReasonCountMalformed     = "CountLabelMalformed"
	ReasonProductsDiffer     = "ProductsDiffer"
)

// UsesMIG reports whether MIG is on. Then the GPU has no NVLinks.
func (g GPU) UsesMIG() bool { return g.MIGEmpty || len(g.MIG) > 0 }

// Has reports whether the node has a GPU.
func (n *Node) Has(uuid string) bool {
	return slices.ContainsFunc(n.GPUs, func(g GPU) bool { return g.UUID == uuid })
}

// GRESOrder returns the node's GPUs in the order of Slurm's GRES indices: by
// device file, that is by minor number. A GPU without one comes last.
func (n *Node) GRESOrder() []GPU {
	gpus := slices.Clone(n.GPUs)
	place := func(g GPU) int {
		if g.Minor == nil {
			return maxMinor + 1 + g.Index
		}
		return *g.Minor
	}
	slices.SortStableFunc(gpus, func(a, b GPU) int { return cmp.Compare(place(a), place(b)) })
	return gpus
}

// validate checks what every consumer relies on.
func (n *Node) validate() error {
	if n.Name == "" {
		return errors.New("node: empty: want the node's name")
	}
	if err := n.checkBounds(); err != nil {
		return err
	}
	for i := range n.Adapters {
		if err := n.Adapters[i].validate(); err != nil {
			return fmt.Errorf("adapters[%d].%w", i, err)
		}
	}
	uuids := make(map[string]int, len(n.GPUs))
	minors := make(map[int]int, len(n.GPUs))
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if err := g.Fabric.validate(); err != nil {
			return fmt.Errorf("gpus[%d].%w", i, err)
		}
		if err := g.Links.validate(); err != nil {
			return fmt.Errorf("gpus[%d].%w", i, err)
		}
		if j, dup := uuids[g.UUID]; dup && g.UUID != "" {
			return fmt.Errorf("gpus[%d].uuid: %q is also that of gpus[%d]", i, g.UUID, j)
		}
		uuids[g.UUID] = i
		if g.Minor == nil {
			continue
		}
		if *g.Minor < 0 || *g.Minor > maxMinor {
			return fmt.Errorf("gpus[%d].minor: %d: want 0 to %d", i, *g.Minor, maxMinor)
		}
		if j, dup := minors[*g.Minor]; dup {
			return fmt.Errorf("gpus[%d].minor: %d is also that of gpus[%d]", i, *g.Minor, j)
		}
		minors[*g.Minor] = i
	}
	return nil
}

// maxMinor is the largest minor number of a device in Linux.
const maxMinor = 1<<20 - 1
