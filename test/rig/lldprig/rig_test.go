package lldprig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/golden"
)

// kernel is what lldpd says of the machine that it runs on.
var kernel = regexp.MustCompile(` Linux [^"]*`)

// recorded are what a real lldpd has said, for tests without one: by file in folder recorded.
var recorded = map[string][]Cable{
	"none.json": nil,
	"one.json":  {{"eth1", "leaf-a", "02:00:00:00:01:01", "swp1"}},
	"two.json":  {{"eth1", "leaf-a", "02:00:00:00:01:01", "swp1"}, {"eth2", "leaf-b", "02:00:00:00:02:01", "swp1"}},
	"hub.json":  {{"eth1", "leaf-a", "02:00:00:00:01:01", "swp1"}, {"eth1", "leaf-b", "02:00:00:00:02:01", "swp1"}, {"eth2", "leaf-b", "02:00:00:00:02:02", "swp2"}},
}

// TestRealLLDP asks a real lldpd for its neighbours, and compares the answers with what was recorded
// and with the cables. lldpcli prints no list for no neighbour, an object for one, and an array for
// several. Two at one interface are two members of that array.
func TestRealLLDP(t *testing.T) {
	t.Parallel()
	for name, cables := range recorded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, path := NeighboursTest(t, cables...), filepath.Join("recorded", name)
			if golden.Updating() {
				if err := os.WriteFile(path, kernel.ReplaceAll(out, nil), 0o644); err != nil { //nolint:gosec // no secret
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shape, got := read(t, out)
			wantShape, wantCables := read(t, want)
			if shape != wantShape {
				t.Errorf("the neighbours are a JSON %q, recorded %q", shape, wantShape)
			}
			if diff := cmp.Diff(wantCables, got); diff != "" {
				t.Errorf("recorded and said (-want +got):\n%s", diff)
			}
			chassis := map[string]string{} // the address of the first port
			wantCables = map[Cable]bool{}
			for _, c := range cables {
				if chassis[c.Switch] == "" {
					chassis[c.Switch] = c.MAC
				}
				c.MAC = chassis[c.Switch]
				wantCables[c] = true
			}
			if diff := cmp.Diff(wantCables, got); diff != "" {
				t.Errorf("cables (-want +got):\n%s", diff)
			}
		})
	}
}

// read returns the first letter of the JSON value that has the neighbours, and the neighbours.
func read(t *testing.T, text []byte) (shape string, cables map[Cable]bool) {
	t.Helper()
	type id struct{ Type, Value string }
	type neighbour struct {
		Chassis map[string]struct{ ID id }
		Port    struct{ ID id }
	}
	var all struct {
		LLDP struct{ Interface json.RawMessage }
	}
	decode := func(text []byte, into any) {
		t.Helper()
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	decode(text, &all)
	cables = map[Cable]bool{}
	if len(all.LLDP.Interface) == 0 {
		return "", cables
	}
	shape = string(all.LLDP.Interface[:1])
	list := all.LLDP.Interface
	if shape == "{" {
		list = append(append([]byte{'['}, list...), ']')
	}
	var neighbours []map[string]neighbour
	decode(list, &neighbours)
	for _, n := range neighbours {
		for name, n := range n {
			for system, chassis := range n.Chassis {
				if chassis.ID.Type != "mac" || n.Port.ID.Type != "ifname" {
					t.Errorf("ids of %s are a %s and a %s", system, chassis.ID.Type, n.Port.ID.Type)
				}
				cables[Cable{name, system, chassis.ID.Value, n.Port.ID.Value}] = true
			}
		}
	}
	return shape, cables
}
