package publisher

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// dirRig is a publisher that runs on a directory.
type dirRig struct {
	t     *testing.T
	dir   string
	store *dir.Store
	pub   *publication.Cluster
}

func newDirRig(t *testing.T, fill func(*dirRig)) *dirRig {
	t.Helper()
	ms := Duration{Duration: time.Millisecond}
	pubs := confirmAfter(150*time.Millisecond, complete(t, Publication{SettleTime: Duration{Duration: 150 * time.Millisecond}, LoadTimeout: ms, RemoveAfter: ms}))
	r := &dirRig{t: t, dir: t.TempDir(), pub: pubs[0]}
	r.store = dir.New(r.dir)
	r.store.Rescan = 20 * time.Millisecond
	fill(r)
	inBackground(t, r.store.Run, func(ctx context.Context) error { return r.store.Lead(ctx, newPublisher(r.store, pubs).Run) })
	return r
}

// fabricFiles makes the publisher read texts of fabrics. It is called before the publisher runs.
func (r *dirRig) fabricFiles(entries ...string) {
	r.pub.FabricFiles = entries
	*r.pub = *complete(r.t, r.pub.Publication)[0]
	r.store = dir.New(r.dir, entries...)
	r.store.Rescan = 20 * time.Millisecond
}

// lives runs another publisher on the directory, for an hour.
func (r *dirRig) lives() {
	r.t.Helper()
	synctest.Test(r.t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- newPublisher(dir.New(r.dir), []*publication.Cluster{r.pub}).Run(ctx) }()
		time.Sleep(time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (r *dirRig) write(text string, path ...string) {
	r.t.Helper()
	put.File(r.t, filepath.Join(append([]string{r.dir}, path...)...), text, 0o600)
}

// site writes the reports of a shipped site's machines.
func (r *dirRig) site(name string) {
	r.t.Helper()
	r.reports(sites.Open(r.t, name))
}

// reports writes the reports of a site's machines, as their agents do.
func (r *dirRig) reports(site *simulated.Cluster) {
	r.t.Helper()
	for _, m := range site.Machines() {
		report, err := topology.EncodeReport(m.Report)
		if err != nil {
			r.t.Fatal(err)
		}
		r.write(string(report), "reports", m.Name+".json")
	}
}

// until waits for a state of the published files. It reads them as people do: Load would
// finish a Save that the publisher is still at.
func (r *dirRig) until(what string, is func(*plandoc.Published) bool) *plandoc.Published {
	r.t.Helper()
	var out *plandoc.Published
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if out, err = r.read(); err == nil && out != nil && is(out) {
			return out
		}
	}
	r.t.Fatalf("%s: not within 3 minutes: %+v, %v", what, out, err)
	return nil
}

// read reads the published files.
func (r *dirRig) read() (*plandoc.Published, error) {
	out := &plandoc.Published{Files: map[string]string{}}
	entries, err := os.ReadDir(r.published(""))
	for _, e := range entries {
		data, err := os.ReadFile(r.published(e.Name()))
		if err != nil {
			return nil, err
		}
		if out.Files[e.Name()] = string(data); e.Name() == "publication.json" {
			if err := json.Unmarshal(data, &out.Annotations); err != nil {
				return nil, err
			}
		}
	}
	return out, err
}

func (r *dirRig) published(path string) string {
	return filepath.Join(r.store.Folder(r.pub.Place()), path)
}

// dirIn publishes a site in fake time, from a directory. Then change changes the directory, and
// another publisher runs on it for two times.
func dirIn(t *testing.T, change func(r *dirRig), first, second time.Duration, look func(r *dirRig, p *Publisher, after time.Duration)) {
	t.Helper()
	r := &dirRig{t: t, dir: t.TempDir(), pub: complete(t, Publication{})[0]}
	r.store = dir.New(r.dir)
	r.site("gb200-nvl72x4")
	r.lives()
	change(r)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPublisher(dir.New(r.dir), []*publication.Cluster{r.pub})
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		for _, wait := range []time.Duration{first, second} {
			time.Sleep(wait)
			synctest.Wait()
			look(r, p, wait)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestDirStoreRemovesNothing takes all reports away at once, in several ways. All nodes stay
// published, nothing waits for people, and it is said why.
func TestDirStoreRemovesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		change        func(reports string) error
		empty, failed bool
	}{
		"the folder is empty":         {func(reports string) error { return os.Mkdir(reports, 0o755) }, true, false},
		"there is no folder":          {func(string) error { return nil }, true, false},
		"the folder cannot be read":   {func(reports string) error { return os.WriteFile(reports, nil, 0o600) }, false, true},
		"the folder has other things": {func(reports string) error { return os.MkdirAll(filepath.Join(reports, "lost+found"), 0o755) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var before *plandoc.Published
			change := func(r *dirRig) {
				reports := filepath.Join(r.dir, "reports")
				var err error
				if before, err = r.read(); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(reports, filepath.Join(t.TempDir(), "reports")); err != nil {
					t.Fatal(err)
				}
				if err := tt.change(reports); err != nil {
					t.Fatal(err)
				}
			}
			dirIn(t, change, time.Minute, 24*time.Hour, func(r *dirRig, p *Publisher, after time.Duration) {
				got, err := r.read()
				if diff := cmp.Diff(before, got); diff != "" || err != nil || !strings.Contains(got.Files["topology.yaml"], "gb200-[001-018]") {
					t.Errorf("after %s: %v (-before +after):\n%s", after, err, diff)
				}
				empty := testutil.ToFloat64(p.metrics.problems.WithLabelValues("default", ReasonStoreEmpty)) == 1
				failed := testutil.ToFloat64(p.metrics.passes.WithLabelValues("default", "error")) > 0
				if empty != tt.empty || failed != tt.failed {
					t.Errorf("after %s: a finding says that the store is empty: %t, want %t; passes fail: %t, want %t", after, empty, tt.empty, failed, tt.failed)
				}
			})
		})
	}
}
