package dcgm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// files returns the directory as the exporter sees it.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if isExporterID(e.Name()) {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(text)
		}
	}
	return out
}

func TestMapping(t *testing.T) {
	m := Mapping{Dir: filepath.Join(t.TempDir(), "made/when/missing")}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(m.Add("12", []string{"0", "1.7"}))
	do(m.Add("12", []string{"0"})) // a requeue
	do(m.Add("9", []string{"0"}))
	want := map[string]string{"0": "12\n9\n", "1.7": "12\n"}
	if diff := cmp.Diff(want, files(t, m.Dir)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	held, err := m.Holding("12")
	do(err)
	if diff := cmp.Diff([]string{"0", "1.7"}, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	do(m.Remove("12", []string{"0", "1.7", "3"}))
	if diff := cmp.Diff(map[string]string{"0": "9\n", "1.7": "\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after a release (-want +got):\n%s", diff)
	}
	do(m.Remove("9", []string{"0"}))
	do(m.Remove("9", []string{"0"})) // again, as the agent may
	if diff := cmp.Diff(map[string]string{"0": "\n", "1.7": "\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after a release of the last job (-want +got):\n%s", diff)
	}
	do(m.Add("13", []string{"1.7"}))
	if diff := cmp.Diff(map[string]string{"0": "\n", "1.7": "13\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("after the next job's start (-want +got):\n%s", diff)
	}
	if err := m.Add("12\n13", []string{"0"}); err == nil {
		t.Error("an id with a line break was taken")
	}
	if err := m.Add("12", []string{"../x"}); err == nil {
		t.Error("an exporter id with a path was taken")
	}
}

// TestMappingRepairs drops lines that would break a scrape.
func TestMappingRepairs(t *testing.T) {
	m := Mapping{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(m.Dir, "0"), []byte("7\n\n\"x\n7\n\xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Add("8", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"0": "7\n8\n"}, files(t, m.Dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func setBootFile(t *testing.T, path string) {
	was := bootIDFile
	bootIDFile = path
	t.Cleanup(func() { bootIDFile = was })
}

// TestSweep empties the files once per boot.
func TestSweep(t *testing.T) {
	m := Mapping{Dir: filepath.Join(t.TempDir(), "map")}
	boot := filepath.Join(t.TempDir(), "boot_id")
	setBootFile(t, boot)
	sweep := func(step string, released []string, want map[string]string) {
		t.Helper()
		got, err := m.Sweep()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(released, got); diff != "" {
			t.Errorf("%s: released (-want +got):\n%s", step, diff)
		}
		if diff := cmp.Diff(want, files(t, m.Dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(m.Add("7", []string{"0", "1.2"}))
	do(m.Add("8", []string{"1.2"}))
	do(m.Remove("7", []string{"0"}))
	sweep("boot id that cannot be read", nil, map[string]string{"0": "\n", "1.2": "7\n8\n"})
	do(os.WriteFile(boot, []byte("a\n"), 0o600))
	sweep("no marker", []string{"1.2"}, map[string]string{"0": "\n", "1.2": "\n"})
	do(m.Add("9", []string{"0"}))
	sweep("same boot", nil, map[string]string{"0": "9\n", "1.2": "\n"})
	do(os.WriteFile(boot, []byte("b\n"), 0o600))
	sweep("next boot", []string{"0"}, map[string]string{"0": "\n", "1.2": "\n"})
	left, err := os.ReadDir(filepath.Join(m.Dir, stagingFolder))
	do(err)
	if len(left) != 1 || left[0].Name() != bootFile {
		t.Errorf("staging folder holds %v, want the marker alone", left)
	}
	// A file that cannot be released must not have later jobs swept.
	do(os.MkdirAll(filepath.Join(m.Dir, "3/x"), 0o755))
	do(os.WriteFile(boot, []byte("c\n"), 0o600))
	if _, err := m.Sweep(); err == nil || !strings.Contains(err.Error(), "GPU 3") {
		t.Errorf("a directory among the files: error %v", err)
	}
	if released, err := m.Sweep(); released != nil || err != nil {
		t.Errorf("swept twice: %v, %v", released, err)
	}
}

func TestRunAfter(t *testing.T) {
	for _, tt := range []struct {
		name       string
		run, other Run
		want       bool
	}{
		{"later", Run{"", "200"}, Run{"", "100"}, true},
		{"earlier", Run{"", "100"}, Run{"", "200"}, false},
		{"same", Run{"", "100"}, Run{"", "100"}, false},
		{"more digits", Run{"", "1000"}, Run{"", "999"}, true},
		{"same SLUID", Run{"s1", "200"}, Run{"s1", "100"}, false},
		{"other SLUID, later", Run{"s2", "200"}, Run{"s1", "100"}, true},
		{"other SLUID, earlier", Run{"s1", "100"}, Run{"s2", "200"}, false},
		{"other SLUID, no time", Run{"s2", ""}, Run{"s1", "100"}, true},
		{"Slurm upgraded in between", Run{"", "100"}, Run{"s1", "100"}, false},
		{"Slurm upgraded, other run", Run{"", "200"}, Run{"s1", "100"}, true},
		{"nothing known", Run{}, Run{"s1", "100"}, false},
	} {
		if got := tt.run.After(tt.other); got != tt.want {
			t.Errorf("%s: %v.After(%v) is %t", tt.name, tt.run, tt.other, got)
		}
	}
}

// TestConcurrentWriters has many writers under the lock and a reader beside
// them that must never see a missing or half-written file.
func TestConcurrentWriters(t *testing.T) {
	run := t.TempDir()
	m := Mapping{Dir: t.TempDir()}
	if err := m.Add("seed", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			text, err := os.ReadFile(filepath.Join(m.Dir, "0"))
			if err != nil || !strings.Contains(string(text), "seed\n") || !strings.HasSuffix(string(text), "\n") {
				t.Errorf("the reader saw %q, %v", text, err)
				return
			}
			// The exporter warns of names that it does not know.
			if entries, err := os.ReadDir(m.Dir); err != nil || len(entries) != 2 || entries[0].Name() != stagingFolder {
				t.Errorf("the reader saw %v, %v", entries, err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			for k := range 10 {
				unlock, err := Lock(context.Background(), run, 10*time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				id := fmt.Sprint(i*100 + k)
				if err := m.Add(id, []string{"0"}); err != nil {
					t.Error(err)
				}
				if k%2 == 0 {
					if err := m.Remove(id, []string{"0"}); err != nil {
						t.Error(err)
					}
				}
				unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	reader.Wait()
	if lines := strings.Fields(files(t, m.Dir)["0"]); len(lines) != 101 || !slices.IsSorted(lines) {
		t.Errorf("%d sorted lines, want 101", len(lines))
	}
}
