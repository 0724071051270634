package hour

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Boot is the boot of all nodes.
const Boot = "boot-1"

// Report is what the probe would read of the node.
func (n *Node) Report() *topology.Node {
	out := &topology.Node{Name: n.Name, BootID: Boot}
	for i := range n.Devices {
		d := &n.Devices[i]
		if !d.Whole() && i > 0 {
			g := &out.GPUs[0]
			g.MIG = append(g.MIG, topology.MIGInstance{UUID: d.OwnUUID(), Profile: d.Profile, GPUInstanceID: d.Instance})
			continue
		}
		id := d.GPU
		g := topology.GPU{Index: d.GPU, UUID: d.UUID, Minor: &id, Product: d.Model, DCGMID: &id, Fabric: n.fabric()}
		if !d.Whole() {
			g.MIG = []topology.MIGInstance{{UUID: d.OwnUUID(), Profile: d.Profile, GPUInstanceID: d.Instance}}
		}
		out.GPUs = append(out.GPUs, g)
		if d.Held.Xid != 0 {
			out.Problems = append(out.Problems, topology.Finding{Reason: topology.ReasonXidCritical, Message: "x"})
		}
	}
	if n.IMEX != "" {
		major := 234
		out.IMEX = &topology.IMEX{ChannelMajor: &major, DaemonState: n.IMEX}
	}
	return out
}

func (n *Node) fabric() topology.Fabric {
	if n.Clique == "" {
		return topology.Fabric{State: topology.FabricNotSupported}
	}
	text, clique, _ := strings.Cut(n.Clique, ".")
	uuid, err1 := topology.ParseUUID(text)
	id, err2 := strconv.ParseUint(clique, 10, 32)
	if err1 != nil || err2 != nil {
		panic("clique " + n.Clique) // of the script
	}
	return topology.Fabric{ClusterUUID: uuid, CliqueID: uint32(id), State: topology.FabricCompleted, Health: topology.Health(n.Health)}
}

var emptyLabel = regexp.MustCompile(`\w+="",?`)

// SeriesOf reads a text of series; labels are sorted, and empty ones are none.
func SeriesOf(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") || !strings.HasPrefix(line, "quoin_") {
			continue
		}
		line = strings.TrimSpace(line)
		space := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:space], "}"), "{")
		set := strings.Split(strings.TrimSuffix(emptyLabel.ReplaceAllString(labels, ""), ","), `",`)
		for i := range set {
			set[i] = strings.TrimSuffix(set[i], `"`)
		}
		slices.Sort(set)
		all[name+"{"+strings.Join(set, `",`)+"}"] = value
	}
	return all
}
