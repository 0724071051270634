// Package adapters reads the RDMA network adapters of this machine from sysfs, and the switches
// at their other ends from a file that lldpcli has written. It needs no capability and no
// library. A read may wait as long as the adapter's firmware does, so nothing else should
// wait for it.
package adapters

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// The bounds of a report, which topology.Node has as tags.
const (
	maxAdapters = 32
	maxPorts    = 4
	maxNetDevs  = 8
	maxGPUs     = 16
)

// Reader reads the adapters of one machine. It reads again only what may have changed, because
// a file of sysfs may cost a question to the adapter's firmware.
type Reader struct {
	sys  string
	lldp *lldpFile
	// known are the adapters of the last reading by where their link leads. Those with a fact
	// that could not be read are not among them. A name may be that of no adapter.
	known map[string]known
}

// known is what the last reading found.
type known struct {
	topology.Adapter
	none     bool     // it is no adapter of its own
	netDevs  []string // all interfaces, also those that stand for functions
	complete bool
}

// New returns a reader. sys is where the machine's sysfs is mounted. lldp is the path of
// what lldpcli printed, empty if there is no such file.
func New(sys, lldp string) *Reader { return &Reader{sys: sys, lldp: &lldpFile{path: lldp}} }

// Reading is what a machine shows at one moment.
type Reading struct {
	// Adapters are sorted by name. A port without an active link has no rate.
	Adapters []topology.Adapter
	// More is how many adapters there are beside these: a report has 32.
	More int
	// Links are the states that could be read.
	Links []Link
	// Unread are the facts that could not be read.
	Unread []Unread
	// LLDP is why the file of lldpcli could not be read.
	LLDP error
}

// Link is the state of a port.
type Link struct {
	Adapter string
	Port    int
	Active  bool
	// RateGbps is 0 if the link is not active, or if its rate is not known.
	RateGbps int
}

// Unread is a fact that could not be read.
type Unread struct {
	Fact
	Adapter, PCIBusID string
	Port              int // 0: a fact of the adapter
	Err               error
}

// String returns a text such as "port GUID of mlx5_0 port 1: invalid argument".
func (u *Unread) String() string {
	of := u.Adapter
	if u.Port > 0 {
		of += " port " + strconv.Itoa(u.Port)
	}
	return fmt.Sprintf("%s of %s: %v", u.Fact, of, u.Err)
}

// Of reports whether both are about one fact.
func (u *Unread) Of(v *Unread) bool {
	return u.Fact == v.Fact && u.PCIBusID == v.PCIBusID && u.Port == v.Port
}

// Known reports whether the fact is known all the same, or its adapter is not among these.
func (u *Unread) Known(list []topology.Adapter) bool {
	i := slices.IndexFunc(list, func(a topology.Adapter) bool { return a.PCIBusID == u.PCIBusID })
	if i < 0 {
		return true
	}
	a := &list[i]
	var p topology.AdapterPort
	if k := slices.IndexFunc(a.Ports, func(p topology.AdapterPort) bool { return p.Port == u.Port }); k >= 0 {
		p = a.Ports[k]
	}
	switch u.Fact {
	case NodeGUID:
		return a.NodeGUID != ""
	case Ports:
		return len(a.Ports) > 0
	case PortGUID:
		return p.GUID != ""
	}
	return p.LinkLayer != ""
}

// Problems returns the problems of the adapters in a report: links that are slow, facts that could not be
// read, and adapters for which it has no room.
func Problems(n *topology.Node, unread []Unread, more int) []topology.Finding {
	found := n.SlowAdapters()
	for i := range unread {
		found = append(found, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: unread[i].String()})
	}
	if more > 0 {
		found = append(found, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: fmt.Sprintf("the machine has %d more network adapters than a report holds", more)})
	}
	return found
}

// Fact is one of the facts that every adapter, or every port, has.
type Fact string

// The facts that every adapter or port has.
const (
	NodeGUID  Fact = "node GUID"
	PortGUID  Fact = "port GUID"
	LinkLayer Fact = "link layer"
	Ports     Fact = "ports"
)

// Read reads the adapters. Software devices, functions of SR-IOV and subfunctions are not
// among them.
func (r *Reader) Read() (*Reading, error) {
	class := filepath.Join(r.sys, "class/infiniband")
	entries, err := os.ReadDir(class)
	if errors.Is(err, fs.ErrNotExist) { // a machine without adapters has no such class, but others
		_, err = os.Stat(filepath.Dir(class))
	}
	if err != nil {
		return nil, fmt.Errorf("list network adapters: %w", err)
	}
	neighbors, lldp := r.lldp.read()
	out := &Reading{LLDP: lldp}
	var gpus []pciPath
	if len(entries) > 0 {
		gpus = gpuPaths(r.sys)
	}
	before := r.known
	r.known = make(map[string]known, len(entries))
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(class, e.Name()))
		if err != nil {
			continue // it has gone
		}
		path := pathOf(target)
		a := &adapterReader{Reading: out, known: before[target], dir: filepath.Join(class, target), device: filepath.Join(class, target, "../.."), neighbors: neighbors}
		a.none = a.none || len(path) == 0 || !a.complete && exists(filepath.Join(a.device, "physfn"))
		if !a.none {
			a.Name, a.PCIBusID, a.GPUs = e.Name(), path.busID(), path.nearest(gpus)
			a.read()
		}
		if a.none || a.complete {
			r.known[target] = a.known
		}
	}
	slices.SortFunc(out.Adapters, func(a, b topology.Adapter) int {
		return cmp.Or(cmp.Compare(min(len(b.GPUs), 1), min(len(a.GPUs), 1)), hostlist.Compare(a.Name, b.Name))
	})
	out.More = max(len(out.Adapters)-maxAdapters, 0)
	out.Adapters = out.Adapters[:len(out.Adapters)-out.More] // those for the GPUs are first
	sortByName(out.Adapters)
	out.Links = slices.DeleteFunc(out.Links, func(l Link) bool {
		return !slices.ContainsFunc(out.Adapters, func(a topology.Adapter) bool { return a.Name == l.Adapter })
	})
	return out, nil
}

// adapterReader reads one adapter, whose folder and whose device's folder are known.
type adapterReader struct {
	*Reading
	known
	dir, device string
	neighbors   map[string]topology.Neighbor
}

func (a *adapterReader) read() {
	if !a.complete {
		a.complete = true
		a.facts()
	}
	a.NetDevs, a.Ports = slices.Clone(a.NetDevs), slices.Clone(a.Ports)
	for i := range a.Ports {
		a.link(&a.Ports[i])
	}
	a.interfaces()
	a.Adapters = append(a.Adapters, a.Adapter)
}

// facts reads what stays.
func (a *adapterReader) facts() {
	a.Model, _ = textOf(a.dir, "hca_type") // some drivers have none
	a.Model = topology.Cut(a.Model, topology.MaxText)
	guid, err := textOf(a.dir, "node_guid")
	if err == nil {
		a.NodeGUID, err = guidOf(guid)
	}
	a.note(NodeGUID, 0, err)
	if text, err := textOf(a.device, "numa_node"); err == nil {
		if numa, err := strconv.Atoi(text); err == nil && numa >= 0 {
			a.NUMANode = &numa
		}
	}
	entries, err := os.ReadDir(filepath.Join(a.dir, "ports"))
	a.note(Ports, 0, err)
	for _, e := range entries {
		if number, err := strconv.Atoi(e.Name()); err == nil && number >= 1 && len(a.Ports) < maxPorts {
			a.Ports = append(a.Ports, a.port(number))
		}
	}
	slices.SortFunc(a.Ports, func(p, q topology.AdapterPort) int { return cmp.Compare(p.Port, q.Port) })
}

// textOf returns what a file says.
func textOf(dir, file string) (string, error) {
	data, err := os.ReadFile(dir + "/" + file)
	return strings.TrimSpace(string(data)), err
}

// note notes that a fact could not be read.
func (a *adapterReader) note(fact Fact, port int, err error) {
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err // the fact says which file it is
		}
		a.complete = false
		a.Unread = append(a.Unread, Unread{Fact: fact, Adapter: a.Name, PCIBusID: a.PCIBusID, Port: port, Err: err})
	}
}

// port reads what stays of a port.
func (a *adapterReader) port(number int) topology.AdapterPort {
	p := topology.AdapterPort{Port: number}
	dir := a.dir + "/ports/" + strconv.Itoa(number)
	layer, err := textOf(dir, "link_layer")
	a.note(LinkLayer, number, err)
	switch layer {
	case topology.LinkEthernet:
		p.LinkLayer = layer
	case topology.LinkInfiniBand:
		p.LinkLayer = layer
		gid, err := textOf(dir, "gids/0")
		if err == nil {
			p.GUID, err = guidOf(gid[max(len(gid)-19, 0):]) // the prefix of the subnet is before it
		}
		a.note(PortGUID, number, err)
	}
	return p
}

// link reads the state of a port's link.
func (a *adapterReader) link(p *topology.AdapterPort) {
	p.RateGbps, p.Neighbor = 0, topology.Neighbor{}
	dir := a.dir + "/ports/" + strconv.Itoa(p.Port)
	state, err := textOf(dir, "state") // such as "4: ACTIVE"
	if err != nil || state == "" {
		return
	}
	_, word, _ := strings.Cut(state, ": ")
	l := Link{Adapter: a.Name, Port: p.Port, Active: word == "ACTIVE" || word == "ACTIVE_DEFER"}
	if l.Active {
		rate, _ := textOf(dir, "rate") // a link that is down has another rate, which means nothing
		l.RateGbps = gbpsOf(rate)
		p.RateGbps = l.RateGbps
	}
	a.Links = append(a.Links, l)
}

// representor matches the port names of network interfaces that stand for functions of an
// adapter.
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// interfaces reads the adapter's network interfaces, and who is at their other ends.
func (a *adapterReader) interfaces() {
	entries, _ := os.ReadDir(filepath.Join(a.device, "net")) // InfiniBand needs none
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if !slices.Equal(all, a.netDevs) {
		a.netDevs, a.NetDevs = all, nil
		for _, name := range all {
			if port, _ := textOf(a.device, "net/"+name+"/phys_port_name"); !representor.MatchString(port) && len(a.NetDevs) < maxNetDevs {
				a.NetDevs = append(a.NetDevs, name)
			}
		}
	}
	for _, name := range a.NetDevs {
		if neighbor, seen := a.neighbors[name]; seen {
			if p := a.portOf(name); p != nil && p.Neighbor == (topology.Neighbor{}) {
				p.Neighbor = neighbor
			}
		}
	}
}

// portOf returns the port of a network interface. Where one function has two ports, the
// interface says whose it is.
func (a *adapterReader) portOf(netDev string) *topology.AdapterPort {
	if len(a.Ports) == 1 {
		return &a.Ports[0]
	}
	text, _ := textOf(a.device, "net/"+netDev+"/dev_port")
	port, err := strconv.Atoi(text)
	at := slices.IndexFunc(a.Ports, func(p topology.AdapterPort) bool { return p.Port == port+1 })
	if err != nil || at < 0 {
		return nil
	}
	return &a.Ports[at]
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// errGUID: a text is no GUID.
var errGUID = errors.New("want 16 hexadecimal digits in four groups")

// guidOf returns the digits of a GUID such as 946d:ae03:0000:1234, and "" for one that nobody set.
func guidOf(text string) (string, error) {
	digits := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if len(digits) != 16 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%q: %w", topology.Cut(text, 64), errGUID)
	}
	if strings.Trim(digits, "0") == "" {
		return "", nil
	}
	return digits, nil
}

// gbpsOf returns the Gb/s of a rate such as "400 Gb/sec (4X NDR)", 0 if it is not known.
func gbpsOf(rate string) int {
	number, _, _ := strings.Cut(rate, " ")
	if gbps, err := strconv.ParseFloat(number, 64); err == nil && gbps > 0 && gbps < 1e6 {
		return int(gbps)
	}
	return 0
}

// sortByName puts mlx5_2 before mlx5_10.
func sortByName(list []topology.Adapter) {
	slices.SortFunc(list, func(a, b topology.Adapter) int { return hostlist.Compare(a.Name, b.Name) })
}
