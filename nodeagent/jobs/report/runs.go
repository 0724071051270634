package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// nodeRun is what is known of a job's run on one node.
type nodeRun struct {
	record rundir.Record
	use    *rundir.Use // nil without a sample
	ended  int64       // seconds since 1970; 0 while it runs
	exit   string
}

// Run is one run of a job, on all of its nodes that are known.
type Run struct{ nodes []nodeRun }

// runIdentity tells runs apart. All nodes of a run say the same start.
type runIdentity struct{ job, cluster, run string }

func identityOf(r *rundir.Record) runIdentity {
	return runIdentity{r.JobID, r.Cluster, cmp.Or(r.StartTime, r.SLUID)}
}

// groupRuns puts together what nodes say of one run. Runs that began first come first.
// A node's summary counts more than its record, which may not be removed yet.
func groupRuns(nodes []nodeRun) []Run {
	byRun := map[runIdentity]map[string]nodeRun{}
	for _, n := range nodes {
		id := identityOf(&n.record)
		if byRun[id] == nil {
			byRun[id] = map[string]nodeRun{}
		}
		if was, known := byRun[id][n.record.Node]; !known || was.ended == 0 || was.use == nil && n.use != nil && n.ended != 0 {
			byRun[id][n.record.Node] = n
		}
	}
	var runs []Run
	for _, byNode := range byRun {
		var r Run
		for _, n := range byNode {
			r.nodes = append(r.nodes, n)
		}
		slices.SortFunc(r.nodes, func(a, b nodeRun) int { return compareNames(a.record.Node, b.record.Node) })
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b Run) int {
		x, y := a.first(), b.first()
		return cmp.Or(cmp.Compare(a.start().Unix(), b.start().Unix()), compareNames(x.JobID, y.JobID), cmp.Compare(x.Cluster, y.Cluster), cmp.Compare(x.SLUID, y.SLUID))
	})
	return runs
}

// compareNames orders n2 before n10.
func compareNames(a, b string) int {
	head := func(s string) (string, int) {
		text := strings.TrimRight(s, "0123456789")
		n, _ := strconv.Atoi(s[len(text):])
		return text, n
	}
	at, an := head(a)
	bt, bn := head(b)
	return cmp.Or(cmp.Compare(at, bt), cmp.Compare(an, bn), cmp.Compare(a, b))
}

// first is the record of the first node. What it says of the job, all nodes say.
func (r *Run) first() *rundir.Record { return &r.nodes[0].record }

// says returns what the first node that knows something says.
func (r *Run) says(what func(*rundir.Record) string) string {
	for i := range r.nodes {
		if v := what(&r.nodes[i].record); v != "" {
			return v
		}
	}
	return ""
}

// start is when the run began. It is the zero time if Slurm did not say it.
func (r *Run) start() time.Time {
	seconds, err := strconv.ParseInt(r.first().StartTime, 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// ended is when its last node ended. It is the zero time while one of the known nodes runs.
func (r *Run) ended() time.Time {
	var last int64
	for i := range r.nodes {
		if r.nodes[i].ended == 0 {
			return time.Time{}
		}
		last = max(last, r.nodes[i].ended)
	}
	return time.Unix(last, 0)
}

// elapsed is for how long the run has run; 0 if that is not known.
func (r *Run) elapsed(now time.Time) time.Duration {
	start, end := r.start(), r.ended()
	if start.IsZero() {
		return 0
	}
	if end.IsZero() {
		end = now
	}
	return max(0, end.Sub(start))
}

// numNodes is how many nodes the job has. Some of them may not be known here.
func (r *Run) numNodes() int {
	n, _ := strconv.Atoi(r.says(func(rec *rundir.Record) string { return rec.NumNodes }))
	return max(n, len(r.nodes))
}

// Complete says whether each of the job's nodes has left its summary.
func (r *Run) Complete() bool { return !r.ended().IsZero() && len(r.nodes) == r.numNodes() }

// name is the job's id. For a task of an array it is the array's id and the task's.
func (r *Run) name() string {
	array, task := r.says(func(rec *rundir.Record) string { return rec.ArrayJobID }), r.says(func(rec *rundir.Record) string { return rec.ArrayTaskID })
	if array == "" || task == "" {
		return r.first().JobID
	}
	return array + "_" + task
}

// Ended says whether the run has ended on all of its known nodes.
func (r *Run) Ended() bool { return !r.ended().IsZero() }

// isOf says whether id names the run's job: by its own id, by the ids of its array
// and task, or by its array's alone.
func (r *Run) isOf(id string) bool {
	array := r.says(func(rec *rundir.Record) string { return rec.ArrayJobID })
	return id == r.first().JobID || id == r.name() || array != "" && id == array
}

// lastRuns leaves the last run of each job.
func lastRuns(runs []Run) []Run {
	type job struct{ id, cluster string }
	last := map[job]int{}
	for i := range runs {
		last[job{runs[i].first().JobID, runs[i].first().Cluster}] = i
	}
	var out []Run
	for i := range runs {
		if last[job{runs[i].first().JobID, runs[i].first().Cluster}] == i {
			out = append(out, runs[i])
		}
	}
	return out
}

// devices are those that were sampled on a node, else those of its record.
func (n *nodeRun) devices() []rundir.DeviceUse {
	if n.use != nil && len(n.use.Devices) > 0 {
		return n.use.Devices
	}
	var out []rundir.DeviceUse
	for i, id := range n.record.GPUs {
		d := rundir.DeviceUse{ExporterID: id}
		if i < len(n.record.UUIDs) && len(n.record.UUIDs) == len(n.record.GPUs) {
			d.UUID = n.record.UUIDs[i]
		}
		out = append(out, d)
	}
	return out
}

// leastIdle is the least share of the sampled time in which a device must be idle to
// count as never used: a sample now and then may not tell.
const leastIdle = 0.99

// neverUsed says whether a device was seen idle all the time, and not once in use. A
// device whose programs are hidden may be in use.
func neverUsed(d *rundir.DeviceUse) bool {
	return !d.Used && d.IdleSeconds > 0 && d.IdleSeconds >= leastIdle*d.Seconds
}

// cliques are the NVLink cliques of the job's nodes, as far as they are known.
func (r *Run) cliques() (all []string) {
	for i := range r.nodes {
		if u := r.nodes[i].use; u != nil {
			all = append(all, u.Clique)
		}
	}
	return distinct(all)
}

func distinct(names []string) []string {
	names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// Totals sum up a run's devices.
type Totals struct {
	Devices     int      `json:"devices"`
	NeverUsed   int      `json:"neverUsed"`
	Utilization *float64 `json:"utilization,omitempty"` // mean, 0 to 1
	SMActivity  *float64 `json:"smActivity,omitempty"`  // mean, 0 to 1
	Memory      float64  `json:"memory,omitempty"`      // bytes: the sum of each device's most
	MemoryTotal float64  `json:"memoryTotal,omitempty"` // bytes
	Power       *float64 `json:"power,omitempty"`       // watts: the sum of each device's mean
	Energy      *float64 `json:"energy,omitempty"`      // joules
	IdleSeconds float64  `json:"idleSeconds"`
}

func (r *Run) totals() Totals {
	var t Totals
	var utilization, sm rundir.Stat
	weigh := func(sum *rundir.Stat, s *rundir.Stat) {
		if s != nil {
			sum.Mean += s.Mean * s.Seconds
			sum.Seconds += s.Seconds
		}
	}
	add := func(to **float64, v float64) {
		if *to != nil {
			v += **to
		}
		*to = &v
	}
	for i := range r.nodes {
		for _, d := range r.nodes[i].devices() {
			t.Devices++
			if neverUsed(&d) {
				t.NeverUsed++
			}
			weigh(&utilization, d.Utilization)
			weigh(&sm, d.SMActivity)
			if d.Memory != nil {
				t.Memory += d.Memory.Max
			}
			t.MemoryTotal += float64(d.MemoryTotal)
			if d.Power != nil {
				add(&t.Power, d.Power.Mean)
			}
			if d.Energy != nil {
				add(&t.Energy, *d.Energy)
			}
			t.IdleSeconds += d.IdleSeconds
		}
	}
	over := func(s rundir.Stat) *float64 {
		if s.Seconds <= 0 {
			return nil
		}
		v := s.Mean / s.Seconds
		return &v
	}
	t.Utilization, t.SMActivity = over(utilization), over(sm)
	return t
}
