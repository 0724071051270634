package dcgm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCopyTopology(t *testing.T) {
	run, etc := filepath.Join(t.TempDir(), "run"), t.TempDir()
	conf := filepath.Join(etc, "slurm.conf")
	write := func(name, text string, at int64) {
		t.Helper()
		path := filepath.Join(etc, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step, wantName, wantText string) {
		t.Helper()
		if err := CopyTopology(run, conf, "c"); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		name, text, err := ReadTopology(run, "c")
		if wantName == "" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want that there is none", step, err)
			}
			return
		}
		if name != wantName || string(text) != wantText || err != nil {
			t.Errorf("%s: %s %q, %v; want %s %q", step, name, text, err, wantName, wantText)
		}
	}
	check("none", "", "")
	write("topology.conf", "one", 100)
	check("first", "topology.conf", "one")
	copied := filepath.Join(run, "topology/c.conf")
	if info, err := os.Stat(copied); err != nil || info.ModTime().Unix() != 100 || info.Mode().Perm() != 0o644 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	write("topology.conf", "two", 100)
	check("neither size nor time differ", "topology.conf", "one")
	write("topology.conf", "two", 101)
	check("another time", "topology.conf", "two")
	write("topology.yaml", "yaml", 50)
	check("the YAML goes first", "topology.yaml", "yaml")
	if err := os.Remove(filepath.Join(etc, "topology.yaml")); err != nil {
		t.Fatal(err)
	}
	check("a file that has gone", "topology.conf", "two")
	write("topology.yaml", strings.Repeat("x", maxTopology+1), 50)
	if err := CopyTopology(run, conf, "c"); err == nil || !strings.Contains(err.Error(), "4194304 at most") {
		t.Errorf("a large one: %v", err)
	}
	for _, cluster := range []string{"", "..", "a/b", ".c", strings.Repeat("c", 65)} {
		if err := CopyTopology(run, conf, cluster); err != nil {
			t.Errorf("cluster %q: %v", cluster, err)
		}
		if _, _, err := ReadTopology(run, cluster); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("cluster %q: %v", cluster, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(run, "topology")); err != nil || len(entries) != 1 {
		t.Errorf("copies: %v, %v; want one", entries, err)
	}
}
