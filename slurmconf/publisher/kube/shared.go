package kube

import (
	"slices"
	"strconv"

	"github.com/quoin-hpc/quoin/topology"
)

// maxShared is how many different texts, and how many different lists of links, are
// remembered.
const maxShared = 4096

// shared gives equal parts of reports one copy. The machines of a cluster are alike but for
// names, and the NVLinks of 10,000 machines would take most of the publisher's memory.
// Reports that differ on purpose only make it begin again.
type shared struct {
	texts map[string]string
	links map[string][]topology.NVLink
	key   []byte
}

// share replaces parts of a report that nobody else has seen yet.
func (s *shared) share(n *topology.Node) {
	if len(s.texts) >= maxShared || len(s.links) >= maxShared || s.texts == nil {
		s.texts, s.links = map[string]string{}, map[string][]topology.NVLink{}
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
		g.NVLinks = s.nvlinks(g.NVLinks)
	}
}

func (s *shared) text(text string) string {
	if one, is := s.texts[text]; is {
		return one
	}
	s.texts[text] = text
	return text
}

func (s *shared) nvlinks(links []topology.NVLink) []topology.NVLink {
	s.key = s.key[:0]
	for _, l := range links {
		s.key = strconv.AppendInt(s.key, int64(l.Link), 10)
		for _, text := range []string{l.Remote, l.RemotePCIBusID} {
			s.key = strconv.AppendQuote(s.key, text)
		}
	}
	one, is := s.links[string(s.key)]
	if !is {
		one = slices.Clone(links)
		for i := range one {
			one[i].Remote, one[i].RemotePCIBusID = s.text(one[i].Remote), s.text(one[i].RemotePCIBusID)
		}
		s.links[string(s.key)] = one
	}
	return one
}
