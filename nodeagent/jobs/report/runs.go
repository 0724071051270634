package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
)

// nodeRun is what is known of a job's run on one node.
type nodeRun struct {
	record rundir.Record
	use    *rundir.Use // nil without a sample
	ended  int64       // seconds since 1970; 0 while it runs
	exit   string
	waits  bool // the agent has not made its summary yet
}

// name is the node's name for people.
func (n *nodeRun) name() string { return cmp.Or(Printable(n.record.Node), "this node") }

// gpu names a device of the node for people.
func (n *nodeRun) gpu(d *rundir.DeviceUse) string {
	return "GPU " + cmp.Or(d.ExporterID, d.UUID) + " of " + n.name()
}

// Run is one run of a job, on all of its nodes that are known.
type Run struct {
	// job is what the first node says of the job. What that node does not know, another
	// node may have said.
	job   rundir.Record
	nodes []nodeRun
	// jobName and array are what only Slurm knows. array is such as 4711_3 for a task of an array.
	jobName, array string
}

// OfSlurm is a run that only Slurm knows: no node's record is known.
func OfSlurm(job *rundir.Record) Run { return Run{job: *job} }

// Is reports whether the run is that of a job that runs according to Slurm. What is not known is
// equal to anything.
func (r *Run) Is(job *rundir.Record) bool {
	start, other := r.job.StartTime, job.StartTime
	return !r.Ended() && r.job.Identity().Same(job.Identity()) && (start == other || start == "" || other == "")
}

// Call gives the run what Slurm calls its job. array is such as 4711_3 for a task of an array.
func (r *Run) Call(jobName, array, qos string) {
	r.jobName, r.array, r.job.QOS = jobName, array, cmp.Or(r.job.QOS, qos)
}

// runIdentity tells runs apart. All nodes of a run say the same start.
type runIdentity struct{ job, cluster, run string }

// groupRuns puts together what nodes say of one run. Runs that began first come first.
// A node's summary counts more than its record, which may not be removed yet.
func groupRuns(nodes []nodeRun) []Run {
	byRun := map[runIdentity]map[string]nodeRun{}
	for _, n := range nodes {
		id := runIdentity{n.record.JobID, n.record.Cluster, cmp.Or(n.record.StartTime, n.record.SLUID)}
		if byRun[id] == nil {
			byRun[id] = map[string]nodeRun{}
		}
		if old, known := byRun[id][n.record.Node]; !known || old.ended == 0 || n.ended != 0 && (old.waits && !n.waits || old.use == nil && n.use != nil) {
			byRun[id][n.record.Node] = n
		}
	}
	var runs []Run
	for _, byNode := range byRun {
		nodes := slices.SortedFunc(maps.Values(byNode), func(a, b nodeRun) int { return hostlist.Compare(a.record.Node, b.record.Node) })
		runs = append(runs, Run{job: whole(nodes), nodes: nodes})
	}
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.job.Started().Compare(b.job.Started()), hostlist.Compare(a.job.JobID, b.job.JobID), cmp.Compare(a.job.Cluster, b.job.Cluster), cmp.Compare(a.job.SLUID, b.job.SLUID))
	})
	return runs
}

// whole returns the first node's record, with what it lacks of other nodes' records.
func whole(nodes []nodeRun) rundir.Record {
	job := nodes[0].record
	for i := range nodes {
		r := &nodes[i].record
		job.User, job.Account = cmp.Or(job.User, r.User), cmp.Or(job.Account, r.Account)
		job.QOS, job.Partition = cmp.Or(job.QOS, r.QOS), cmp.Or(job.Partition, r.Partition)
		job.NumNodes = cmp.Or(job.NumNodes, r.NumNodes)
	}
	return job
}

// ended is when its last node ended. It is the zero time while one of the known nodes runs, and
// if no node is known.
func (r *Run) ended() time.Time {
	if len(r.nodes) == 0 {
		return time.Time{}
	}
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
	start, end := r.job.Started(), r.ended()
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
	n, _ := strconv.Atoi(r.job.NumNodes)
	return max(n, len(r.nodes))
}

// Ended says whether the run has ended on all of its known nodes.
func (r *Run) Ended() bool { return !r.ended().IsZero() }

// name is the job's id. For a task of an array it is the array's id and the task's, if Slurm has said them.
func (r *Run) name() string { return cmp.Or(r.array, r.job.JobID) }

// isOf says whether id names the run's job: by its own id, by the ids of its array
// and task, or by its array's alone.
func (r *Run) isOf(id string) bool {
	array, _, _ := strings.Cut(r.array, "_")
	return id != "" && (id == r.job.JobID || id == r.array || id == array)
}

// Of returns the runs of the job that id names: its last run, or all of them. id is a
// job's id, an array's id, or an array's id and a task such as 4711_3.
func Of(runs []Run, id string, all bool) []Run {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return !r.isOf(id) })
	if all {
		return runs
	}
	var last []Run
	for i, r := range runs { // those that began first come first
		again := func(other Run) bool { return other.job.JobID == r.job.JobID && other.job.Cluster == r.job.Cluster }
		if !slices.ContainsFunc(runs[i+1:], again) {
			last = append(last, r)
		}
	}
	return last
}

// devices returns the devices that were sampled on a node, else the devices of its record.
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
		if u := r.nodes[i].use; u != nil && u.Clique != "" {
			all = append(all, u.Clique)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
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

func (r *Run) totals() (t Totals) {
	var utilization, sm weighted
	for i := range r.nodes {
		for _, d := range r.nodes[i].devices() {
			t.Devices++
			if neverUsed(&d) {
				t.NeverUsed++
			}
			utilization.add(d.Utilization)
			sm.add(d.SMActivity)
			if d.Memory != nil {
				t.Memory += d.Memory.Max
			}
			t.MemoryTotal += float64(d.MemoryTotal)
			t.Power = sum(t.Power, mean(d.Power))
			t.Energy = sum(t.Energy, d.Energy)
			t.IdleSeconds += d.IdleSeconds
		}
	}
	t.Utilization, t.SMActivity = utilization.mean(), sm.mean()
	return t
}

// weighted is a sum of means, each times its seconds.
type weighted struct{ sum, seconds float64 }

func (w *weighted) add(s *rundir.Stat) {
	if s != nil {
		w.sum += s.Mean * s.Seconds
		w.seconds += s.Seconds
	}
}

func (w *weighted) mean() *float64 {
	if w.seconds <= 0 {
		return nil
	}
	return new(w.sum / w.seconds)
}

// sum adds a value that may be unknown to what is known so far.
func sum(so, value *float64) *float64 {
	if so == nil || value == nil {
		return cmp.Or(so, value)
	}
	return new(*so + *value)
}
