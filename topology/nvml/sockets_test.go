package nvml

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// write makes files below a folder.
func write(t *testing.T, root string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		put.File(t, filepath.Join(root, name), text, 0o600)
	}
}

// cpus are the kernel's files, by CPU: the list of its package and of its core. cpu99
// is offline.
func cpus(t *testing.T, online string, lists map[string][2]string) string {
	t.Helper()
	root := t.TempDir()
	const dir = "sys/devices/system/cpu/"
	write(t, root, map[string]string{dir + "online": online, dir + "cpufreq/policy0/topology": "not a CPU", dir + "cpu99/online": "0\n"})
	for cpu, of := range lists {
		write(t, root, map[string]string{dir + cpu + "/topology/package_cpus_list": of[0] + "\n", dir + cpu + "/topology/core_cpus_list": of[1] + "\n"})
	}
	return root
}

func TestSockets(t *testing.T) {
	type lists = map[string][2]string
	tests := []struct {
		name string
		cpus lists
		want []topology.Socket
		err  string
	}{
		{"one CPU", lists{"cpu0": {"0", "0"}}, []topology.Socket{{CPUs: "0", Cores: 1}}, ""},
		{"two threads a core, the second half of the numbers", lists{"cpu0": {"0-1,4-5", "0,4"}, "cpu1": {"0-1,4-5", "1,5"}, "cpu2": {"2-3,6-7", "2,6"}, "cpu3": {"2-3,6-7", "3,7"},
			"cpu4": {"0-1,4-5", "0,4"}, "cpu5": {"0-1,4-5", "1,5"}, "cpu6": {"2-3,6-7", "2,6"}, "cpu7": {"2-3,6-7", "3,7"}},
			[]topology.Socket{{CPUs: "0-1,4-5", Cores: 2}, {CPUs: "2-3,6-7", Cores: 2}}, ""},
		{"CPUs alternate", lists{"cpu0": {"0,2", "0"}, "cpu1": {"1,3", "1"}, "cpu2": {"0,2", "2"}, "cpu3": {"1,3", "3"}},
			[]topology.Socket{{CPUs: "0,2", Cores: 2}, {CPUs: "1,3", Cores: 2}}, ""},
		{"by number, not by text", lists{"cpu9": {"9", "9"}, "cpu10": {"10", "10"}}, []topology.Socket{{CPUs: "9", Cores: 1}, {CPUs: "10", Cores: 1}}, ""},
		{"garbled package", lists{"cpu4": {"x", "4"}}, nil, `cpu4/topology/package_cpus_list: list "x": want CPUs such as 0-35,72-107`},
		{"empty core", lists{"cpu4": {"4", ""}}, nil, `cpu4/topology/core_cpus_list: list "": want CPUs`},
		{"text behind a number", lists{"cpu4": {"4", "4,x"}}, nil, `cpu4/topology/core_cpus_list: list "4,x": want CPUs`},
		{"none", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readSockets(cpus(t, "0", tt.cpus))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sockets (-want +got):\n%s", diff)
			}
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestReadSockets reads files, by their old names too, and again when other CPUs are
// online.
func TestReadSockets(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	root := cpus(t, "0-1\n", nil)
	write(t, root, map[string]string{dir + "cpu0/topology/core_siblings_list": "0\n", dir + "cpu0/topology/thread_siblings_list": "0\n",
		dir + "cpu1/topology/core_siblings_list": "1\n", dir + "cpu1/topology/thread_siblings_list": "1\n"})
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
	both := []topology.Socket{{CPUs: "0", Cores: 1}, {CPUs: "1", Cores: 1}}
	read(both...)
	if err := os.Remove(filepath.Join(root, dir, "cpu1/topology/core_siblings_list")); err != nil {
		t.Fatal(err)
	}
	read(both...) // nothing else is online
	write(t, root, map[string]string{dir + "online": "0-2\n"})
	for range 2 {
		if got, err := r.read(); err == nil || !strings.Contains(err.Error(), "cpu1/topology/core_siblings_list: no such file") || got != nil {
			t.Errorf("%v, %v: want an error that names the file", got, err)
		}
	}
	write(t, root, map[string]string{dir + "cpu1/topology/core_siblings_list": "1\n"})
	read(both...)
	if err := os.RemoveAll(filepath.Join(root, "sys")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.read(); err == nil || !strings.Contains(err.Error(), dir+"online: no such file") {
		t.Errorf("%v: want an error that names the file", err)
	}
}
