package simulated

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
)

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
		{"too many rails", "groups:\n- node: a\n  rails: 9\n", "s.yaml:3: rails: 9: want 0 to 8"},
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
		{"unknown fabric state", tiny + "faults:\n- node: a1-01\n  fabric: slow\n", `s.yaml:18: fabric: "slow": want notSupported, notStarted, inProgress, or completed with a status`},
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
