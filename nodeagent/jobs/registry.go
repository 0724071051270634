// Package jobs knows which job holds which device of the node, since when, and how
// well the job uses it. It reads the records that the job hook leaves, follows
// whether the jobs live, releases what ended jobs have left in the exporter's
// directory, and adds what living jobs lack there. It serves the series of jobs and
// devices.
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
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/jobs/liveness"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// Config says where the registry of jobs finds what.
type Config struct {
	// RunDir is where the hook leaves its records.
	RunDir rundir.Dir
	// Labels are what the exporter reads, and Kept is where a copy of the inventory outlives a boot. The agent
	// makes no missing mapping directory.
	Labels dcgm.Labels
	Kept   dcgm.Folder
	// Group may read records, uses and summaries; 0 is no group.
	Group int
	// SummaryDir is where the site wants summaries of jobs as well. It may be empty.
	SummaryDir string
	// BootID is the node's boot, empty if it is not known.
	BootID string
	// Proc is the proc file system that shows the steps of jobs. It may be missing.
	Proc string
	// SampleEvery is how often samples are expected; default probe.SampleEvery.
	SampleEvery time.Duration
	// SweepEvery is how often jobs and records are looked at; default 10 s, because GPUs are to be
	// released within a minute.
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
	config  Config
	log     *again.Log
	clock   func() moment
	records records
	// ended are the jobs whose records went a short time ago.
	ended    []*endedJob
	copies   copies
	life     *liveness.Observer
	mapping  dcgm.Held
	orphans  orphans
	usage    deviceUsage
	programs programs
	// unowned is what Prologs were told of memory without a job, if they were told.
	unowned  []rundir.Unowned
	told     bool
	uses     uses
	series   series
	node     *topology.Node // the last report, nil before the first
	schedule schedule
	busy     atomic.Pointer[time.Time]
}

// schedule is when the registry did what, and when it will do it again.
type schedule struct {
	folder fs.FileInfo   // the records' folder, before the last round
	next   time.Duration // when to look again if nothing changes
	eager  time.Duration // until when to look often
	kept   fs.FileInfo   // the inventory that the mapping directory has a copy of
}

// New returns the registry of a node's jobs. Nothing is read or written before Run.
func New(c Config, log *slog.Logger) *Registry {
	c.SampleEvery = cmp.Or(c.SampleEvery, probe.SampleEvery)
	c.SweepEvery = cmp.Or(c.SweepEvery, 10*time.Second)
	c.LockWait = cmp.Or(c.LockWait, 5*time.Second)
	r := &Registry{
		config: c, log: again.NewLog(log), clock: readClocks,
		records: records{runDir: c.RunDir, boot: c.BootID, log: log, jobs: make(map[string]*job), broken: make(map[string]fs.FileInfo)},
		copies:  copies{copy: c.RunDir.CopySummaries, done: make(chan error, 1)},
		life:    liveness.NewObserver(c.Proc),
		orphans: make(orphans), usage: deviceUsage{accounts: make(map[string]account)}, uses: uses{c.RunDir.Uses(), log}, programs: programs{c.Proc, make(map[string]map[uint32]program)},
		series: newSeries(),
	}
	r.setFiles(&plan{})
	return r
}

// Busy returns since when Run has been at its present work, or nil if it waits for work.
func (r *Registry) Busy() *time.Time { return r.busy.Load() }

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
			now := time.Now()
			r.busy.Store(&now)
			if r.due() {
				r.round(ctx)
			}
			r.busy.Store(nil)
		}
	}
}

// due says whether records have changed, or whether it is time to look.
func (r *Registry) due() bool {
	folder, _ := os.Stat(r.records.runDir.Records()) // nil if it is missing
	up := r.clock().up
	late := len(r.ended) > 0 && up-r.ended[0].at > finishWithin // a summary is to be made
	return late || up >= r.schedule.next || up < r.schedule.eager || !isSame(folder, r.schedule.folder)
}

// round brings everything up to what the files say now.
func (r *Registry) round(ctx context.Context) {
	now := r.clock()
	r.schedule.next = now.up + r.config.SweepEvery
	r.schedule.folder, _ = os.Stat(r.records.runDir.Records()) // nil if it is missing
	r.log.Note("rights on files of jobs", rundir.Restrict(r.config.RunDir, r.config.Group))
	r.scan(now)
	r.show() // a sweep may have to wait for a hook
	if r.sweep(ctx, now) {
		r.scan(now)
	}
	r.log.Note("use of jobs that are gone", r.uses.tidy(&r.records, r.bury(now)))
	r.copySummaries(now)
	r.config.RunDir.Tidy()
	r.config.Kept.Tidy()
	calls, err := r.config.RunDir.TakeCalls()
	r.log.Note("hook calls", err)
	r.series.hook.count(calls)
	summaries, _ := filepath.Glob(filepath.Join(r.config.RunDir.SummaryDir(), "[^.]*.json")) // the pattern is good
	r.series.agent.summaries.Set(float64(len(summaries)))
	r.show()
	r.saveState()
}

// scan reads the records that have changed.
func (r *Registry) scan(now moment) {
	before := maps.Clone(r.records.jobs)
	fresh, err := r.records.read()
	r.log.Note("records of jobs", err)
	if err != nil {
		return // the known records stay
	}
	r.noteEnded(before, now)
	r.log.Note("inventory", r.records.inventory.problem)
	if fresh {
		r.schedule.eager = now.up + eagerFor
	}
	r.updateUsage(now)
}

// updateUsage has the devices sampled that jobs hold, and keeps the uses of these jobs.
func (r *Registry) updateUsage(now moment) {
	held := r.records.held()
	r.forget(held)
	r.series.agent.countSamples(0, r.usage.expect(now.up, r.config.SampleEvery))
	r.usage.wanted = slices.DeleteFunc(sortedKeys(held), func(uuid string) bool { return !topology.IsDeviceUUID(uuid) })
	for _, j := range r.records.jobs {
		if r.records.running(j) {
			r.uses.keep(j, r.node, &r.programs, now)
		}
	}
}

// forget drops devices that nobody holds and that the node no longer has, such as
// deleted MIG instances.
func (r *Registry) forget(held map[string]bool) {
	inv := r.records.inventory.of
	if inv == nil {
		return
	}
	has := maps.Clone(held)
	for i := range inv.Entries {
		has[inv.Entries[i].UUID] = true
	}
	maps.DeleteFunc(r.usage.accounts, func(uuid string, _ account) bool { return !has[uuid] })
	maps.DeleteFunc(r.programs.on, func(uuid string, _ map[uint32]program) bool { return !has[uuid] })
}

// count takes a sample.
func (r *Registry) count(s topology.Sample, now moment) {
	r.programs.note(s, now.up)
	r.series.agent.countSamples(r.usage.sample(s, now.up))
	r.finish(s, now)
	grown, err := r.uses.add(&r.records, s, &r.programs, now.wall, r.config.SampleEvery)
	r.log.Note("use of jobs", err)
	r.usage.add(grown)
	r.show()
	r.saveState()
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
