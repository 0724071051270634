package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// rig is a store in an empty directory.
type rig struct {
	t testing.TB
	*Store
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return &rig{t, New(t.TempDir())}
}

func (r *rig) write(text string, path ...string) {
	r.t.Helper()
	put.File(r.t, filepath.Join(append([]string{r.dir}, path...)...), text, 0o600)
}

// site writes the reports of a shipped site's machines.
func (r *rig) site(name string) {
	r.t.Helper()
	cluster := sites.Open(r.t, name)
	for _, m := range cluster.Machines() {
		report, err := topology.EncodeReport(m.Report)
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(string(report), reportdir.Folder, m.Name+".json")
	}
}

// TestPlans stores a plan and reads it back.
func TestPlans(t *testing.T) {
	r := newRig(t)
	if d, err := r.LoadPlan(t.Context(), "a"); d != nil || err != nil {
		t.Errorf("before the first: %v, %v", d, err)
	}
	if stored, err := r.Stored(t.Context()); len(stored) != 0 || err != nil {
		t.Errorf("stored before the first: %v, %v", stored, err)
	}
	d := plandoc.New("a", "slurm/quoin-slurm")
	var err error
	if d.Version, err = r.SavePlan(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got, err := r.LoadPlan(t.Context(), "a")
	if diff := cmp.Diff(d, got); diff != "" || err != nil || d.Version == "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if r.PlanChanged("a", got.Version) || !r.PlanChanged("a", "") || r.PlanChanged("b", "") {
		t.Error("a plan has changed that nobody wrote")
	}
	text, err := os.ReadFile(r.PlanFile("a"))
	if err != nil {
		t.Fatal(err)
	}
	r.write(string(text), plansFolder, "b.json") // another's
	r.write(string(text[:20]), plansFolder, "c.json")
	stored, err := r.Stored(t.Context())
	const unknown = "a folder that its plan does not name"
	files := filepath.Join(r.dir, "published", "slurm", "quoin-slurm")
	remove := func(name string) string { return fmt.Sprintf("rm %q", r.PlanFile(name)) }
	want := map[string]plandoc.Stored{
		"a": {Place: plandoc.Location{Namespace: "slurm", Name: "quoin-slurm"}, Files: files, RemovePlan: remove("a"), RemoveFiles: fmt.Sprintf("rm -r %q", files)},
		"b": {Files: unknown, RemovePlan: remove("b")}, "c": {Files: unknown, RemovePlan: remove("c")},
	}
	if diff := cmp.Diff(want, stored); diff != "" || err != nil {
		t.Errorf("stored: %v (-want +got):\n%s", err, diff)
	}
	if r.write(string(text[:20]), plansFolder, "a.json"); !r.PlanChanged("a", got.Version) {
		t.Error("a plan that was cut off is not noticed")
	}
	if err := os.Remove(r.PlanFile("a")); err != nil || !r.PlanChanged("a", got.Version) {
		t.Errorf("%v: a plan that was deleted is not noticed", err)
	}
	for _, name := range []string{"b", "c"} {
		if _, err := r.LoadPlan(t.Context(), name); !errors.Is(err, plandoc.ErrUnreadable) || !strings.Contains(err.Error(), name+".json") {
			t.Errorf("plan %s: %v", name, err)
		}
	}
}

// TestChanges writes each kind of file: the store notices it.
func TestChanges(t *testing.T) {
	r := newRig(t)
	r.site("a100-mig")
	was := r.fingerprint()
	if again := r.fingerprint(); again != was {
		t.Error("a change is noticed where nothing changed")
	}
	for _, path := range [][]string{{reportdir.Folder, "new.json"}, {nodesFolder, "new.json"}, {annotationsFolder, "new"}, {plansFolder, "new.json"}, {publishedFolder, "slurm", "quoin-slurm", "topology.yaml"}} {
		r.write("{}", path...)
		is := r.fingerprint()
		if is == was {
			t.Errorf("the new file %v is not noticed", path)
		}
		was = is
	}
	r.Rescan = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	stop := make(chan struct{})
	go func() { // until it is noticed: Run may not have begun to look
		defer close(stop)
		for n := 0; ctx.Err() == nil; n++ {
			if err := os.WriteFile(filepath.Join(r.dir, reportdir.Folder, "other.json"), make([]byte, n), 0o600); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	<-r.Changes()
	cancel()
	<-stop
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestApprovalIsNoticed approves a change in a store that looks at all files only once an hour: the
// approval is noticed by its own event, also in a folder that was made later.
func TestApprovalIsNoticed(t *testing.T) {
	r := newRig(t)
	r.Rescan = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	place := plandoc.Location{Namespace: "slurm", Name: "quoin-slurm"}
	noticed := func(what string, do func(n int) error) {
		t.Helper()
		timeout := time.After(await.Limit)
		for n := 0; ; n++ { // until it is noticed: Run may not have begun to look
			if err := do(n); err != nil {
				t.Fatal(err)
			}
			select {
			case <-r.Changes():
				return
			case <-time.After(10 * time.Millisecond):
			case <-timeout:
				t.Fatalf("%s is not noticed", what)
			}
		}
	}
	set := &plandoc.Published{Files: map[string]string{}, Annotations: map[string]string{}}
	noticed("the publication", func(n int) (err error) {
		set.Files["topology.yaml"] = strings.Repeat("x", n+1)
		set.Version, err = r.Save(ctx, place, set)
		return err
	})
	for range 20 { // also when the events of the publication are over
		noticed("the approval", func(n int) error {
			return r.Ask(ctx, place, map[string]string{plandoc.AnnotationApprove: strings.Repeat("1", n+1)})
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestApprovalIsKept approves a change between the publisher's read and its write.
func TestApprovalIsKept(t *testing.T) {
	r := newRig(t)
	place := plandoc.Location{Namespace: "slurm", Name: "quoin-slurm"}
	set := &plandoc.Published{Files: map[string]string{"topology.yaml": "x"}, Annotations: map[string]string{}}
	for range 2 { // onto the version that it got
		version, err := r.Save(t.Context(), place, set)
		if err != nil {
			t.Fatal(err)
		}
		set.Version = version
	}
	if err := r.Ask(t.Context(), place, map[string]string{plandoc.AnnotationApprove: "1"}); err != nil {
		t.Fatal(err)
	}
	set.Files["topology.yaml"] = "y"
	if _, err := r.Save(t.Context(), place, set); err == nil || !strings.Contains(err.Error(), "somebody has changed "+r.notes(place)) {
		t.Errorf("the approval is overwritten: %v", err)
	}
	got, err := r.Load(t.Context(), place)
	if err != nil || got.Annotations[plandoc.AnnotationApprove] != "1" || got.Files["topology.yaml"] != "x" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := r.Save(t.Context(), place, got); err != nil {
		t.Error(err)
	}
}

func TestBadFiles(t *testing.T) {
	r := newRig(t)
	s := r.Store
	r.write(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"good"}`, reportdir.Folder, "good.json")
	r.write(`{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"x"}`, reportdir.Folder, "other.json")
	r.write(`{"apiVersion":`, reportdir.Folder, "torn.json")
	r.write(`{"labels":3}`, nodesFolder, "good.json")
	r.write(`not a report`, reportdir.Folder, "note.txt")
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
