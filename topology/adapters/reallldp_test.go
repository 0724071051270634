package adapters_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/lldprig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// TestRealLLDP reads what a real lldpcli prints on a node with one cable, with several, with two
// that meet in a hub, and with none.
func TestRealLLDP(t *testing.T) {
	t.Parallel()
	first := lldprig.Cable{Interface: "eth0", Switch: "leaf-1", MAC: "02:00:00:00:01:01", Port: "swp1"}
	second := lldprig.Cable{Interface: "eth1", Switch: "leaf-2", MAC: "02:00:00:00:02:01", Port: "swp9"}
	third := lldprig.Cable{Interface: "eth2", Switch: "leaf-2", MAC: "02:00:00:00:02:02", Port: "swp10"}
	hub := lldprig.Cable{Interface: "eth0", Switch: "leaf-3", MAC: "02:00:00:00:03:01", Port: "swp1"}
	leaf1 := topology.Neighbor{ChassisID: "02:00:00:00:01:01", PortID: "swp1", SystemName: "leaf-1"}
	leaf2 := topology.Neighbor{ChassisID: "02:00:00:00:02:01", PortID: "swp9", SystemName: "leaf-2"}
	leaf2Again := topology.Neighbor{ChassisID: "02:00:00:00:02:01", PortID: "swp10", SystemName: "leaf-2"}
	leaf3 := topology.Neighbor{ChassisID: "02:00:00:00:03:01", PortID: "swp1", SystemName: "leaf-3"}
	for _, tt := range []struct {
		name   string
		cables []lldprig.Cable
		want   map[string][]topology.Neighbor
	}{
		{"none", nil, map[string][]topology.Neighbor{}},
		{"one", []lldprig.Cable{first}, map[string][]topology.Neighbor{"eth0": {leaf1}}},
		{"several", []lldprig.Cable{first, second, third}, map[string][]topology.Neighbor{"eth0": {leaf1}, "eth1": {leaf2}, "eth2": {leaf2Again}}},
		{"a hub", []lldprig.Cable{first, hub, second}, map[string][]topology.Neighbor{"eth0": {leaf1, leaf3}, "eth1": {leaf2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := lldprig.NeighboursTest(t, tt.cables...)
			got, err := adapters.ParseLLDP(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("neighbors (-want +got):\n%s\nof\n%s", diff, text)
			}
		})
	}
}
