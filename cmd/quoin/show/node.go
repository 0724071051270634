package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Node prints a machine for people. indices are Slurm's GRES indices of its GPUs and MIG instances,
// by UUID.
func Node(w io.Writer, n *topology.Node, indices map[string]string) {
	fmt.Fprintf(w, "Node      %s\n", n.Name)
	if n.DriverVersion+n.NVMLVersion+n.CUDAVersion != "" {
		fmt.Fprintf(w, "Driver    %s, NVML %s, CUDA %s\n", cmp.Or(n.DriverVersion, "-"), cmp.Or(n.NVMLVersion, "-"), cmp.Or(n.CUDAVersion, "-"))
	}
	if p := n.Platform; p != nil {
		chassis := "chassis " + cmp.Or(p.ChassisSerial, "-") // an H200 gives an empty one
		if p.RackGUID != "" {
			chassis = "rack GUID " + p.RackGUID
		}
		fmt.Fprintf(w, "Platform  %s, slot %d, tray %d, host %d\n", chassis, p.Slot, p.Tray, p.HostID)
	}
	if n.IMEX != nil {
		fmt.Fprintf(w, "IMEX      %s\n", imexOf(n.IMEX))
	}
	for i, s := range n.Sockets {
		fmt.Fprintf(w, "Socket %-2d %d cores, CPUs %s\n", i, s.Cores, s.CPUs)
	}
	if len(n.Tiers) > 0 {
		fmt.Fprintf(w, "Switches  %s\n", strings.Join(n.Tiers, " < "))
	}
	if len(n.GPUs) == 0 {
		fmt.Fprintln(w, "GPUs      none")
	} else {
		printGPUs(w, n, indices)
		printMIG(w, n, indices)
		printLinks(w, n)
		printHealth(w, n)
	}
	printAdapters(w, n)
	for _, p := range n.Problems {
		fmt.Fprintf(w, "problem: %s\n", p)
	}
}

// printList prints an empty line and a table, if there are rows.
func printList(w io.Writer, rows [][]string, columns ...string) {
	if len(rows) > 0 {
		fmt.Fprintln(w)
		Table(w, columns, rows)
	}
}

// printGPUs prints the GPUs in the order of their device files.
func printGPUs(w io.Writer, n *topology.Node, indices map[string]string) {
	var rows [][]string
	for _, g := range n.GRESOrder() {
		numa, state, health, clique := "", "", "", ""
		if g.NUMANode != nil {
			numa = fmt.Sprint(*g.NUMANode)
		}
		if f := g.Fabric; !f.IsZero() {
			state, health = string(f.State), string(f.Health)
			if f.Status != "" {
				state += " (" + f.Status + ")"
			}
			if c, ok := f.Clique(); ok {
				clique = c.String()
			}
		}
		rows = append(rows, []string{indices[g.UUID], fmt.Sprint(g.Index), deviceOf(&g), g.Product, memoryOf(&g), g.PCIBusID, numa, g.CPUAffinity, state, health, clique, g.UUID})
	}
	printList(w, rows, "GRES", "NVML", "DEVICE", "PRODUCT", "MEMORY", "PCI", "NUMA", "CPUS", "FABRIC", "HEALTH", "CLIQUE", "UUID")
}

// memoryOf returns a text such as "80 GiB".
func memoryOf(g *topology.GPU) string {
	if g.MemoryMiB == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f GiB", float64(g.MemoryMiB)/1024)
}

// deviceOf returns the GPU's device file. The lists name the GPU by it.
func deviceOf(g *topology.GPU) string {
	if g.Minor == nil {
		return ""
	}
	return fmt.Sprintf("/dev/nvidia%d", *g.Minor)
}

// imexOf returns a text such as "major 235, 2048 channels, daemon READY, domain UP".
func imexOf(facts *topology.IMEX) string {
	if facts.ChannelMajor == nil {
		return "none: the driver has no IMEX channels"
	}
	parts := []string{fmt.Sprintf("major %d", *facts.ChannelMajor), fmt.Sprintf("%d channels", facts.Channels),
		"daemon " + cmp.Or(facts.DaemonState, "-"), "domain " + cmp.Or(facts.DomainState, "-")}
	if facts.HostService {
		parts = append(parts, "nvidia-imex.service runs")
	}
	return strings.Join(parts, ", ")
}

// printMIG prints the MIG instances.
func printMIG(w io.Writer, n *topology.Node, indices map[string]string) {
	var rows [][]string
	for _, g := range n.GRESOrder() {
		for _, m := range g.MIG {
			instance := fmt.Sprintf("%d/%d", m.GPUInstanceID, m.ComputeInstanceID)
			rows = append(rows, []string{indices[m.UUID], deviceOf(&g), m.Profile, instance, strings.Join(m.Capabilities, " "), m.UUID})
		}
	}
	printList(w, rows, "GRES", "DEVICE", "MIG", "INSTANCE", "CAPABILITIES", "UUID")
}

// printLinks prints where the NVLinks of each GPU lead, and how many lead there.
func printLinks(w io.Writer, n *topology.Node) {
	names, any := map[string]string{}, false
	for _, g := range n.GPUs {
		names[g.PCIBusID] = strings.TrimPrefix(deviceOf(&g), "/dev/")
		any = any || g.Links != nil && g.Links.Active() > 0
	}
	if !any {
		return
	}
	var rows [][]string
	for _, g := range n.GRESOrder() {
		if g.Links == nil {
			rows = append(rows, []string{deviceOf(&g), "not known"})
			continue
		}
		links := map[string]int{"switch": g.Links.Switch, "ibmnpu": g.Links.IBMNPU, "unknown": g.Links.Unknown}
		for _, gpu := range g.Links.GPUs {
			links[cmp.Or(names[gpu.PCIBusID], gpu.PCIBusID, "gpu")] += gpu.Count
		}
		maps.DeleteFunc(links, func(_ string, count int) bool { return count == 0 })
		var parts []string
		for _, to := range slices.Sorted(maps.Keys(links)) {
			parts = append(parts, fmt.Sprintf("%d %s", links[to], to))
		}
		rows = append(rows, []string{deviceOf(&g), strings.Join(parts, ", ")})
	}
	printList(w, rows, "DEVICE", "NVLINKS TO")
}

// printAdapters prints the network adapters, a line for each port.
func printAdapters(w io.Writer, n *topology.Node) {
	devices := map[string]string{} // by PCI bus id
	for _, g := range n.GPUs {
		devices[strings.ToUpper(g.PCIBusID)] = deviceOf(&g)
	}
	compute := n.ComputeAdapters(nil)
	var rows [][]string
	for _, a := range n.Adapters {
		role, numa := "other", ""
		if slices.ContainsFunc(compute.Adapters, func(c topology.Adapter) bool { return c.Name == a.Name }) {
			role = "compute"
		}
		if a.NUMANode != nil {
			numa = fmt.Sprint(*a.NUMANode)
		}
		var gpus []string
		for _, id := range a.GPUs {
			gpus = append(gpus, cmp.Or(devices[strings.ToUpper(id)], id))
		}
		row := []string{a.Name, role, a.Model, a.PCIBusID, numa, strings.Join(gpus, " "), strings.Join(a.NetDevs, " ")}
		for _, p := range a.Ports {
			rate := ""
			if p.RateGbps > 0 {
				rate = fmt.Sprintf("%d Gb/s", p.RateGbps)
			}
			rows = append(rows, append(slices.Clone(row), fmt.Sprint(p.Port), p.LinkLayer, rate, cmp.Or(p.GUID, a.NodeGUID), neighborOf(&p.Neighbor)))
		}
		if len(a.Ports) == 0 {
			rows = append(rows, append(row, "", "", "", a.NodeGUID, ""))
		}
	}
	printList(w, rows, "ADAPTER", "ROLE", "MODEL", "PCI", "NUMA", "GPUS", "INTERFACES", "PORT", "LINK", "RATE", "GUID", "NEIGHBOR")
	if len(rows) > 0 {
		fmt.Fprintf(w, "compute: %s\n", compute.Witness)
	}
	Print(w, "problem: ", compute.Doubt)
}

// neighborOf returns a text such as "leaf-01 swp7".
func neighborOf(n *topology.Neighbor) string {
	return strings.TrimSpace(cmp.Or(n.SystemName, n.ChassisID) + " " + n.PortID)
}

// printHealth prints what is wrong with a GPU's fabric, and its Xids.
func printHealth(w io.Writer, n *topology.Node) {
	for _, g := range n.GRESOrder() {
		_, bad := fabric.Faults(&g.Fabric.HealthFields)
		assigned := g.Fabric.HealthFields.PartitionAssigned
		for _, field := range []struct {
			is   bool
			name string
		}{
			{assigned != nil && !*assigned, "no partition assigned"},
			{len(g.Xids) > 0, "Xids " + strings.Trim(fmt.Sprint(g.Xids), "[]")},
			{g.Recovery != "" && g.Recovery != fabric.RecoveryNone, "NVML's recovery action " + g.Recovery},
		} {
			if field.is {
				bad = append(bad, field.name)
			}
		}
		if len(bad) > 0 {
			fmt.Fprintf(w, "%s: %s\n", g.UUID, strings.Join(bad, ", "))
		}
	}
}
