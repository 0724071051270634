package node_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// jobKind is a kind of job, and one way for it to end.
type jobKind struct {
	name string
	args []string // of sbatch
	// gpus is how many each of its jobs holds, by place.
	gpus []int
	end  func(r *jobsRig, jobs []string)
}

func cancelJobs(r *jobsRig, jobs []string) {
	r.must(append([]string{"scancel"}, jobs...)...)
}

// jobKinds fit on the rig's nodes at one time.
func jobKinds() []jobKind {
	const batch = "/etc/slurm/job.sh"
	return []jobKind{
		{"single", []string{"-w", "n01", "--gres=gpu:1", batch}, []int{1}, cancelJobs},
		{"shares the node", []string{"-w", "n01", "--gres=gpu:2", batch}, []int{2}, cancelJobs},
		{"shares its GPU", []string{"-w", "n03", "--array=1-2", "--gres=shard:1", batch}, []int{1, 1}, cancelJobs},
		{"array", []string{"-w", "n02", "--array=3-5", "--gres=gpu:1", batch}, []int{1, 1, 1}, cancelJobs},
		{"heterogeneous", []string{"-w", "n01", "--gres=gpu:1", ":", "-w", "n02", "--gres=gpu:2", batch}, []int{1, 2}, func(r *jobsRig, jobs []string) { r.must("scancel", jobs[0]) }},
		{"several nodes", []string{"-N", "3", "--gres=gpu:1", batch}, []int{3}, cancelJobs},
		{"ends by itself", []string{"-w", "n03", "--gres=gpu:1", batch, "2"}, []int{1}, func(*jobsRig, []string) {}},
		{"its process is killed", []string{"-w", "n03", "--gres=gpu:1", "--no-requeue", batch, "12345"}, []int{1}, func(r *jobsRig, _ []string) {
			r.must("pkill", "-9", "-f", "^sleep 12345$")
		}},
		{"suspended", []string{"-w", "n03", "--gres=gpu:1", batch}, []int{1}, func(r *jobsRig, jobs []string) {
			r.must("scontrol", "suspend", jobs[0])
			r.must("scontrol", "resume", jobs[0])
			cancelJobs(r, jobs)
		}},
		{"requeued", []string{"-w", "n01", "--gres=gpu:1", "--requeue", batch}, []int{1}, requeueJob},
		{"its Epilog is lost", []string{"-p", "lost", "-w", "n03", "--gres=gpu:1", batch}, []int{1}, cancelJobs},
	}
}

// requeueJob has the job run a second time before it is cancelled. A run that
// starts within the second of the requeue is killed by Slurm: its credential is
// revoked.
func requeueJob(r *jobsRig, jobs []string) {
	id := jobs[0]
	r.must("scontrol", "requeue", id)
	r.until("requeued job is released", func() bool { return r.held(id) == 0 })
	requeued := time.Now()
	r.until("requeued job runs again", func() bool {
		if time.Since(requeued) > 2*time.Second {
			_, _ = r.Run(r.t.Context(), "scontrol", "update", "job="+id, "StartTime=now") // refused while it completes
		}
		return r.held(id) == 1
	})
	cancelJobs(r, jobs)
}

// TestRealJobRegistry runs jobs of every kind on nodes with the shipped hooks and
// real agents, a storm of them, and a storm in which everything is killed. One of the Slurms keeps
// jobs in control groups.
func TestRealJobRegistry(t *testing.T) {
	t.Parallel()
	for _, rig := range []struct {
		release       slurmrig.Release
		controlGroups bool
	}{{slurmrig.Slurm2411, false}, {slurmrig.Slurm2605, true}} {
		t.Run(rig.release.Slurm, func(t *testing.T) {
			t.Parallel()
			r := startJobsRig(t, rig.release, rig.controlGroups)
			w, stop := watchJobs(t, r)
			limited := r.submit("-t", "60", "-w", "n02", "--gres=gpu:1", "/etc/slurm/job.sh")
			r.until("the job with a time limit holds a GPU", func() bool { return r.held(limited) == 1 })
			r.runKinds(limited)
			r.must("scontrol", "update", "job="+limited, "EndTime=now") // its time limit comes during the storm
			r.storm(w, oracle.Rounds(100, 500))
			r.timeLimit(limited)
			r.chaos(w)
			stop()
			r.compareSummaries(w)
			if out := r.must("sinfo", "-h", "-N", "-o", "%N %T %E"); strings.Contains(out, "drain") {
				t.Errorf("a hook has drained nodes:\n%s", out)
			}
		})
	}
}

// runKinds starts all kinds, one after the other, compares what Slurm, the mapping files and
// the agents say, and ends each in its own way.
func (r *jobsRig) runKinds(limited string) {
	kinds := jobKinds()
	jobs := make([][]string, len(kinds))
	for i, k := range kinds {
		jobs[i] = r.jobsOf(r.submit(k.args...))
		if len(jobs[i]) != len(k.gpus) {
			r.t.Fatalf("%s: jobs %v, want %d", k.name, jobs[i], len(k.gpus))
		}
		if k.name == "ends by itself" {
			continue // it may have ended
		}
		for at, job := range jobs[i] {
			r.until(k.name, func() bool { return r.held(job) == k.gpus[at] })
		}
	}
	interactive := r.background("salloc", "-K", "-J", "salloc", "-w", "n02,n03", "--gres=gpu:1", "sleep", "300")
	step := r.background("srun", "-J", "srun", "-w", "n03", "--gres=gpu:1", "sleep", "300")
	early := r.jobsOf(r.submit("-p", "slow", "-w", "n01", "--gres=gpu:1", "/etc/slurm/job.sh"))
	r.until("a job is in its Prolog", func() bool {
		return slices.Contains(r.running(), early[0])
	})
	cancelJobs(r, early)
	r.until("salloc and srun hold GPUs", func() bool { return len(r.named("salloc")) == 1 && len(r.named("srun")) == 1 })
	r.until("the cancelled one is gone", func() bool { return !slices.Contains(r.running(), early[0]) && r.held(early[0]) == 0 })
	r.until("a GPU is shared", func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(r.nodes[2].mapping())), func(jobs []string) bool { return len(jobs) == 2 })
	})
	r.agree("all kinds run")
	byKind := map[string][]string{}
	for i, k := range kinds {
		byKind[k.name] = jobs[i]
	}
	for _, k := range []string{"single", "array", "heterogeneous", "several nodes"} {
		for _, job := range byKind[k] {
			r.sampled(job)
		}
	}
	for i, k := range kinds {
		k.end(r, jobs[i])
		for _, job := range jobs[i] {
			r.until("release after: "+k.name, func() bool { return r.held(job) == 0 })
		}
	}
	cancelJobs(r, append(r.named("salloc"), r.named("srun")...))
	interactive()
	step()
	r.agree("all kinds have ended, but for job " + limited)
	r.compareEnded(byKind)
}

// timeLimit waits for a job to reach its time limit; Slurm looks at limits twice a minute.
func (r *jobsRig) timeLimit(job string) {
	r.t.Helper()
	ended := func() bool {
		return strings.Contains(r.must("scontrol", "show", "job", job), "JobState=TIMEOUT")
	}
	r.until("the job has reached its time limit", ended)
	r.until("release after a time limit", func() bool { return r.held(job) == 0 })
}

// background runs a client that waits for its job.
func (r *jobsRig) background(args ...string) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.Run(context.WithoutCancel(r.t.Context()), args...) // its job is cancelled
	}()
	return func() { <-done }
}

// jobsOf are the raw ids of a job: of an array's tasks, or of its components.
func (r *jobsRig) jobsOf(id string) (out []string) {
	r.t.Helper()
	r.until("job "+id+" is split up", func() bool {
		out = out[:0]
		for line := range strings.Lines(r.must("squeue", "-h", "-a", "-r", "-t", "all", "-j", id, "-O", "JobID:20,HetJobOffset:20,ArrayTaskID:20")) {
			out = append(out, strings.Fields(line)[0])
		}
		slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		return len(slices.Compact(slices.Clone(out))) == len(out) // pending array tasks share an id
	})
	return out
}

// held counts the GPUs of all nodes that carry the job's label.
func (r *jobsRig) held(job string) (count int) {
	for _, n := range r.nodes {
		for lines := range maps.Values(n.mapping()) {
			if slices.Contains(lines, job) {
				count++
			}
		}
	}
	return count
}

// named are the jobs of a name that run.
func (r *jobsRig) named(name string) []string {
	return strings.Fields(r.must("squeue", "-h", "-t", "R", "-n", name, "-O", "JobID:20"))
}

func (r *jobsRig) running() []string {
	return strings.Fields(r.must("squeue", "-a", "-h", "-t", "CF,R,S,CG", "-r", "-O", "JobID:20"))
}

var (
	shownJob  = regexp.MustCompile(`^JobId=(\d+) .* JobState=(\S+) `)
	shownGres = regexp.MustCompile(` Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(?:gpu:h200:\d+\(IDX:([0-9,-]+)\)|shard:\d+\(([0-9/,]+)\))`)
)

// allocated is what slurmctld says that each node's GPUs are given to: node,
// exporter's id and job.
func (r *jobsRig) allocated() map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(r.must("scontrol", "-d", "-o", "show", "job")) {
		m := shownJob.FindStringSubmatch(line)
		if m == nil || m[2] != "RUNNING" && m[2] != "SUSPENDED" && m[2] != "COMPLETING" {
			continue
		}
		for _, g := range shownGres.FindAllStringSubmatch(line, -1) {
			for node := range strings.FieldsSeq(r.must("scontrol", "show", "hostnames", g[1])) {
				i := slices.IndexFunc(r.nodes, func(n *jobNode) bool { return n.Name == node })
				w := jobsWatch{inventories: map[string]map[string]string{node: r.nodes[i].inventory()}}
				for _, id := range w.ids(node, cmp.Or(g[2], shardsAt(g[3]))) {
					out[fmt.Sprintf("%s GPU %s job %s", node, id, m[1])] = true
				}
			}
		}
	}
	return out
}

// shardsAt lists the GPUs of which a job has shards, as in 0/4,2/4.
func shardsAt(shown string) string {
	var out []string
	for i, part := range strings.Split(shown, ",") {
		if !strings.HasPrefix(part, "0/") {
			out = append(out, strconv.Itoa(i))
		}
	}
	return strings.Join(out, ",")
}

var jobInfo = regexp.MustCompile(`(?m)^quoin_gpu_job_info\{(.*)\} 1(?:\.0)?$`)

// agents is what the agents' series say.
func (r *jobsRig) agents() map[string]bool {
	out := map[string]bool{}
	for _, n := range r.nodes {
		_, text := n.agent.get("/metrics")
		for _, m := range jobInfo.FindAllStringSubmatch(text, -1) {
			out[fmt.Sprintf("%s GPU %s job %s", n.Name, label(m[1], "gpu"), label(m[1], "job_id"))] = true
		}
	}
	return out
}

func label(labels, name string) string {
	m := regexp.MustCompile(`(?:^|,)` + name + `="([^"]*)"`).FindStringSubmatch(labels)
	if m == nil {
		return ""
	}
	return m[1]
}

// agree waits until slurmctld, the mapping files and the agents' series say the
// same, and says how long that took.
func (r *jobsRig) agree(when string) {
	r.t.Helper()
	began := time.Now()
	var slurm, files, agents map[string]bool
	defer func() {
		if r.t.Failed() {
			r.t.Logf("%s: (-Slurm +mapping files)\n%s\n(-Slurm +agents)\n%s", when, gocmp.Diff(slurm, files), gocmp.Diff(slurm, agents))
		}
	}()
	r.until(when+": all agree", func() bool {
		slurm, files, agents = r.allocated(), map[string]bool{}, r.agents()
		for _, n := range r.nodes {
			for id, lines := range n.mapping() {
				for _, job := range lines {
					files[fmt.Sprintf("%s GPU %s job %s", n.Name, id, job)] = true
				}
			}
		}
		return gocmp.Equal(slurm, files) && gocmp.Equal(slurm, agents)
	})
	r.t.Logf("%s: %d GPUs are held; all agreed within %s", when, len(slurm), time.Since(began))
}
