package kube

import (
	"reflect"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// maxShared is how many different texts are remembered.
const maxShared = 4096

// shared gives equal texts of reports one copy, and equal links and health of the GPUs of a report. The
// machines of a cluster are alike but for names. Reports that differ on purpose only make it begin again.
type shared struct{ texts map[string]string }

// share replaces parts of a report that nobody else has seen yet.
func (s *shared) share(n *topology.Node) {
	if len(s.texts) >= maxShared || s.texts == nil {
		s.texts = map[string]string{}
	}
	for _, text := range []*string{&n.DriverVersion, &n.NVMLVersion, &n.CUDAVersion} {
		*text = s.text(*text)
	}
	for i := range n.Sockets {
		n.Sockets[i].CPUs = s.text(n.Sockets[i].CPUs)
	}
	n.Adapters = slices.Clip(n.Adapters)
	for i := range n.Adapters {
		a := &n.Adapters[i]
		a.Name, a.Model, a.PCIBusID = s.text(a.Name), s.text(a.Model), s.text(a.PCIBusID)
		for _, texts := range [][]string{a.GPUs, a.NetDevs} {
			for k := range texts {
				texts[k] = s.text(texts[k])
			}
		}
		for k := range a.Ports {
			p := &a.Ports[k]
			p.LinkLayer, p.Neighbor.SystemName, p.Neighbor.ChassisID = s.text(p.LinkLayer), s.text(p.Neighbor.SystemName), s.text(p.Neighbor.ChassisID)
		}
	}
	n.GPUs = slices.Clip(n.GPUs)
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Product, g.CPUAffinity, g.PCIBusID = s.text(g.Product), s.text(g.CPUAffinity), s.text(g.PCIBusID)
		f := &g.Fabric
		f.State, f.Health = topology.FabricState(s.text(string(f.State))), topology.Health(s.text(string(f.Health)))
		if first := &n.GPUs[0]; reflect.DeepEqual(g.Links, first.Links) && reflect.DeepEqual(f.HealthFields, first.Fabric.HealthFields) {
			g.Links, f.HealthFields = first.Links, first.Fabric.HealthFields
		}
	}
}

func (s *shared) text(text string) string {
	if one, is := s.texts[text]; is {
		return one
	}
	s.texts[text] = text
	return text
}
