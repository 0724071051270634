package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/oracle"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// storm runs many short jobs: the tasks of an array, and single jobs one after the other. Two tasks
// run at a time, on one node; in a whole run every GPU has a task.
func (r *jobsRig) storm(w *jobsWatch, jobs int) {
	r.t.Helper()
	began, single := time.Now(), jobs/10
	width := oracle.Rounds(2, jobNodes*nodeGPUs)
	first := r.submit("-p", "storm", "--array", fmt.Sprintf("1-%d%%%d", jobs-single, width), "--gres=gpu:1", "/etc/slurm/job.sh", "0")
	r.must("bash", "-c", fmt.Sprintf("for _ in $(seq %d); do sbatch -p storm -J alone -d singleton -o /dev/null --gres=shard:1 /etc/slurm/job.sh 0; done", single))
	for last, at := -1, began; time.Since(at) < jobsTime; time.Sleep(50 * time.Millisecond) {
		if now := w.ended(first); now >= jobs {
			break
		} else if now > last { // the machine may be slow, but all goes on
			last, at = now, time.Now()
		}
	}
	r.until("all jobs of the storm have ended", func() bool { return w.ended(first) == jobs })
	r.t.Logf("%d short jobs in %s", jobs, time.Since(began))
}

// ended is how many runs of jobs from an id on have ended.
func (w *jobsWatch) ended(first string) (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	from, _ := strconv.Atoi(first)
	for _, h := range w.holds {
		if id, _ := strconv.Atoi(h.job); id >= from && !w.open[h] {
			count++
		}
	}
	return count
}

// chaos kills hooks, agents, slurmds and whole nodes while jobs come and go.
func (r *jobsRig) chaos(w *jobsWatch) {
	r.t.Helper()
	seed := oracle.SeedOf(r.t)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to repeat a run
	w.setChaos(true)
	r.killInProlog(r.nodes[2])
	put.File(r.t, r.path("chaos"), fmt.Sprint(seed%32768), 0o755)
	for i := range oracle.Rounds(12, 80) {
		gres := []string{"gpu:1", "gpu:2", "gpu:3", "shard:1"}[random.IntN(4)]
		r.submit("--requeue", "--gres="+gres, "/etc/slurm/job.sh", []string{"0", "1", "3", "600"}[i%4])
	}
	for range oracle.Rounds(12, 24) {
		n := r.nodes[random.IntN(len(r.nodes))]
		pause := time.Duration(random.IntN(800)) * time.Millisecond
		switch random.IntN(4) {
		case 0:
			n.killAgent()
			time.Sleep(pause)
			n.startAgent()
		case 1:
			r.check(n.KillSlurmd())
			time.Sleep(pause)
			r.check(n.Start(r.t.Context()))
		case 2:
			r.powerLoss(w, n, random.IntN(2) == 0, random.IntN(2) == 0, pause)
		case 3:
			_, err := n.Kill("quoin-hook")
			r.check(err)
			time.Sleep(pause)
		}
	}
	r.check(os.Remove(r.path("chaos")))
	r.settle(w)
	w.setChaos(false)
	r.storm(w, 20)
	r.agree("after the chaos")
}

// killInProlog kills a node's slurmd while the slurmd runs a job's Prolog.
func (r *jobsRig) killInProlog(n *jobNode) {
	r.t.Helper()
	job := r.submit("-p", "slow", "-w", n.Name, "--gres=shard:1", "/etc/slurm/job.sh", "0")
	r.until("a job is in its Prolog", func() bool {
		stamps, _ := os.ReadFile(r.path("stamps"))
		return strings.Contains(string(stamps), " prolog begin "+job+" ")
	})
	r.check(n.KillSlurmd())
	r.check(n.Start(r.t.Context()))
}

func (r *jobsRig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// powerLoss ends all that runs on the node, and boots it. Its run directory is a
// tmpfs on some machines, and slurmd can be there before the agent.
func (r *jobsRig) powerLoss(w *jobsWatch, n *jobNode, emptied, slurmdFirst bool, pause time.Duration) {
	r.t.Helper()
	n.killAgent()
	r.check(n.PowerOff())
	w.powerLost(n.Name)
	if emptied {
		entries, err := os.ReadDir(r.path("run-" + n.Name))
		r.check(err)
		for _, e := range entries {
			r.check(os.RemoveAll(filepath.Join(r.path("run-"+n.Name), e.Name())))
		}
	}
	n.boot()
	if slurmdFirst {
		r.check(n.Start(r.t.Context()))
		time.Sleep(pause)
		n.startAgent()
		return
	}
	n.startAgent()
	time.Sleep(pause)
	r.check(n.Start(r.t.Context()))
}

// settle has the agents make good what the killed have left, while long jobs
// still run; then all jobs end.
func (r *jobsRig) settle(w *jobsWatch) {
	r.t.Helper()
	var wrong []string
	await.Until(r.t, "every job with a record has its labels, and no other has", func() bool {
		wrong = w.disagreements()
		return len(wrong) == 0
	}, func() string { return strings.Join(wrong, "\n") })
	r.until("no job is left", func() bool {
		if out := strings.Fields(r.must("squeue", "-a", "-h", "-r", "-O", "JobID:20")); len(out) > 0 {
			_, _ = r.Run(r.t.Context(), "scancel", out[0]) // it may have ended
			return false
		}
		return true
	})
	r.until("no label and no series is left", func() bool {
		return len(r.agents()) == 0 && !slices.ContainsFunc(r.nodes, func(n *jobNode) bool { return len(n.mapping()) > 0 })
	})
	// A killed Epilog leaves the record of a job that no agent has seen. It has no
	// labels, and is kept for the case that the job lives after all.
	for _, n := range r.nodes {
		records, failed := rundir.Dir(r.path("run-" + n.Name)).ReadRecords()
		r.t.Logf("node %s: %d records are left", n.Name, len(records))
		for key, err := range failed {
			r.t.Errorf("node %s: record %s: %v", n.Name, key, err)
		}
	}
}

// disagreements compares the mapping files with the runs that Slurm has not
// ended. Of one whose Prolog was killed before it left a record nobody can know.
func (w *jobsWatch) disagreements() (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read()
	want, may := map[string]bool{}, map[string]bool{}
	for h := range w.open {
		if h.dead || h.prolog != "end" || h.epilog != "" {
			continue
		}
		if h.killed && !w.hasRecord(h.node, h.job) {
			continue
		}
		labels := want
		if w.neverStarted(h) {
			labels = may
		}
		for _, gpu := range h.gpus {
			labels[h.node+"/"+gpu+"/"+h.job] = true
		}
	}
	for _, n := range w.rig.nodes {
		for gpu, jobs := range n.mapping() {
			for _, job := range jobs {
				key := n.Name + "/" + gpu + "/" + job
				if !want[key] && !may[key] {
					out = append(out, "stale "+key)
				}
				delete(want, key)
			}
		}
	}
	for key := range want {
		out = append(out, "missing "+key)
	}
	return out
}
