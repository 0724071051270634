package adapters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	neighbors map[string]topology.Neighbor
	err       error
}

// read returns the neighbors by network interface. There are none if the file cannot be read.
func (f *lldpFile) read() (map[string]topology.Neighbor, error) {
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
	Via     string                     `json:"via"`
	Chassis map[string]json.RawMessage `json:"chassis"`
	Port    struct {
		ID lldpID `json:"id"`
	} `json:"port"`
}

// lldpID is what a chassis or a port calls itself.
type lldpID struct {
	Value string `json:"value"`
}

// lldpMaps reads one map, or a list of maps: lldpcli writes a list if there are several.
type lldpMaps []map[string]lldpInterface

func (m *lldpMaps) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return json.Unmarshal(data, (*[]map[string]lldpInterface)(m))
	}
	*m = make(lldpMaps, 1)
	return json.Unmarshal(data, &(*m)[0])
}

// ParseLLDP reads what lldpcli -f json show neighbors prints. It returns the neighbors by
// network interface. An interface at which several are seen has none, because nobody knows
// which of them is at the other end of the cable.
func ParseLLDP(text []byte) (map[string]topology.Neighbor, error) {
	var doc struct {
		LLDP *struct {
			Interface lldpMaps `json:"interface"`
		} `json:"lldp"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read neighbors by LLDP: %w; want what lldpcli -f json show neighbors prints", err)
	}
	if doc.LLDP == nil {
		return nil, errors.New("read neighbors by LLDP: no key lldp; want what lldpcli -f json show neighbors prints")
	}
	found := make(map[string]topology.Neighbor)
	several := make(map[string]bool)
	for _, interfaces := range doc.LLDP.Interface {
		for name, i := range interfaces {
			n := i.neighbor()
			if i.Via != "LLDP" || n.ChassisID == "" { // other protocols, and what lldpd says of itself
				continue
			}
			if other, seen := found[name]; seen && other != n {
				several[name] = true
			}
			found[name] = n
		}
	}
	for name := range several {
		delete(found, name)
	}
	return found, nil
}

// neighbor returns the neighbor. A chassis with a name is below its name.
func (i *lldpInterface) neighbor() topology.Neighbor {
	n := topology.Neighbor{PortID: topology.Cut(i.Port.ID.Value, topology.MaxText)}
	var id lldpID
	if json.Unmarshal(i.Chassis["id"], &id) == nil && id.Value != "" {
		n.ChassisID = topology.Cut(id.Value, topology.MaxText)
		return n
	}
	for name, chassis := range i.Chassis {
		var named struct {
			ID lldpID `json:"id"`
		}
		if len(i.Chassis) == 1 && json.Unmarshal(chassis, &named) == nil {
			n.ChassisID, n.SystemName = topology.Cut(named.ID.Value, topology.MaxText), topology.Cut(name, topology.MaxText)
		}
	}
	return n
}
