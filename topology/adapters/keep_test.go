package adapters_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/sysfs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// TestKeep changes what a machine shows: what is not seen now stays as it was.
func TestKeep(t *testing.T) {
	all := read(t, sysfs.Make(t, sysfs.DGXH100())).Adapters
	machine := func() []topology.Adapter {
		list := slices.Clone(all)
		for i := range list {
			list[i].Ports = slices.Clone(list[i].Ports)
		}
		list[0].Ports[0].Neighbor = topology.Neighbor{ChassisID: "1c:34:da:00:00:01", PortID: "swp1"}
		return list
	}
	before := machine()
	type list = []topology.Adapter
	stays := func(before, _ list) list { return before }
	follows := func(_, now list) list { return now }
	for _, tt := range []struct {
		name   string
		change func(now list) list
		want   func(before, now list) list
	}{
		{"nothing", func(now list) list { return now }, stays},
		{"no adapter", func(list) list { return nil }, stays},
		{"an adapter is dead", func(now list) list { return slices.Delete(now, 3, 4) }, stays},
		{"all of an adapter cannot be read", func(now list) list {
			now[0] = topology.Adapter{Name: "mlx5_0", PCIBusID: now[0].PCIBusID}
			return now
		}, stays},
		{"a port cannot be read, its link is down and its neighbor silent", func(now list) list {
			now[0].Ports[0] = topology.AdapterPort{Port: 1}
			return now
		}, stays},
		{"a link trained badly", func(now list) list { now[0].Ports[0].RateGbps = 100; return now }, stays},
		{"the driver of the GPUs is unloaded, and a container has the interfaces", func(now list) list {
			for i := range now {
				now[i].GPUs, now[i].NetDevs = nil, nil
			}
			return now
		}, stays},
		{"a link is faster", func(now list) list { now[0].Ports[0].RateGbps = 800; return now }, follows},
		{"another neighbor, another interface", func(now list) list {
			now[0].Ports[0].Neighbor, now[0].NetDevs = topology.Neighbor{ChassisID: "2", PortID: "swp2"}, []string{"ib7"}
			return now
		}, follows},
		{"a new name", func(now list) list { now[0].Name = "ibp24s0"; return now }, follows},
		{"two adapters change names", func(now list) list {
			now[0].Name, now[1].Name = "mlx5_1", "mlx5_0"
			return list{now[1], now[0]}
		}, func(before, _ list) list {
			before[0].Name, before[1].Name = "mlx5_1", "mlx5_0"
			return before
		}},
		{"a dead adapter's name went to another", func(now list) list { now[1].Name = "mlx5_0"; return now[1:] }, follows},
		{"another adapter in the slot", func(now list) list {
			now[0] = topology.Adapter{Name: "mlx5_0", PCIBusID: now[0].PCIBusID, NodeGUID: "946dae03000fffff"}
			return now
		}, follows},
		{"a port that speaks Ethernet now", func(now list) list {
			now[0].Ports[0] = topology.AdapterPort{Port: 1, LinkLayer: topology.LinkEthernet, RateGbps: 200}
			return now
		}, func(before, now list) list {
			now[0].Ports[0].Neighbor = before[0].Ports[0].Neighbor
			return now
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sorted := func(list []topology.Adapter) []topology.Adapter {
				slices.SortFunc(list, func(a, b topology.Adapter) int { return strings.Compare(a.Name, b.Name) })
				return list
			}
			want, now := tt.want(machine(), tt.change(machine())), tt.change(machine())
			got := adapters.Keep(before, now)
			if diff := cmp.Diff(sorted(slices.Clone(want)), sorted(slices.Clone(got))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(machine(), before); diff != "" {
				t.Errorf("what was before has changed:\n%s", diff)
			}
			if diff := cmp.Diff(tt.change(machine()), now); diff != "" {
				t.Errorf("what is now has changed:\n%s", diff)
			}
			if diff := cmp.Diff(got, adapters.Keep(got, now)); diff != "" {
				t.Errorf("kept again (-want +got)\n%s", diff)
			}
		})
	}
}

// TestKeepIsBounded: many names over a boot do not fill a report.
func TestKeepIsBounded(t *testing.T) {
	many := read(t, sysfs.Make(t, sysfs.Many(32))).Adapters
	now := []topology.Adapter{{Name: "new", PCIBusID: "00000000:FF:00.0"}}
	if got := adapters.Keep(many, now); len(got) != 32 || !slices.ContainsFunc(got, func(a topology.Adapter) bool { return a.Name == "new" }) {
		t.Errorf("%d adapters", len(got))
	}
}

// TestKeepNeighbors takes the neighbors of an earlier boot and nothing else.
func TestKeepNeighbors(t *testing.T) {
	swp := topology.Neighbor{ChassisID: "1", PortID: "swp1"}
	other := topology.Neighbor{ChassisID: "2", PortID: "swp2"}
	adapter := func(guid string, port int, n topology.Neighbor) topology.Adapter {
		return topology.Adapter{Name: "mlx5_0", PCIBusID: "00000000:05:00.0", NodeGUID: guid, Ports: []topology.AdapterPort{{Port: port, Neighbor: n}}}
	}
	before := adapter("946dae0300000001", 1, swp)
	before.Ports[0].RateGbps = 400
	for _, tt := range []struct {
		name      string
		now, want topology.Adapter
	}{
		{"silent", adapter("946dae0300000001", 1, topology.Neighbor{}), adapter("946dae0300000001", 1, swp)},
		{"another is seen", adapter("946dae0300000001", 1, other), adapter("946dae0300000001", 1, other)},
		{"another adapter", adapter("946dae0300000002", 1, topology.Neighbor{}), adapter("946dae0300000002", 1, topology.Neighbor{})},
		{"another port", adapter("946dae0300000001", 2, topology.Neighbor{}), adapter("946dae0300000001", 2, topology.Neighbor{})},
	} {
		if diff := cmp.Diff([]topology.Adapter{tt.want}, adapters.KeepNeighbors([]topology.Adapter{before}, []topology.Adapter{tt.now})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
}

// TestKeepPorts reads an adapter of more ports than a report holds: ports that had a link in this boot
// stay, also while another port is shown in their place.
func TestKeepPorts(t *testing.T) {
	adapter := func(rates map[int]int) []topology.Adapter {
		a := topology.Adapter{Name: "mlx5_0", PCIBusID: "00000000:05:00.0"}
		for _, port := range slices.Sorted(maps.Keys(rates)) {
			a.Ports = append(a.Ports, topology.AdapterPort{Port: port, RateGbps: rates[port]})
		}
		return []topology.Adapter{a}
	}
	for _, tt := range []struct {
		name              string
		before, now, want map[int]int
	}{
		{"a link is down", map[int]int{3: 200, 6: 200, 9: 200, 12: 200}, map[int]int{1: 0, 6: 200, 9: 200, 12: 200}, map[int]int{3: 200, 6: 200, 9: 200, 12: 200}},
		{"the first links after a boot", map[int]int{1: 0, 2: 0, 3: 0, 4: 0}, map[int]int{3: 200, 6: 200, 9: 200, 12: 200}, map[int]int{3: 200, 6: 200, 9: 200, 12: 200}},
		{"no links before and now", map[int]int{1: 0, 2: 0, 3: 0, 4: 0}, map[int]int{3: 0, 6: 0, 9: 0, 12: 0}, map[int]int{3: 0, 6: 0, 9: 0, 12: 0}},
		{"a port cannot be listed", map[int]int{1: 40, 2: 100}, map[int]int{2: 100}, map[int]int{1: 40, 2: 100}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := adapters.Keep(adapter(tt.before), adapter(tt.now))
			if diff := cmp.Diff(adapter(tt.want), got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(got, adapters.Keep(got, adapter(tt.now))); diff != "" {
				t.Errorf("kept again (-want +got)\n%s", diff)
			}
		})
	}
}
