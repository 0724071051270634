package adapters

import (
	"cmp"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// Keep returns the adapters that are now, and all that was seen of the machine's adapters in
// the same boot and is not seen now: an adapter that is dead or was given to a container,
// a fact that cannot be read, a rate of a link that is down, a neighbor that is silent. An
// adapter is known by its place on PCI, because its name may change while a machine starts.
func Keep(before, now []topology.Adapter) []topology.Adapter {
	kept := make([]topology.Adapter, 0, max(len(before), len(now)))
	places, names := make(map[string]int), make(map[string]bool)
	for i := range now {
		places[now[i].PCIBusID], names[now[i].Name] = i, true
		kept = append(kept, now[i])
	}
	for i := range before {
		old := &before[i]
		at, found := places[old.PCIBusID]
		switch {
		case found && alike(old, &kept[at]):
			fill(&kept[at], old)
		case !found && !names[old.Name] && len(kept) < maxAdapters:
			kept = append(kept, *old)
		}
	}
	sortByName(kept)
	return kept
}

// KeepNeighbors returns the adapters with the neighbors that were seen in an earlier boot, if none
// is seen now.
func KeepNeighbors(before, now []topology.Adapter) []topology.Adapter {
	kept := slices.Clone(now)
	for i := range kept {
		at := slices.IndexFunc(before, func(a topology.Adapter) bool { return a.PCIBusID == now[i].PCIBusID && alike(&a, &now[i]) })
		if at >= 0 {
			kept[i].Ports = fillPorts(kept[i].Ports, before[at].Ports, func(p, old *topology.AdapterPort) { fillZero(&p.Neighbor, old.Neighbor) })
		}
	}
	return kept
}

// alike reports whether two adapters at one place on PCI may be the same one.
func alike(a, b *topology.Adapter) bool {
	return a.NodeGUID == b.NodeGUID || a.NodeGUID == "" || b.NodeGUID == ""
}

// fill adds the facts of an adapter that are not known now.
func fill(a, old *topology.Adapter) {
	fillZero(&a.Model, old.Model)
	fillZero(&a.NodeGUID, old.NodeGUID)
	fillZero(&a.NUMANode, old.NUMANode)
	if len(a.GPUs) == 0 { // the driver of the GPUs was unloaded
		a.GPUs = old.GPUs
	}
	if len(a.NetDevs) == 0 { // a container has them
		a.NetDevs = old.NetDevs
	}
	a.Ports = fillPorts(a.Ports, old.Ports, func(p, old *topology.AdapterPort) {
		if p.LinkLayer == "" || p.LinkLayer == old.LinkLayer {
			fillZero(&p.LinkLayer, old.LinkLayer)
			fillZero(&p.GUID, old.GUID)
			p.RateGbps = max(p.RateGbps, old.RateGbps)
			fillZero(&p.LastGbps, old.LastGbps)
		}
		fillZero(&p.Neighbor, old.Neighbor)
	})
	for _, p := range old.Ports {
		if !slices.ContainsFunc(a.Ports, func(q topology.AdapterPort) bool { return q.Port == p.Port }) {
			a.Ports = append(a.Ports, p)
		}
	}
	// A port that had a link in this boot stays, and one that never had a link gives room.
	slices.SortStableFunc(a.Ports, func(p, q topology.AdapterPort) int { return cmp.Compare(min(q.RateGbps, 1), min(p.RateGbps, 1)) })
	a.Ports = a.Ports[:min(len(a.Ports), maxPorts)]
	slices.SortFunc(a.Ports, byNumber)
}

// fillPorts returns the ports, filled from the ports of these numbers before.
func fillPorts(ports, before []topology.AdapterPort, fill func(p, old *topology.AdapterPort)) []topology.AdapterPort {
	ports = slices.Clone(ports)
	for i := range ports {
		for k := range before {
			if before[k].Port == ports[i].Port {
				fill(&ports[i], &before[k])
			}
		}
	}
	return ports
}

// fillZero sets a value that is not known now.
func fillZero[T comparable](value *T, old T) {
	var zero T
	if *value == zero {
		*value = old
	}
}
