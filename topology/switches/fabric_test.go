package switches

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// lab is a network that tests build, break, and write as ibnetdiscover does.
type lab struct {
	boxes map[string]*box
	order []string
	wires []wire
}

// box is a switch or an adapter.
type box struct {
	name, text string
	kind       kind
	guid       uint64
	image      uint64
	used       int // ports
}

// wire is a cable.
type wire struct {
	a, b         string
	aPort, bPort int
	down         bool
}

func newLab() *lab { return &lab{boxes: map[string]*box{}} }

func (l *lab) add(k kind, name, text string) *box {
	if b := l.boxes[name]; b != nil {
		return b
	}
	n := uint64(len(l.order) + 1)
	b := &box{name: name, text: text, kind: k, guid: 0x2c5eab0300000000 + n<<8}
	if k == adapterKind {
		b.guid = 0xe09d730300000000 + n<<4
	}
	b.image = b.guid
	l.boxes[name], l.order = b, append(l.order, name)
	return b
}

func (l *lab) leaf(name string) *box { return l.add(switchKind, name, "MF0;"+name+":MQM9701/U1") }

// join adds cables between two boxes that exist.
func (l *lab) join(a, b string, cables int) {
	for range cables {
		l.boxes[a].used++
		l.boxes[b].used++
		l.wires = append(l.wires, wire{a: a, b: b, aPort: l.boxes[a].used, bPort: l.boxes[b].used})
	}
}

// host adds a node with one adapter on each of some switches.
func (l *lab) host(name string, on ...string) {
	for i, s := range on {
		adapter := fmt.Sprintf("%s mlx5_%d", name, i)
		l.add(adapterKind, adapter, adapter)
		l.join(adapter, s, 1)
	}
}

// node returns a host as Place takes it.
func (l *lab) node(name string, published ...string) Node {
	n := Node{Name: name, Published: published}
	for i := 0; ; i++ {
		b := l.boxes[fmt.Sprintf("%s mlx5_%d", name, i)]
		if b == nil {
			return n
		}
		n.Adapters = append(n.Adapters, Adapter{GUIDs: []string{fmt.Sprintf("%016x", b.guid)}})
	}
}

// nodes returns all hosts.
func (l *lab) nodes() []Node {
	var all []Node
	for _, name := range l.order {
		if host, ok := strings.CutSuffix(name, " mlx5_0"); ok && l.boxes[name].kind == adapterKind {
			all = append(all, l.node(host))
		}
	}
	return all
}

// up returns the cables that are up.
func (l *lab) up() []wire {
	return slices.DeleteFunc(slices.Clone(l.wires), func(w wire) bool { return w.down })
}

// text writes the network, in an order by rng.
func (l *lab) text(rng *rand.Rand) string {
	ends := map[string][]string{}
	for _, w := range l.up() {
		for _, x := range []struct {
			a, b         *box
			aPort, bPort int
		}{{l.boxes[w.a], l.boxes[w.b], w.aPort, w.bPort}, {l.boxes[w.b], l.boxes[w.a], w.bPort, w.aPort}} {
			far := ""
			if x.b.kind != switchKind {
				far = fmt.Sprintf("(%x) ", x.b.guid)
			}
			line := fmt.Sprintf("[%d]\t\"%c-%016x\"[%d]%s\t\t# \"%s\" lid 7 4xNDR\n", x.aPort, x.b.kind, x.b.guid, x.bPort, far, x.b.text)
			if x.a.kind != switchKind {
				line = fmt.Sprintf("[%d](%x) \t\"%c-%016x\"[%d]%s\t\t# lid 9 lmc 0 \"%s\" lid 7 4xNDR\n", x.aPort, x.a.guid, x.b.kind, x.b.guid, x.bPort, far, x.b.text)
			}
			ends[x.a.name] = append(ends[x.a.name], line)
		}
	}
	order := slices.Clone(l.order)
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(a, b string) int { return int(l.boxes[b].kind) - int(l.boxes[a].kind) })
	var s strings.Builder
	s.WriteString("#\n# Topology file: generated on Wed Aug  6 16:11:23 2025\n#\n# Initiated from node e09d730300156ff6 port e09d730300156ff6\n")
	for _, name := range order {
		b := l.boxes[name]
		if b.kind == adapterKind && len(ends[name]) == 0 {
			continue // nothing reaches it
		}
		fmt.Fprintf(&s, "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%x\n", b.image)
		switch b.kind {
		case switchKind:
			fmt.Fprintf(&s, "switchguid=0x%x(%x)\nSwitch\t65 \"S-%016x\"\t\t# \"%s\" enhanced port 0 lid 73 lmc 0\n", b.guid, b.guid, b.guid, b.text)
		case routerKind:
			fmt.Fprintf(&s, "rtguid=0x%x\nRt\t2 \"R-%016x\"\t\t# \"%s\"\n", b.guid, b.guid, b.text)
		default:
			fmt.Fprintf(&s, "caguid=0x%x\nCa\t1 \"H-%016x\"\t\t# \"%s\"\n", b.guid, b.guid, b.text)
		}
		s.WriteString(strings.Join(ends[name], ""))
	}
	return s.String()
}

// racks builds a fabric of racks with one leaf for each rail, and spines that join all leaves.
func racks(racks, nodes, rails, spines int) *lab {
	l := newLab()
	for s := range spines {
		l.leaf(fmt.Sprintf("spine%d", s+1))
	}
	for r := range racks {
		l.addRack(r+1, nodes, rails, spines)
	}
	return l
}

// addRack adds a rack below the spines.
func (l *lab) addRack(r, nodes, rails, spines int) {
	var leaves []string
	for rail := range rails {
		name := fmt.Sprintf("leaf%d-%d", r, rail+1)
		l.leaf(name)
		leaves = append(leaves, name)
		for s := range spines {
			l.join(name, fmt.Sprintf("spine%d", s+1), 2)
		}
	}
	for n := range nodes {
		l.host(fmt.Sprintf("r%dn%d", r, n+1), leaves...)
	}
}

// rackOf returns the rack in the name of a node.
func rackOf(node string) string {
	rack, _, _ := strings.Cut(node, "n")
	return rack
}

// fabric returns what Read makes of the network's text, without the text.
func (l *lab) fabric() *Fabric {
	f := &Fabric{}
	index := map[string]int32{}
	for i, name := range l.order {
		b := l.boxes[name]
		index[name] = int32(i)
		f.devices = append(f.devices, device{kind: b.kind, guid: b.guid, image: b.image, text: b.text})
	}
	for _, w := range l.up() {
		f.cables = append(f.cables, cable{[2]int32{index[w.a], index[w.b]}, [2]int16{int16(w.aPort), int16(w.bPort)}, [2]uint64{l.boxes[w.a].guid, l.boxes[w.b].guid}})
	}
	f.markBoxes()
	return f
}
