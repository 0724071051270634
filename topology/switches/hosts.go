package switches

import (
	"regexp"
	"slices"
	"strings"
)

// Nameless is an adapter whose description names no host.
type Nameless struct {
	// GUID is the adapter's, or in the ports report the port's, in 16 hexadecimal digits.
	GUID        string
	Description string
}

// deviceName is the second word of an adapter's description, such as mlx5_0 or HCA-1.
var deviceName = regexp.MustCompile(`^(HCA-[0-9]+|(mlx[0-9]*|hfi[0-9]*|qib|ib|ibp|roce|rocep|irdma|bnxt_re|rdma)_?[0-9]+[a-z0-9_]*)$`)

// Hosts returns the hosts that adapters' descriptions name, such as "n07 mlx5_0", sorted by name, and
// the adapters that name none, sorted by GUID. Descriptions are a weak witness: a host that did not
// write its own has its adapter's product there. So Hosts is for those that have no reports.
func Hosts(fabrics []*Fabric) ([]Node, []Nameless) {
	type found struct{ host, text string }
	adapters := map[string]found{}
	for _, f := range fabrics {
		for i := range f.devices {
			d := &f.devices[i]
			if d.kind != adapterKind || d.inBox {
				continue
			}
			adapters[switchID(d.guid)] = found{hostOf(d.text), d.text}
		}
	}
	of := map[string][]Adapter{}
	var nameless []Nameless
	for guid, f := range adapters {
		if f.host == "" {
			nameless = append(nameless, Nameless{guid, f.text})
			continue
		}
		of[f.host] = append(of[f.host], Adapter{GUIDs: []string{guid}})
	}
	var hosts []Node
	for name, adapters := range of {
		slices.SortFunc(adapters, func(a, b Adapter) int { return strings.Compare(a.GUIDs[0], b.GUIDs[0]) })
		hosts = append(hosts, Node{Name: name, Adapters: adapters})
	}
	slices.SortFunc(hosts, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(nameless, func(a, b Nameless) int { return strings.Compare(a.GUID, b.GUID) })
	return hosts, nameless
}

// hostOf returns the host that an adapter's description names, or "".
func hostOf(text string) string {
	switch words := strings.Fields(text); {
	case len(words) == 1 && !deviceName.MatchString(words[0]):
		return words[0]
	case len(words) == 2 && deviceName.MatchString(words[1]):
		return words[0]
	}
	return ""
}
