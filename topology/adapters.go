package topology

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Adapter is one RDMA network adapter of a machine. It has facts that stay. The state of a
// port is none: it changes while a cable is loose, and is a series of the agent.
type Adapter struct {
	// Name is the kernel's, such as mlx5_0.
	Name string `json:"name"`
	// Model is what the driver calls the kind of adapter (hca_type), such as MT4129.
	Model string `json:"model,omitempty"`
	// NodeGUID is 16 hexadecimal digits in lower case, absent if the adapter has none.
	NodeGUID string `json:"nodeGUID,omitempty"`
	// PCIBusID is in the form of the GPUs', such as 00000000:18:00.0.
	PCIBusID string `json:"pciBusID,omitempty"`
	NUMANode *int   `json:"numaNode,omitempty"`
	// GPUs are the PCI bus ids of the nearest GPUs below the same PCI switch or root port: the
	// adapter is on their rail. They are as the kernel's drivers say, so a GPU that NVML has
	// lost is among them.
	GPUs []string `json:"gpus,omitempty" max:"16"`
	// NetDevs are the names of its network interfaces.
	NetDevs []string      `json:"netDevs,omitempty" max:"8"`
	Ports   []AdapterPort `json:"ports,omitempty" max:"4"`
}

// AdapterPort is one port of an adapter.
type AdapterPort struct {
	Port int `json:"port"`
	// GUID is 16 hexadecimal digits in lower case. Only a port of InfiniBand has one.
	GUID string `json:"guid,omitempty"`
	// LinkLayer is LinkInfiniBand, LinkEthernet, or absent if it is another one or unknown.
	LinkLayer string `json:"linkLayer,omitempty"`
	// RateGbps is the highest rate that an active link had since the boot, absent if the link was
	// never active. A link that is down or trained badly has another rate, which is no fact
	// of the machine.
	RateGbps int `json:"rateGbps,omitempty"`
	// Neighbor is the switch port at the other end, by LLDP. The last that was seen stays.
	Neighbor Neighbor `json:"neighbor,omitzero"`
}

// What a port speaks.
const (
	LinkInfiniBand = "InfiniBand"
	LinkEthernet   = "Ethernet"
)

// Neighbor is what a switch says of itself and its port by LLDP.
type Neighbor struct {
	ChassisID  string `json:"chassisID,omitempty"`
	PortID     string `json:"portID,omitempty"`
	SystemName string `json:"systemName,omitempty"`
}

// ComputeAdapters returns the adapters over which GPUs talk to other machines. names are
// patterns of adapter names; if a site gives some, they alone count. Else these are the
// adapters on the rail of a GPU. If no adapter shares a PCI switch or root port with a GPU,
// as on GB200 and in virtual machines, these are the InfiniBand adapters, else the fastest
// ones, without BlueFields if there are others. The other adapters are for storage and management.
func (n *Node) ComputeAdapters(names []string) []Adapter {
	if len(names) > 0 {
		return n.adapters(func(a *Adapter) bool { return matchesAny(names, a.Name) })
	}
	if rails := n.adapters(func(a *Adapter) bool { return len(a.GPUs) > 0 }); len(rails) > 0 {
		return rails
	}
	if ib := n.adapters(func(a *Adapter) bool { return a.speaks(LinkInfiniBand) }); len(ib) > 0 {
		return ib
	}
	candidates := n.adapters(func(a *Adapter) bool { return !a.isBlueField() })
	if len(candidates) == 0 {
		candidates = n.Adapters
	}
	return fastest(candidates)
}

// fastest returns the adapters of the highest rate. The rate of an adapter that had no link is
// that of its model.
func fastest(adapters []Adapter) (found []Adapter) {
	rates := make(map[string]int) // by model
	most := 0
	for i := range adapters {
		a := &adapters[i]
		rates[a.Model] = max(rates[a.Model], a.rate())
		most = max(most, a.rate())
	}
	for i := range adapters {
		if a := &adapters[i]; cmp.Or(a.rate(), rates[a.Model]) == most {
			found = append(found, *a)
		}
	}
	return found
}

func (n *Node) adapters(want func(a *Adapter) bool) (found []Adapter) {
	for i := range n.Adapters {
		if want(&n.Adapters[i]) {
			found = append(found, n.Adapters[i])
		}
	}
	return found
}

// CheckAdapterPatterns returns an error that names the first pattern that is none.
func CheckAdapterPatterns(names []string) error {
	for _, pattern := range names {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q: want a name of an adapter, such as mlx5_0, or a pattern such as mlx5_*", pattern)
		}
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

func (a *Adapter) speaks(layer string) bool {
	return slices.ContainsFunc(a.Ports, func(p AdapterPort) bool { return p.LinkLayer == layer })
}

// rate returns the rate of the adapter's fastest port, 0 if none is known.
func (a *Adapter) rate() (most int) {
	for i := range a.Ports {
		most = max(most, a.Ports[i].RateGbps)
	}
	return most
}

// blueFields are the models of NVIDIA's BlueField, whose ports are for management and storage
// unless they are on the rail of a GPU.
var blueFields = []string{"MT41682", "MT41686", "MT41692"}

func (a *Adapter) isBlueField() bool {
	return slices.Contains(blueFields, strings.ToUpper(a.Model))
}

// validate checks what every consumer relies on.
func (a *Adapter) validate() error {
	if a.Name == "" {
		return errors.New("name: empty: want the adapter's name")
	}
	if !isGUID(a.NodeGUID) {
		return fmt.Errorf("nodeGUID: %q: %w", a.NodeGUID, errGUID)
	}
	for i, p := range a.Ports {
		switch {
		case p.Port < 1:
			return fmt.Errorf("ports[%d].port: %d: want 1 or more", i, p.Port)
		case !isGUID(p.GUID):
			return fmt.Errorf("ports[%d].guid: %q: %w", i, p.GUID, errGUID)
		case p.LinkLayer != "" && p.LinkLayer != LinkInfiniBand && p.LinkLayer != LinkEthernet:
			return fmt.Errorf("ports[%d].linkLayer: %q: want %s or %s", i, p.LinkLayer, LinkInfiniBand, LinkEthernet)
		case p.RateGbps < 0:
			return fmt.Errorf("ports[%d].rateGbps: %d: want 0 or more", i, p.RateGbps)
		}
	}
	return nil
}

var errGUID = errors.New("want 16 hexadecimal digits in lower case")

// isGUID reports whether text is a GUID, or empty because none is known.
func isGUID(text string) bool {
	return text == "" || len(text) == 16 && strings.Trim(text, "0123456789abcdef") == ""
}
