package publisher

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

// dirRig is a publisher that runs on a directory.
type dirRig struct {
	t     *testing.T
	store *DirStore
	pub   *Publication
}

func newDirRig(t *testing.T, fill func(*dirRig)) *dirRig {
	t.Helper()
	ms := Duration{Duration: time.Millisecond}
	pubs := complete(t, Publication{Settle: Duration{Duration: 150 * time.Millisecond}, FirstWait: ms, AnnotateAfter: ms, GoneAfter: ms})
	r := &dirRig{t: t, store: NewDirStore(t.TempDir()), pub: &pubs[0]}
	r.store.rescan = 20 * time.Millisecond
	fill(r)
	inBackground(t, r.store.Run, func(ctx context.Context) error { return r.store.Lead(ctx, newPublisher(r.store, pubs).Run) })
	return r
}

func (r *dirRig) write(text string, path ...string) {
	r.t.Helper()
	file := filepath.Join(append([]string{r.store.dir}, path...)...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// site writes the reports of a shipped site's machines.
func (r *dirRig) site(name string) {
	r.t.Helper()
	for _, m := range openCluster(r.t, name).Machines() {
		report, err := topology.EncodeReport(m.Report)
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(string(report), reportsFolder, m.Name+".json")
	}
}

// until waits for a state of the published files. It reads them as people do: Load would
// finish a Save that the publisher is still at.
func (r *dirRig) until(what string, is func(*Published) bool) *Published {
	r.t.Helper()
	var out *Published
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if out, err = r.store.read(r.pub); err == nil && out != nil && is(out) {
			return out
		}
	}
	r.t.Fatalf("%s: not within 3 minutes: %+v, %v", what, out, err)
	return nil
}

func (r *dirRig) published(path string) string { return filepath.Join(r.store.Place(r.pub), path) }

func TestDirStore(t *testing.T) {
	r := newDirRig(t, func(r *dirRig) { r.site("gb200-nvl72x4") })
	first := r.until("published", func(p *Published) bool {
		return strings.Contains(p.Files["topology.yaml"], "gb200-[001-018]") && p.Files["gres.conf"] != "" && p.Annotations[AnnotationDigest] != ""
	})
	text := first.Files["topology.yaml"]
	same := func(p *Published) bool {
		return p.Files["topology.yaml"] == text && p.Annotations[AnnotationHeldReason] == ""
	}

	if err := os.Remove(r.published("topology.yaml")); err != nil {
		t.Fatal(err)
	}
	r.until("published again", same)
	r.write(text+"# a note\n", publishedFolder, r.pub.Namespace, r.pub.ConfigMap, "topology.yaml")
	r.until("restored", same)
	r.write("- {", publishedFolder, r.pub.Namespace, r.pub.ConfigMap, "topology.yaml")
	r.until("restored", same)

	// At once: file by file the nodes would leave one after the other, as goneAfter lets them.
	if err := os.Rename(filepath.Join(r.store.dir, reportsFolder), filepath.Join(t.TempDir(), reportsFolder)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.store.dir, reportsFolder), 0o755); err != nil {
		t.Fatal(err)
	}
	held := r.until("held without reports", func(p *Published) bool { return p.Annotations[AnnotationHeldReason] != "" })
	if held.Files["topology.yaml"] != text {
		t.Errorf("held back for %s, and changed:\n%s", held.Annotations[AnnotationHeldReason], held.Files["topology.yaml"])
	}
	r.site("gb200-nvl72x4")
	r.until("taken back", same)
}

// TestDirStoreEndsASave finds what a publisher left that was killed while it
// wrote: everything, or only the first file of the new ones.
func TestDirStoreEndsASave(t *testing.T) {
	s, p := NewDirStore(t.TempDir()), &Publication{Namespace: "slurm", ConfigMap: "quoin-slurm"}
	was := &Published{Files: map[string]string{"topology.conf": "old", "gres.conf": "old"}, Annotations: map[string]string{AnnotationDigest: "old"}}
	next := &Published{Files: map[string]string{"topology.yaml": "new", "gres.conf": "new"}, Annotations: map[string]string{AnnotationDigest: "new"}}
	for _, written := range [][]string{nil, {"topology.yaml"}, {"topology.yaml", "gres.conf"}} {
		if err := s.Save(t.Context(), p, was); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range written {
			if err := os.WriteFile(filepath.Join(s.Place(p), name), []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(s.Place(p), unfinishedFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := s.Load(t.Context(), p)
			if err != nil || !maps.Equal(got.Files, next.Files) || !maps.Equal(got.Annotations, next.Annotations) {
				t.Errorf("after %v were written: %+v, %v", written, got, err)
			}
		}
		if _, err := os.Stat(filepath.Join(s.Place(p), unfinishedFile)); !os.IsNotExist(err) {
			t.Errorf("the save is not ended: %v", err)
		}
	}
}

func TestDirStoreApproval(t *testing.T) {
	r := newDirRig(t, func(r *dirRig) { r.site("gb200-nvl72x4") })
	r.until("published", func(p *Published) bool { return p.Annotations[AnnotationDigest] != "" })
	gone, err := filepath.Glob(filepath.Join(r.store.dir, reportsFolder, "gb200-0[0-3]*.json"))
	if err != nil || len(gone) < 30 {
		t.Fatal(gone, err)
	}
	for _, path := range gone {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	held := r.until("held", func(p *Published) bool {
		return strings.HasPrefix(p.Annotations[AnnotationHeldReason], "BigChange: 39 of 72")
	})
	held.Annotations[AnnotationApprove] = held.Annotations[AnnotationHeld]
	notes, err := json.Marshal(held.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	r.write(string(notes), publishedFolder, r.pub.Namespace, r.pub.ConfigMap, publicationFile)
	r.until("let through", func(p *Published) bool {
		return !strings.Contains(p.Files["topology.yaml"], "gb200-[001") && p.Annotations[AnnotationHeld] == "" && p.Annotations[AnnotationApprove] == ""
	})
}

func TestDirStoreChanges(t *testing.T) {
	s := NewDirStore(t.TempDir())
	s.rescan = 10 * time.Millisecond
	r := &dirRig{t: t, store: s}
	r.site("a100-mig")
	r.write("{}", publishedFolder, "slurm", "quoin-slurm", publicationFile)
	inBackground(t, s.Run)
	changed := func() bool {
		select {
		case <-s.Changes():
			return true
		case <-time.After(30 * s.rescan):
			return false
		}
	}
	if changed() {
		t.Error("a change is noticed where nothing changed")
	}
	for _, path := range [][]string{{reportsFolder, "new.json"}, {nodesFolder, "new.json"}, {publishedFolder, "slurm", "quoin-slurm", "topology.yaml"}} {
		r.write("{}", path...)
		if !changed() {
			t.Errorf("the new file %v is not noticed", path)
		}
		for changed() { //nolint:revive // one write may be seen twice: as an event and by the rescan
		}
	}
}

// TestDirStoreMovedAway reads a folder of reports that is moved away during the
// reading: no node is lost.
func TestDirStoreMovedAway(t *testing.T) {
	r := &dirRig{t: t, store: NewDirStore(t.TempDir())}
	r.site("gb200-nvl72x4")
	path := filepath.Join(r.store.dir, reportsFolder)
	reports, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	if err := os.Rename(path, filepath.Join(t.TempDir(), reportsFolder)); err != nil {
		t.Fatal(err)
	}
	if snap, err := r.store.snapshot(reports); err != nil || len(snap.Reports) != 72 {
		t.Errorf("%d reports of 72, %v", len(snap.Reports), err)
	}
	if snap, err := r.store.Snapshot(t.Context()); err != nil || len(snap.Reports) != 0 || len(r.store.parsed) != 0 {
		t.Errorf("%d reports, %d of them kept, %v: want none", len(snap.Reports), len(r.store.parsed), err)
	}
}

func TestDirStoreBadFiles(t *testing.T) {
	s := NewDirStore(t.TempDir())
	r := &dirRig{t: t, store: s}
	r.write(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"good"}`, reportsFolder, "good.json")
	r.write(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"x"}`, reportsFolder, "other.json")
	r.write(`{"apiVersion":`, reportsFolder, "torn.json")
	r.write(`{"labels":3}`, nodesFolder, "good.json")
	r.write(`not a report`, reportsFolder, "note.txt")
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Reports) != 1 || snap.Reports["good"] == nil || len(snap.Nodes) != 3 {
		t.Errorf("reports %v, nodes %v: want the report of good, and three nodes", snap.Reports, snap.Nodes)
	}
	want := map[string]string{"other": "named after its node", "torn": "torn.json:1: report is not JSON", "good": "nodes/good.json"}
	for _, p := range snap.Problems {
		if w := want[p.Node]; w == "" || !strings.Contains(p.Message, w) {
			t.Errorf("problem %v, want %q", p, w)
		}
		delete(want, p.Node)
	}
	if len(want) > 0 {
		t.Errorf("no problem for %v", want)
	}
}

// TestDirStoreWorkers names a node as the file of a node says.
func TestDirStoreWorkers(t *testing.T) {
	r := &dirRig{t: t, store: NewDirStore(t.TempDir())}
	r.site("gb200-nvl72x4")
	r.write(`{"podHostname": "gpu-7", "cluster": "slurm"}`, nodesFolder, "gb200-007.json")
	snap, err := r.store.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pub := complete(t, Publication{SlurmNames: "slinky:slurm"})[0]
	if g := pub.Inputs(snap); len(g.Facts) != 1 || g.Facts[0].Name != "gb200-007" || g.Facts[0].SlurmName != "gpu-7" {
		t.Errorf("%+v, want gb200-007 as gpu-7", g.Facts)
	}
}
