package simulated

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// tiny is a site of three racks of two, and tests put faults or steps below it.
const tiny = `name: tiny
groups:
  - name: a
    racks: 2
    nodes: 2
    node: a{rack}-{tray:02}
    nvlink: rack
    platform: true
    tiers: ["leaf-{rack}", "spine-{rack/2}"]
    gpus: {count: 2, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 1}
  - name: b
    nodes: 2
    node: b-{node}
    gpus: {count: 2, product: NVIDIA A100-SXM4-80GB, minors: [1, 0]}
    mig: {profile: 1g.10gb, instances: 2, firstID: 7}
`

func parseOf(t testing.TB, text string) *Cluster {
	t.Helper()
	c, err := Parse("site.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func machineOf(t testing.TB, c *Cluster, name string) Machine {
	t.Helper()
	m, err := c.Machine(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMachineInRack(t *testing.T) {
	m := machineOf(t, parseOf(t, tiny), "a2-01")
	clique := m.Report.GPUs[0].Fabric.ClusterUUID.String() + ".2"
	wantLabels := map[string]string{
		"kubernetes.io/hostname":            "a2-01",
		"nvidia.com/gpu.present":            "true",
		"nvidia.com/gpu.count":              "2",
		"nvidia.com/gpu.product":            "NVIDIA-GB200",
		"nvidia.com/gpu.clique":             clique,
		"network.topology.nvidia.com/leaf":  "leaf-2",
		"network.topology.nvidia.com/spine": "spine-1",
	}
	if diff := cmp.Diff(wantLabels, m.Labels); diff != "" {
		t.Errorf("labels (-want +got)\n%s", diff)
	}
	zero, one := 0, 1
	yes, no := true, false
	well := topology.FabricHealth{DegradedBandwidth: &no, RouteRecovery: &no, RouteUnhealthy: &no, AccessTimeoutRecovery: &no, PartitionAssigned: &yes, IncorrectConfiguration: "none"}
	cluster := m.Report.GPUs[0].Fabric.ClusterUUID
	gpu := func(i int, numa *int, cpus string) topology.GPU {
		return topology.GPU{Index: i, UUID: m.Report.GPUs[i].UUID, Minor: numa, PCIBusID: fmt.Sprintf("%08X:%02X:00.0", i, 1+16*i),
			Product: "NVIDIA GB200", MemoryMiB: 189471, NUMANode: numa, CPUAffinity: cpus, DCGMID: numa,
			Links:  &topology.Links{Switch: 1},
			Fabric: topology.Fabric{ClusterUUID: cluster, CliqueID: 2, State: topology.FabricCompleted, Health: topology.HealthHealthy, HealthFields: well}}
	}
	want := &topology.Node{Name: "a2-01", BootID: m.Report.BootID, Domain: topology.NVLinkDomain{Clique: topology.Clique{ClusterUUID: cluster, ID: 2}}, DriverVersion: "580.65.06", NVMLVersion: "13.580.65.06", CUDAVersion: "13.0",
		GPUs:     []topology.GPU{gpu(0, &zero, "0-71"), gpu(1, &one, "72-143")},
		Sockets:  []topology.Socket{{CPUs: "0-71", Cores: 72}, {CPUs: "72-143", Cores: 72}},
		Platform: &topology.Platform{ChassisSerial: "1800000000002", Slot: 1, Tray: 0, HostID: 1},
		Tiers:    []string{"leaf-2", "spine-1"}}
	if diff := cmp.Diff(want, m.Report); diff != "" {
		t.Errorf("report (-want +got)\n%s", diff)
	}
}

func TestMachineWithMIG(t *testing.T) {
	m := machineOf(t, parseOf(t, tiny), "b-2")
	var got []string
	for _, g := range m.Report.GPUs {
		for _, i := range g.MIG {
			got = append(got, fmt.Sprintf("gpu %d minor %d %s gi %d %s", g.Index, *g.Minor, i.Profile, i.GPUInstanceID, strings.Join(i.Capabilities, " ")))
		}
	}
	want := []string{
		"gpu 0 minor 1 1g.10gb gi 7 /dev/nvidia-caps/nvidia-cap201 /dev/nvidia-caps/nvidia-cap202",
		"gpu 0 minor 1 1g.10gb gi 8 /dev/nvidia-caps/nvidia-cap210 /dev/nvidia-caps/nvidia-cap211",
		"gpu 1 minor 0 1g.10gb gi 7 /dev/nvidia-caps/nvidia-cap66 /dev/nvidia-caps/nvidia-cap67",
		"gpu 1 minor 0 1g.10gb gi 8 /dev/nvidia-caps/nvidia-cap75 /dev/nvidia-caps/nvidia-cap76",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MIG instances (-want +got)\n%s", diff)
	}
	if _, ok := m.Labels["nvidia.com/gpu.clique"]; ok {
		t.Error("a machine without a domain has a clique label")
	}
}

// TestSlots has the numbers of an NVL72 rack: nine switch trays sit above the
// eighth compute tray.
func TestSlots(t *testing.T) {
	c, err := Open("gb200-nvl72x4")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, m := range c.Machines()[:18] {
		got = append(got, m.Report.Platform.Slot)
	}
	want := []int{1, 2, 3, 4, 5, 6, 7, 8, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slots (-want +got)\n%s", diff)
	}
}

// brief says in a line what a test of faults wants to know of a machine.
func brief(m Machine) string {
	if !m.Exists {
		return "absent"
	}
	if m.Report == nil {
		return "silent, label " + m.Labels["nvidia.com/gpu.clique"]
	}
	var parts []string
	for _, g := range m.Report.GPUs {
		f := g.Fabric
		parts = append(parts, strings.TrimRight(fmt.Sprintf("%d:%s/%d/%s%s", g.Index, f.State, f.CliqueID, f.Health, f.Status), "/"))
		if len(g.Xids) > 0 {
			parts[len(parts)-1] += fmt.Sprintf(" xids %v", g.Xids)
		}
	}
	for _, p := range m.Report.Problems {
		parts = append(parts, p.Reason)
	}
	if p := m.Report.Platform; p != nil {
		parts = append(parts, fmt.Sprintf("chassis %s tray %d %s", p.ChassisSerial[11:], p.Tray, m.Labels["network.topology.nvidia.com/leaf"]))
	}
	return strings.Join(parts, ", ")
}

func TestFaults(t *testing.T) {
	tests := []struct {
		name, faults, machine, want string
	}{
		{"none", "", "a1-01", "0:completed/1/healthy, 1:completed/1/healthy, chassis 01 tray 0 leaf-1"},
		{"absent", "{node: a1-01, absent: true}", "a1-01", "absent"},
		{"no report", "{node: a1-01, noReport: true}, {node: a1-01, label: N/A}", "a1-01", "silent, label N/A"},
		{"fabric of one GPU in progress", "{node: a1-01, gpu: 1, fabric: inProgress}", "a1-01", "0:completed/1/healthy, 1:inProgress/0, chassis 01 tray 0 leaf-1"},
		{"fabric not started", "{node: a1-01, fabric: notStarted}", "a1-01", "0:notStarted/0, 1:notStarted/0, chassis 01 tray 0 leaf-1"},
		{"fabric failed", "{node: a1-01, gpu: 0, fabric: completed, status: ERROR_UNKNOWN}", "a1-01", "0:completed/1/healthyERROR_UNKNOWN, 1:completed/1/healthy, chassis 01 tray 0 leaf-1"},
		{"unhealthy", "{node: a1-01, gpu: 1, health: unhealthy}", "a1-01", "0:completed/1/healthy, 1:completed/1/unhealthy, chassis 01 tray 0 leaf-1"},
		{"an Xid", "{node: a1-01, gpu: 1, xid: 79}", "a1-01", "0:completed/1/healthy, 1:completed/1/healthy xids [79], XidCritical, chassis 01 tray 0 leaf-1"},
		{"lost twice", "{node: a1-01, gpu: 0, lost: true}, {node: a1-01, gpu: 0, lost: true}", "a1-01", "1:completed/1/healthy, GPULost, chassis 01 tray 0 leaf-1"},
		{"two cliques", "{node: a1-01, gpu: 1, clique: 9}", "a1-01", "0:completed/1/healthy, 1:completed/9/healthy, chassis 01 tray 0 leaf-1"},
		{"moved beside", "{node: a1-01, moveTo: a2-02}", "a1-01", "0:completed/2/healthy, 1:completed/2/healthy, chassis 02 tray 0 leaf-2"},
		{"moved into an empty place", "{node: a2-02, absent: true}, {node: a1-01, moveTo: a2-02}", "a1-01", "0:completed/2/healthy, 1:completed/2/healthy, chassis 02 tray 1 leaf-2"},
		{"moved and back", "{node: a1-01, moveTo: a2-02}, {node: a1-01, clear: true}", "a1-01", "0:completed/1/healthy, 1:completed/1/healthy, chassis 01 tray 0 leaf-1"},
		{"no fabric", "", "b-1", "0:notSupported/0, 1:notSupported/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parseOf(t, tiny+"faults: ["+tt.faults+"]\n")
			if diff := cmp.Diff(tt.want, brief(machineOf(t, c, tt.machine))); diff != "" {
				t.Errorf("machine (-want +got)\n%s", diff)
			}
		})
	}
}

func TestReboot(t *testing.T) {
	c := parseOf(t, tiny)
	before, other := machineOf(t, c, "a1-01").Report.BootID, machineOf(t, c, "a1-02").Report.BootID
	c.Apply(Step{Do: []Fault{{Node: "a1-01", Reboot: true}, {Node: "nobody", Reboot: true}}})
	if after := machineOf(t, c, "a1-01").Report.BootID; after == before {
		t.Errorf("boot id is still %s", after)
	}
	if after := machineOf(t, c, "a1-02").Report.BootID; after != other {
		t.Errorf("boot id of another machine changed from %s to %s", other, after)
	}
}

// TestConfirmed follows what a machine's agent has confirmed.
func TestConfirmed(t *testing.T) {
	gpu, other := 1, uint32(9)
	for _, tt := range []struct {
		name   string
		faults []Fault
		want   uint32 // clique, 0 for nothing
		// changed: it was another one in the same boot.
		changed bool
	}{
		{"from the start", nil, 1, false},
		{"the fabric registers anew in the same boot", []Fault{{Fabric: "inProgress"}}, 1, false},
		{"in another", []Fault{{Fabric: "inProgress", Reboot: true}}, 0, false},
		{"a GPU in another", []Fault{{GPU: &gpu, Fabric: "notStarted", Reboot: true}}, 0, false},
		{"has registered", []Fault{{Fabric: "inProgress", Reboot: true}, {Clear: true}}, 1, false},
		{"another clique in the same boot", []Fault{{Clique: &other}}, 9, true},
		{"and back to the first one", []Fault{{Clique: &other}, {Clear: true}}, 1, true},
		{"and then a reboot", []Fault{{Clique: &other}, {Reboot: true}}, 9, false},
		{"in another boot", []Fault{{Clique: &other, Reboot: true}}, 9, false},
		{"of one GPU", []Fault{{GPU: &gpu, Clique: &other, Reboot: true}}, 0, false},
		{"carried to another rack", []Fault{{MoveTo: "a2-01"}}, 2, false},
		{"and back", []Fault{{MoveTo: "a2-01"}, {Clear: true}}, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parseOf(t, tiny)
			for _, f := range tt.faults {
				f.Node = "a1-01"
				c.Apply(Step{Do: []Fault{f}})
			}
			r := machineOf(t, c, "a1-01").Report
			if got := r.Domain; got.Clique.ID != tt.want || got.IsZero() != (tt.want == 0) || r.DomainChanged != tt.changed {
				t.Errorf("%s is confirmed, changed %t, want clique %d, %t", got, r.DomainChanged, tt.want, tt.changed)
			}
		})
	}
	if got := machineOf(t, parseOf(t, tiny), "b-1").Report.Domain; !got.None {
		t.Errorf("a machine without a fabric has confirmed %s, want none", got)
	}
}

// TestDayEndsWell plays the shipped day: only those machines are not as they
// were in the morning that the last steps leave so.
func TestDayEndsWell(t *testing.T) {
	c, err := Open("day-of-trouble")
	if err != nil {
		t.Fatal(err)
	}
	before := c.Machines()
	for _, s := range c.Steps {
		c.Apply(s)
	}
	var got []string
	for i, m := range c.Machines() {
		if brief(before[i]) != brief(m) {
			got = append(got, m.Name)
		}
	}
	want := []string{"gb200-001", "gb200-002", "gb200-003", "gb200-020"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("machines that are not as they were (-want +got)\n%s", diff)
	}
}

// TestShipped holds what every shipped file promises in its about line, and that
// all identities are distinct and the same at every reading.
func TestShipped(t *testing.T) {
	type counts struct{ Nodes, GPUs, MIG, Cliques, Steps int }
	want := map[string]counts{
		"a100-mig":       {4, 32, 56, 0, 0},
		"day-of-trouble": {72, 288, 0, 4, 9},
		"gb200-nvl72x4":  {72, 288, 0, 4, 0},
		"gb300-nvl72":    {35, 140, 0, 2, 0},
		"hgx-h100":       {32, 256, 0, 8, 0},
		"mixed":          {48, 208, 0, 10, 0},
	}
	got := map[string]counts{}
	for _, name := range Shipped() {
		c, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		n := counts{Steps: len(c.Steps)}
		cliques, ids := map[topology.Clique]bool{}, map[string]bool{}
		for _, m := range c.Machines() {
			if !m.Exists {
				continue
			}
			n.Nodes++
			if _, err := topology.EncodeReport(m.Report); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, g := range m.Report.GPUs {
				n.GPUs++
				n.MIG += len(g.MIG)
				if clique, ok := g.Fabric.Clique(); ok {
					cliques[clique] = true
				}
				if ids[g.UUID] {
					t.Errorf("%s: GPU %s stands twice", name, g.UUID)
				}
				ids[g.UUID] = true
			}
		}
		n.Cliques = len(cliques)
		got[name] = n
		again, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Machines(), again.Machines()); diff != "" {
			t.Errorf("%s read twice (-first +second)\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shipped clusters (-want +got)\n%s", diff)
	}
	if _, err := Open("nowhere"); err == nil || !strings.Contains(err.Error(), `no site "nowhere": want one of a100-mig, day-of-trouble`) {
		t.Errorf("Open of an unknown cluster: %v", err)
	}
}

// TestRails compares machines whose GPUs have a rail each, share one, and are apart from the adapters.
func TestRails(t *testing.T) {
	const gpus = "    gpus: {count: 4, product: NVIDIA H100 80GB HBM3, numaNodes: 2}\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"none", "", nil},
		{"a rail for each GPU", "    rails: 4\n", []string{"mlx5_0 numa 0 [00000000:01:00.0]", "mlx5_1 numa 0 [00000000:11:00.0]", "mlx5_2 numa 1 [00000001:21:00.0]", "mlx5_3 numa 1 [00000001:31:00.0]"}},
		{"a rail for two GPUs", "    rails: 2\n", []string{"mlx5_0 numa 0 [00000000:01:00.0 00000000:11:00.0]", "mlx5_1 numa 1 [00000001:21:00.0 00000001:31:00.0]"}},
		{"a rack", "    nvlink: rack\n    rails: 2\n", []string{"mlx5_0 numa 0 []", "mlx5_1 numa 1 []"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := machineOf(t, parseOf(t, "groups:\n  - node: n{node}\n    nodes: 2\n"+tt.text+gpus), "n2").Report
			var got []string
			buses := map[string]bool{}
			for i, a := range n.Adapters {
				if guid := GUID("n2", i); a.NodeGUID != guid || a.Ports[0].GUID != guid || guid == GUID("n1", i) {
					t.Errorf("%s has the GUIDs %s and %s, want %s", a.Name, a.NodeGUID, a.Ports[0].GUID, guid)
				}
				got = append(got, fmt.Sprintf("%s numa %d %v", a.Name, *a.NUMANode, a.GPUs))
				buses[a.PCIBusID] = true
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || len(buses) != len(got) {
				t.Errorf("%d places on PCI; adapters (-want +got):\n%s", len(buses), diff)
			}
			for i := range n.GPUs {
				if buses[n.GPUs[i].PCIBusID] {
					t.Errorf("GPU %d is at the place of an adapter", i)
				}
			}
			if compute := n.ComputeAdapters(nil).Adapters; len(compute) != len(tt.want) {
				t.Errorf("%d adapters are for compute, want %d", len(compute), len(tt.want))
			}
			if _, err := topology.EncodeReport(n); err != nil {
				t.Error(err)
			}
		})
	}
}
