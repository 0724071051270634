package sysfs

import "fmt"

const (
	connectX7  = "MT4129"
	connectX8  = "MT4131"
	blueField3 = "MT41692"
)

// switched returns the path of a device below a PCI switch on the root port of a bus. Each
// device is below a port of its own of the switch.
func switched(bus, port, device int) string {
	return fmt.Sprintf("pci0000:%02x 0000:%02x:01.0 0000:%02x:00.0 0000:%02x:%02x.0 0000:%02x:00.0", bus, bus, bus+1, bus+2, port, device)
}

// rooted returns the path of a device on a root port of its own.
func rooted(bus, function int) string {
	return fmt.Sprintf("pci0000:%02x 0000:%02x:01.0 0000:%02x:00.%d", bus, bus, bus+1, function)
}

// buses are the PCI roots of the two sockets of a machine with 8 GPUs.
var buses = []int{0x15, 0x37, 0x48, 0x59, 0x97, 0xb7, 0xc7, 0xd7}

// DGXH100 is a machine with 8 GPUs: each has a ConnectX-7 on its PCI switch. There are
// two adapters of two functions for storage. Names are in the order of PCI, so that mlx5_1
// is one of these.
func DGXH100() Site {
	var s Site
	add := func(path, port string, numa int, netdev string) {
		n := len(s.Adapters)
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", n), Path: path, Model: connectX7, GUID: uint32(0x1000 + n), Ports: []string{port}, NetDevs: []string{netdev}, NUMA: numa})
	}
	for i, bus := range buses {
		numa := i / 4
		s.GPUs = append(s.GPUs, switched(bus, 0, bus+6))
		add(switched(bus, 2, bus+3), "IB 400 ACTIVE", numa, fmt.Sprintf("ibp%ds0", bus+3))
		if i == 0 || i == 4 {
			add(rooted(bus+0x10, 0), "IB 400 ACTIVE", numa, fmt.Sprintf("ibp%ds0f0", bus+0x11))
			add(rooted(bus+0x10, 1), "Ethernet 200 ACTIVE", numa, fmt.Sprintf("enp%ds0f1np1", bus+0x11))
		}
	}
	return s
}

// HGXB200 is a machine with 8 GPUs and two to a PCI switch, below a switch of switches: the nearest
// one tells the rail. Two BlueField-3 are for storage and management.
func HGXB200() Site {
	var s Site
	for i := range 8 {
		root := fmt.Sprintf("pci0000:%02x 0000:%02x:01.0 0000:%02x:00.0 0000:%02x:%02x.0", 0x10+0x20*(i/2), 0x10+0x20*(i/2), 0x11+0x20*(i/2), 0x12+0x20*(i/2), i%2)
		inner := root + fmt.Sprintf(" 0000:%02x:00.0", 0x13+0x20*(i/2)+8*(i%2))
		s.GPUs = append(s.GPUs, inner+fmt.Sprintf(" 0000:%02x:00.0 0000:%02x:00.0", 0x14+0x20*(i/2)+8*(i%2), 0x15+0x20*(i/2)+8*(i%2)))
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: inner + fmt.Sprintf(" 0000:%02x:01.0 0000:%02x:00.0", 0x14+0x20*(i/2)+8*(i%2), 0x16+0x20*(i/2)+8*(i%2)),
			Model: connectX7, GUID: uint32(0x2000 + i), Ports: []string{"IB 400 ACTIVE"}, NUMA: i / 4})
	}
	for i := range 2 {
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", 8+i), Path: rooted(0xa0+0x10*i, 0), Model: blueField3, GUID: uint32(0x2100 + i), Ports: []string{"Ethernet 400 ACTIVE"}, NetDevs: []string{fmt.Sprintf("ens%dnp0", i)}, NUMA: i})
	}
	return s
}

// HGXB300 is a machine with 8 GPUs. Each has a ConnectX-8 of Ethernet with twelve ports on its PCI switch.
// Data are on four of them, one for each plane of the fabric.
func HGXB300() Site {
	var s Site
	for i, bus := range buses {
		s.GPUs = append(s.GPUs, switched(bus, 0, bus+6))
		a := Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: switched(bus, 2, bus+3), Model: connectX8, GUID: uint32(0x8000 + i), NUMA: i / 4}
		for plane := range 4 {
			a.Ports = append(a.Ports, "Ethernet 200 DOWN", "Ethernet 200 DOWN", "Ethernet 200 ACTIVE")
			a.NetDevs = append(a.NetDevs, "", "", fmt.Sprintf("eth_r%d_p%d", i, plane))
		}
		s.Adapters = append(s.Adapters, a)
	}
	return s
}

// GB300 is a tray whose ConnectX-8 have SMI sub-devices, one port for each plane of the fabric.
func GB300() Site {
	s := GB200()
	for i := range 4 {
		a := &s.Adapters[i]
		a.Model, a.Ports = connectX8, []string{"IB 800 ACTIVE"}
		sub := *a
		sub.Name, sub.SMI, sub.Ports = fmt.Sprintf("a-smi%d", i), true, []string{"IB 200 ACTIVE", "IB 200 ACTIVE", "IB 200 ACTIVE", "IB 200 ACTIVE"}
		s.Adapters = append(s.Adapters, sub)
	}
	return s
}

// VirtualB200 is a virtual machine with adapters of Ethernet, and with the functions of InfiniBand by
// which the NVSwitches of the HGX board are managed.
func VirtualB200() Site {
	var s Site
	for i := range 2 {
		s.GPUs = append(s.GPUs, fmt.Sprintf("pci0000:00 0000:00:02.%d 0000:%02x:00.0", i, i+1))
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: fmt.Sprintf("pci0000:00 0000:00:03.%d 0000:%02x:00.0", i, i+5), Model: connectX7, GUID: uint32(0x9000 + i), Ports: []string{"Ethernet 400 ACTIVE"}, NetDevs: []string{fmt.Sprintf("gpu%d", i)}, NUMA: -1})
	}
	for i := range 2 {
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i+2), Path: fmt.Sprintf("pci0000:00 0000:00:04.%d 0000:%02x:00.0", i, i+9), Model: connectX7, GUID: uint32(0x9100 + i), Ports: []string{"IB 100 ACTIVE"}, NUMA: -1, VPD: "NVIDIA ConnectX-7\x00V3\x0bSMDL=SW_MNG\x00"})
	}
	return s
}

// GB200 is a tray with 4 GPUs, each on a root of its own. The adapters are on other roots, and
// there is a BlueField-3 for management and storage.
func GB200() Site {
	var s Site
	for i := range 4 {
		s.GPUs = append(s.GPUs, fmt.Sprintf("pci%04x:00 %04x:00:00.0 %04x:01:00.0", 8*(i+1), 8*(i+1), 8*(i+1)))
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: fmt.Sprintf("pci%04x:00 %04x:00:00.0 %04x:01:00.0 %04x:02:00.0 %04x:03:00.0", i, i, i, i, i),
			Model: connectX7, GUID: uint32(0x3000 + i), Ports: []string{"IB 400 ACTIVE"}, NUMA: i / 2})
	}
	for i := range 2 {
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", 4+i), Path: fmt.Sprintf("pci0006:00 0006:00:00.0 0006:01:00.0 0006:02:00.0 0006:03:00.%d", i),
			Model: blueField3, GUID: uint32(0x3100 + i), Ports: []string{"Ethernet 200 ACTIVE"}, NetDevs: []string{fmt.Sprintf("enP6p3s0f%dnp%d", i, i)}, NUMA: 0})
	}
	return s
}

// BondedEthernet is a machine whose two ports of 100 Gb/s for storage are one adapter, and
// whose GPUs have an adapter of 400 Gb/s each, on the same root port.
func BondedEthernet() Site {
	s := Site{GPUs: []string{switched(0x20, 0, 0x25), switched(0x40, 0, 0x45)}}
	for i, bus := range []int{0x20, 0x40} {
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("rocep%ds0", bus+6), Path: switched(bus, 1, bus+6), Model: connectX7, GUID: uint32(0x4000 + i), Ports: []string{"Ethernet 400 ACTIVE"}, NetDevs: []string{fmt.Sprintf("enp%ds0np0", bus+6)}, NUMA: i})
	}
	s.Adapters = append(s.Adapters, Adapter{Name: "mlx5_bond_0", Path: rooted(0x60, 0), Model: "MT4125", GUID: 0x4100, Ports: []string{"Ethernet 100 ACTIVE"}, NetDevs: []string{"enp97s0f0np0"}, NUMA: 0})
	return s
}

// Virtual is a virtual machine: GPUs and adapters are on root ports of their own, and no NUMA
// node is known.
func Virtual() Site {
	var s Site
	for i := range 2 {
		s.GPUs = append(s.GPUs, fmt.Sprintf("pci0000:00 0000:00:02.%d 0000:%02x:00.0", i, i+1))
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: fmt.Sprintf("pci0000:00 0000:00:03.%d 0000:%02x:00.0", i, i+5), Model: "MT4126", GUID: uint32(0x5000 + i), Ports: []string{"IB 400 ACTIVE"}, NUMA: -1})
	}
	// An adapter of the cloud's network, which the hypervisor shows below its bus.
	s.Adapters = append(s.Adapters, Adapter{Name: "mlx5_2", Path: "LNXSYSTM:00 LNXSYBUS:00 ACPI0004:00 VMBUS:00 f8615163-0000-1000-2000-6045bd7a0000 pci0001:00 0001:00:02.0", Model: "MT4120", GUID: 0x5100, Ports: []string{"Ethernet 100 ACTIVE"}, NetDevs: []string{"enP1s2"}, NUMA: -1})
	return s
}

// Many is a machine with n adapters on one PCI switch with a GPU, for bounds and benchmarks.
func Many(n int) Site {
	s := Site{GPUs: []string{switched(0x10, 0, 0x15)}}
	for i := range n {
		s.Adapters = append(s.Adapters, Adapter{Name: fmt.Sprintf("mlx5_%d", i), Path: fmt.Sprintf("pci0000:10 0000:10:01.0 0000:11:00.0 0000:12:01.0 0000:%02x:00.0", 0x20+i), Model: connectX7, GUID: uint32(0x6000 + i), Ports: []string{"IB 400 ACTIVE"}, NetDevs: []string{fmt.Sprintf("ib%d", i)}})
	}
	return s
}
