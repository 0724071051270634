package switches

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// graph is what all texts and all nodes say together: switches in the order of their ids, their
// cables, and the switches that each node's adapters are on.
type graph struct {
	ids   []string
	links [][]link // beside ids, to other switches
	hosts []int32  // beside ids: adapters of hosts on the switch, of whatever host
	// plane is the part of the network that a switch reaches. Nobody knows what a switch reaches that
	// LLDP alone names.
	plane []int32
	lldp  []bool   // beside ids: LLDP alone names the switch
	on    [][]link // beside nodes: the switches that its adapters are on; cables counts adapters
}

// link is a number of cables to a switch.
type link struct{ to, cables int32 }

// newGraph joins texts and nodes. The order of the texts does not matter: a switch that several
// texts have is one, and so is a cable.
func newGraph(fabrics []*Fabric, nodes []Node) *graph {
	g := &graph{}
	index := map[string]int32{}
	for _, f := range fabrics {
		for i := range f.devices {
			if f.devices[i].kind == switchKind {
				index[switchID(f.devices[i].guid)] = 0
			}
		}
	}
	fromTexts := maps.Clone(index)
	for i := range nodes {
		for a := range nodes[i].Adapters {
			if id := chassis(nodes[i].Adapters[a].Switch); id != "" {
				index[id] = 0
			}
		}
	}
	g.ids = slices.Sorted(maps.Keys(index))
	for i, id := range g.ids {
		index[id] = int32(i)
	}
	g.links = make([][]link, len(g.ids))
	g.hosts = make([]int32, len(g.ids))
	planes := newSets(len(g.ids))
	at := make([][]int32, len(fabrics)) // beside the devices of each text: the switch
	for t, f := range fabrics {
		at[t] = make([]int32, len(f.devices))
		for i := range f.devices {
			if f.devices[i].kind == switchKind {
				at[t][i] = index[switchID(f.devices[i].guid)]
			}
		}
	}
	found := g.readCables(fabrics, at, planes)
	g.attach(nodes, index, found)
	g.plane = make([]int32, len(g.ids))
	g.lldp = make([]bool, len(g.ids))
	for i, id := range g.ids {
		_, text := fromTexts[id]
		g.lldp[i] = !text
	}
	for i := range g.ids {
		g.plane[i] = planes.root(int32(i))
	}
	return g
}

// chassis returns the id of a switch as LLDP says it, in one form.
func chassis(id string) string { return strings.ToLower(strings.TrimSpace(id)) }

// readCables fills in links and hosts, and returns which switches the ports with a GUID are on.
func (g *graph) readCables(fabrics []*Fabric, at [][]int32, planes sets) map[uint64][]int32 {
	type end struct {
		at   int32
		port int16
	}
	type wire struct{ a, b end }
	var wires []wire
	found := map[uint64][]int32{}
	routers := map[uint64]int32{}
	hosts := map[[2]uint64]bool{}
	for t, f := range fabrics {
		for _, c := range f.cables {
			for side := range 2 {
				d, far := &f.devices[c.ends[side]], &f.devices[c.ends[1-side]]
				if far.kind != switchKind {
					continue
				}
				to := at[t][c.ends[1-side]]
				switch d.kind {
				case switchKind:
					if from := at[t][c.ends[side]]; from < to {
						wires = append(wires, wire{end{from, c.ports[side]}, end{to, c.ports[1-side]}})
					}
				case routerKind:
					if other, ok := routers[d.guid]; ok {
						planes.join(other, to)
					}
					routers[d.guid] = to
				case adapterKind:
					if d.inBox {
						continue
					}
					guid := cmp.Or(c.guids[side], d.guid)
					for _, key := range slices.Compact([]uint64{d.guid, guid}) {
						if !slices.Contains(found[key], to) {
							found[key] = append(found[key], to)
						}
					}
					if key := [2]uint64{guid, uint64(to)}; !hosts[key] {
						hosts[key] = true
						g.hosts[to]++
					}
				}
			}
		}
	}
	slices.SortFunc(wires, func(x, y wire) int {
		return cmp.Or(cmp.Compare(x.a.at, y.a.at), cmp.Compare(x.b.at, y.b.at), cmp.Compare(x.a.port, y.a.port), cmp.Compare(x.b.port, y.b.port))
	})
	for _, w := range slices.Compact(wires) {
		planes.join(w.a.at, w.b.at)
		g.links[w.a.at] = addLink(g.links[w.a.at], w.b.at)
		g.links[w.b.at] = addLink(g.links[w.b.at], w.a.at)
	}
	return found
}

// addLink counts a cable. Cables to one switch come one after the other.
func addLink(links []link, to int32) []link {
	if last := len(links) - 1; last >= 0 && links[last].to == to {
		links[last].cables++
		return links
	}
	return append(links, link{to, 1})
}

// attach fills in where the nodes' adapters are.
func (g *graph) attach(nodes []Node, index map[string]int32, found map[uint64][]int32) {
	g.on = make([][]link, len(nodes))
	for i := range nodes {
		count := map[int32]int32{}
		for _, a := range nodes[i].Adapters {
			on := map[int32]bool{}
			for _, text := range a.GUIDs {
				if guid, err := parseGUID(text); err == nil {
					for _, to := range found[guid] {
						on[to] = true
					}
				}
			}
			if id := chassis(a.Switch); id != "" && len(on) == 0 {
				on[index[id]] = true
			}
			for to := range on {
				count[to]++
			}
		}
		for _, to := range slices.Sorted(maps.Keys(count)) {
			g.on[i] = append(g.on[i], link{to, count[to]})
		}
	}
}

// sets are disjoint sets: each member leads to the first of its set.
type sets []int32

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

func (s sets) root(i int32) int32 {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

// join joins two sets. The first member stands for both.
func (s sets) join(a, b int32) {
	a, b = s.root(a), s.root(b)
	s[max(a, b)] = min(a, b)
}
