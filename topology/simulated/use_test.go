package simulated

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

const used = `groups:
- node: a
  gpus: {count: 2, product: G, memoryMiB: 1000}
  use: {processes: 1, utilization: 90, smActivity: 40, memoryMiB: 500, power: 600}
- node: m
  gpus: {count: 2, product: G, memoryMiB: 2000}
  mig: {profile: 1g.1gb, instances: 2, firstID: 7}
- node: cpu
timeline:
- {at: "10:00", say: all of a is idle, do: [{node: a, use: {}}]}
- {at: "10:01", say: one works with more than it has, do: [{node: a, gpu: 1, use: {processes: 3, utilization: 7, memoryMiB: 5000}}]}
- {at: "10:02", say: an instance works, do: [{node: m, gpu: 0, instance: 8, use: {processes: 1, utilization: 50, smActivity: 50}}]}
- {at: "10:03", say: a GPU is lost, do: [{node: a, gpu: 0, lost: true}]}
- {at: "10:04", say: all is as it was, do: [{node: a, clear: true}]}
- {at: "10:05", say: m says nothing, do: [{node: m, noReport: true}]}
`

// device is a device without its UUID.
func deviceOf(processes int, utilization, sm *float64, usedMiB, totalMiB uint64, watts *float64) topology.DeviceUse {
	return topology.DeviceUse{Processes: &processes, Utilization: utilization, SMActivity: sm, MemoryUsed: new(usedMiB << 20), MemoryTotal: new(totalMiB << 20), Power: watts}
}

func TestUse(t *testing.T) {
	c, err := Parse("s.yaml", []byte(used))
	if err != nil {
		t.Fatal(err)
	}
	check := func(node string, want ...topology.DeviceUse) {
		t.Helper()
		got, err := c.Use(node)
		if err != nil {
			t.Fatal(err)
		}
		m := machineOf(t, c, node)
		var uuids []string
		if m.Report != nil {
			for _, g := range m.Report.GPUs {
				if len(g.MIG) == 0 {
					uuids = append(uuids, g.UUID)
				}
				for _, i := range g.MIG {
					uuids = append(uuids, i.UUID)
				}
			}
		}
		for i := range want {
			want[i].UUID = uuids[i]
		}
		if diff := cmp.Diff(want, got); diff != "" || len(uuids) != len(got) {
			t.Errorf("%s (-want +got)\n%s", node, diff)
		}
	}
	busy := deviceOf(1, new(0.9), new(0.4), 500, 1000, new(600.0))
	idle := deviceOf(0, new(0.0), nil, 0, 1000, new(70.0))
	check("a", busy, busy)
	free := deviceOf(0, nil, nil, 0, 1000, nil)
	check("m", free, free, free, free)
	check("cpu")
	c.Apply(c.Steps[0])
	check("a", idle, idle)
	c.Apply(c.Steps[1])
	works := deviceOf(3, new(0.07), nil, 1000, 1000, new(70.0))
	check("a", idle, works)
	c.Apply(c.Steps[2])
	check("m", free, deviceOf(1, nil, new(0.5), 0, 1000, nil), free, free)
	c.Apply(c.Steps[3])
	check("a", works)
	c.Apply(c.Steps[4])
	check("a", busy, busy)
	c.Apply(c.Steps[5])
	check("m")
	if _, err := c.Use("b"); err == nil {
		t.Error("no error for a machine that is not there")
	}
}
