package rundir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

// fullUse has something in every field.
func fullUse() *Use {
	u := NewUse("7", Run{SLUID: "s7", StartTime: "1772366400"}, first)
	u.Contained, u.Clique = true, "8a61c302-0000-4000-8000-000000000001.4"
	u.Hold([]Entry{{UUID: "GPU-a", ExporterID: "3", Product: "NVIDIA H100"}, {UUID: "MIG-b", ExporterID: "4.7", Product: "NVIDIA H100 1g.10gb"}}, noProgram)
	s := topology.Sample{Devices: []topology.DeviceUse{{UUID: "GPU-a", Utilization: new(0.5), SMActivity: new(0.25), MemoryUsed: new(uint64(1 << 30)), MemoryTotal: new(uint64(80 << 30)),
		Power: new(350.0), Energy: new(1e6), Processes: new(1)}, {UUID: "MIG-b", Processes: new(0)}}}
	u.Add(s, first.Add(every), every)
	u.Hold([]Entry{{UUID: "GPU-a", ExporterID: "3", Product: "NVIDIA H100"}}, noProgram)
	return u
}

func TestUseFile(t *testing.T) {
	dir := t.TempDir()
	want := fullUse()
	for _, key := range []string{"7", "7@cluster@node-1.example", "7@b.c@n"} {
		if got, err := Dir(dir).Uses().Read(key); got != nil || err != nil {
			t.Fatalf("before: %+v, %v", got, err)
		}
		if err := Dir(dir).Uses().Write(key, want); err != nil {
			t.Fatal(err)
		}
		got, err := Dir(dir).Uses().Read(key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
	keys, err := Dir(dir).Uses().Keys()
	if diff := cmp.Diff([]string{"7", "7@b.c@n", "7@cluster@node-1.example"}, keys); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	for range 2 { // the second time it is gone already
		if err := Dir(dir).Uses().Remove("7"); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err = Dir(dir).Uses().Keys(); len(keys) != 2 || err != nil {
		t.Fatalf("%v, %v", keys, err)
	}
}

func TestBadUses(t *testing.T) {
	dir := t.TempDir()
	for _, key := range []string{"", "../7", "a/b", ".new-1", strings.Repeat("7", 300)} {
		_, err := Dir(dir).Uses().Read(key)
		for _, err := range []error{err, Dir(dir).Uses().Write(key, fullUse()), Dir(dir).Uses().Remove(key)} {
			if err == nil || !strings.Contains(err.Error(), "want the name of its file") {
				t.Errorf("%q: %v", key, err)
			}
		}
	}
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"JobUse","jobID":"7"`
	for text, want := range map[string]string{
		``: "unexpected end",
		`{"apiVersion":"quoin.dev/v1alpha1","kind":"JobRecord","jobID":"7"}`: `kind "JobRecord": want`,
		strings.Replace(head, `"7"`, `"8"`, 1) + `}`:                         `key "7" of job "8"`,
		head + `,"since":"yesterday"}`:                                       `parsing time`,
	} {
		if _, err := readAs(t, readUse, useFolder, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nerror %v, want %q", text, err, want)
		}
	}
	if _, err := readAs(t, readUse, useFolder, []byte(head+`,"temperature":3,"devices":[{"uuid":"GPU-a","fan":1}]}`)); err != nil {
		t.Errorf("keys of a newer version: %v", err)
	}
}

func readUse(d Dir, key string) (*Use, error) { return d.Uses().Read(key) }

func FuzzParseUse(f *testing.F) {
	dir := f.TempDir()
	if err := Dir(dir).Uses().Write("7", fullUse()); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, useFolder, "7.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := readAs(t, readUse, useFolder, data)
		if err != nil {
			return
		}
		once, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readAs(t, readUse, useFolder, once)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(u, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
