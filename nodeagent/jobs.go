package nodeagent

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/topology"
)

// JobsConfig says where the registry of jobs finds what.
type JobsConfig struct {
	// RunDir is where the hook leaves its records, MappingDir what the exporter
	// reads. The latter is never made by the agent.
	RunDir, MappingDir string
	// SummaryDir is where the site wants summaries of jobs as well; empty for
	// nowhere.
	SummaryDir string
	// BootIDFile names the boot; default /proc/sys/kernel/random/boot_id.
	BootIDFile string
	// Proc is the proc file system that shows slurmd and its Prologs, where there is
	// one; default /proc.
	Proc string
	// Spools are the SlurmdSpoolDir of this node's slurmds and CgroupRoot where
	// control groups are mounted: what shows that a job lives. Both may be missing.
	Spools     []string
	CgroupRoot string
	// SampleEvery is how often samples are expected; default 10 s.
	SampleEvery time.Duration
	// SweepEvery is how often jobs are looked for while there are records, and the
	// records while there are none; default 10 s.
	SweepEvery time.Duration
	// LockWait bounds the wait for the hooks' lock; default 5 s.
	LockWait time.Duration
}

// jobsFolder is where the records lie in the run directory.
const jobsFolder = "jobs"

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

// Jobs knows which job holds which device of the node, since when and how well it
// uses it. It releases what jobs that are gone have left in the exporter's
// directory, and repairs what is missing there of jobs that live.
type Jobs struct {
	config  JobsConfig
	log     *slog.Logger
	clock   func() moment
	changed chan struct{} // Wanted differs
	wake    chan struct{} // the node's report differs
	samples chan timedSample

	mu     sync.Mutex // for what follows
	node   *topology.Node
	wanted []string

	series *jobSeries // guards itself

	// All below is of the goroutine of Run alone.
	boot      string
	jobs      map[string]*job      // by the record's key
	broken    map[string]fileStamp // records that cannot be read
	inventory stampedInventory
	kept      fileStamp     // the inventory that the mapping directory has a copy of
	scanned   moment        // the last look at the records
	eager     time.Duration // until when to look often
	taken     time.Duration // when the hook's calls were last counted

	witness  witness
	proven   map[provenSource]bool
	evidence evidence
	prologs  prologs        // none while nobody asks
	sameID   map[string]int // records of this boot by job id
	absent   map[mappingLine]*absence
	mappings map[string]*mappingDir // by directory

	usage    deviceUsage
	counts   jobCounts
	shown    *topology.Node    // the report that the series are of
	problems map[string]string // what was last said in the log, by what it is about
	state    []byte            // as it was last written

	untidy       bool // there may be uses of jobs that are gone
	summaries    int
	summaryStamp fileStamp
}

type timedSample struct {
	at     moment
	sample topology.Sample
}

// NewJobs returns the registry of a node's jobs; nothing is read or written
// before Run.
func NewJobs(c JobsConfig, log *slog.Logger) *Jobs {
	c.BootIDFile = cmp.Or(c.BootIDFile, "/proc/sys/kernel/random/boot_id")
	c.Proc = cmp.Or(c.Proc, "/proc")
	c.SampleEvery = cmp.Or(c.SampleEvery, 10*time.Second)
	c.SweepEvery = cmp.Or(c.SweepEvery, 10*time.Second)
	c.LockWait = cmp.Or(c.LockWait, 5*time.Second)
	if c.MappingDir != "" {
		c.MappingDir = filepath.Clean(c.MappingDir)
	}
	return &Jobs{
		config: c, log: log, clock: readClocks,
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), samples: make(chan timedSample, 4),
		jobs: make(map[string]*job), broken: make(map[string]fileStamp),
		witness: witness{spools: c.Spools, cgroupRoot: c.CgroupRoot}, proven: make(map[provenSource]bool),
		absent: make(map[mappingLine]*absence), mappings: make(map[string]*mappingDir),
		usage: newUsage(), counts: newJobCounts(), series: newJobSeries(), problems: make(map[string]string),
	}
}

// Collector returns the registry's series.
func (j *Jobs) Collector() prometheus.Collector { return j.series }

// Wanted returns the UUIDs of the devices to sample; none ends the sampling.
func (j *Jobs) Wanted() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.wanted
}

// Changed is signalled when Wanted has changed.
func (j *Jobs) Changed() <-chan struct{} { return j.changed }

// Take takes a sample, which may lack devices that were wanted. It never waits: a sample that comes while four others
// are not yet counted is lost.
func (j *Jobs) Take(s topology.Sample) {
	select {
	case j.samples <- timedSample{j.clock(), s}:
	default:
	}
}

// Observe tells the registry of the node's last good report.
func (j *Jobs) Observe(n *topology.Node) {
	j.mu.Lock()
	j.node = n
	j.mu.Unlock()
	notify(j.wake)
}

// report is the node's last good report, nil before the first.
func (j *Jobs) report() *topology.Node {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node
}

const (
	// settle is how long further changes are waited for before the records are
	// read, and so the most often that they are.
	settle = 50 * time.Millisecond
	// eagerFor is how long after a record was written steps are looked for every
	// second: a job may be short, and its Epilog lost.
	eagerFor   = 12 * time.Second
	eagerEvery = time.Second
)

// Run keeps the registry until ctx ends.
func (j *Jobs) Run(ctx context.Context) error {
	events, lost, watch := j.watcher()
	defer watch.close()
	j.recall()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		soon := false
		select {
		case <-ctx.Done():
			j.keepState()
			return nil
		case s := <-j.samples:
			j.count(s)
			continue
		case <-events:
			soon = true
		case <-lost: // such as by an overflow; unread, it would stop the events for good
			soon = true
		case <-j.wake:
			soon, j.eager = true, j.clock().up+eagerFor // the inventory comes after it
		case <-timer.C:
		}
		if soon && !j.settled(ctx, events) {
			continue
		}
		watch.renew(filepath.Join(j.config.RunDir, jobsFolder))
		j.round(ctx)
		timer.Reset(j.next())
	}
}

// settled waits for what changes together.
func (j *Jobs) settled(ctx context.Context, events <-chan fsnotify.Event) bool {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-events:
		case <-timer.C:
			return true
		}
	}
}

// next is after how long to look again without being told.
func (j *Jobs) next() time.Duration {
	if j.clock().up < j.eager {
		return min(eagerEvery, j.config.SweepEvery)
	}
	return j.config.SweepEvery
}

// round brings all up to what the files say now.
func (j *Jobs) round(ctx context.Context) {
	now := j.clock()
	j.scan(now)
	j.show(now) // a sweep may have to wait for a hook
	if j.sweep(ctx, now) {
		j.scan(now)
	}
	if j.untidy {
		err := j.tidyUses()
		j.say("use of jobs that are gone", err)
		j.untidy = err != nil
	}
	j.takeCalls(now)
	j.show(now)
	j.keepState()
}

// say logs a problem once for as long as it is the same, and that it is over.
func (j *Jobs) say(about string, err error) {
	was, is := j.problems[about], ""
	if err != nil {
		is = err.Error()
	}
	if was == is {
		return
	}
	if j.problems[about] = is; err == nil {
		delete(j.problems, about)
		j.log.Info("problem is over", "about", about)
		return
	}
	j.log.Warn("jobs: problem", "about", about, "err", err)
}

// readBoot returns the id of the node's boot, empty where it cannot be read.
func readBoot(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
