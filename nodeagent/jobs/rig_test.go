package jobs

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/topology"
)

// jobsRig is a registry with a clock of its own on a node of four GPUs.
type jobsRig struct {
	*nodedir.Traces
	t                    *testing.T
	j                    *Registry
	dir, run, maps, boot string
	site                 string // where the site wants summaries
	hangs                bool   // no copy comes back
	now                  moment
	log                  strings.Builder
}

func gpuUUID(i int) string { return fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", i) }

func newJobsRig(t *testing.T) *jobsRig {
	t.Helper()
	r := newFolders(t)
	r.boot = "boot-1"
	r.inventory(0, 1, 2, 3)
	r.start()
	return r
}

// newFolders is a rig with the folders of its node, and without a registry.
func newFolders(t *testing.T) *jobsRig {
	t.Helper()
	dir := t.TempDir()
	r := &jobsRig{Traces: nodedir.NewTraces(t, dir), t: t, dir: dir, run: filepath.Join(dir, "run"), maps: filepath.Join(dir, "map"), now: moment{time.Now(), time.Hour}}
	for _, d := range []string{r.run, r.maps} {
		r.must(os.Mkdir(d, 0o755))
	}
	return r
}

func (r *jobsRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// inventory gives the GPUs these ids of the exporter; -1 is none.
func (r *jobsRig) inventory(ids ...int) {
	inv := rundir.Inventory{Node: "n1"}
	for i, id := range ids {
		e := rundir.Entry{GRESIndex: i, Minor: i, UUID: gpuUUID(i), Product: "NVIDIA GB200"}
		if id >= 0 {
			e.ExporterID = fmt.Sprint(id)
		}
		inv.Entries = append(inv.Entries, e)
	}
	r.must(rundir.Dir(r.run).WriteInventory(inv))
}

// start starts a new agent, as after one that was killed.
func (r *jobsRig) start() {
	labels, kept := dcgm.Open(r.maps)
	r.j = New(Config{RunDir: rundir.Dir(r.run), Labels: labels, Kept: kept, SummaryDir: r.site, BootID: r.boot, Proc: r.Proc, LockWait: 50 * time.Millisecond}, slog.New(slog.NewTextHandler(&r.log, nil)))
	r.j.clock = func() moment { return r.now }
	r.j.node = &topology.Node{Name: "n1"}
	r.j.recall()
	r.round()
}

// round makes a round, and waits for the copies of summaries that it began.
func (r *jobsRig) round() {
	r.t.Helper()
	r.j.round(r.t.Context())
	if r.j.copies.running && !r.hangs {
		r.j.copies.done <- <-r.j.copies.done
	}
}

// after lets time pass, with a look every ten seconds of the first two minutes and
// a hundred over the rest.
func (r *jobsRig) after(d time.Duration) {
	for i, rest := 0, max(10*time.Second, (d-2*time.Minute)/100); d > 0; i++ {
		step := min(d, 10*time.Second)
		if i >= 12 {
			step = min(d, rest)
		}
		d -= step
		r.now = moment{r.now.wall.Add(step), r.now.up + step}
		r.round()
	}
}

func (r *jobsRig) record(id string, gpus ...int) rundir.Record {
	rec := rundir.Record{JobID: id, Run: rundir.Run{StartTime: "100"}, BootID: r.j.records.boot, Node: "n1", Cluster: "c1",
		EndTime: fmt.Sprint(r.now.wall.Add(time.Hour).Unix()), GPUs: []string{}}
	for _, g := range gpus {
		rec.GPUs, rec.UUIDs = append(rec.GPUs, fmt.Sprint(g)), append(rec.UUIDs, gpuUUID(g))
	}
	return rec
}

// write writes a record as a Prolog does, at the rig's time.
func (r *jobsRig) write(key string, rec rundir.Record) {
	r.t.Helper()
	r.must(rundir.Dir(r.run).WriteRecord(key, rec))
	r.must(os.Chtimes(filepath.Join(r.run, "jobs", key+".json"), r.now.wall, r.now.wall))
}

// slurmd starts a slurmd now, or the next one after it.
func (r *jobsRig) slurmd() {
	r.t.Helper()
	r.Process(nodedir.Process{PID: 8, Parent: 1, Name: "slurmd", Start: int(r.now.up / (time.Second / 100))})
}

// prolog writes record and lines.
func (r *jobsRig) prolog(id string, gpus ...int) {
	r.t.Helper()
	rec := r.record(id, gpus...)
	r.write(id, rec)
	r.must(dcgm.Mapping{Dir: r.maps}.Set(id, rec.GPUs))
	r.j.round(r.t.Context())
}

// lines returns the mapping as "0:17,18 1:17".
func (r *jobsRig) lines() string {
	r.t.Helper()
	entries, err := os.ReadDir(r.maps)
	r.must(err)
	var out []string
	for _, e := range entries {
		if text, err := os.ReadFile(filepath.Join(r.maps, e.Name())); err == nil && string(text) != "\n" {
			out = append(out, e.Name()+":"+strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ","))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (r *jobsRig) want(what, lines string) {
	r.t.Helper()
	if got := r.lines(); got != lines {
		r.t.Fatalf("%s: the mapping has %q, want %q", what, got, lines)
	}
}

func (r *jobsRig) hasRecord(key string) bool { return isThere(r.j.records.path(key)) }

// wantSeries compares series, such as `name{label="x"} 1`, with a scrape.
func (r *jobsRig) wantSeries(lines ...string) {
	r.t.Helper()
	text := scrape(r.t, handler(r.j, prometheus.NewRegistry()))
	for _, want := range lines {
		name, _, _ := strings.Cut(want, " ")
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		if got := name + " " + value; got != want {
			r.t.Errorf("%q, want %q", got, want)
		}
	}
}

// wantReleased compares how many lines the agent has released, by reason.
func (r *jobsRig) wantReleased(boot, ended, overdue, orphan int) {
	r.t.Helper()
	for reason, n := range map[string]int{liveness.Boot: boot, liveness.Ended: ended, liveness.Overdue: overdue, liveness.Orphan: orphan} {
		r.wantSeries(fmt.Sprintf("quoin_agent_sweep_released_total{reason=%q} %d", reason, n))
	}
}

func (r *jobsRig) summaries() []rundir.Summary {
	r.t.Helper()
	all, err := rundir.ReadSummaries(rundir.Dir(r.run).SummaryDir())
	r.must(err)
	return all
}
