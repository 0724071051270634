// Package adapters reads the RDMA network adapters of this machine from sysfs, and the switches
// at their other ends from a file that lldpcli has written. It needs no capability and no
// library. A read may wait as long as the adapter's firmware does, so nothing else should
// wait for it.
package adapters

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
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
	topology.Adapter                // with all ports and interfaces
	none             bool           // it is no adapter of its own
	netDevs          []string       // all interfaces, also those that stand for functions
	portOf           map[string]int // the ports of interfaces
	complete         bool
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
	// Unread are the facts that could not be read, or have no room in a report.
	Unread []Unread
	// LLDP is why the file of lldpcli could not be read.
	LLDP error
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
	k := slices.IndexFunc(a.Ports, func(p topology.AdapterPort) bool { return p.Port == u.Port })
	switch {
	case u.Fact == NodeGUID:
		return a.NodeGUID != ""
	case u.Fact == Ports:
		return len(a.Ports) > 0
	case u.Fact == ActiveLink:
		return k >= 0
	case k < 0: // the port has no room, and nothing is missing from the report
		return true
	case u.Fact == PortGUID:
		return a.Ports[k].GUID != ""
	case u.Fact == SwitchPort:
		return a.Ports[k].Neighbor != (topology.Neighbor{})
	}
	return a.Ports[k].LinkLayer != ""
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

// Fact is a fact of an adapter or a port.
type Fact string

// The facts that every adapter or port has, and the two that a port may have.
const (
	NodeGUID   Fact = "node GUID"
	PortGUID   Fact = "port GUID"
	LinkLayer  Fact = "link layer"
	Ports      Fact = "ports"
	ActiveLink Fact = "active link"
	SwitchPort Fact = "switch port"
)

// Read reads the adapters. Software devices, functions of SR-IOV, subfunctions, SMI sub-devices and
// the functions by which NVSwitches are managed are not among them.
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
	for _, target := range devices(class, entries) {
		path := pathOf(target)
		a := &adapterReader{Reading: out, known: before[target], dir: filepath.Join(class, target), device: filepath.Join(class, target, "../.."), neighbors: neighbors}
		a.none = a.none || len(path) == 0 || !a.complete && (exists(filepath.Join(a.device, "physfn")) || managesSwitch(a.device))
		if !a.none {
			a.Name, a.PCIBusID, a.GPUs = filepath.Base(target), path.busID(), path.nearest(gpus)
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
	return out, nil
}

// devices returns where the links of a class lead, one for each PCI function. An adapter with several
// planes has SMI sub-devices beside it, which have no GID.
func devices(class string, entries []os.DirEntry) (targets []string) {
	hasGID := func(target string) bool { return exists(filepath.Join(class, target, "ports/1/gids/0")) }
	places := make(map[string]int)
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(class, e.Name()))
		if err != nil {
			continue // it has gone
		}
		at, found := places[filepath.Dir(target)]
		if !found {
			places[filepath.Dir(target)] = len(targets)
			targets = append(targets, target)
		} else if !hasGID(targets[at]) && hasGID(target) {
			targets[at] = target
		}
	}
	return targets
}

// maxVPD is the most bytes that the vital product data of a PCI function has.
const maxVPD = 1 << 15

// managesSwitch reports whether a function is for the management of an NVSwitch. It has no port to a
// fabric, and its vital product data say SMDL=SW_MNG.
func managesSwitch(device string) bool {
	f, err := os.Open(filepath.Join(device, "vpd"))
	if err != nil {
		return false // many adapters have none
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxVPD)) // after an error what was read counts
	return bytes.Contains(data, []byte("SW_MNG"))
}

// adapterReader reads one adapter, whose folder and whose device's folder are known.
type adapterReader struct {
	*Reading
	known
	dir, device string
	neighbors   map[string][]topology.Neighbor
}

func (a *adapterReader) read() {
	if !a.complete {
		a.complete = true
		a.facts()
	}
	a.interfaces()
	a.Ports = slices.Clone(a.Ports)
	worth := make(map[int]int, len(a.Ports)) // 1 for an interface, and 2 for an active link
	for _, number := range a.portOf {
		worth[number] = 1
	}
	for i := range a.Ports {
		if p := &a.Ports[i]; a.link(p) {
			worth[p.Port] += 2
		}
	}
	a.cables()
	out := a.Adapter
	out.Ports = a.best(worth)
	out.NetDevs = slices.Clone(a.NetDevs[:min(len(a.NetDevs), maxNetDevs)])
	a.Adapters = append(a.Adapters, out)
}

// best returns the ports of most worth, as many as a report holds. A link that it leaves out is noted.
func (a *adapterReader) best(worth map[int]int) []topology.AdapterPort {
	ports := slices.SortedStableFunc(slices.Values(a.Ports), func(p, q topology.AdapterPort) int {
		return cmp.Compare(worth[q.Port], worth[p.Port])
	})
	keep := ports[:min(len(ports), maxPorts)]
	for _, p := range ports[len(keep):] {
		a.Unread = slices.DeleteFunc(a.Unread, func(u Unread) bool { return u.PCIBusID == a.PCIBusID && u.Port == p.Port })
		// An Ethernet link without an interface is that of a function of SR-IOV.
		if worth[p.Port] == 3 || worth[p.Port] == 2 && p.LinkLayer == topology.LinkInfiniBand {
			a.lack(ActiveLink, p.Port, errNoRoom)
		}
	}
	slices.SortFunc(keep, byNumber)
	return keep
}

// errNoRoom: an adapter has more links than a report holds.
var errNoRoom = fmt.Errorf("a report holds %d ports of an adapter", maxPorts)

func byNumber(p, q topology.AdapterPort) int { return cmp.Compare(p.Port, q.Port) }

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
		if number, err := strconv.Atoi(e.Name()); err == nil && number >= 1 {
			a.Ports = append(a.Ports, a.port(number))
		}
	}
	slices.SortFunc(a.Ports, byNumber)
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
		a.lack(fact, port, err)
	}
}

// lack notes that a report lacks a fact.
func (a *adapterReader) lack(fact Fact, port int, err error) {
	a.Unread = append(a.Unread, Unread{Fact: fact, Adapter: a.Name, PCIBusID: a.PCIBusID, Port: port, Err: err})
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

// link reads the rate of a port's link, and reports whether the link is active.
func (a *adapterReader) link(p *topology.AdapterPort) bool {
	p.RateGbps, p.LastGbps, p.Neighbor = 0, 0, topology.Neighbor{}
	dir := a.dir + "/ports/" + strconv.Itoa(p.Port)
	if !isActive(dir) {
		return false
	}
	rate, _ := textOf(dir, "rate")
	if !isActive(dir) { // a link that has gone down meanwhile has another rate, which means nothing
		return false
	}
	p.RateGbps = gbpsOf(rate)
	p.LastGbps = p.RateGbps
	return true
}

// isActive reads the state of a port, such as "4: ACTIVE". A state that cannot be read is not active.
func isActive(dir string) bool {
	state, _ := textOf(dir, "state")
	_, word, _ := strings.Cut(state, ": ")
	return word == "ACTIVE" || word == "ACTIVE_DEFER"
}

// representor matches the port names of network interfaces that stand for functions of an
// adapter.
var representor = regexp.MustCompile(`^(c[0-9]+)?pf[0-9]+(vf|sf)[0-9]+$`)

// interfaces reads the adapter's network interfaces, and whose they are.
func (a *adapterReader) interfaces() {
	entries, _ := os.ReadDir(filepath.Join(a.device, "net")) // InfiniBand needs none
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if slices.Equal(all, a.netDevs) {
		return
	}
	a.netDevs, a.NetDevs, a.portOf = all, nil, make(map[string]int)
	for _, name := range all {
		if port, _ := textOf(a.device, "net/"+name+"/phys_port_name"); representor.MatchString(port) {
			continue
		}
		a.NetDevs = append(a.NetDevs, name)
		if len(a.Ports) == 1 {
			a.portOf[name] = a.Ports[0].Port
		} else if text, err := textOf(a.device, "net/"+name+"/dev_port"); err == nil { // one function has several ports
			if port, err := strconv.Atoi(text); err == nil {
				a.portOf[name] = port + 1
			}
		}
	}
}

// cables reads who is at the other ends of the interfaces.
func (a *adapterReader) cables() {
	for _, name := range a.NetDevs {
		at := slices.IndexFunc(a.Ports, func(p topology.AdapterPort) bool { return p.Port == a.portOf[name] })
		if at < 0 {
			continue
		}
		p, seen := &a.Ports[at], a.neighbors[name]
		switch {
		case len(seen) == 0 || p.Neighbor != (topology.Neighbor{}):
		case len(seen) == 1:
			p.Neighbor = seen[0]
		default:
			a.lack(SwitchPort, p.Port, fmt.Errorf("LLDP shows %d neighbors at %s, and not exactly one says that it is a switch; one is %s",
				len(seen), name, topology.Cut(cmp.Or(seen[0].SystemName, seen[0].ChassisID), 64)))
		}
	}
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
