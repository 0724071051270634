package adapters

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/topology"
)

// maxLLDP is the most bytes of a file of lldpcli. A neighbor has about 2 KB.
const maxLLDP = 1 << 20

// lldpFile is a file that lldpcli has written. It is read again when it has changed.
type lldpFile struct {
	path      string
	changed   time.Time
	size      int64
	neighbors map[string][]topology.Neighbor
	err       error
}

// read returns the neighbors by network interface. There are none if the file cannot be read.
func (f *lldpFile) read() (map[string][]topology.Neighbor, error) {
	if f.path == "" {
		return nil, nil
	}
	info, err := os.Stat(f.path)
	if err == nil && f.changed.Equal(info.ModTime()) && f.size == info.Size() {
		return f.neighbors, f.err
	}
	*f = lldpFile{path: f.path}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxLLDP {
		return nil, fmt.Errorf("%s: larger than %d bytes", f.path, maxLLDP)
	}
	data, err := atomicfile.Read(f.path)
	if err != nil { // rights may be mended while the file stays as it is
		return nil, err
	}
	f.changed, f.size = info.ModTime(), info.Size()
	if f.neighbors, err = ParseLLDP(data); err != nil {
		f.err = fmt.Errorf("%s: %w", f.path, err)
	}
	return f.neighbors, f.err
}

// lldpInterface is what lldpcli says of a network interface and one neighbor of it.
type lldpInterface struct {
	Via     string      `json:"via"`
	Chassis lldpChassis `json:"chassis"`
	Port    struct {
		ID lldpID `json:"id"`
	} `json:"port"`
}

// lldpChassis is a neighbor, by key or below its name.
type lldpChassis map[string]json.RawMessage

// lldpID is what a chassis or a port calls itself.
type lldpID struct {
	Value string `json:"value"`
}

// lldpCapability is what a chassis can do, such as Bridge.
type lldpCapability struct {
	Type    string `json:"type"`
	Enabled bool   `json:"enabled"`
}

// lldpList reads one value, or a list of values: lldpcli writes a list if there are several.
type lldpList[T any] []T

func (l *lldpList[T]) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return json.Unmarshal(data, (*[]T)(l))
	}
	*l = make(lldpList[T], 1)
	return json.Unmarshal(data, &(*l)[0])
}

// ParseLLDP reads what lldpcli -f json show neighbors prints. It returns the neighbors by network
// interface: the only one, the only one that says it is a switch, or all. The lldpd of a BlueField
// answers beside the switch. Of several, nobody knows which is at the other end of the cable.
func ParseLLDP(text []byte) (map[string][]topology.Neighbor, error) {
	var doc struct {
		LLDP *struct {
			Interface lldpList[map[string]lldpInterface] `json:"interface"`
		} `json:"lldp"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read neighbors by LLDP: %w; want what lldpcli -f json show neighbors prints", err)
	}
	if doc.LLDP == nil {
		return nil, errors.New("read neighbors by LLDP: no key lldp; want what lldpcli -f json show neighbors prints")
	}
	seen := make(map[string]map[topology.Neighbor]bool) // by interface: who, and whether it is a switch
	for _, interfaces := range doc.LLDP.Interface {
		for name, i := range interfaces {
			n, isSwitch := i.neighbor()
			if i.Via != "LLDP" || n.ChassisID == "" { // other protocols, and what lldpd says of itself
				continue
			}
			if seen[name] == nil {
				seen[name] = make(map[topology.Neighbor]bool)
			}
			seen[name][n] = seen[name][n] || isSwitch
		}
	}
	found := make(map[string][]topology.Neighbor, len(seen))
	for name, of := range seen {
		all := slices.SortedFunc(maps.Keys(of), func(a, b topology.Neighbor) int {
			return cmp.Or(cmp.Compare(a.SystemName, b.SystemName), cmp.Compare(a.ChassisID, b.ChassisID), cmp.Compare(a.PortID, b.PortID))
		})
		found[name] = all
		if switches := slices.DeleteFunc(slices.Clone(all), func(n topology.Neighbor) bool { return !of[n] }); len(switches) == 1 {
			found[name] = switches
		}
	}
	return found, nil
}

// neighbor returns the neighbor, and whether it says that it is a switch. A chassis with a name is
// below its name.
func (i *lldpInterface) neighbor() (n topology.Neighbor, isSwitch bool) {
	n.PortID = topology.Cut(i.Port.ID.Value, topology.MaxText)
	chassis := i.Chassis
	if chassis.id() == "" && len(chassis) == 1 {
		for name, named := range i.Chassis {
			chassis, n.SystemName = nil, topology.Cut(name, topology.MaxText)
			_ = json.Unmarshal(named, &chassis) // one without an id is none
		}
	}
	n.ChassisID = topology.Cut(chassis.id(), topology.MaxText)
	var can lldpList[lldpCapability]
	_ = json.Unmarshal(chassis["capability"], &can) // many say none
	return n, slices.ContainsFunc(can, func(c lldpCapability) bool { return c.Enabled && (c.Type == "Bridge" || c.Type == "Router") })
}

// id returns what the chassis calls itself, "" if it does not say.
func (c lldpChassis) id() string {
	var id lldpID
	if json.Unmarshal(c["id"], &id) != nil {
		return ""
	}
	return id.Value
}
