package reportdir

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// store writes the reports of a shipped site's machines, and returns them and where they are.
func store(t *testing.T, site string) (reports map[string][]byte, dir string) {
	t.Helper()
	dir, reports = t.TempDir(), map[string][]byte{}
	for _, m := range sites.Open(t, site).Machines() {
		if m.Report == nil { // it is silent
			continue
		}
		var err error
		if reports[m.Name], err = topology.EncodeReport(m.Report); err == nil {
			err = New(dir, m.Name).Put(t.Context(), reports[m.Name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return reports, dir
}

// all reads all reports, and what is wrong with those that cannot be read.
func all(t *testing.T, r *Reader) (nodes map[string]*topology.Node, wrong map[string]string) {
	t.Helper()
	nodes, wrong = map[string]*topology.Node{}, map[string]string{}
	err := r.Read(func(name string, node *topology.Node, err error) {
		if nodes[name] = node; err != nil {
			wrong[name] = err.Error()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return nodes, wrong
}

// TestRead reads what was written, of all kinds of machines.
func TestRead(t *testing.T) {
	for _, site := range simulated.Shipped() {
		reports, dir := store(t, site)
		nodes, wrong := all(t, NewReader(filepath.Join(dir, Folder)))
		if len(nodes) != len(reports) || len(wrong) > 0 {
			t.Errorf("%s: %d reports of %d, wrong %v", site, len(nodes), len(reports), wrong)
		}
		for name, report := range reports {
			want, err := topology.ParseReport(name, report)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, nodes[name]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if nodes, wrong := all(t, NewReader(filepath.Join(t.TempDir(), Folder))); len(nodes)+len(wrong) > 0 {
		t.Errorf("%v, %v of no folder", nodes, wrong)
	}
}

// TestReadAgain parses a report again if its file is another one, and only then.
func TestReadAgain(t *testing.T) {
	reports, dir := store(t, "hgx-h100")
	names := slices.Collect(maps.Keys(reports))
	r := NewReader(filepath.Join(dir, Folder))
	before, _ := all(t, r)
	path := New(dir, names[0]).path
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	// Another file of that size and time.
	next := strings.Replace(string(reports[names[0]]), `"product":"NVIDIA H100`, `"product":"NVIDIA H200`, 1)
	if err := New(dir, names[0]).Put(t.Context(), []byte(next)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(New(dir, names[1]).path); err != nil {
		t.Fatal(err)
	}
	after, wrong := all(t, r)
	if len(wrong) > 0 || len(after) != len(before)-1 || len(r.parsed) != len(after) {
		t.Errorf("%d reports and then %d, %d kept; wrong %v", len(before), len(after), len(r.parsed), wrong)
	}
	if got := after[names[0]].GPUs[0].Product; !strings.HasPrefix(got, "NVIDIA H200") {
		t.Errorf("the changed report still says %s", got)
	}
	for _, name := range names[2:] {
		if before[name] != after[name] {
			t.Errorf("%s was parsed again", name)
		}
	}
}

// TestReplacedMeanwhile replaces reports while others are read: the next reading has them.
func TestReplacedMeanwhile(t *testing.T) {
	reports, dir := store(t, "hgx-h100")
	names := slices.Sorted(maps.Keys(reports))
	others := []string{names[0], names[len(names)/2], names[len(names)-1]} // that were read, and that come
	r := NewReader(filepath.Join(dir, Folder))
	reading := 0
	read := func() map[string]int {
		reading++
		said := map[string]int{}
		err := r.Read(func(name string, node *topology.Node, err error) {
			if err != nil {
				t.Fatal(err)
			}
			said[name] = len(node.Problems)
			for _, other := range others {
				var report *topology.Node
				if report, err = topology.ParseReport(other, reports[other]); err == nil {
					for range reading {
						report.Problems = append(report.Problems, topology.Finding{Reason: "GPULost", Message: "gone"})
					}
					var text []byte
					if text, err = topology.EncodeReport(report); err == nil {
						err = New(dir, other).Put(t.Context(), text)
					}
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	read()
	for range 3 {
		for name, problems := range read() {
			if slices.Contains(others, name) && problems < reading-1 {
				t.Errorf("reading %d: %s has %d problems, as before: want at least %d", reading, name, problems, reading-1)
			}
		}
	}
}

// TestMovedAway reads a folder of reports that is moved away during the reading: no node is lost.
func TestMovedAway(t *testing.T) {
	_, dir := store(t, "gb200-nvl72x4")
	r := NewReader(filepath.Join(dir, Folder))
	away := t.TempDir()
	read := 0
	err := r.Read(func(_ string, _ *topology.Node, err error) {
		if read == 0 {
			err = os.Rename(r.dir, filepath.Join(away, Folder))
		}
		if err != nil {
			t.Fatal(err)
		}
		read++
	})
	if err != nil || read != 72 {
		t.Errorf("%d reports of 72, %v", read, err)
	}
	if nodes, _ := all(t, r); len(nodes) != 0 || len(r.parsed) != 0 {
		t.Errorf("%d reports, %d of them kept: want none", len(nodes), len(r.parsed))
	}
}

// TestBadReports names what is wrong with a file, which costs its own node only.
func TestBadReports(t *testing.T) {
	dir := t.TempDir()
	const head = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport",`
	for name, text := range map[string]string{
		"good": head + `"node":"good"}`, "other": head + `"node":"x"}`, "torn": head, "empty": "",
		"large": head + `"node":"large"}` + strings.Repeat(" ", topology.MaxReport), ".hidden": "x",
	} {
		if err := New(dir, name).Put(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, Folder, "note.txt"), []byte("not a report"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(New(dir, "folder").path, 0o700); err != nil {
		t.Fatal(err)
	}
	nodes, wrong := all(t, NewReader(filepath.Join(dir, Folder)))
	if nodes["good"] == nil || len(nodes) != 6 {
		t.Errorf("reports %v: want that of good, and five that cannot be read", nodes)
	}
	for name, want := range map[string]string{"other": "named after its node", "torn": "torn.json:1: report is not JSON", "empty": "empty.json:1: report is not JSON",
		"large": fmt.Sprintf("larger than %d bytes", topology.MaxReport), "folder": "is a directory"} {
		if !strings.Contains(wrong[name], want) || nodes[name] != nil {
			t.Errorf("%s: %q, want %q", name, wrong[name], want)
		}
	}
}
