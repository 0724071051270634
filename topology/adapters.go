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
	NetDevs []string `json:"netDevs,omitempty" max:"8"`
	// Ports are the ports of the adapter. If there are many, only the ports with a link and an interface.
	Ports []AdapterPort `json:"ports,omitempty" max:"4"`
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
	// LastGbps is the rate of the link that is active, or was last. It is in no report, because it is
	// no fact that stays. 0: not known.
	LastGbps int `json:"-"`
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

// Compute is the answer to the question over which adapters GPUs talk to other machines. The other
// adapters are for storage and management.
type Compute struct {
	Adapters []Adapter
	// Witness says by what these adapters are known to be for compute.
	Witness string
	// Doubt says that others may be the right ones, or nothing.
	Doubt []Finding
}

// Problems of a node's adapters.
const (
	ReasonAdaptersUnsure = "AdaptersUnsure"
	ReasonAdapterSlow    = "AdapterSlow"
)

// roles are the witnesses that an adapter is for compute, the best first. The first one that some
// adapter has decides. On GB200 and in virtual machines no adapter shares a bridge with a GPU.
var roles = []struct {
	witness string
	of      func(a *Adapter, s *speeds) bool
}{
	{"below the PCI switch or root port of a GPU", func(a *Adapter, _ *speeds) bool { return len(a.GPUs) > 0 }},
	{"InfiniBand, and no adapter is faster", func(a *Adapter, s *speeds) bool { return a.speaks(LinkInfiniBand) && !s.slower(a) }},
	{"a switch as neighbor, and no adapter is faster", func(a *Adapter, s *speeds) bool { return a.HasNeighbor() && !s.slower(a) }},
	{"InfiniBand", func(a *Adapter, _ *speeds) bool { return a.speaks(LinkInfiniBand) }},
	{"the fastest", func(a *Adapter, s *speeds) bool { return s.of(a) == s.most }},
}

// ComputeAdapters returns the adapters over which GPUs talk to other machines. names are
// patterns of adapter names; if a site gives some, they alone count.
func (n *Node) ComputeAdapters(names []string) (c Compute) {
	if len(names) > 0 {
		c.Adapters = n.adapters(func(a *Adapter) bool { return matchesAny(names, a.Name) })
		c.Witness = "named by computeAdapters"
		return c
	}
	s := n.speeds()
	for _, role := range roles {
		c.Adapters, c.Witness = n.adapters(func(a *Adapter) bool { return role.of(a, s) }), role.witness
		if len(c.Adapters) == 0 {
			continue
		}
		first := &c.Adapters[0]
		others := n.adapters(func(a *Adapter) bool { // those that may be for compute instead, or too
			may := role.of(a, s) || s.slower(first) && !s.slower(a) || a.speaks(LinkInfiniBand) && !first.speaks(LinkInfiniBand)
			return may && a.kind() != first.kind() && s.of(a) > 0
		})
		if len(first.GPUs) == 0 && s.of(first) > 0 && len(others) > 0 {
			message := fmt.Sprintf("jobs may compute with %s, with %s, or with both; set computeAdapters", first.Name, others[0].Name)
			c.Doubt = []Finding{{Severity: Warning, Reason: ReasonAdaptersUnsure, Message: message}}
		}
		return c
	}
	return Compute{}
}

// speeds are the rates of a node's adapters in Gb/s.
type speeds struct {
	most   int
	byKind map[kind]int
}

// kind is what adapters of one rate have in common.
type kind struct {
	model      string
	infiniBand bool
}

func (a *Adapter) kind() kind { return kind{a.Model, a.speaks(LinkInfiniBand)} }

func (n *Node) speeds() *speeds {
	s := &speeds{byKind: make(map[kind]int)}
	for i := range n.Adapters {
		a := &n.Adapters[i]
		s.byKind[a.kind()] = max(s.byKind[a.kind()], a.rate())
		s.most = max(s.most, a.rate())
	}
	return s
}

// of returns the speed of an adapter, 0 if it is not known. Without a link it is that of the kind. For
// InfiniBand it always is, because a link that trained badly does not change a role. Ethernet of one
// kind may have one speed for compute and another one for storage.
func (s *speeds) of(a *Adapter) int {
	if a.speaks(LinkInfiniBand) {
		return s.byKind[a.kind()]
	}
	return cmp.Or(a.rate(), s.byKind[a.kind()])
}

// slower reports whether an adapter is known to be slower than another one.
func (s *speeds) slower(a *Adapter) bool { return s.of(a) > 0 && s.of(a) < s.most }

// SlowAdapters returns a problem of each port for compute whose link is slower than half of the links of the
// same model and link layer. Other ports are not compared: some are for storage, others for management.
func (n *Node) SlowAdapters() (found []Finding) {
	compute := n.ComputeAdapters(nil).Adapters
	for _, a := range compute {
		for _, p := range a.Ports {
			if rate, usual := p.lastRate(), usualRate(compute, a.Model, p.LinkLayer); rate > 0 && rate < usual {
				found = append(found, Finding{Reason: ReasonAdapterSlow, Message: fmt.Sprintf(
					"the link of %s port %d has %d Gb/s; other ports of its model have %d Gb/s", a.Name, p.Port, rate, usual)})
			}
		}
	}
	return found
}

// lastRate returns the rate of a port's last link, 0 if it never had one.
func (p *AdapterPort) lastRate() int { return cmp.Or(p.LastGbps, p.RateGbps) }

// usualRate returns the rate in Gb/s that half of the ports of a model and link layer have, or more than it.
func usualRate(adapters []Adapter, model, layer string) int {
	var rates []int
	for _, a := range adapters {
		for _, p := range a.Ports {
			if rate := p.lastRate(); a.Model == model && p.LinkLayer == layer && rate > 0 {
				rates = append(rates, rate)
			}
		}
	}
	if len(rates) == 0 {
		return 0
	}
	slices.Sort(rates)
	return rates[len(rates)/2]
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

// HasNeighbor reports whether LLDP shows a switch at a port.
func (a *Adapter) HasNeighbor() bool {
	return slices.ContainsFunc(a.Ports, func(p AdapterPort) bool { return p.Neighbor.ChassisID != "" })
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
