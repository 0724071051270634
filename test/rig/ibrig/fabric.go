// Package ibrig simulates InfiniBand fabrics for tests: it makes them up, with what is true of them,
// and lets Debian's real ibsim and ibnetdiscover say what a site would read there.
package ibrig

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Shape says what a simulated fabric is made of. A group is the leaves that the same nodes use: one
// leaf, or one for each rail. A pod is the groups that share spines.
type Shape struct {
	// Seed decides GUIDs, and which links and names a fault takes.
	Seed uint64
	// Parts is the number of such fabrics that are not joined, 1 if it is 0.
	Parts int
	// Pods, Groups and Nodes are numbers for each part, pod and group; Pods is 1 if it is 0.
	Pods, Groups, Nodes int
	// Rails is the number of adapters of a node.
	Rails int
	// RailLeaves: adapter k of a node is on leaf k of its group. Otherwise all are on its one leaf.
	RailLeaves bool
	// RailsApart: each rail has its own spines, so that no cable joins two rails.
	RailsApart bool
	// Spines is the number of spines of a pod, or of each rail of a pod. A leaf is linked with each.
	// Cores is the number of switches that a spine of each pod is linked with: a third tier.
	Spines, Cores int
	// Storage gives each node one adapter more, in a fabric of its own with a leaf for each group.
	Storage bool
	// Aggregation gives each switch the aggregation node that NVIDIA's switches have, an adapter
	// that is no node's.
	Aggregation bool
	// Name is the name of a node by its number, node0001 and so on if it is nil.
	Name func(number int) string
}

// Node is what is true of a node.
type Node struct {
	Name string
	// Group and Pod are where the node is: the same for two nodes exactly if they use the same
	// leaves, or the same spines.
	Group, Pod string
	// Adapters are its compute adapters by rail, and those for storage after them.
	Adapters []*Adapter
}

// Adapter is one with one port.
type Adapter struct {
	// GUID and Port are the GUIDs of the adapter and of its port.
	GUID, Port uint64
	// Description is what the adapter says of itself.
	Description string
	Storage     bool
	end         *end
}

// Switch has a description as NVIDIA's switches have.
type Switch struct {
	GUID        uint64
	Description string
}

// Fabric is a simulated fabric, or several that are not joined.
type Fabric struct {
	Nodes    []*Node
	Switches []*Switch
	shape    Shape
	random   *rand.Rand
	given    map[uint64]uint64 // GUIDs by their first half
	ends     []*end            // switches and adapters
	last     struct {
		part, pod, groups int
		spines, storage   []*end
	}
}

// end is a switch or an adapter.
type end struct {
	guid        uint64
	description string
	ports       int
	cables      map[int]cable // by port
	isSwitch    bool
}

// cable is where one leads to.
type cable struct {
	to   *end
	port int
}

// The first halves of GUIDs that NVIDIA's adapters and switches have.
const (
	adapterPrefix     = 0x946dae03 << 32
	switchPrefix      = 0xfc6a1c03 << 32
	aggregationPrefix = 0xfc6a1d03 << 32
)

const (
	// nameless is how an adapter describes itself if nobody has told it the node's name.
	nameless = "MT4129 ConnectX7 Mellanox Technologies"
	// aggregation is how the aggregation node of a switch describes itself.
	aggregation = "Mellanox Technologies Aggregation Node"
	// switchPorts is what a Quantum-2 switch has. A switch with more cables has more ports.
	switchPorts = 64
)

// New makes the fabric of a shape.
func New(s Shape) *Fabric {
	s.Parts, s.Pods = max(s.Parts, 1), max(s.Pods, 1)
	if s.Name == nil {
		s.Name = func(number int) string { return fmt.Sprintf("node%04d", number) }
	}
	f := &Fabric{shape: s, random: rand.New(rand.NewPCG(s.Seed, 37)), given: map[uint64]uint64{}} //nolint:gosec // no secret
	for part := range s.Parts {
		var cores []*end
		f.last.storage = nil
		for range s.Spines * s.Cores * f.planes() {
			cores = append(cores, f.addSwitch(fmt.Sprintf("core%d-%d", part+1, len(cores)+1)))
		}
		for pod := range s.Pods {
			f.addPod(part, pod, cores)
			for range s.Groups {
				f.AddGroup(s.Nodes)
			}
		}
	}
	return f
}

// planes is the number of sets of spines that no cable joins.
func (f *Fabric) planes() int {
	if f.shape.RailsApart {
		return f.shape.Rails
	}
	return 1
}

// addPod adds the spines of a pod, and links each with its cores.
func (f *Fabric) addPod(part, pod int, cores []*end) {
	f.last.part, f.last.pod, f.last.groups, f.last.spines = part, pod, 0, nil
	for i := range f.shape.Spines * f.planes() {
		spine := f.addSwitch(fmt.Sprintf("spine%d-%d-%d", part+1, pod+1, i+1))
		f.last.spines = append(f.last.spines, spine)
		for j := range f.shape.Cores {
			link(spine, cores[i*f.shape.Cores+j])
		}
	}
}

// AddGroup adds a group of so many nodes, with its leaves, to the last pod.
func (f *Fabric) AddGroup(nodes int) {
	s, last := f.shape, &f.last
	last.groups++
	place := fmt.Sprintf("%d-%d-%d", last.part+1, last.pod+1, last.groups)
	var leaves []*end
	for range f.leaves() {
		leaf := f.addSwitch(fmt.Sprintf("leaf%s-%d", place, len(leaves)+1))
		for i, spine := range last.spines {
			if i/s.Spines == len(leaves)%f.planes() {
				link(leaf, spine)
			}
		}
		leaves = append(leaves, leaf)
	}
	var storage *end
	if s.Storage {
		if last.storage == nil {
			last.storage = []*end{f.addSwitch(fmt.Sprintf("storage-spine%d", last.part+1))}
		}
		storage = f.addSwitch("storage-leaf" + place)
		link(storage, last.storage[0])
	}
	for range nodes {
		n := &Node{Name: s.Name(len(f.Nodes) + 1), Group: place, Pod: fmt.Sprintf("%d-%d", last.part+1, last.pod+1)}
		for rail := range s.Rails {
			f.addAdapter(n, leaves[rail%len(leaves)])
		}
		if storage != nil {
			f.addAdapter(n, storage)
			n.Adapters[s.Rails].Storage = true
		}
		f.Nodes = append(f.Nodes, n)
	}
}

// leaves is the number of leaves of a group.
func (f *Fabric) leaves() int {
	if f.shape.RailLeaves || f.shape.RailsApart {
		return f.shape.Rails
	}
	return 1
}

func (f *Fabric) addSwitch(name string) *end {
	sw := &Switch{GUID: f.guid(switchPrefix), Description: "MF0;" + name + ":MQM9700/U1"}
	f.Switches = append(f.Switches, sw)
	e := f.addEnd(&end{guid: sw.GUID, description: sw.Description, ports: switchPorts, isSwitch: true})
	if f.shape.Aggregation {
		e.ports++
		link(f.addEnd(&end{guid: f.guid(aggregationPrefix), description: aggregation, ports: 1}), e)
	}
	return e
}

func (f *Fabric) addAdapter(n *Node, leaf *end) {
	a := &Adapter{GUID: f.guid(adapterPrefix), Description: fmt.Sprintf("%s mlx5_%d", n.Name, len(n.Adapters))}
	a.Port = a.GUID + 1 // ibsim gives no other
	a.end = f.addEnd(&end{guid: a.GUID, description: a.Description, ports: 1})
	n.Adapters = append(n.Adapters, a)
	link(a.end, leaf)
}

func (f *Fabric) addEnd(e *end) *end {
	e.cables = map[int]cable{}
	f.ends = append(f.ends, e)
	return e
}

// guid returns a new GUID. The order of GUIDs says nothing of the order of places.
func (f *Fabric) guid(prefix uint64) uint64 {
	n := f.given[prefix]
	f.given[prefix]++
	const bits = 28 // the last four of 32 are for the GUIDs of ports
	return prefix | ((n*0x9e3779b1+f.shape.Seed*0x85ebca6b)&(1<<bits-1))<<4
}

// link connects the first free ports of two ends.
func link(a, b *end) {
	x, y := a.free(), b.free()
	a.cables[x], b.cables[y] = cable{b, y}, cable{a, x}
}

func (e *end) free() int {
	port := 1
	for e.cables[port].to != nil {
		port++
	}
	e.ports = max(e.ports, port)
	return port
}

// pull takes away the cable of a port.
func (e *end) pull(port int) {
	c := e.cables[port]
	delete(e.cables, port)
	delete(c.to.cables, c.port)
}

// PullCable takes away the cable of an adapter.
func (f *Fabric) PullCable(a *Adapter) { a.end.pull(1) }

// PullCables takes away a part of all cables of nodes and between switches, such as 0.05, as links
// that are down do. An aggregation node has none.
func (f *Fabric) PullCables(part float64) {
	type place struct {
		end  *end
		port int
	}
	var all []place
	for _, e := range f.ends {
		for _, port := range slices.Sorted(maps.Keys(e.cables)) {
			to := e.cables[port].to
			if e.description != aggregation && to.description != aggregation && (!e.isSwitch || to.isSwitch && e.guid < to.guid) {
				all = append(all, place{e, port})
			}
		}
	}
	f.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all[:int(math.Round(part*float64(len(all))))] {
		p.end.pull(p.port)
	}
}

// TakeNames leaves n adapters without a node's name.
func (f *Fabric) TakeNames(n int) {
	var all []*Adapter
	for _, node := range f.Nodes {
		all = append(all, node.Adapters...)
	}
	f.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, a := range all[:n] {
		a.Description, a.end.description = nameless, nameless
	}
}

// SwapSwitch puts another switch in the place of the one that an adapter's cable leads to.
func (f *Fabric) SwapSwitch(a *Adapter) {
	e := a.end.cables[1].to
	i := slices.IndexFunc(f.Switches, func(s *Switch) bool { return s.GUID == e.guid })
	e.guid = f.guid(switchPrefix)
	f.Switches[i].GUID = e.guid
}

// Leaf is the GUID of the switch that the adapter's cable leads to, 0 if there is no cable.
func (a *Adapter) Leaf() uint64 {
	if to := a.end.cables[1].to; to != nil {
		return to.guid
	}
	return 0
}

// hosts are adapters of nodes, by their ids: one in each part that cables join.
func (f *Fabric) hosts() (ids []string) {
	seen := map[*end]bool{}
	for _, n := range f.Nodes {
		for _, a := range n.Adapters {
			if seen[a.end] || len(a.end.cables) == 0 {
				continue
			}
			ids = append(ids, a.end.id())
			for part := []*end{a.end}; len(part) > 0; part = part[1:] {
				seen[part[0]] = true
				for _, c := range part[0].cables {
					if !seen[c.to] {
						seen[c.to] = true
						part = append(part, c.to)
					}
				}
			}
		}
	}
	return ids
}

// net is the fabric in ibsim's format, which is ibnetdiscover's with less. ibsim knows no newer
// speed than QDR.
func (f *Fabric) net() []byte {
	var out bytes.Buffer
	for _, e := range f.ends {
		if e.isSwitch {
			fmt.Fprintf(&out, "switchguid=0x%x\nSwitch %d %q # %q enhanced port 0\n", e.guid, e.ports, e.id(), e.description)
		} else {
			fmt.Fprintf(&out, "caguid=0x%x\nCa %d %q # %q\n", e.guid, e.ports, e.id(), e.description)
		}
		for _, port := range slices.Sorted(maps.Keys(e.cables)) {
			fmt.Fprintf(&out, "[%d] %q[%d] # lid 0 4xQDR\n", port, e.cables[port].to.id(), e.cables[port].port)
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// id is what ibnetdiscover calls an end.
func (e *end) id() string {
	if e.isSwitch {
		return fmt.Sprintf("S-%016x", e.guid)
	}
	return fmt.Sprintf("H-%016x", e.guid)
}
