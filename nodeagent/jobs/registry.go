package jobs

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/sweep"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// Config says where the registry of jobs finds what.
type Config struct {
	// RunDir is where the hook leaves its records.
	RunDir rundir.Dir
	// MappingDir is what the exporter reads; the agent never makes it.
	MappingDir string
	// SummaryDir is where the site wants summaries of jobs as well. It may be empty.
	SummaryDir string
	// BootID is the node's boot, empty if it is not known.
	BootID string
	// Proc is the proc file system that shows slurmd and its Prologs, if there is one;
	// default /proc.
	Proc string
	// Spools are the SlurmdSpoolDirs of this node's slurmds. CgroupRoot is where
	// control groups are mounted. They show that a job lives. Each may be missing.
	Spools     []string
	CgroupRoot string
	// SampleEvery is how often samples are expected; default 10 s.
	SampleEvery time.Duration
	// SweepEvery is how often jobs and records are looked at; default 10 s.
	SweepEvery time.Duration
	// LockWait bounds the wait for the hooks' lock; default 5 s.
	LockWait time.Duration

	// Reports brings the node's good reports, and Samples the samples of devices that
	// are wanted. Wanted gets the UUIDs of the devices to sample when they change. Each
	// may be nil.
	Reports <-chan *topology.Node
	Samples <-chan topology.Sample
	Wanted  chan<- []string
}

// moment is a time of the day, and the time since boot, which neither steps nor
// stops while the machine sleeps.
type moment struct {
	wall time.Time
	up   time.Duration
}

func readClocks() moment {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every kernel that runs GPUs has it
	return moment{time.Now(), time.Duration(ts.Nano())}
}

// Registry follows the node's jobs. All but its series belong to the goroutine of
// Run.
type Registry struct {
	config   Config
	log      *problemLog
	clock    func() moment
	records  records
	life     *liveness.Observer
	mapping  sweep.Directories
	orphans  sweep.Orphans
	usage    deviceUsage
	uses     uses
	state    stateFile
	series   series
	node     *topology.Node // the last report, nil before the first
	schedule schedule
}

// schedule is when the registry did what, and when it will do it again.
type schedule struct {
	scanned moment        // the last look at the records
	folder  fs.FileInfo   // the records' folder, before the last round
	next    time.Duration // when to look again if nothing changes
	eager   time.Duration // until when to look often
	calls   time.Duration // when the hook's calls were last counted
	kept    fs.FileInfo   // the inventory that the mapping directory has a copy of
}

// New returns the registry of a node's jobs. Nothing is read or written before Run.
func New(c Config, log *slog.Logger) *Registry {
	c.Proc = cmp.Or(c.Proc, "/proc")
	c.SampleEvery = cmp.Or(c.SampleEvery, 10*time.Second)
	c.SweepEvery = cmp.Or(c.SweepEvery, 10*time.Second)
	c.LockWait = cmp.Or(c.LockWait, 5*time.Second)
	if c.MappingDir != "" {
		c.MappingDir = filepath.Clean(c.MappingDir)
	}
	return &Registry{
		config: c, log: &problemLog{log, make(map[string]string)}, clock: readClocks,
		records: newRecords(c.RunDir, c.BootID, log), life: liveness.NewObserver(c.Spools, c.CgroupRoot, c.Proc),
		orphans: make(sweep.Orphans), usage: newUsage(), uses: uses{c.RunDir.Uses(), log},
		state: stateFile{path: filepath.Join(string(c.RunDir), stateName)}, series: newSeries(),
	}
}

// Collector returns the registry's series.
func (r *Registry) Collector() prometheus.Collector { return r.series }

const (
	// tick is the time between two looks whether a record has changed.
	tick = time.Second
	// eagerFor is how long after a record was written steps are looked for at every
	// tick: a job may be short, and its Epilog lost.
	eagerFor = 12 * time.Second
)

// Run keeps the registry until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	r.recall()
	r.round(ctx)
	ticker := time.NewTicker(min(tick, r.config.SweepEvery))
	defer ticker.Stop()
	var told []string
	for {
		wanted := r.config.Wanted
		if slices.Equal(told, r.usage.wanted) {
			wanted = nil // nothing to tell
		}
		select {
		case <-ctx.Done():
			r.saveState()
			return nil
		case wanted <- r.usage.wanted:
			told = r.usage.wanted
		case s := <-r.config.Samples:
			r.count(s, r.clock())
		case r.node = <-r.config.Reports:
			r.schedule.eager = r.clock().up + eagerFor // the inventory comes after the report
		case <-ticker.C:
			if r.due() {
				r.round(ctx)
			}
		}
	}
}

// due says whether records have changed, or whether it is time to look.
func (r *Registry) due() bool {
	folder, _ := os.Stat(r.records.folder()) // nil if it is missing
	up := r.clock().up
	return up >= r.schedule.next || up < r.schedule.eager || !isSame(folder, r.schedule.folder)
}

// round brings everything up to what the files say now.
func (r *Registry) round(ctx context.Context) {
	now := r.clock()
	r.schedule.next = now.up + r.config.SweepEvery
	r.schedule.folder, _ = os.Stat(r.records.folder()) // nil if it is missing
	r.scan(now)
	r.show() // a sweep may have to wait for a hook
	if r.sweep(ctx, now) {
		r.scan(now)
	}
	if r.records.removed {
		err := r.uses.tidy(&r.records)
		r.log.note("use of jobs that are gone", err)
		r.records.removed = err != nil
	}
	if now.up-r.schedule.calls >= time.Second { // a hook that has opened the log before may not have written yet
		r.schedule.calls = now.up
		calls, err := r.config.RunDir.TakeCalls()
		r.log.note("hook calls", err)
		r.series.hook.count(calls)
	}
	summaries, _ := filepath.Glob(filepath.Join(r.config.RunDir.SummaryDir(), "[^.]*.json")) // the pattern is good
	r.series.agent.summaries.Set(float64(len(summaries)))
	r.show()
	r.saveState()
}

// scan reads the records that have changed, and counts for how long devices were
// held.
func (r *Registry) scan(now moment) {
	fresh, err := r.records.read(now)
	r.log.note("records of jobs", err)
	if err != nil {
		return // the known records stay
	}
	r.log.note("inventory", r.records.inventory.problem)
	if fresh {
		r.schedule.eager = now.up + eagerFor
	}
	r.updateUsage(now)
	r.schedule.scanned = now
}

// updateUsage counts the devices and uses of the jobs that there are.
func (r *Registry) updateUsage(now moment) {
	r.usage.advance(now.up)
	holders := r.records.holders()
	r.usage.setHolders(holders, now, r.schedule.scanned)
	r.usage.forget(r.records.inventory.of)
	r.series.agent.countSamples(0, r.usage.expect(now.up, r.config.SampleEvery))
	r.usage.want(holders)
	for _, j := range r.records.jobs {
		if r.records.running(j) {
			r.uses.keep(j, r.node, now.wall)
		}
	}
}

// count takes a sample.
func (r *Registry) count(s topology.Sample, now moment) {
	r.usage.advance(now.up)
	r.series.agent.countSamples(r.usage.sample(s, now.up, r.config.SampleEvery))
	r.log.note("use of jobs", r.uses.add(&r.records, s, now.wall, r.config.SampleEvery))
	r.show()
	r.saveState()
}

// sweep compares the mapping with the jobs that live, and repairs the mapping. It
// says whether records were changed.
func (r *Registry) sweep(ctx context.Context, now moment) (changed bool) {
	marks, err := r.config.RunDir.Releases().All()
	r.log.note("marks of ended jobs", err)
	r.readMappings()
	r.life.Look(r.records.lives(), r.strangers(), marks, now.wall, now.up)
	plan := r.plan(marks, now)
	r.notePlan(&plan, now)
	r.series.agent.setFiles(&plan)
	r.series.agent.sweeps.Inc()
	if plan.IsEmpty() && len(marks) == 0 {
		return false
	}
	unlock, err := r.config.RunDir.Lock(ctx, r.config.LockWait)
	r.failed("lock", err)
	if err != nil {
		return false
	}
	defer unlock()
	// A hook may have changed something before the lock was free: all is read again.
	r.scan(now)
	marks, _ = r.config.RunDir.Releases().All() // its error was logged above
	r.readMappings()
	r.life.Decide(r.records.lives(), marks, now.wall, now.up)
	plan = r.plan(marks, now)
	done, err := sweep.Applier{RunDir: r.config.RunDir, MappingDir: r.config.MappingDir, SummaryDir: r.config.SummaryDir, Log: r.log.Logger}.Apply(ctx, &plan, marks, now.wall)
	r.failed("sweep", err)
	r.series.agent.countDone(done)
	r.readMappings()
	after := r.plan(nil, now)
	r.series.agent.setFiles(&after)
	return true
}

// failed counts and logs what a sweep could not do.
func (r *Registry) failed(about string, err error) {
	if err != nil {
		r.series.agent.sweepErrors.Inc()
	}
	r.log.note(about, err)
}

func (r *Registry) plan(marks []rundir.Release, now moment) sweep.Plan {
	f := sweep.Facts{Boot: r.records.boot, Broken: make(map[string]bool), Ended: make(map[string]bool), Alive: make(map[string]bool),
		Orphans: r.orphans, Up: now.up, Directories: r.mapping}
	for key := range r.records.broken {
		f.Broken[jobOfKey(key)] = true
	}
	for _, m := range marks {
		f.Ended[m.JobID] = true
	}
	for _, id := range r.strangers() {
		f.Alive[id] = r.life.Alive(id)
	}
	for _, j := range r.records.sorted() {
		f.Jobs = append(f.Jobs, sweep.Job{Key: j.key, Record: &j.record, Dir: r.dirOf(j), Names: j.names, UUIDs: j.uuids(), Moved: j.moved, Settled: j.settled, Run: &j.life})
	}
	return sweep.Make(f)
}

// notePlan notes since when lines belong to no job, and since when jobs lack theirs.
func (r *Registry) notePlan(p *sweep.Plan, now moment) {
	r.orphans.Note(p.Nobodys, now.up)
	for _, j := range p.Whole {
		j.Run.Shown, j.Run.Taken = true, liveness.Absence{}
	}
	for _, j := range p.Taken {
		j.Run.Taken.Look(now.up)
	}
}

// strangers lists the jobs of lines that no record has.
func (r *Registry) strangers() []string {
	known := make(map[string]bool, len(r.records.jobs))
	for _, j := range r.records.jobs {
		known[j.record.JobID] = true
	}
	var out []string
	for _, d := range r.mapping {
		for _, f := range d.Files {
			for _, id := range f.Jobs {
				if !known[id] {
					known[id] = true
					out = append(out, id)
				}
			}
		}
	}
	return out
}

// readMappings reads the directories that have, or may have, lines of jobs.
func (r *Registry) readMappings() {
	dirs := make(map[string]bool)
	if r.config.MappingDir != "" {
		dirs[r.config.MappingDir] = true
	}
	for _, j := range r.records.jobs {
		dirs[r.dirOf(j)] = true
	}
	for dir, d := range r.mapping {
		if d.Files != nil {
			dirs[dir] = true
		}
	}
	var err error
	r.mapping, err = sweep.Read(dirs)
	r.log.note("job mapping", err)
	r.keepInventory()
}

// dirOf is the directory that has a job's lines.
func (r *Registry) dirOf(j *job) string {
	if j.record.MappingDir == "" {
		return r.config.MappingDir
	}
	return filepath.Clean(j.record.MappingDir)
}

// keepInventory leaves the inventory where the hook finds it after a boot.
func (r *Registry) keepInventory() {
	inventory := &r.records.inventory
	if r.mapping[r.config.MappingDir].Files == nil || inventory.of == nil || isSame(inventory.file, r.schedule.kept) {
		return
	}
	err := rundir.KeepInventory(dcgm.Mapping{Dir: r.config.MappingDir}, *inventory.of)
	if err == nil {
		r.schedule.kept = inventory.file
	}
	r.log.note("copy of the inventory", err)
}

// problemLog logs each problem once for as long as it stays the same, and its end.
type problemLog struct {
	*slog.Logger
	last map[string]string // what was last logged, by what it is about
}

func (p *problemLog) note(about string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if p.last[about] == text {
		return
	}
	if p.last[about] = text; err == nil {
		delete(p.last, about)
		p.Info("jobs: problem is solved", "about", about)
		return
	}
	p.Warn("jobs: problem", "about", about, "err", err)
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
