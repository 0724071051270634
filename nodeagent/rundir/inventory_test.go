package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/dcgm/document"
)

func testInventory() *Inventory {
	one := 1
	return &Inventory{Head: document.HeadOf(inventoryKind), Node: "n1", Entries: []Entry{
		{GRESIndex: 0, Minor: 2, UUID: "GPU-a", ExporterID: "5"},
		{GRESIndex: 1, Minor: 3, UUID: "GPU-b", ExporterID: "4"},
		{GRESIndex: 2, Minor: 4, UUID: "MIG-c", GPUUUID: "GPU-c", GPUInstanceID: &one, Capabilities: []string{"/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"}, ExporterID: "6.1"},
	}}
}

func TestResolve(t *testing.T) {
	inv := testInventory()
	const mig = "/dev/nvidia4,/dev/nvidia-caps/nvidia-cap22,/dev/nvidia-caps/nvidia-cap21"
	files := func(list ...string) []string { return list }
	lost := &Inventory{Entries: []Entry{{Minor: 5, UUID: "GPU-l", Lost: true}, {GRESIndex: 1, Minor: 6, UUID: "GPU-m", ExporterID: "6"}}}
	tests := []struct {
		name    string
		inv     *Inventory
		devices []string
		visible string
		want    []string
		err     string
	}{
		{"files by inventory", inv, files("/dev/nvidia3", "/dev/nvidia2"), "", []string{"4", "5"}, ""},
		{"CUDA's numbers are not Slurm's", inv, files("/dev/nvidia3", mig), "0,1,2", []string{"4", "6.1"}, ""},
		{"UUIDs win over files", inv, files("/dev/nvidia2"), "GPU-b", []string{"4"}, ""},
		{"MIG by UUID", inv, nil, "MIG-c", []string{"6.1"}, ""},
		{"another MIG instance", inv, files("/dev/nvidia4,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap30"), "", nil, "no /dev/nvidia4"},
		{"the whole GPU of a MIG instance", inv, files("/dev/nvidia4"), "", nil, "no /dev/nvidia4"},
		{"no inventory", nil, files("/dev/nvidia3", "/dev/nvidia1"), "", []string{"3", "1"}, ""},
		{"no inventory, MIG", nil, files(mig, "/dev/nvidia1"), "", []string{"1"}, "no /dev/nvidia4"},
		{"no device for CUDA", inv, files("/dev/nvidia3"), "NoDevFiles", []string{"4"}, ""},
		{"all devices for CUDA", inv, files("/dev/nvidia2"), "all", []string{"5"}, ""},
		{"void, as in a container", inv, files(mig), "void", []string{"6.1"}, ""},
		{"CUDA's numbers alone", inv, nil, "0,1", nil, ""},
		{"one MIG instance of two is known", inv, nil, "MIG-x,MIG-c", []string{"6.1"}, "no MIG-x"},
		{"a number after a UUID", inv, nil, "MIG-c,1", []string{"6.1"}, "no 1"},
		{"no inventory, UUIDs and files", nil, files("/dev/nvidia3"), "GPU-b", []string{"3"}, ""},
		{"no inventory, UUIDs alone", nil, nil, "GPU-b", nil, "no inventory: GPU-b"},
		{"a file that the inventory lacks", inv, files("/dev/nvidia2", "/dev/nvidia7"), "", []string{"5"}, "no /dev/nvidia7"},
		{"a file of another name", inv, files("/dev/dri/card2"), "", nil, "no /dev/dri/card2"},
		{"stale inventory: no label rather than a wrong one", inv, files("/dev/nvidia2"), "GPU-x,GPU-y", nil, "no GPU-x"},
		{"MIG that the inventory does not know", inv, files("/dev/nvidia2"), "MIG-x", nil, "no MIG-x"},
		{"MIG without an inventory", nil, files("/dev/nvidia2"), "MIG-x", nil, "no inventory: MIG-x"},
		{"a lost GPU by its file", lost, files("/dev/nvidia5", "/dev/nvidia6"), "", []string{"6"}, "/dev/nvidia5 is lost"},
		{"a lost GPU by its UUID", lost, nil, "GPU-l", nil, "GPU-l is lost"},
		{"none", inv, nil, "", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r Record
			held, err := tt.inv.Resolve(tt.devices, tt.visible)
			r.SetDevices(held)
			if diff := cmp.Diff(tt.want, r.GPUs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestResolveRecord has the records of jobs follow the inventory of now.
func TestResolveRecord(t *testing.T) {
	a, b, c := Entry{UUID: "GPU-a", ExporterID: "0"}, Entry{GRESIndex: 1, Minor: 1, UUID: "GPU-b", ExporterID: "1"}, Entry{GRESIndex: 1, UUID: "GPU-c", ExporterID: "1"}
	lost := Entry{GRESIndex: 1, UUID: "GPU-b", Lost: true}
	moved := Entry{UUID: "GPU-a", ExporterID: "5"}
	for name, tt := range map[string]struct {
		inv     []Entry // nil: there is no inventory
		record  Record
		want    Record
		devices []Entry
	}{
		"as it was":                         {[]Entry{a, b}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}}, []Entry{a}},
		"another id":                        {[]Entry{moved, b}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}}, Record{GPUs: []string{"5"}, UUIDs: []string{"GPU-a"}}, []Entry{moved}},
		"gone, and its id is free":          {[]Entry{a}, Record{GPUs: []string{"7"}, UUIDs: []string{"GPU-d"}}, Record{GPUs: []string{"7"}, UUIDs: []string{"GPU-d"}}, []Entry{{UUID: "GPU-d", ExporterID: "7"}}},
		"gone, and another has its id":      {[]Entry{a, c}, Record{GPUs: []string{"0", "1"}, UUIDs: []string{"GPU-a", "GPU-b"}}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a", "GPU-b"}}, []Entry{a, {UUID: "GPU-b"}}},
		"lost":                              {[]Entry{a, lost}, Record{GPUs: []string{"0", "1"}, UUIDs: []string{"GPU-a", "GPU-b"}}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a", "GPU-b"}}, []Entry{a, lost}},
		"ids alone":                         {[]Entry{a, b}, Record{GPUs: []string{"1", "9"}}, Record{GPUs: []string{"1", "9"}, UUIDs: []string{"GPU-b"}}, []Entry{b, {ExporterID: "9"}}},
		"no inventory":                      {nil, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a", "GPU-b"}, Unresolved: true}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a", "GPU-b"}, Unresolved: true}, []Entry{{UUID: "GPU-a"}, {UUID: "GPU-b"}}},
		"a guess, and nothing to go by":     {[]Entry{a, b}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}, Unresolved: true}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}, Unresolved: true}, []Entry{a}},
		"a guess, and a device file":        {[]Entry{a, b}, Record{GPUs: []string{"0"}, Devices: []string{"/dev/nvidia1"}, Unresolved: true}, Record{GPUs: []string{"1"}, UUIDs: []string{"GPU-b"}, Devices: []string{"/dev/nvidia1"}}, []Entry{b}},
		"a guess, and a UUID":               {[]Entry{a, b}, Record{Visible: "GPU-b", Unresolved: true}, Record{GPUs: []string{"1"}, UUIDs: []string{"GPU-b"}, Visible: "GPU-b"}, []Entry{b}},
		"a guess, and one UUID of two":      {[]Entry{a, b}, Record{Visible: "GPU-b,GPU-d", Unresolved: true}, Record{GPUs: []string{"1"}, UUIDs: []string{"GPU-b"}, Visible: "GPU-b,GPU-d", Unresolved: true}, []Entry{b}},
		"no guess, and another device file": {[]Entry{a, b}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}, Devices: []string{"/dev/nvidia1"}}, Record{GPUs: []string{"0"}, UUIDs: []string{"GPU-a"}, Devices: []string{"/dev/nvidia1"}}, []Entry{a}},
	} {
		t.Run(name, func(t *testing.T) {
			var inv *Inventory
			if tt.inv != nil {
				inv = &Inventory{Entries: tt.inv}
			}
			now, devices := tt.record.Resolve(inv)
			if diff := cmp.Diff(tt.want, now); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.devices, devices); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseIndices(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "0,1": {0, 1}, "0-2, 7": {0, 1, 2, 7}} {
		if got, err := ParseIndices(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"0,x", "0-65535", "3-1", "-1", "0x1"} {
		if got, err := ParseIndices(list); err == nil || !strings.Contains(err.Error(), "want numbers") {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}

func TestInventoryRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := testInventory()
	if err := Dir(dir).WriteInventory(*want); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(filepath.Join(dir, InventoryFile))
	if err := Dir(dir).WriteInventory(*want); err != nil {
		t.Fatal(err)
	}
	after, _ := os.Stat(filepath.Join(dir, InventoryFile))
	if !os.SameFile(before, after) {
		t.Error("an unchanged inventory was written again")
	}
	got, err := Dir(dir).ReadInventory()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"two documents":   `{"apiVersion":"quoin.dev/v1alpha1","kind":"Inventory","node":"n","entries":[]}{}`,
		"another version": `{"apiVersion":"quoin.dev/v2","kind":"Inventory","node":"n","entries":[]}`,
		"not JSON":        `{`,
		"wrong order":     `{"apiVersion":"quoin.dev/v1alpha1","kind":"Inventory","node":"n","entries":[{"gresIndex":1,"minor":0,"uuid":"GPU-a","exporterID":"0"}]}`,
		"bad exporter id": `{"apiVersion":"quoin.dev/v1alpha1","kind":"Inventory","node":"n","entries":[{"gresIndex":0,"minor":0,"uuid":"GPU-a","exporterID":"a/b"}]}`,
	} {
		if _, err := readInventory(t, text); err == nil || !strings.Contains(err.Error(), "inventory.json: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// readInventory reads a text as an inventory.
func readInventory(t *testing.T, text string) (*Inventory, error) {
	t.Helper()
	dir := Dir(t.TempDir())
	if err := os.WriteFile(filepath.Join(string(dir), InventoryFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir.ReadInventory()
}

// TestInventoryOfNewerAgent reads what this hook knows of it.
func TestInventoryOfNewerAgent(t *testing.T) {
	const text = `{"apiVersion":"quoin.dev/v1alpha1","kind":"Inventory","node":"n","x":1,"entries":[{"gresIndex":0,"minor":0,"uuid":"GPU-a","exporterID":"5","y":{}}]}`
	inv, err := readInventory(t, text)
	if err != nil || len(inv.Entries) != 1 || inv.Entries[0].ExporterID != "5" {
		t.Errorf("%+v, %v", inv, err)
	}
}

func FuzzInventory(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"quoin.dev/v1alpha1","kind":"Inventory","node":"n","entries":[{"gresIndex":0,"minor":0,"uuid":"GPU-a","exporterID":"0.1"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		inv, err := readInventory(t, string(data))
		if err != nil {
			return
		}
		dir := t.TempDir()
		if err := Dir(dir).WriteInventory(*inv); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if _, err := Dir(dir).ReadInventory(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzResolve(f *testing.F) {
	f.Add("0,2-3", "/dev/nvidia2 /dev/nvidia4,/dev/nvidia-caps/nvidia-cap22,/dev/nvidia-caps/nvidia-cap21", "GPU-a,MIG-c")
	f.Fuzz(func(t *testing.T, indices, devices, visible string) {
		if places, _ := ParseIndices(indices); len(places) > MaxDevices {
			t.Fatalf("%d places", len(places))
		}
		held, _ := testInventory().Resolve(strings.Fields(devices), visible)
		for _, e := range held {
			if !dcgm.IsExporterID(e.ExporterID) {
				t.Fatalf("exporter id %q", e.ExporterID)
			}
		}
	})
}

// TestFindInventory has the hook of another boot, and of an emptied run directory,
// find the inventory that was last known, and never take it for this boot's.
func TestFindInventory(t *testing.T) {
	run, dir := t.TempDir(), t.TempDir()
	m := dcgm.Mapping{Dir: dir}
	boot := "b1"
	check := func(step string, found, current bool, said string) {
		t.Helper()
		inv, is, err := Dir(run).FindInventory(m.Folder(), boot)
		if (inv != nil) != found || is != current || (err == nil) != (said == "") || err != nil && !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %+v, current %t, %v", step, inv, is, err)
		}
		if inv != nil && inv.Entries[0].ExporterID != "5" {
			t.Errorf("%s: %+v", step, inv)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("nothing", false, false, "no such file")
	inv := *testInventory()
	inv.BootID = "b1"
	must(Dir(run).WriteInventory(inv))
	check("this boot's", true, true, "")
	must(KeepInventory(m.Folder(), inv))
	boot = "b2"
	check("another boot's", true, false, "is of another boot")
	must(os.Remove(filepath.Join(run, InventoryFile)))
	check("the copy", true, false, "no such file")
	boot = "b1"
	check("the copy is not the agent's word", true, false, "no such file")
	must(os.WriteFile(filepath.Join(string(m.Folder()), InventoryFile), []byte("{"), 0o600))
	check("a broken copy", false, false, "no such file")
	m.Dir = filepath.Join(dir, "missing")
	must(KeepInventory(m.Folder(), inv))
	if _, err := os.Stat(m.Dir); !os.IsNotExist(err) {
		t.Errorf("the mapping directory was made: %v", err)
	}
}

// TestFaultsOf returns the faults of the node, of a GPU, and for a MIG instance those of its
// GPU.
func TestFaultsOf(t *testing.T) {
	inv := &Inventory{Entries: []Entry{{UUID: "GPU-a"}, {GRESIndex: 1, UUID: "GPU-b"}, {GRESIndex: 2, UUID: "MIG-c", GPUUUID: "GPU-c"}},
		Faults: []Fault{{"GPU-a", "a"}, {"GPU-c", "c"}, {"", "node"}}}
	for of, want := range map[string][]Fault{"GPU-a": {{"GPU-a", "a"}, {"", "node"}}, "GPU-b": {{"", "node"}}, "MIG-c": {{"GPU-c", "c"}, {"", "node"}}} {
		if diff := cmp.Diff(want, inv.FaultsOf([]string{of})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", of, diff)
		}
	}
	inv.Faults = nil
	if got := inv.FaultsOf([]string{"GPU-a"}); got != nil {
		t.Errorf("none: %v", got)
	}
}
