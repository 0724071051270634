package node_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// hold is one run of a job on one node, by what Slurm told its Prolog and Epilog.
type hold struct {
	job, node, run string
	gpus           []string // the exporter's ids
	// prolog and epilog are how far they are, killed that one did not do its work.
	prolog, epilog string // "", begin or end
	killed         bool
	// over is when the run was: its Epilog ended, or its node lost power.
	over time.Time
	dead bool
	// disturbed says that something was killed while the run was there.
	disturbed bool
}

// live says that the job's labels must be there.
func (w *jobsWatch) live(h *hold) bool {
	return h.prolog == "end" && h.epilog == "" && !h.dead && !h.killed && !w.neverStarted(h)
}

// neverStarted says that the run has no step although its Prolog has ended. If slurmd
// dies in a Prolog, Slurm says for good that the job runs, and no step ever comes. The
// agent takes the labels away after some time.
func (w *jobsWatch) neverStarted(h *hold) bool {
	_, err := os.Stat(w.rig.path("spool/" + h.node + "/" + h.node + "_" + h.job + "." + externStep))
	return h.disturbed && err != nil
}

// externStep is Slurm's number of a job's external step.
const externStep = "4294967292"

// jobsWatch compares the mapping files with what Slurm has said of its jobs, all
// the while. A label that no job can have, one that a job has lost, and one that
// outlives its job by more than a minute are violations; and where nothing is
// killed, one that outlives its job at all.
type jobsWatch struct {
	rig         *jobsRig
	inventories map[string]map[string]string

	mu      sync.Mutex
	offset  int64
	holds   []*hold
	byJob   map[string][]*hold // by node and job
	open    map[*hold]bool     // whose Epilog has not ended
	chaos   bool
	wrong   []string
	looks   int
	lines   int           // how many were compared
	longest time.Duration // that a label outlived its job
	stamped time.Time     // the last stamp of a hook
	starved time.Duration // that the looks got no processor: neither did the agents
}

// maxStale is what a label may outlive its job on a machine with time for the agent.
const maxStale = time.Minute

// watchRest is how long the watch rests between two looks, and lateRest what is late.
const (
	watchRest = 10 * time.Millisecond
	lateRest  = 100 * time.Millisecond
)

// watchJobs watches until the returned function is called, which says what was wrong.
func watchJobs(t *testing.T, r *jobsRig) (*jobsWatch, func()) {
	w := &jobsWatch{rig: r, inventories: map[string]map[string]string{}, byJob: map[string][]*hold{}, open: map[*hold]bool{}}
	for _, n := range r.nodes {
		w.inventories[n.Name] = n.inventory()
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, n := range r.nodes {
				w.look(n)
			}
			rests := time.Now()
			select {
			case <-stop:
				return
			case <-time.After(watchRest):
			}
			if late := time.Since(rests); late > lateRest {
				w.starve(late)
			}
		}
	}()
	report := sync.OnceFunc(func() {
		close(stop)
		<-done
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, text := range w.wrong[:min(len(w.wrong), 20)] {
			t.Error(text)
		}
		t.Logf("%d looks at a node, %d lines compared, %d violations; the longest that a label outlived its job: %s; no processor for %s", w.looks, w.lines, len(w.wrong), w.longest, w.starved)
	})
	t.Cleanup(report)
	return w, report
}

func (w *jobsWatch) starve(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starved += d
}

// look compares one node's files.
func (w *jobsWatch) look(n *jobNode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	began := time.Now()
	must := map[*hold]bool{}
	for h := range w.open {
		if h.node == n.Name && w.live(h) {
			must[h] = true
		}
	}
	files, err := readMapping(n.rig.path("map-" + n.Name))
	if err != nil {
		w.violation("%v", err)
	}
	w.read()
	w.looks++
	for h := range must {
		if !w.live(h) {
			continue // its Epilog has begun meanwhile
		}
		for _, gpu := range h.gpus {
			if !slices.Contains(files[gpu], h.job) {
				w.violation("node %s: job %s, run %s, has no label on GPU %s, which it holds", n.Name, h.job, h.run, gpu)
			}
		}
	}
	for gpu, jobs := range files {
		for _, job := range jobs {
			w.lines++
			w.compare(n.Name, gpu, job, began)
		}
	}
}

// compare says whether a line that was there after began may have been.
func (w *jobsWatch) compare(node, gpu, job string, began time.Time) {
	var last *hold
	for _, h := range w.byJob[node+"/"+job] {
		if slices.Contains(h.gpus, gpu) {
			last = h
		}
	}
	switch {
	case last == nil:
		w.violation("node %s: GPU %s has the label of job %s, which never held it", node, gpu, job)
	case last.over.IsZero() || last.over.After(began):
	case !last.disturbed:
		w.violation("node %s: GPU %s has the label of job %s, run %s, after its end", node, gpu, job, last.run)
	default:
		stale := began.Sub(last.over)
		w.longest = max(w.longest, stale)
		if bound := maxStale + w.starved; stale > bound && (!w.hasRecord(node, job) || began.Sub(w.stamped) > bound) {
			w.violation("node %s: GPU %s has the label of job %s, run %s, %s after its end (%+v)", node, gpu, job, last.run, stale, *last)
		}
	}
}

// hasRecord says whether a job has a record. If the agent has never seen a step of that
// job, every hook may be the job's Prolog: the agent cannot read for whom a hook runs.
func (w *jobsWatch) hasRecord(node, job string) bool {
	_, err := os.Stat(w.rig.path("run-" + node + "/jobs/" + job + ".json"))
	return err == nil
}

func (w *jobsWatch) violation(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(w.wrong) < 1000 && !slices.Contains(w.wrong, text) {
		w.wrong = append(w.wrong, text)
	}
}

// readMapping reads the lines of a mapping directory as an exporter does: what
// vanishes between listing and opening fails the whole.
func readMapping(dir string) (map[string][]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	out := map[string][]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			return nil, fmt.Errorf("%s is empty: exporters before 4.3.1 drop the GPU's series", e.Name())
		}
		if string(text) != "\n" {
			out[e.Name()] = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		}
	}
	return out, nil
}

// mapping is what the node's files say.
func (n *jobNode) mapping() map[string][]string {
	files, err := readMapping(n.rig.path("map-" + n.Name))
	if err != nil {
		n.rig.t.Error(err)
	}
	return files
}

// read takes in what the hooks have stamped since.
func (w *jobsWatch) read() {
	f, err := os.Open(w.rig.path("stamps"))
	if err != nil {
		return // no job yet
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.NewSectionReader(f, w.offset, 1<<30))
	if err != nil {
		w.violation("%v", err)
	}
	whole := data[:bytes.LastIndexByte(data, '\n')+1]
	w.offset += int64(len(whole))
	for line := range strings.Lines(string(whole)) {
		if f := strings.Fields(line); len(f) == 8 {
			w.stamp(f)
		} else {
			w.violation("stamp %q", line)
		}
	}
}

// stamp takes in one: time, hook, edge, job, node, start time, GPUs, exit status.
func (w *jobsWatch) stamp(f []string) {
	seconds, _ := strconv.ParseFloat(f[0], 64)
	at := time.UnixMicro(int64(seconds * 1e6))
	hook, edge, job, node, run, gpus, rc := f[1], f[2], f[3], f[4], f[5], f[6], f[7]
	key := node + "/" + job
	w.stamped = at
	var h *hold
	for _, known := range w.byJob[key] {
		if known.run == run || run == "-" { // 24.11 tells nothing of a job that a power loss ended
			h = known
		}
	}
	if h == nil {
		h = &hold{job: job, node: node, run: run, disturbed: w.chaos}
		w.holds, w.byJob[key], w.open[h] = append(w.holds, h), append(w.byJob[key], h), true
	}
	h.killed = h.killed || hook == "prolog" && rc != "0"
	h.disturbed = h.disturbed || rc != "0"
	if hook == "prolog" {
		h.prolog = edge
		if h.gpus == nil && gpus != "-" {
			h.gpus = w.ids(node, gpus)
		}
		return
	}
	h.epilog = edge
	if edge == "end" {
		if h.over.IsZero() {
			h.over = at
		}
		delete(w.open, h)
	}
}

// ids are the exporter's ids of a list of GRES indices such as 0,2-4.
func (w *jobsWatch) ids(node, list string) (out []string) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, _ := strconv.Atoi(from)
		last, _ := strconv.Atoi(to)
		for i := first; i <= last; i++ {
			out = append(out, w.inventories[node][strconv.Itoa(i)])
		}
	}
	return out
}

// setChaos says whether things are being killed from now on.
func (w *jobsWatch) setChaos(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chaos = on
	for h := range w.open {
		h.disturbed = h.disturbed || on
	}
}

// powerLost ends all that ran on the node, which must have no process any more.
func (w *jobsWatch) powerLost(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	for h := range w.open {
		if h.node == node {
			h.dead, h.disturbed, h.over = true, true, time.Now()
		}
	}
}
