package dcgm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMappingLock has two run directories' writers change one file.
func TestMappingLock(t *testing.T) {
	m := Mapping{Dir: t.TempDir()}
	if err := m.Add("7", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	unlock, err := m.lock()
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	if err := m.Add("8", []string{"0"}); err == nil || !strings.Contains(err.Error(), "for 1s") || time.Since(before) < mappingWait {
		t.Errorf("a held lock: %v after %s", err, time.Since(before))
	}
	done := make(chan error)
	go func() { done <- m.Add("8", []string{"0"}) }()
	time.Sleep(10 * time.Millisecond)
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := files(t, m.Dir)["0"]; got != "7\n8\n" {
		t.Errorf("0 holds %q", got)
	}
	// A lock that cannot be made is in nobody's way.
	lock := filepath.Join(m.Dir, stagingFolder, lockFile)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lock, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("7", []string{"0"}); err != nil {
		t.Error(err)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(lock, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("8", []string{"0"}); err != nil {
		t.Error(err)
	}
	if got := files(t, m.Dir)["0"]; got != "" {
		t.Errorf("0 holds %q", got)
	}
}

// TestShared knows of another run directory's writers until the next boot.
func TestShared(t *testing.T) {
	dir, first, second := filepath.Join(t.TempDir(), "map"), t.TempDir(), t.TempDir()
	a, b := Mapping{Dir: dir, RunDir: first}, Mapping{Dir: dir, RunDir: second}
	is := func(step string, wantA, wantB bool) {
		t.Helper()
		if a.Shared() != wantA || b.Shared() != wantB {
			t.Errorf("%s: shared %t and %t, want %t and %t", step, a.Shared(), b.Shared(), wantA, wantB)
		}
	}
	is("nobody", false, false)
	if err := b.Remove("7", []string{"0"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("a release has made the mapping directory")
	}
	if err := a.Add("7", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	is("the first", false, true)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(first, link); err != nil {
		t.Fatal(err)
	}
	if (Mapping{Dir: dir, RunDir: link}).Shared() {
		t.Error("the first by another path is taken for another")
	}
	if err := b.Add("8", []string{"0"}); err != nil {
		t.Fatal(err)
	}
	is("both", true, true)
	if _, err := a.Sweep(); err != nil {
		t.Fatal(err)
	}
	is("after a boot", false, false)
}

// TestHeldByOthers counts what jobs of the same id hold, in this boot and mapping.
func TestHeldByOthers(t *testing.T) {
	run := t.TempDir()
	for key, r := range map[string]Record{
		"7":      {JobID: "7", Cluster: "a", GPUs: []string{"0"}, MappingDir: "/map"},
		"7@b@n":  {JobID: "7", Cluster: "b", GPUs: []string{"1", "2"}, MappingDir: "/map/"},
		"7@c@n":  {JobID: "7", Cluster: "c", GPUs: []string{"3"}, MappingDir: "/other"},
		"7@d@n":  {JobID: "7", Cluster: "d", GPUs: []string{"4"}, MappingDir: "/map", BootID: "another"},
		"77@b@n": {JobID: "77", Cluster: "b", GPUs: []string{"5"}, MappingDir: "/map"},
	} {
		if err := WriteRecord(run, key, r); err != nil {
			t.Fatal(err)
		}
	}
	held, err := HeldByOthers(run, "7", "/map")
	if len(held) != 2 || !held["1"] || !held["2"] || err != nil {
		t.Errorf("%v, %v; want 1 and 2", held, err)
	}
	if err := os.WriteFile(filepath.Join(run, jobsFolder, "7@e@n.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := HeldByOthers(run, "7", "/map"); err == nil {
		t.Error("no error for a record that cannot be read")
	}
}
