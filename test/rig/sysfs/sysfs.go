// Package sysfs makes folders that look as sysfs does on a machine with network adapters and
// GPUs, from a short table of them. Links are as the kernel makes them: a class has links
// to devices, which are below the PCI bridges that they are on.
package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree is the folder of a sysfs.
type Tree string

// Adapter is one row of a table.
type Adapter struct {
	Name string
	// Path is the way on PCI: the root, then functions, such as pci0000:15 0000:15:01.0 0000:18:00.0.
	Path string
	// Model is the hca_type. GUID is the low half of node GUID and port GUID, whose upper half
	// is 946dae03.
	Model string
	GUID  uint32
	// Ports are "IB 400 ACTIVE", "Ethernet 100 DOWN" and the like. A word more is the text of
	// the port's rate file without its unit.
	Ports []string
	// NetDevs are the interfaces of the ports in their order, empty for a port without one.
	NetDevs []string
	NUMA    int
	// VF: it is a function of SR-IOV. SMI: it is a sub-device of another one, without GIDs.
	VF, SMI bool
	// VPD are its vital product data.
	VPD string
}

// Site is a machine: its adapters, and the paths of its GPUs on PCI.
type Site struct {
	Adapters []Adapter
	GPUs     []string
}

// Make makes the folder of a machine.
func Make(t testing.TB, s Site) Tree {
	t.Helper()
	tree := Tree(t.TempDir())
	for _, dir := range []string{"class/net", "bus/pci/drivers/nvidia", "devices"} {
		tree.mkdir(t, dir)
	}
	for _, path := range s.GPUs {
		device := "devices/" + strings.ReplaceAll(path, " ", "/")
		tree.mkdir(t, device)
		tree.link(t, "../../../../"+device, "bus/pci/drivers/nvidia/"+filepath.Base(device))
	}
	tree.Write(t, "bus/pci/drivers/nvidia/new_id", "")
	for i := range s.Adapters {
		tree.add(t, &s.Adapters[i])
	}
	return tree
}

func (tree Tree) add(t testing.TB, a *Adapter) {
	t.Helper()
	device := "devices/" + strings.ReplaceAll(a.Path, " ", "/")
	home := device + "/infiniband/" + a.Name
	tree.mkdir(t, "class/infiniband")
	tree.mkdir(t, home)
	tree.link(t, "../../"+home, "class/infiniband/"+a.Name)
	if strings.Contains(a.Path, "pci") {
		tree.link(t, "../..", home+"/device")
	}
	tree.Write(t, device+"/numa_node", fmt.Sprint(a.NUMA))
	if a.VF {
		tree.link(t, "../0000:00:00.0", device+"/physfn")
	}
	if a.VPD != "" {
		tree.Write(t, device+"/vpd", a.VPD)
	}
	guid := fmt.Sprintf("946d:ae03:%04x:%04x", a.GUID>>16, a.GUID&0xffff)
	tree.Write(t, home+"/node_guid", guid)
	tree.Write(t, home+"/hca_type", a.Model)
	for i, text := range a.Ports {
		dir := fmt.Sprintf("%s/ports/%d/", home, i+1)
		layer, rest, _ := strings.Cut(text, " ")
		id := "ae6d:96ff:fe03:0001" // of a MAC address
		if layer == "IB" {
			layer, id = "InfiniBand", guid
		}
		tree.Write(t, dir+"link_layer", layer)
		if !a.SMI {
			tree.Write(t, dir+"gids/0", "fe80:0000:0000:0000:"+id)
		}
		tree.Set(t, a, i+1, rest)
	}
	for i, name := range a.NetDevs {
		if name == "" {
			continue
		}
		tree.Write(t, device+"/net/"+name+"/dev_port", fmt.Sprint(i))
		tree.Write(t, device+"/net/"+name+"/phys_port_name", "p0")
	}
}

// Home is the adapter's own folder.
func (tree Tree) Home(a *Adapter) string {
	return filepath.Join("devices", strings.ReplaceAll(a.Path, " ", "/"), "infiniband", a.Name)
}

// Set sets rate and state of a port, such as "400 ACTIVE". A port that is down has the rate that
// mlx5 says then.
func (tree Tree) Set(t testing.TB, a *Adapter, port int, to string) {
	t.Helper()
	rate, state, _ := strings.Cut(to, " ")
	states := map[string]string{"ACTIVE": "4: ACTIVE", "DOWN": "1: DOWN", "INIT": "2: INIT"}
	lane := map[string]string{"10": "10 Gb/sec (4X SDR)", "40": "40 Gb/sec (4X QDR)", "100": "100 Gb/sec (4X EDR)", "200": "200 Gb/sec (4X HDR)", "400": "400 Gb/sec (4X NDR)", "800": "800 Gb/sec (4X XDR)"}
	if state != "ACTIVE" && rate != "" {
		rate = "10"
		if strings.HasPrefix(a.Ports[port-1], "Ethernet") {
			rate = "40"
		}
	}
	dir := fmt.Sprintf("%s/ports/%d/", tree.Home(a), port)
	if state != "ACTIVE" { // no active link has the rate of one that is down
		tree.Write(t, dir+"state", states[state])
	}
	tree.Write(t, dir+"rate", lane[rate])
	tree.Write(t, dir+"state", states[state])
}

// Write writes a file.
func (tree Tree) Write(t testing.TB, file, text string) {
	t.Helper()
	tree.mkdir(t, filepath.Dir(file))
	if err := os.WriteFile(filepath.Join(string(tree), file), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Remove removes a file or folder.
func (tree Tree) Remove(t testing.TB, file string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(string(tree), file)); err != nil {
		t.Fatal(err)
	}
}

func (tree Tree) mkdir(t testing.TB, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(string(tree), dir), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (tree Tree) link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(string(tree), name)); err != nil {
		t.Fatal(err)
	}
}
