package adapters_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/sysfs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/adapters"
)

// neighbor is what lldpcli prints of one neighbor.
func neighbor(netDev, chassis, port string) string {
	return fmt.Sprintf(`{%q: {"via": "LLDP", "rid": "1", "age": "0 day, 00:00:17",
	  "chassis": %s,
	  "port": {"id": {"type": "ifname", "value": %q}, "descr": "to a machine", "ttl": "120"}}}`, netDev, chassis, port)
}

// lldp is what lldpcli prints of two neighbors and more.
func lldp(neighbors ...string) string {
	return `{"lldp": {"interface": [` + strings.Join(neighbors, ",\n") + `]}}`
}

// chassis is a neighbor with a name. capabilities are what it says that it can do.
func chassis(name string, last int, capabilities string) string {
	return fmt.Sprintf(`{%q: {"id": {"type": "mac", "value": "1c:34:da:00:00:%02x"}, "descr": "Linux", "mgmt-ip": ["10.0.0.1", "fe80::1"]%s}}`, name, last, capabilities)
}

// leaf is a switch.
func leaf(name string, last int) string {
	return chassis(name, last, `, "capability": [{"type": "Bridge", "enabled": true}, {"type": "Router", "enabled": false}]`)
}

// station is the lldpd of a BlueField.
func station(name string, last int) string {
	return chassis(name, last, `, "capability": [{"type": "Bridge", "enabled": false}, {"type": "Station", "enabled": true}]`)
}

func TestParseLLDP(t *testing.T) {
	one := topology.Neighbor{ChassisID: "1c:34:da:00:00:01", PortID: "swp1", SystemName: "leaf-1"}
	two := topology.Neighbor{ChassisID: "1c:34:da:00:00:02", PortID: "swp2", SystemName: "leaf-2"}
	const nameless = `{"id": {"type": "mac", "value": "1c:34:da:00:00:01"}}`
	for _, tt := range []struct {
		name, text string
		want       map[string][]topology.Neighbor
		err        string
	}{
		{"several", lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth1", leaf("leaf-2", 2), "swp2")), map[string][]topology.Neighbor{"eth0": {one}, "eth1": {two}}, ""},
		{"one, and so no list", `{"lldp": {"interface": ` + neighbor("eth0", leaf("leaf-1", 1), "swp1") + `}}`, map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"none", `{"lldp": {}}`, map[string][]topology.Neighbor{}, ""},
		{"an empty list", lldp(), map[string][]topology.Neighbor{}, ""},
		{"a switch without a name", lldp(neighbor("eth0", nameless, "swp1")), map[string][]topology.Neighbor{"eth0": {{ChassisID: one.ChassisID, PortID: "swp1"}}}, ""},
		{"a switch with the name id", lldp(neighbor("eth0", leaf("id", 1), "swp1")), map[string][]topology.Neighbor{"eth0": {{ChassisID: one.ChassisID, PortID: "swp1", SystemName: "id"}}}, ""},
		{"two switches at one interface", lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth0", leaf("leaf-2", 2), "swp2"), neighbor("eth1", leaf("leaf-2", 2), "swp2")), map[string][]topology.Neighbor{"eth0": {one, two}, "eth1": {two}}, ""},
		{"a switch beside a BlueField", lldp(neighbor("eth0", station("dpu-1", 9), "p0"), neighbor("eth0", leaf("leaf-1", 1), "swp1")), map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"a switch that says one thing, beside a BlueField that says none", lldp(neighbor("eth0", chassis("leaf-1", 1, `, "capability": {"type": "Router", "enabled": true}`), "swp1"), neighbor("eth0", chassis("dpu-1", 9, ""), "p0")), map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"a switch without a name beside a BlueField", lldp(neighbor("eth0", `{"id": {"type": "mac", "value": "1c:34:da:00:00:01"}, "capability": [{"type": "Bridge", "enabled": true}]}`, "swp1"), neighbor("eth0", station("dpu-1", 9), "p0")), map[string][]topology.Neighbor{"eth0": {{ChassisID: one.ChassisID, PortID: "swp1"}}}, ""},
		{"several that say nothing", lldp(neighbor("eth0", chassis("leaf-1", 1, ""), "swp1"), neighbor("eth0", nameless, "swp2")), map[string][]topology.Neighbor{"eth0": {{ChassisID: one.ChassisID, PortID: "swp2"}, one}}, ""},
		{"two stations", lldp(neighbor("eth0", station("leaf-2", 2), "swp2"), neighbor("eth0", station("leaf-1", 1), "swp1")), map[string][]topology.Neighbor{"eth0": {one, two}}, ""},
		{"capabilities of another form", lldp(neighbor("eth0", chassis("leaf-1", 1, `, "capability": "Bridge"`), "swp1")), map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"three at one interface, of which two are one", lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth0", leaf("leaf-2", 2), "swp2"), neighbor("eth0", leaf("leaf-2", 2), "swp2")), map[string][]topology.Neighbor{"eth0": {one, two}}, ""},
		{"the same twice", lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth0", leaf("leaf-1", 1), "swp1")), map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"another protocol too", lldp(strings.Replace(neighbor("eth0", leaf("leaf-1", 1), "Ethernet1/1"), "LLDP", "CDPv2", 1), neighbor("eth0", leaf("leaf-1", 1), "swp1")), map[string][]topology.Neighbor{"eth0": {one}}, ""},
		{"interfaces of the machine itself", lldp(strings.Replace(neighbor("eth0", leaf("n1", 9), "eth0"), `"via": "LLDP"`, `"status": "RX and TX"`, 1)), map[string][]topology.Neighbor{}, ""},
		{"a chassis without an id", lldp(neighbor("eth0", `{"leaf-1": {"descr": "?"}}`, "swp1"), neighbor("eth1", `{}`, "swp1")), map[string][]topology.Neighbor{}, ""},
		{"long names", lldp(neighbor("eth0", leaf(strings.Repeat("s", 300), 1), strings.Repeat("p", 300))), map[string][]topology.Neighbor{"eth0": {{ChassisID: one.ChassisID, PortID: strings.Repeat("p", 253) + "...", SystemName: strings.Repeat("s", 253) + "..."}}}, ""},
		{"half a file", lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"))[:80], nil, "read neighbors by LLDP: unexpected end of JSON input; want what lldpcli -f json show neighbors prints"},
		{"an empty file", "", nil, "unexpected end of JSON input"},
		{"another form of lldpcli", `{"lldp": [{"interface": [{"name": "eth0"}]}]}`, nil, "cannot unmarshal array"},
		{"other JSON", `{"node": "n1"}`, nil, "no key lldp; want what lldpcli"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := adapters.ParseLLDP([]byte(tt.text))
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func FuzzParseLLDP(f *testing.F) {
	f.Add([]byte(lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth1", `{"id": {"value": "x"}}`, "swp2"))))
	f.Add([]byte(`{"lldp": {"interface": ` + neighbor("eth0", leaf("id", 1), "swp1") + `}}`))
	f.Add([]byte(lldp(neighbor("eth0", leaf("leaf-1", 1), "swp1"), neighbor("eth0", station("dpu-1", 9), "p0"), neighbor("eth1", station("dpu-1", 9), "p0"), neighbor("eth1", station("dpu-2", 8), "p1"))))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := adapters.ParseLLDP(text)
		if err != nil && got != nil {
			t.Fatal("neighbors and an error")
		}
		for name, all := range got {
			for i, n := range all {
				for _, s := range []string{n.ChassisID, n.PortID, n.SystemName} {
					if len(s) > topology.MaxText {
						t.Fatalf("%s: a text of %d bytes", name, len(s))
					}
				}
				if n.ChassisID == "" || slices.Contains(all[:i], n) {
					t.Fatalf("%s: a neighbor without an id, or twice: %q", name, all)
				}
			}
			if len(all) == 0 {
				t.Fatalf("%s: no neighbor", name)
			}
		}
	})
}

// TestNeighbors reads the file of lldpcli beside a machine, while the file changes.
func TestNeighbors(t *testing.T) {
	s := sysfs.BondedEthernet()
	s.Adapters = append(s.Adapters, dual())
	tree := sysfs.Make(t, s)
	file := filepath.Join(t.TempDir(), "lldp.json")
	r := adapters.New(string(tree), file)
	second := 0
	write := func(text string) func() {
		return func() {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			second++
			if err := os.Chtimes(file, time.Time{}, time.Unix(int64(1_700_000_000+second), 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := lldp(neighbor("enp38s0np0", leaf("leaf-1", 1), "swp1"), neighbor("enp97s0f0np0", leaf("storage", 3), "swp9"), neighbor("ens5", leaf("old", 4), "1"), neighbor("ens5d1", leaf("old", 4), "2"), neighbor("eno1", leaf("mgmt", 5), "7"))
	want := []string{"mlx4_0 1 old 1", "mlx4_0 2 old 2", "mlx5_bond_0 1 storage swp9", "rocep38s0 1 leaf-1 swp1"}
	for _, step := range []struct {
		name   string
		change func()
		want   []string
		err    string
	}{
		{"no file", func() {}, nil, "no such file or directory"},
		{"neighbors", write(all), want, ""},
		{"the same file", func() {}, want, ""},
		{"half a file", write(all[:100]), nil, file + ": read neighbors by LLDP: unexpected end"},
		{"the same half", func() {}, nil, file + ": read neighbors by LLDP: unexpected end"},
		{"whole again", write(all), want, ""},
		{"fewer neighbors", write(lldp(neighbor("enp38s0np0", leaf("leaf-2", 2), "swp1"))), []string{"rocep38s0 1 leaf-2 swp1"}, ""},
		{"a large file", write(all + strings.Repeat(" ", 1<<20)), nil, "larger than 1048576 bytes"},
		{"no file again", func() { _ = os.Remove(file) }, nil, "no such file or directory"},
		{"a folder", func() { _ = os.Mkdir(file, 0o700) }, nil, "want a regular file"},
	} {
		step.change()
		out, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range out.Adapters {
			for _, p := range a.Ports {
				if n := p.Neighbor; n != (topology.Neighbor{}) {
					got = append(got, fmt.Sprint(a.Name, " ", p.Port, " ", n.SystemName, " ", n.PortID))
				}
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", step.name, diff)
		}
		if (out.LLDP == nil) != (step.err == "") || out.LLDP != nil && !strings.Contains(out.LLDP.Error(), step.err) {
			t.Errorf("%s: error %v, want %q", step.name, out.LLDP, step.err)
		}
	}
}

// TestSeveralNeighbors: where several neighbors are seen and nobody knows which is the switch, a fact is
// missing, until the switch is seen.
func TestSeveralNeighbors(t *testing.T) {
	tree := sysfs.Make(t, sysfs.BondedEthernet())
	file := filepath.Join(t.TempDir(), "lldp.json")
	read := func(text string) *adapters.Reading {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := adapters.New(string(tree), file).Read()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := read(lldp(neighbor("enp38s0np0", station("dpu-1", 1), "p0"), neighbor("enp38s0np0", station("dpu-2", 2), "p0")))
	want := []string{"switch port of rocep38s0 port 1: LLDP shows 2 neighbors at enp38s0np0, and not exactly one says that it is a switch; one is dpu-1"}
	if diff := cmp.Diff(want, unreadOf(r)); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}
	if missing := &r.Unread[0]; missing.Known(r.Adapters) {
		t.Error("the switch counts as known")
	} else if now := read(lldp(neighbor("enp38s0np0", leaf("leaf-1", 1), "swp1"))); !missing.Known(now.Adapters) || len(now.Unread) > 0 {
		t.Errorf("a switch is seen, and unread is %v", unreadOf(now))
	}
}
