// Package switches turns cables that were read into places: which nodes share a leaf switch, and
// what is above it. Cables come from the text of ibnetdiscover, and from what nodes see of their
// Ethernet switches by LLDP. An adapter is known by its GUID and never by a name.
//
// The room asks no fabric, opens no file and remembers nothing: the caller hands in the groups
// that Place returned before. A text that is cut, too large or contradicts itself is refused whole,
// because a part of a fabric looks like a smaller fabric.
package switches

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Fabric is what one text of ibnetdiscover says. It may hold several fabrics that are not joined.
type Fabric struct {
	devices []device
	cables  []cable
	leftOut string
}

// kind is the kind of a device.
type kind byte

// The kinds of devices have the letters that ibnetdiscover uses.
const (
	switchKind  kind = 'S'
	adapterKind kind = 'H'
	routerKind  kind = 'R'
)

// device is a switch, an adapter or a router.
type device struct {
	kind kind
	guid uint64
	// image is the GUID of the box, 0 if it is not known.
	image uint64
	text  string // the description
	inBox bool   // an adapter that is part of a switch
}

// cable joins ports of two devices. guids are those of the ports of adapters.
type cable struct {
	ends  [2]int32
	ports [2]int16
	guids [2]uint64
}

// switchID is the form of a GUID that groups and users see.
func switchID(guid uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, guid))
}

// LeftOut says which lines of the text are not of ibnetdiscover. It is empty if there are none. A switch
// or an adapter that did not answer ibnetdiscover may be missing then.
func (f *Fabric) LeftOut() string { return f.leftOut }

// Adapters returns how many adapters of hosts the text has.
func (f *Fabric) Adapters() int { return f.count(adapterKind) }

// Switches returns how many switches the text has.
func (f *Fabric) Switches() int { return f.count(switchKind) }

func (f *Fabric) count(k kind) int {
	n := 0
	for i := range f.devices {
		if f.devices[i].kind == k && !f.devices[i].inBox {
			n++
		}
	}
	return n
}

// aggregation ends the description of the adapter in a switch that adds up numbers (SHARP).
const aggregation = "Aggregation Node"

// markBoxes finds the adapters that are part of a switch. They are no hosts.
func (f *Fabric) markBoxes() {
	boxes := map[uint64]bool{}
	for i := range f.devices {
		if d := &f.devices[i]; d.kind == switchKind && d.image != 0 {
			boxes[d.image] = true
		}
	}
	for i := range f.devices {
		d := &f.devices[i]
		d.inBox = d.kind == adapterKind && (boxes[d.image] || strings.HasSuffix(strings.TrimSpace(d.text), aggregation))
	}
}
