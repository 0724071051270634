package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestSockets(t *testing.T) {
	tests := []struct {
		name string
		cpus []cpu
		want []topology.Socket
		err  string
	}{
		{"one CPU", []cpu{{0, "0\n", "0\n"}}, []topology.Socket{{CPUs: "0", Cores: 1}}, ""},
		{"two threads a core, the second half of the numbers", []cpu{{0, "0", "0,4"}, {1, "0", "1,5"}, {2, "1", "2,6"}, {3, "1", "3,7"}, {4, "0", "0,4"}, {5, "0", "1,5"}, {6, "1", "2,6"}, {7, "1", "3,7"}},
			[]topology.Socket{{CPUs: "0-1,4-5", Cores: 2}, {CPUs: "2-3,6-7", Cores: 2}}, ""},
		{"neighbours are threads of a core", []cpu{{0, "0", "0-1"}, {1, "0", "0-1"}, {2, "1", "2-3"}, {3, "1", "2-3"}},
			[]topology.Socket{{CPUs: "0-1", Cores: 1}, {CPUs: "2-3", Cores: 1}}, ""},
		{"CPUs alternate", []cpu{{0, "0", "0"}, {1, "1", "1"}, {2, "0", "2"}, {3, "1", "3"}},
			[]topology.Socket{{CPUs: "0,2", Cores: 2}, {CPUs: "1,3", Cores: 2}}, ""},
		{"the package of the lowest CPU comes first", []cpu{{0, "36", "0"}, {1, "36", "1"}, {2, "0", "2"}, {3, "0", "3"}},
			[]topology.Socket{{CPUs: "0-1", Cores: 2}, {CPUs: "2-3", Cores: 2}}, ""},
		{"some offline, a sibling among them", []cpu{{2, "1", "2,6"}, {5, "0", "5"}, {6, "1", "2,6"}, {7, "1", "7"}},
			[]topology.Socket{{CPUs: "2,6-7", Cores: 2}, {CPUs: "5", Cores: 1}}, ""},
		{"in any order", []cpu{{3, "0", "1,3"}, {1, "0", "1,3"}, {2, "0", "2"}}, []topology.Socket{{CPUs: "1-3", Cores: 2}}, ""},
		{"package unknown to the kernel", []cpu{{0, "-1\n", "0"}}, nil, `CPU 0: physical_package_id "-1": want a number of 0 or more`},
		{"garbled package", []cpu{{4, "x", "4"}}, nil, `CPU 4: physical_package_id "x"`},
		{"garbled core", []cpu{{4, "0", "4-"}}, nil, `CPU 4: its core's CPUs: list "4-": want ascending numbers`},
		{"not in its own core", []cpu{{4, "0", "5"}}, nil, `CPU 4: its core's CPUs "5" are without it`},
		{"twice", []cpu{{4, "0", "4"}, {4, "0", "4"}}, nil, "CPU 4: stands twice"},
		{"none", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := socketsOf(tt.cpus)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sockets (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestReadSockets reads files, again when other CPUs are online.
func TestReadSockets(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	root := t.TempDir()
	files := map[string]string{dir + "online": "0-3\n"}
	for n := range 4 {
		files[fmt.Sprintf("%scpu%d/topology/physical_package_id", dir, n)] = fmt.Sprintf("%d\n", n/2)
		files[fmt.Sprintf("%scpu%d/topology/thread_siblings_list", dir, n)] = fmt.Sprintf("%d\n", n) // an old kernel's name
	}
	write(t, root, files)
	r := socketReader{root: root}
	read := func(want ...topology.Socket) {
		t.Helper()
		got, err := r.read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sockets (-want +got):\n%s", diff)
		}
	}
	both := []topology.Socket{{CPUs: "0-1", Cores: 2}, {CPUs: "2-3", Cores: 2}}
	read(both...)
	if err := os.Remove(filepath.Join(root, dir, "cpu3/topology/physical_package_id")); err != nil {
		t.Fatal(err)
	}
	read(both...) // nothing else is online
	write(t, root, map[string]string{dir + "online": "0-2\n"})
	read(both[0], topology.Socket{CPUs: "2", Cores: 1})
	write(t, root, map[string]string{dir + "online": "0-3\n"})
	for range 2 {
		if got, err := r.read(); err == nil || !strings.Contains(err.Error(), "cpu3/topology/physical_package_id: no such file") || got != nil {
			t.Errorf("%v, %v: want an error that names the file", got, err)
		}
	}
	write(t, root, map[string]string{dir + "cpu3/topology/physical_package_id": "1\n"})
	read(both...)
	write(t, root, map[string]string{dir + "online": "0-3,x\n"})
	if _, err := r.read(); err == nil || !strings.Contains(err.Error(), dir+`online: list "0-3,x": want`) {
		t.Errorf("%v: want an error that names the file", err)
	}
}

func FuzzSockets(f *testing.F) {
	f.Add("0,4", "0", "0,4", "1")
	f.Add("0-3", "36", "1-2,70", "0")
	f.Fuzz(func(t *testing.T, core1, socket1, core2, socket2 string) {
		var cpus []cpu
		total := 0
		for _, of := range []cpu{{0, socket1, core1}, {0, socket2, core2}} {
			numbers, err := parseCPUs(of.core)
			if err != nil {
				continue
			}
			if text := formatCPUs(numbers); !slices.Equal(mustParse(t, text), numbers) {
				t.Fatalf("%q became %q", of.core, text)
			}
			for _, n := range numbers {
				cpus = append(cpus, cpu{n, of.socket, of.core})
			}
			total += len(numbers)
		}
		sockets, err := socketsOf(cpus)
		if err != nil {
			return
		}
		last := -1
		for _, s := range sockets {
			numbers := mustParse(t, s.CPUs)
			if numbers[0] <= last || s.Cores < 1 || s.Cores > len(numbers) {
				t.Fatalf("%+v", sockets)
			}
			last, total = numbers[0], total-len(numbers)
		}
		if total != 0 {
			t.Fatalf("%d CPUs are in no socket or in two: %+v", total, sockets)
		}
	})
}

func mustParse(t *testing.T, list string) []int {
	t.Helper()
	numbers, err := parseCPUs(list)
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}
