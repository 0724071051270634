package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
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
			NVLinks: []topology.NVLink{{Link: 0, Remote: "switch"}},
			Fabric:  topology.Fabric{ClusterUUID: cluster, CliqueID: 2, State: topology.FabricCompleted, Health: topology.HealthHealthy, HealthFields: well}}
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
		{"an Xid", "{node: a1-01, gpu: 1, xid: 79}", "a1-01", "0:completed/1/healthy, 1:completed/1/healthy xids [79], XidError, chassis 01 tray 0 leaf-1"},
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
	}{
		{"from the start", nil, 1},
		{"the fabric registers anew in the same boot", []Fault{{Fabric: "inProgress"}}, 1},
		{"in another", []Fault{{Fabric: "inProgress", Reboot: true}}, 0},
		{"a GPU in another", []Fault{{GPU: &gpu, Fabric: "notStarted", Reboot: true}}, 0},
		{"has registered", []Fault{{Fabric: "inProgress", Reboot: true}, {Clear: true}}, 1},
		{"another clique in the same boot", []Fault{{Clique: &other}}, 1},
		{"in another boot", []Fault{{Clique: &other, Reboot: true}}, 9},
		{"of one GPU", []Fault{{GPU: &gpu, Clique: &other, Reboot: true}}, 0},
		{"carried to another rack", []Fault{{MoveTo: "a2-01"}}, 2},
		{"and back", []Fault{{MoveTo: "a2-01"}, {Clear: true}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parseOf(t, tiny)
			for _, f := range tt.faults {
				f.Node = "a1-01"
				c.Apply(Step{Do: []Fault{f}})
			}
			if got := machineOf(t, c, "a1-01").Report.Domain; got.Clique.ID != tt.want || got.IsZero() != (tt.want == 0) {
				t.Errorf("%s is confirmed, want clique %d", got, tt.want)
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
	if _, err := Open("nowhere"); err == nil || !strings.Contains(err.Error(), `no cluster "nowhere": want one of a100-mig, day-of-trouble`) {
		t.Errorf("Open of an unknown cluster: %v", err)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "s.yaml: empty: want a cluster with groups"},
		{"comment only", "# nothing\n", "s.yaml: empty: want a cluster with groups"},
		{"not YAML", "groups: [\n", "s.yaml:1: did not find expected node content"},
		{"tab", "groups:\n\t- x\n", "s.yaml:2: found character that cannot start any token"},
		{"text", "hello\n", "s.yaml:1: cannot unmarshal !!str `hello` into simulated.file"},
		{"two documents", "groups: [{node: a}]\n---\ngroups: []\n", "s.yaml: a second document: want one cluster in a file"},
		{"no groups", "name: x\n", "s.yaml:1: groups: missing: want at least one group of racks"},
		{"groups of another kind", "groups: {node: a}\n", "s.yaml:1: cannot unmarshal !!map into []simulated.group"},
		{"unknown key", "name: x\ngrops: []\n", "s.yaml:2: field grops not found in type simulated.file"},
		{"unknown key of a group", "groups:\n- node: a\n  nodez: 3\n", "s.yaml:3: field nodez not found in type simulated.group"},
		{"unknown key of GPUs", "groups:\n- node: a\n  gpus:\n    cores: 3\n", "s.yaml:4: field cores not found in type simulated.gpus"},
		{"key twice", "groups:\n- node: a\n  node: b\n", `s.yaml:3: mapping key "node" already defined at line 2`},
		{"not a number", "groups:\n- node: a\n  racks: many\n", "s.yaml:3: cannot unmarshal !!str `many` into int"},
		{"not a boolean", "groups:\n- node: a\n  platform: maybe\n", "s.yaml:3: cannot unmarshal !!str `maybe` into bool"},
		{"negative memory", "groups:\n- node: a\n  gpus:\n    count: 1\n    memoryMiB: -1\n", "s.yaml:5: cannot unmarshal !!int `-1` into uint64"},
		{"minors as text", "groups:\n- node: a\n  gpus: {minors: [x]}\n", "s.yaml:3: cannot unmarshal !!str `x` into int"},
		{"alias of itself", "groups: &g\n- tiers: *g\n", "s.yaml:2: cannot unmarshal !!map into string"},
		{"no racks", "groups:\n- node: a\n  racks: -1\n", "s.yaml:3: racks: -1: want 1 to 100000"},
		{"too many machines", "groups:\n- node: a-{node}\n  racks: 1000\n  nodes: 1000\n", "s.yaml:3: racks: 1000 racks of 1000 nodes: want at most 100000 machines in all"},
		{"no name", "groups:\n- racks: 1\n", "s.yaml:2: node: missing: want a pattern such as gb200-{node:03}"},
		{"one name for two", "groups:\n- nodes: 2\n  node: a\n", `s.yaml:3: node: pattern "a" gives the name "a" twice: want {node}, or {rack} and {tray}`},
		{"one name in two groups", "groups:\n- node: a\n- node: a\n", `s.yaml:3: node: "a" is also a machine of another group: want names of their own`},
		{"name that is a path", "groups:\n- node: ../../a\n", `s.yaml:2: node: "../../a": want lower case letters, digits, dashes and dots, such as gb200-{node:03}`},
		{"unknown number", "groups:\n- node: a-{slot}\n", `s.yaml:2: node: pattern "a-{slot}": want {rack}, {tray} or {node}, as {rack/4} or {node:03} too`},
		{"broken pattern", "groups:\n- node: a-{node\n", `s.yaml:2: node: pattern "a-{node": want {rack}, {tray} or {node}, as {rack/4} or {node:03} too`},
		{"division by zero", "groups:\n- node: a-{node/0}\n", `s.yaml:2: node: pattern "a-{node/0}": want {rack}, {tray} or {node}, as {rack/4} or {node:03} too`},
		{"empty tier", "groups:\n- node: a\n  tiers: ['']\n", "s.yaml:3: tiers: one is empty: want the names of switches, nearest first, such as leaf-{rack}"},
		{"too many tiers", "groups:\n- node: a\n  tiers: [a, b, c, d]\n", "s.yaml:3: tiers: 4 of them: want at most 3"},
		{"broken tier", "groups:\n- node: a\n  tiers: ['{leaf}']\n", `s.yaml:3: tiers: pattern "{leaf}": want {rack}, {tray} or {node}, as {rack/4} or {node:03} too`},
		{"unknown nvlink", "groups:\n- node: a\n  nvlink: row\n", `s.yaml:3: nvlink: "row": want rack, node or none`},
		{"too many GPUs", "groups:\n- node: a\n  gpus:\n    count: 65\n", "s.yaml:4: gpus.count: 65: want 0 to 64"},
		{"no product", "groups:\n- node: a\n  gpus:\n    count: 1\n", "s.yaml:4: gpus.product: missing: want such as NVIDIA GB200"},
		{"odd CPUs", "groups:\n- node: a\n  gpus: {cpus: 9, numaNodes: 2}\n", "s.yaml:3: gpus.cpus: 9: want a multiple of the 2 NUMA nodes"},
		{"too few minors", "groups:\n- node: a\n  gpus: {count: 2, product: x, minors: [0]}\n", "s.yaml:3: gpus.minors: 1 numbers: want one per GPU, 2"},
		{"minor twice", "groups:\n- node: a\n  gpus: {count: 2, product: x, minors: [1, 1]}\n", "s.yaml:3: gpus.minors: 1 stands twice: want each number once"},
		{"minor out of range", "groups:\n- node: a\n  gpus: {count: 1, product: x, minors: [256]}\n", "s.yaml:3: gpus.minors: 256: want 0 to 255"},
		{"MIG without profile", "groups:\n- node: a\n  mig:\n    instances: 2\n", `s.yaml:4: mig.profile: "": want such as 1g.10gb`},
		{"too many MIG instances", "groups:\n- node: a\n  mig:\n    instances: 8\n", "s.yaml:4: mig.instances: 8: want 0 to 7"},
		{"fault of nobody", tiny + "faults:\n- node: c\n  absent: true\n", `s.yaml:17: node: no machine "c": want one of the groups' machines, such as a1-01`},
		{"fault of nothing", tiny + "faults:\n- node: b-1\n", "s.yaml:17: want exactly one of absent, noReport, label, moveTo, imex, clear, fabric, health, clique, lost, xid, use, or reboot alone"},
		{"use out of range", tiny + "faults:\n- node: b-1\n  use:\n    utilization: 101\n", "s.yaml:19: use.utilization: 101: want 0 to 100 percent"},
		{"use of a group out of range", "groups:\n- node: a\n  use: {smActivity: -1}\n", "s.yaml:3: use.smActivity: -1: want 0 to 100 percent"},
		{"negative power", tiny + "faults:\n- {node: b-1, use: {power: -1}}\n", "s.yaml:17: use.power: -1: want 0 to 10000 watts"},
		{"negative processes", tiny + "faults:\n- {node: b-1, use: {processes: -1}}\n", "s.yaml:17: use.processes: -1: want 0 or more"},
		{"unknown use", tiny + "faults:\n- {node: b-1, use: {fan: 1}}\n", "s.yaml:17: field fan not found in type simulated.use"},
		{"use of nothing", tiny + "faults:\n- {node: b-1, use: }\n", "s.yaml:17: want exactly one of absent, noReport, label, moveTo, imex, clear, fabric, health, clique, lost, xid, use, or reboot alone"},
		{"imex of nothing", tiny + "faults:\n- {node: b-1, imex: }\n", "s.yaml:17: want exactly one of absent, noReport, label, moveTo, imex, clear, fabric, health, clique, lost, xid, use, or reboot alone"},
		{"unknown fact of imex", "groups:\n- node: a\n  imex: {state: UP}\n", "s.yaml:3: field state not found in type simulated.imexFacts"},
		{"imex without a major", "groups:\n- node: a\n  imex:\n    daemon: READY\n", "s.yaml:4: imex.major: missing: want it, such as 235, beside any other key of imex"},
		{"major of imex out of range", "groups:\n- node: a\n  imex: {major: 4096}\n", "s.yaml:3: imex.major: 4096: want 0 to 4095"},
		{"too many channels", "groups:\n- node: a\n  imex: {major: 235, channels: 2049}\n", "s.yaml:3: imex.channels: 2049: want 0 to 2048"},
		{"unknown daemon's state", tiny + "faults:\n- {node: b-1, imex: {major: 235, daemon: ready}}\n", `s.yaml:17: imex.daemon: "ready": want a state such as READY or WAITING_FOR_PEERS`},
		{"unknown domain's state", tiny + "faults:\n- {node: b-1, imex: {major: 235, domain: half up}}\n", `s.yaml:17: imex.domain: "half up": want a state such as UP, DEGRADED or DOWN`},
		{"GPU of imex", tiny + "faults:\n- {node: b-1, gpu: 0, imex: {}}\n", "s.yaml:17: gpu: 0: want it with fabric, health, clique, lost, xid, use only"},
		{"instance without a use", tiny + "faults:\n- {node: b-1, gpu: 0, instance: 1, lost: true}\n", "s.yaml:17: instance: 1: want it with use and gpu, on a machine with mig"},
		{"two faults in one", tiny + "faults:\n- {node: b-1, absent: true, clear: true}\n", "s.yaml:17: want exactly one of absent, noReport, label, moveTo, imex, clear, fabric, health, clique, lost, xid, use, or reboot alone"},
		{"unknown key of a fault", tiny + "faults:\n- node: b-1\n  absnt: true\n", "s.yaml:18: field absnt not found in type simulated.Fault"},
		{"unknown fabric state", tiny + "faults:\n- node: a1-01\n  fabric: slow\n", `s.yaml:18: fabric: "slow": want notStarted, inProgress, or completed with a status`},
		{"completed without status", tiny + "faults:\n- node: a1-01\n  fabric: completed\n", "s.yaml:17: status: missing: want the NVML error that the registration ended with, such as ERROR_UNKNOWN"},
		{"status alone", tiny + "faults:\n- node: a1-01\n  health: unhealthy\n  status: x\n", `s.yaml:19: status: "x": want it with fabric: completed only`},
		{"unknown health", tiny + "faults:\n- node: a1-01\n  health: poor\n", `s.yaml:18: health: "poor": want unhealthy or limitedCapacity`},
		{"fabric of a machine without", tiny + "faults:\n- node: b-1\n  fabric: inProgress\n", "s.yaml:17: node: b-1 has no NVLink fabric: want a machine of a group with nvlink: rack or node"},
		{"GPU out of range", tiny + "faults:\n- node: b-1\n  lost: true\n  gpu: 2\n", "s.yaml:19: gpu: 2: want 0 to 1 on machine b-1"},
		{"GPU of an absent machine", tiny + "faults:\n- node: b-1\n  absent: true\n  gpu: 0\n", "s.yaml:19: gpu: 0: want it with fabric, health, clique, lost, xid, use only"},
		{"lost without GPU", tiny + "faults:\n- node: b-1\n  lost: true\n", "s.yaml:17: gpu: missing: want the index of the lost GPU"},
		{"moved to nobody", tiny + "faults:\n- node: b-1\n  moveTo: c\n", `s.yaml:18: moveTo: no machine "c": want one of the groups' machines, such as a1-01`},
		{"negative clique", tiny + "faults:\n- node: a1-01\n  clique: -1\n", "s.yaml:18: cannot unmarshal !!int `-1` into uint32"},
		{"step without time", tiny + "timeline:\n- say: x\n  do: [{node: b-1, absent: true}]\n", `s.yaml:17: at: "": want a time of day such as "09:10"`},
		{"step at no time of day", tiny + "timeline:\n- say: x\n  at: '24:00'\n  do: [{node: b-1, absent: true}]\n", `s.yaml:18: at: "24:00": want a time of day such as "09:10"`},
		{"steps out of order", tiny + "timeline:\n- {at: '10:00', say: x, do: [{node: b-1, absent: true}]}\n- {at: '09:00', say: x, do: [{node: b-1, clear: true}]}\n", `s.yaml:18: at: "09:00": comes before "10:00": want the steps in their order`},
		{"step without words", tiny + "timeline:\n- {at: '10:00', do: [{node: b-1, absent: true}]}\n", "s.yaml:17: say: missing: want what happens, in words"},
		{"step without deeds", tiny + "timeline:\n- {at: '10:00', say: x}\n", "s.yaml:17: do: missing: want at least one thing that happens to a machine"},
		{"deed of nobody", tiny + "timeline:\n- at: '10:00'\n  say: x\n  do:\n  - node: c\n", `s.yaml:20: node: no machine "c": want one of the groups' machines, such as a1-01`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("s.yaml", []byte(tt.text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error (-want +got)\n%s", diff)
			}
		})
	}
}

// FuzzParse holds that whatever the file says, its machines have names of their
// own and reports that the report's own reader takes.
func FuzzParse(f *testing.F) {
	f.Add([]byte(tiny))
	f.Add([]byte(tiny + "faults: [{node: a1-01, gpu: 1, fabric: completed, status: X}, {node: b-1, gpu: 0, lost: true}, {node: a2-01, label: N/A}]\n"))
	f.Add([]byte(tiny + "timeline:\n- {at: '10:00', say: x, do: [{node: a1-01, moveTo: a2-01, reboot: true}]}\n- {at: '10:30', say: x, do: [{node: a1-01, clear: true}]}\n"))
	f.Add([]byte("groups: &g\n- {node: a, tiers: *g}\n"))
	f.Add([]byte("groups:\n- {node: a, gpus: {count: 1, product: G, memoryMiB: 1}, use: &u {processes: 1, smActivity: 4, memoryMiB: 9}}\nfaults: [{node: a, gpu: 0, use: *u}]\n"))
	f.Add([]byte("groups:\n- node: a\n  <<: {racks: 2}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "fuzz.yaml:") {
				t.Fatalf("error without the file's name: %v", err)
			}
			return
		}
		if len(c.machines) > 100 || len(c.Steps) > 20 {
			return
		}
		for _, s := range append([]Step{{}}, c.Steps...) {
			c.Apply(s)
		}
		names := map[string]bool{}
		for _, m := range c.Machines() {
			uses, err := c.Use(m.Name)
			if err == nil {
				_, err = probe.EncodeSample(topology.Sample{Devices: uses})
			}
			if err != nil {
				t.Fatal(err)
			}
			if names[m.Name] || strings.ContainsAny(m.Name, "/\\ \n") {
				t.Fatalf("machine %q", m.Name)
			}
			names[m.Name] = true
			if m.Report != nil {
				reread(t, m.Report)
			}
		}
	})
}

func reread(t *testing.T, n *topology.Node) {
	t.Helper()
	data, err := topology.EncodeReport(n)
	if err != nil {
		t.Fatal(err)
	}
	back, err := topology.ParseReport("report", data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	first, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first, again) {
		t.Fatalf("report read back differs\n%s\n%s", first, again)
	}
}

// large is a site of 10,008 machines in 556 racks.
const large = `groups:
- {racks: 556, nodes: 18, node: "gb200-{node:05}", nvlink: rack, platform: true, tiers: ["leaf-{rack:03}", "spine-{rack/8}"],
   gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}}
`

func BenchmarkParse10008(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if c := parseOf(b, large); len(c.machines) != 10008 {
			b.Fatalf("%d machines", len(c.machines))
		}
	}
}

func BenchmarkMachines10008(b *testing.B) {
	c := parseOf(b, large)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(c.Machines()); n != 10008 {
			b.Fatalf("%d machines", n)
		}
	}
}
