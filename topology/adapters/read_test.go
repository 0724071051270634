package adapters_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/sysfs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// read reads a tree, and holds that its adapters are a report.
func read(t testing.TB, tree sysfs.Tree) *adapters.Reading {
	t.Helper()
	r, err := adapters.New(string(tree), "").Read()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.EncodeReport(&topology.Node{Name: "n1", Adapters: r.Adapters}); err != nil {
		t.Error(err)
	}
	return r
}

// lines returns a line for each adapter, with its role in front.
func lines(list []topology.Adapter) (out []string) {
	compute := (&topology.Node{Adapters: list}).ComputeAdapters(nil).Adapters
	for _, a := range list {
		role := "other"
		if slices.ContainsFunc(compute, func(c topology.Adapter) bool { return c.Name == a.Name }) {
			role = "compute"
		}
		numa := "-"
		if a.NUMANode != nil {
			numa = fmt.Sprint(*a.NUMANode)
		}
		parts := []string{fmt.Sprintf("%s %s %s %s %s numa %s", role, a.Name, a.Model, a.NodeGUID, a.PCIBusID, numa)}
		for _, p := range a.Ports {
			parts = append(parts, fmt.Sprintf("%d %s %s %d", p.Port, p.LinkLayer, p.GUID, p.RateGbps))
		}
		out = append(out, strings.Join(append(parts, fmt.Sprint(a.NetDevs, " ", a.GPUs)), ", "))
	}
	return out
}

func TestMachines(t *testing.T) {
	for _, tt := range []struct {
		name string
		site sysfs.Site
		want []string
	}{
		{"DGX H100", sysfs.DGXH100(), []string{
			"compute mlx5_0 MT4129 946dae0300001000 00000000:18:00.0 numa 0, 1 InfiniBand 946dae0300001000 400, [ibp24s0] [00000000:1B:00.0]",
			"other mlx5_1 MT4129 946dae0300001001 00000000:26:00.0 numa 0, 1 InfiniBand 946dae0300001001 400, [ibp38s0f0] []",
			"other mlx5_2 MT4129 946dae0300001002 00000000:26:00.1 numa 0, 1 Ethernet  200, [enp38s0f1np1] []",
			"compute mlx5_3 MT4129 946dae0300001003 00000000:3A:00.0 numa 0, 1 InfiniBand 946dae0300001003 400, [ibp58s0] [00000000:3D:00.0]",
			"compute mlx5_4 MT4129 946dae0300001004 00000000:4B:00.0 numa 0, 1 InfiniBand 946dae0300001004 400, [ibp75s0] [00000000:4E:00.0]",
			"compute mlx5_5 MT4129 946dae0300001005 00000000:5C:00.0 numa 0, 1 InfiniBand 946dae0300001005 400, [ibp92s0] [00000000:5F:00.0]",
			"compute mlx5_6 MT4129 946dae0300001006 00000000:9A:00.0 numa 1, 1 InfiniBand 946dae0300001006 400, [ibp154s0] [00000000:9D:00.0]",
			"other mlx5_7 MT4129 946dae0300001007 00000000:A8:00.0 numa 1, 1 InfiniBand 946dae0300001007 400, [ibp168s0f0] []",
			"other mlx5_8 MT4129 946dae0300001008 00000000:A8:00.1 numa 1, 1 Ethernet  200, [enp168s0f1np1] []",
			"compute mlx5_9 MT4129 946dae0300001009 00000000:BA:00.0 numa 1, 1 InfiniBand 946dae0300001009 400, [ibp186s0] [00000000:BD:00.0]",
			"compute mlx5_10 MT4129 946dae030000100a 00000000:CA:00.0 numa 1, 1 InfiniBand 946dae030000100a 400, [ibp202s0] [00000000:CD:00.0]",
			"compute mlx5_11 MT4129 946dae030000100b 00000000:DA:00.0 numa 1, 1 InfiniBand 946dae030000100b 400, [ibp218s0] [00000000:DD:00.0]",
		}},
		{"HGX B200", sysfs.HGXB200(), []string{
			"compute mlx5_0 MT4129 946dae0300002000 00000000:16:00.0 numa 0, 1 InfiniBand 946dae0300002000 400, [] [00000000:15:00.0]",
			"compute mlx5_1 MT4129 946dae0300002001 00000000:1E:00.0 numa 0, 1 InfiniBand 946dae0300002001 400, [] [00000000:1D:00.0]",
			"compute mlx5_2 MT4129 946dae0300002002 00000000:36:00.0 numa 0, 1 InfiniBand 946dae0300002002 400, [] [00000000:35:00.0]",
			"compute mlx5_3 MT4129 946dae0300002003 00000000:3E:00.0 numa 0, 1 InfiniBand 946dae0300002003 400, [] [00000000:3D:00.0]",
			"compute mlx5_4 MT4129 946dae0300002004 00000000:56:00.0 numa 1, 1 InfiniBand 946dae0300002004 400, [] [00000000:55:00.0]",
			"compute mlx5_5 MT4129 946dae0300002005 00000000:5E:00.0 numa 1, 1 InfiniBand 946dae0300002005 400, [] [00000000:5D:00.0]",
			"compute mlx5_6 MT4129 946dae0300002006 00000000:76:00.0 numa 1, 1 InfiniBand 946dae0300002006 400, [] [00000000:75:00.0]",
			"compute mlx5_7 MT4129 946dae0300002007 00000000:7E:00.0 numa 1, 1 InfiniBand 946dae0300002007 400, [] [00000000:7D:00.0]",
			"other mlx5_8 MT41692 946dae0300002100 00000000:A1:00.0 numa 0, 1 Ethernet  400, [ens0np0] []",
			"other mlx5_9 MT41692 946dae0300002101 00000000:B1:00.0 numa 1, 1 Ethernet  400, [ens1np0] []",
		}},
		{"GB200", sysfs.GB200(), []string{
			"compute mlx5_0 MT4129 946dae0300003000 00000000:03:00.0 numa 0, 1 InfiniBand 946dae0300003000 400, [] []",
			"compute mlx5_1 MT4129 946dae0300003001 00000001:03:00.0 numa 0, 1 InfiniBand 946dae0300003001 400, [] []",
			"compute mlx5_2 MT4129 946dae0300003002 00000002:03:00.0 numa 1, 1 InfiniBand 946dae0300003002 400, [] []",
			"compute mlx5_3 MT4129 946dae0300003003 00000003:03:00.0 numa 1, 1 InfiniBand 946dae0300003003 400, [] []",
			"other mlx5_4 MT41692 946dae0300003100 00000006:03:00.0 numa 0, 1 Ethernet  200, [enP6p3s0f0np0] []",
			"other mlx5_5 MT41692 946dae0300003101 00000006:03:00.1 numa 0, 1 Ethernet  200, [enP6p3s0f1np1] []",
		}},
		{"bonded Ethernet", sysfs.BondedEthernet(), []string{
			"other mlx5_bond_0 MT4125 946dae0300004100 00000000:61:00.0 numa 0, 1 Ethernet  100, [enp97s0f0np0] []",
			"compute rocep38s0 MT4129 946dae0300004000 00000000:26:00.0 numa 0, 1 Ethernet  400, [enp38s0np0] [00000000:25:00.0]",
			"compute rocep70s0 MT4129 946dae0300004001 00000000:46:00.0 numa 1, 1 Ethernet  400, [enp70s0np0] [00000000:45:00.0]",
		}},
		{"a virtual machine", sysfs.Virtual(), []string{
			"compute mlx5_0 MT4126 946dae0300005000 00000000:05:00.0 numa -, 1 InfiniBand 946dae0300005000 400, [] []",
			"compute mlx5_1 MT4126 946dae0300005001 00000000:06:00.0 numa -, 1 InfiniBand 946dae0300005001 400, [] []",
			"other mlx5_2 MT4120 946dae0300005100 00000001:00:02.0 numa -, 1 Ethernet  100, [enP1s2] []",
		}},
		{"GB300 with SMI sub-devices", sysfs.GB300(), []string{
			"compute mlx5_0 MT4131 946dae0300003000 00000000:03:00.0 numa 0, 1 InfiniBand 946dae0300003000 800, [] []",
			"compute mlx5_1 MT4131 946dae0300003001 00000001:03:00.0 numa 0, 1 InfiniBand 946dae0300003001 800, [] []",
			"compute mlx5_2 MT4131 946dae0300003002 00000002:03:00.0 numa 1, 1 InfiniBand 946dae0300003002 800, [] []",
			"compute mlx5_3 MT4131 946dae0300003003 00000003:03:00.0 numa 1, 1 InfiniBand 946dae0300003003 800, [] []",
			"other mlx5_4 MT41692 946dae0300003100 00000006:03:00.0 numa 0, 1 Ethernet  200, [enP6p3s0f0np0] []",
			"other mlx5_5 MT41692 946dae0300003101 00000006:03:00.1 numa 0, 1 Ethernet  200, [enP6p3s0f1np1] []",
		}},
		{"B200 in a virtual machine", sysfs.VirtualB200(), []string{
			"compute mlx5_0 MT4129 946dae0300009000 00000000:05:00.0 numa -, 1 Ethernet  400, [gpu0] []",
			"compute mlx5_1 MT4129 946dae0300009001 00000000:06:00.0 numa -, 1 Ethernet  400, [gpu1] []",
		}},
		{name: "no adapter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := read(t, sysfs.Make(t, tt.site))
			if diff := cmp.Diff(tt.want, lines(r.Adapters)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if len(r.Unread) > 0 || r.More != 0 {
				t.Errorf("unread %v, %d more", r.Unread, r.More)
			}
		})
	}
}

// portsOf returns a line for each adapter, with its ports and their rates.
func portsOf(list []topology.Adapter) (out []string) {
	for _, a := range list {
		parts := []string{a.Name}
		for _, p := range a.Ports {
			parts = append(parts, fmt.Sprintf("%d:%d", p.Port, p.RateGbps))
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// unreadOf returns what a reading lacks.
func unreadOf(r *adapters.Reading) (out []string) {
	for i := range r.Unread {
		out = append(out, r.Unread[i].String())
	}
	return out
}

// TestManyPorts reads an adapter of twelve ports: those with a link and an interface stay, and a link
// without room is said.
func TestManyPorts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ports  map[int]string // beside 3, 6, 9 and 12, which are active and have an interface
		devs   map[int]string
		want   string
		unread []string
	}{
		{"four planes", nil, nil, "mlx5_0 3:200 6:200 9:200 12:200", nil},
		{"a plane is down", map[int]string{9: "Ethernet 200 DOWN"}, nil, "mlx5_0 3:200 6:200 9:0 12:200", nil},
		{"a plane without an interface", map[int]string{1: "Ethernet 200 ACTIVE", 9: "Ethernet 200 DOWN"}, map[int]string{9: ""}, "mlx5_0 1:200 3:200 6:200 12:200", nil},
		{"a link of a function, which has no interface", map[int]string{1: "Ethernet 200 ACTIVE"}, nil, "mlx5_0 3:200 6:200 9:200 12:200", nil},
		{"five links with interfaces", map[int]string{10: "Ethernet 200 ACTIVE"}, map[int]string{10: "eth10"}, "mlx5_0 3:200 6:200 9:200 10:200", []string{"active link of mlx5_0 port 12: a report holds 4 ports of an adapter"}},
		{"a link of InfiniBand beside", map[int]string{7: "IB 400 ACTIVE"}, nil, "mlx5_0 3:200 6:200 9:200 12:200", []string{"active link of mlx5_0 port 7: a report holds 4 ports of an adapter"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sysfs.HGXB300()
			s.Adapters = s.Adapters[:1]
			a := &s.Adapters[0]
			for port, text := range tt.ports {
				a.Ports[port-1] = text
			}
			for port, name := range tt.devs {
				a.NetDevs[port-1] = name
			}
			r := read(t, sysfs.Make(t, s))
			if diff := cmp.Diff([]string{tt.want}, portsOf(r.Adapters)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.unread, unreadOf(r)); diff != "" {
				t.Errorf("unread (-want +got)\n%s", diff)
			}
		})
	}
}

// TestUnreadPortWithoutRoom: what cannot be read of a port counts only if the report has the port.
func TestUnreadPortWithoutRoom(t *testing.T) {
	s := sysfs.HGXB300()
	s.Adapters = s.Adapters[:1]
	tree := sysfs.Make(t, s)
	home := tree.Home(&s.Adapters[0])
	for _, port := range []string{"3", "5"} {
		tree.Remove(t, home+"/ports/"+port+"/link_layer")
	}
	want := []string{"link layer of mlx5_0 port 3: no such file or directory"}
	if diff := cmp.Diff(want, unreadOf(read(t, tree))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSwitchFunctionUnknown: where the vital product data cannot be read, the NVSwitch functions are
// adapters, and their role is in doubt.
func TestSwitchFunctionUnknown(t *testing.T) {
	s := sysfs.VirtualB200()
	for i := range s.Adapters {
		s.Adapters[i].VPD = ""
	}
	lldpFile := filepath.Join(t.TempDir(), "lldp.json")
	text := lldp(neighbor("gpu0", chassis("leaf-1", 1, ""), "swp1"), neighbor("gpu1", chassis("leaf-2", 2, ""), "swp1"))
	if err := os.WriteFile(lldpFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := adapters.New(string(sysfs.Make(t, s)), lldpFile).Read()
	if err != nil {
		t.Fatal(err)
	}
	compute := (&topology.Node{Adapters: r.Adapters}).ComputeAdapters(nil)
	if diff := cmp.Diff([]string{"mlx5_0 1:400", "mlx5_1 1:400"}, portsOf(compute.Adapters)); diff != "" || len(r.Adapters) != 4 || len(compute.Doubt) != 1 {
		t.Errorf("%d adapters, doubt %v (-want +got)\n%s", len(r.Adapters), compute.Doubt, diff)
	}
}

// dual is an adapter with two ports in one function, as ConnectX-3 has them.
func dual() sysfs.Adapter {
	return sysfs.Adapter{Name: "mlx4_0", Path: "pci0000:00 0000:00:02.0 0000:05:00.0", Model: "MT4099", GUID: 0x7000, Ports: []string{"Ethernet 40 ACTIVE", "IB 100 ACTIVE"}, NetDevs: []string{"ens5", "ens5d1"}}
}

// TestNotAdapters leaves out what has no cable of its own.
func TestNotAdapters(t *testing.T) {
	one := sysfs.Adapter{Name: "mlx5_0", Path: "pci0000:00 0000:00:02.0 0000:05:00.0", Model: "MT4129", GUID: 1, Ports: []string{"IB 400 ACTIVE"}, NetDevs: []string{"ib0"}}
	vf, sf, soft := one, one, one
	vf.Name, vf.Path, vf.VF = "mlx5_1", "pci0000:00 0000:00:02.0 0000:05:00.1", true
	sf.Name, sf.Path = "mlx5_2", one.Path+" mlx5_core.sf.4"
	soft.Name, soft.Path = "rxe0", "virtual"
	tree := sysfs.Make(t, sysfs.Site{Adapters: []sysfs.Adapter{one, vf, sf, soft}})
	tree.Write(t, "devices/pci0000:00/0000:00:02.0/0000:05:00.0/net/eth7/phys_port_name", "pf0vf7")
	tree.Write(t, "class/infiniband/abi_version", "1") // a file
	want := []string{"compute mlx5_0 MT4129 946dae0300000001 00000000:05:00.0 numa 0, 1 InfiniBand 946dae0300000001 400, [ib0] []"}
	r := read(t, tree)
	if diff := cmp.Diff(want, lines(r.Adapters)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestOddAdapters changes one thing of an adapter on a machine of two.
func TestOddAdapters(t *testing.T) {
	const other = "compute mlx5_9 MT4129 946dae0300007009 00000000:09:00.0 numa 0, 1 InfiniBand 946dae0300007009 400, [] []"
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, tree sysfs.Tree, home string)
		want   string
		unread []string
	}{
		{"two ports", func(*testing.T, sysfs.Tree, string) {}, "other mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []", nil},
		{"a port that is down", func(t *testing.T, tree sysfs.Tree, home string) {
			a := dual()
			tree.Set(t, &a, 2, "100 DOWN")
		}, "other mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 0, [ens5 ens5d1] []", nil},
		{"no state", func(t *testing.T, tree sysfs.Tree, home string) { tree.Remove(t, home+"/ports/1/state") }, "other mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  0, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []", nil},
		{"an odd rate", func(t *testing.T, tree sysfs.Tree, home string) { tree.Write(t, home+"/ports/1/rate", "NaN Gb/sec") }, "other mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  0, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []", nil},
		{"a GUID that nobody set", func(t *testing.T, tree sysfs.Tree, home string) {
			tree.Write(t, home+"/node_guid", "0000:0000:0000:0000")
		}, "other mlx4_0 MT4099  00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []", nil},
		{"a GUID that is none", func(t *testing.T, tree sysfs.Tree, home string) { tree.Write(t, home+"/node_guid", "none") }, "other mlx4_0 MT4099  00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []",
			[]string{`node GUID of mlx4_0: "none": want 16 hexadecimal digits in four groups`}},
		{"an adapter that does not answer", func(t *testing.T, tree sysfs.Tree, home string) {
			// A file that is a folder gives an error when it is read, as a file of a dead adapter does.
			for _, file := range []string{"node_guid", "ports/1/link_layer", "ports/1/state", "ports/2/gids/0"} {
				tree.Remove(t, home+"/"+file)
				tree.Write(t, home+"/"+file+"/x", "")
			}
		}, "other mlx4_0 MT4099  00000000:05:00.0 numa 0, 1   0, 2 InfiniBand  100, [ens5 ens5d1] []",
			[]string{"node GUID of mlx4_0: is a directory", "link layer of mlx4_0 port 1: is a directory", "port GUID of mlx4_0 port 2: is a directory"}},
		{"an adapter that goes while it is read", func(t *testing.T, tree sysfs.Tree, home string) { tree.Remove(t, home) }, "other mlx4_0   00000000:05:00.0 numa 0, [ens5 ens5d1] []",
			[]string{"node GUID of mlx4_0: no such file or directory", "ports of mlx4_0: no such file or directory"}},
		{"a link layer of its own", func(t *testing.T, tree sysfs.Tree, home string) {
			tree.Write(t, home+"/ports/1/link_layer", "Unknown")
			tree.Write(t, home+"/ports/x/link_layer", "Ethernet")
		}, "other mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1   40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := dual()
			tree := sysfs.Make(t, sysfs.Site{Adapters: []sysfs.Adapter{a, {Name: "mlx5_9", Path: "pci0000:00 0000:00:03.0 0000:09:00.0", Model: "MT4129", GUID: 0x7009, Ports: []string{"IB 400 ACTIVE"}}}})
			tt.change(t, tree, tree.Home(&a))
			r := read(t, tree)
			if diff := cmp.Diff([]string{tt.want, other}, lines(r.Adapters)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var unread []string
			for _, u := range r.Unread {
				unread = append(unread, u.String())
			}
			if diff := cmp.Diff(tt.unread, unread); diff != "" {
				t.Errorf("unread (-want +got)\n%s", diff)
			}
		})
	}
}

// TestReadAgain reads a machine that changes with one reader, which keeps what cannot change.
func TestReadAgain(t *testing.T) {
	a := dual()
	s := sysfs.Site{Adapters: []sysfs.Adapter{a}}
	tree := sysfs.Make(t, s)
	r := adapters.New(string(tree), "")
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"at first", func() {}, "compute mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []"},
		{"the same", func() {}, "compute mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 100, [ens5 ens5d1] []"},
		{"a link goes down", func() { tree.Set(t, &a, 2, "100 DOWN") }, "compute mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 0, [ens5 ens5d1] []"},
		{"and comes up slower", func() { tree.Set(t, &a, 2, "10 ACTIVE") }, "compute mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 10, [ens5 ens5d1] []"},
		{"an interface goes into a container", func() { tree.Remove(t, "devices/pci0000:00/0000:00:02.0/0000:05:00.0/net/ens5") }, "compute mlx4_0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 10, [ens5d1] []"},
		{"its name changes", func() {
			tree.Remove(t, "class/infiniband/mlx4_0")
			if err := os.Rename(filepath.Join(string(tree), tree.Home(&a)), filepath.Join(string(tree), filepath.Dir(tree.Home(&a)), "ibp5s0")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../../"+filepath.Dir(tree.Home(&a))+"/ibp5s0", filepath.Join(string(tree), "class/infiniband/ibp5s0")); err != nil {
				t.Fatal(err)
			}
		}, "compute ibp5s0 MT4099 946dae0300007000 00000000:05:00.0 numa 0, 1 Ethernet  40, 2 InfiniBand 946dae0300007000 10, [ens5d1] []"},
		{"it is gone", func() { tree.Remove(t, "class/infiniband/ibp5s0") }, ""},
	} {
		step.change()
		out, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lines(out.Adapters), "\n"); got != step.want {
			t.Errorf("%s:\n%s, want\n%s", step.name, got, step.want)
		}
	}
}

// TestBounds reads a machine with more of all than a report holds.
func TestBounds(t *testing.T) {
	s := sysfs.Many(40)
	for i := range 20 {
		s.GPUs = append(s.GPUs, fmt.Sprintf("pci0000:10 0000:10:01.0 0000:11:00.0 0000:12:02.0 0000:%02x:00.0", 0x80+i))
	}
	for i := range 8 { // the first by name, but not on a rail
		s.Adapters = append(s.Adapters, sysfs.Adapter{Name: fmt.Sprintf("bnxt_re%d", i), Path: fmt.Sprintf("pci0000:b0 0000:b0:01.0 0000:b1:00.%d", i), Ports: []string{"Ethernet 25 ACTIVE"}})
	}
	s.Adapters[0].Ports = slices.Repeat([]string{"IB 400 ACTIVE"}, 6)
	for i := range 12 {
		s.Adapters[0].NetDevs = append(s.Adapters[0].NetDevs, fmt.Sprint("eth", i))
	}
	r := read(t, sysfs.Make(t, s))
	if len(r.Adapters) != 32 || r.More != 16 || r.Adapters[0].Name != "mlx5_0" || r.Adapters[31].Name != "mlx5_31" {
		t.Errorf("%d adapters, %d more", len(r.Adapters), r.More)
	}
	if a := r.Adapters[0]; len(a.Ports) != 4 || len(a.NetDevs) != 8 || len(a.GPUs) != 16 {
		t.Errorf("%d ports, %d interfaces, %d GPUs", len(a.Ports), len(a.NetDevs), len(a.GPUs))
	}
}

// TestUnreadable: adapters that cannot be listed are not none.
func TestUnreadable(t *testing.T) {
	file := sysfs.Make(t, sysfs.Site{})
	file.Write(t, "class/infiniband", "")
	for name, sys := range map[string]string{"a file in place of the class": string(file), "no sysfs at all": t.TempDir(), "no folder": filepath.Join(t.TempDir(), "x")} {
		if r, err := adapters.New(sys, "").Read(); err == nil || !strings.HasPrefix(err.Error(), "list network adapters: ") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
