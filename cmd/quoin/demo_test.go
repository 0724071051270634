package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/quoin/demo"
	"github.com/quoin-hpc/quoin/test/rig/golden"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

func TestDemoOutput(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"list", []string{"--list"}},
		{"default", nil},
		{"gb300-yaml", []string{"gb300-nvl72", "--format", "yaml"}},
		{"hgx-conf-24.11", []string{"hgx-h100", "--slurm-version", "24.11"}},
		{"mixed", []string{"mixed"}},
		{"a100-mig", []string{"a100-mig"}},
		{"watch", []string{"--watch", "--pause", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			code, out, errs := quoin(t, "", append([]string{"demo", "--store", dir}, tt.args...)...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d: %s", code, errs)
			}
			out = strings.ReplaceAll(out, dir, "STORE")
			golden.Check(t, filepath.Join("testdata", "demo-"+tt.name+".txt"), strings.ReplaceAll(out, demo.Program(), "quoin"))
		})
	}
}

// TestDemoAgain has a second run in the same store: it publishes the same files.
func TestDemoAgain(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "published", "slurm", "quoin-slurm", "publication.json")
	var first []byte
	for i := range 2 {
		if code, _, errs := quoin(t, "", "demo", "--store", dir); code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		} else if diff := cmp.Diff(string(first), string(data)); diff != "" {
			t.Errorf("published again (-first +second)\n%s", diff)
		}
	}
}

// TestDemoLeavesNothing has demos end in every way that a user ends them: the
// temporary store goes with them.
func TestDemoLeavesNothing(t *testing.T) {
	program := programs.QuoinTest(t)
	tests := []struct {
		name string
		args []string
		end  func(*exec.Cmd, io.Closer) error // after the first of its output
		code int
		want string // on stdout, or on stderr where it fails
	}{
		{"to the end", nil, nil, 0, "Nothing is left on disk; --store DIR keeps the reports and files\n"},
		{"a day to the end", []string{"--watch", "--pause", "0"}, nil, 0, "Nothing is left on disk; --store DIR keeps the reports and files\n"},
		{"trouble", []string{write(t, "cpu.yaml", "groups:\n- node: cpu-1\n")}, nil, 2, "no NVLink domain and no switch is known"},
		{"Ctrl-C", []string{"--watch", "--pause", "1h"}, interrupt(os.Interrupt), 0, ""},
		{"closed terminal", []string{"--watch", "--pause", "1h"}, interrupt(syscall.SIGHUP), 0, ""},
		{"closed pipe", []string{"--watch", "--pause", "10ms"}, func(_ *exec.Cmd, out io.Closer) error { return out.Close() }, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmp := t.TempDir()
			cmd := exec.CommandContext(t.Context(), program, append([]string{"demo"}, tt.args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said := make([]byte, 1)
			if _, err := io.ReadFull(out, said); err != nil {
				t.Errorf("said nothing: %v", err)
			}
			if tt.end != nil {
				if err := tt.end(cmd, out); err != nil {
					t.Error(err)
				}
			}
			rest, _ := io.ReadAll(out) // of a pipe that may be closed
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != tt.code || (tt.code == 0) != (errs.Len() == 0) {
				t.Errorf("%v, want exit status %d; said %s", err, tt.code, errs.String())
			}
			if all := string(rest) + errs.String(); !strings.Contains(all, tt.want) {
				t.Errorf("want %q in\n%s", tt.want, all)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func interrupt(s os.Signal) func(*exec.Cmd, io.Closer) error {
	return func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(s) }
}

// TestDemoNamesFaults says why a node is drawn as degraded, in the words of quoin map.
func TestDemoNamesFaults(t *testing.T) {
	site := write(t, "site.yaml", "groups:\n- {node: \"n{node}\", nodes: 4, nvlink: rack, gpus: {count: 4, product: NVIDIA GB200, nvlinks: 18}}\nfaults:\n- {node: n2, gpu: 1, health: unhealthy}\n- {node: n3, gpu: 0, lost: true}\n")
	store := t.TempDir()
	code, out, errs := quoin(t, "", "demo", site, "--store", store)
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	_, mapped, _ := quoin(t, "", "map", "--store", store)
	section := func(text string) string {
		_, after, _ := strings.Cut(text, "\nNVLink fabric\n")
		found, _, _ := strings.Cut(after, "\n\n")
		return found
	}
	got := section(out)
	if !strings.Contains(out, "■▲▲■") || !strings.Contains(out, "n3: GPULost: the driver has a GPU at PCI address 00000000:01:00.0") || !strings.Contains(got, "FabricUnhealthy  n2\n") || !strings.Contains(got, "unhealthy route. What to do: look") {
		t.Errorf("demo says:\n%s", out)
	}
	if diff := cmp.Diff(section(mapped), got); diff != "" {
		t.Errorf("fabrics (-map +demo):\n%s", diff)
	}
}

func TestDemoTrouble(t *testing.T) {
	used := t.TempDir()
	if code, _, errs := quoin(t, "", "demo", "hgx-h100", "--store", used); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"store of another site", []string{"--store", used}, "has the report of h100-01, which is no machine of this site: give --store an empty directory"},
		{"nothing to watch", []string{"--watch", "mixed"}, "site mixed has no timeline to --watch: want day-of-trouble, or a file with one"},
		{"pause below zero", []string{"--watch", "--pause", "-1s"}, "--pause -1s: want 0 or more"},
		{"two sites", []string{"mixed", "hgx-h100"}, "accepts at most 1 arg(s), received 2"},
		{"no such file", []string{"nowhere.yaml"}, "nowhere.yaml is not there: want a file with a site, or the name of a site of --list"},
		{"store that cannot be made", []string{"--store", "/dev/null/x"}, "make store: mkdir /dev/null: not a directory"},
		{"yaml for an old release", []string{"--format", "yaml", "--slurm-version", "24.11"}, "topology.yaml needs 25.05"},
		{"site without GPUs", []string{write(t, "cpu.yaml", "groups:\n- node: cpu-1\n"), "--store", t.TempDir()}, "no NVLink domain and no switch is known"},
		{"steps out of order", []string{"--watch", write(t, "s.yaml", "groups:\n- node: a\ntimeline:\n- {at: '9:00', say: x}\n")}, `s.yaml:4: at: "9:00": want a time of day`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, errs := quoin(t, "", append([]string{"demo"}, tt.args...)...)
			if code != 2 || !strings.Contains(errs, tt.want) {
				t.Errorf("exit %d, said:\n%s\nwant 2 and %q", code, errs, tt.want)
			}
		})
	}
}
