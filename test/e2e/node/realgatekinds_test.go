package node_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

func (r *gateRig) ready() {
	r.configure(rundir.GateFail, 30*time.Second)
	r.agents("n01", "n02")
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, "^$", map[string]int{"ready": 2})
}

func (r *gateRig) late() {
	r.configure(rundir.GateFail, jobsTime)
	r.agents("n02")
	job := r.wide()
	r.until("waits", func() bool { return strings.HasPrefix(r.state(job), "RUNNING") && len(r.labels("n01")) == 2 })
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if r.ran(job) {
			r.t.Fatal("the job runs while the gate is shut")
		}
	}
	r.agents("n01", "n02")
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, "^$", map[string]int{"waited": 1, "ready": 1})
}

// labels are the GPUs of a node that have one.
func (r *gateRig) labels(node string) map[string][]string {
	files, err := readMapping(r.path("map-" + node))
	if err != nil {
		return nil // not made yet
	}
	maps.DeleteFunc(files, func(_ string, jobs []string) bool { return len(jobs) == 0 })
	return files
}

func (r *gateRig) single() {
	r.configure(rundir.GateFail, 30*time.Second)
	r.agents()
	job := r.submit("-N", "1", "-w", "n01", "--gres=gpu:2", "/etc/slurm/job.sh")
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, "^$", map[string]int{"": 1})
}

func (r *gateRig) warn() {
	r.configure(rundir.GateWarn, time.Second)
	r.agents()
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, fmt.Sprintf(`^quoin-hook: gate job=%s node=n01 reason=EntryNotReady waited=[1-9][.\d]*s missing=n01,n02 message="its daemon has not found its peers; the job goes on"\nquoin-hook: gate job=%s node=n02 .*\n$`, job, job), map[string]int{"warn": 2})
}

// fail refuses a job on one of its nodes, which Slurm drains.
func (r *gateRig) fail() {
	r.configure(rundir.GateFail, time.Second)
	r.agents("n01")
	job := r.wide()
	r.until("is refused", func() bool { return r.state(job) == "PENDING launch failed requeued held" })
	r.until("the node is drained", func() bool { return r.inState("drained") == 1 && r.inState("idle") == 3 })
	if out := r.must("sinfo", "-h", "-n", "n02", "-o", "%T %E"); out != "drained Prolog error\n" {
		r.t.Errorf("node n02 is %q", out)
	}
	line := fmt.Sprintf("quoin-hook: gate job=%s node=n02 reason=EntryNotReady waited=", job)
	if log := r.Log("n02"); strings.Count(log, line) != 1 || !strings.Contains(log, "prolog failed: rc:1 output:"+line) {
		r.t.Errorf("slurmd's log has not got the line:\n%s", log)
	}
	r.agents("n01", "n02")
	r.must("scontrol", "update", "nodename=n02", "state=resume")
	r.again(job)
	r.settled(job, fmt.Sprintf(`^%s[1-9][.\d]*s missing=n02 message="its daemon has not found its peers; the job is refused"\n$`, line), map[string]int{"fail": 1, "ready": 3})
}

// held puts a job back, from both of its nodes, and drains none.
func (r *gateRig) held() {
	r.configure(rundir.GateHold, time.Second)
	r.agents()
	job := r.wide()
	r.until("is held", func() bool { return r.state(job) == "PENDING job requeued in held state" })
	r.until("no node is drained", func() bool { return r.inState("idle") == 4 })
	if r.ran(job) {
		r.t.Error("the job has run")
	}
	r.agents("n01", "n02")
	r.again(job)
	r.settled(job, fmt.Sprintf(`^(quoin-hook: gate job=%s .*; the job is held in the queue until scontrol release %s"\n){2}$`, job, job), map[string]int{"hold": 2, "ready": 2})
}

// array holds the last task of an array, whose raw id is the array's, and leaves
// the other one alone.
func (r *gateRig) array() {
	r.configure(rundir.GateHold, time.Second)
	r.agents("n03", "n04")
	array := r.submit("--array=0-1", "-H", "-N", "2", "--gres=gpu:2", "/etc/slurm/job.sh")
	r.must("scontrol", "update", "job="+array+"_0", "ReqNodeList=n03,n04")
	r.must("scontrol", "update", "job="+array+"_1", "ReqNodeList=n01,n02")
	r.must("scontrol", "release", array+"_0")
	r.until("the first runs", func() bool { return strings.HasPrefix(r.state(array+"_0"), "RUNNING") && len(r.labels("n03")) == 2 })
	r.must("scontrol", "release", array+"_1")
	r.until("the second is held", func() bool { return r.state(array+"_1") == "PENDING job requeued in held state" })
	if raw := r.must("squeue", "-h", "-j", array+"_1", "-O", "JobID:20"); strings.TrimSpace(raw) != array {
		r.t.Errorf("the second task is job %s: want it to be the one with the array's id, %s", raw, array)
	}
	if state := r.state(array + "_0"); state != "RUNNING None" {
		r.t.Errorf("the first task is %s", state)
	}
	r.settled(array, `^(quoin-hook: gate .*held in the queue.*\n){2}$`, map[string]int{"hold": 2, "ready": 2})
}

// components of a heterogeneous job are put back with the whole of it.
func (r *gateRig) components() {
	r.configure(rundir.GateHold, time.Second)
	r.agents("n01", "n02")
	job := r.submit("-N", "2", "-w", "n01,n02", "--gres=gpu:2", ":", "-N", "2", "-w", "n03,n04", "--gres=gpu:2", "/etc/slurm/job.sh")
	r.until("is held", func() bool { return strings.Count(r.state(job), "PENDING job requeued in held state") == 2 })
	r.until("no node is drained", func() bool { return r.inState("idle") == 4 })
	r.settled(job, fmt.Sprintf(`^(quoin-hook: gate .*held in the queue until scontrol release %s"\n){2}$`, job), map[string]int{"hold": 2, "ready": 2})
}

// small components, of one node each, wait and are let go on by every policy: what
// the others need is not known on a node.
func (r *gateRig) smallComponents() {
	r.configure(rundir.GateFail, time.Second)
	r.agents("n01")
	job := r.submit("-N", "1", "-w", "n01", "--gres=gpu:2", ":", "-N", "1", "-w", "n02", "--gres=gpu:2", "/etc/slurm/job.sh")
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, `^quoin-hook: gate job=[0-9]+ node=n02 .*; the job goes on"\n$`, map[string]int{"ready": 1, "warn": 1})
}

// interactive jobs cannot be put back: they go on.
func (r *gateRig) interactive() {
	r.configure(rundir.GateHold, time.Second)
	r.agents()
	out := r.must("srun", "-N", "2", "-w", "n01,n02", "--gres=gpu:2", "echo", "it runs")
	if strings.Count(out, "it runs\n") != 2 {
		r.t.Errorf("srun said %q", out)
	}
	job := r.submit("-N", "2", "-w", "n01,n02", "--gres=gpu:2", "--no-requeue", "/etc/slurm/job.sh")
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, `(?s)cannot be held and goes on: .*Only batch jobs.*cannot be held and goes on: .*presently disabled`, map[string]int{"warn": 4})
}

// racks lets a job with one node of each rack go on after the wait: each node is alone in its clique.
func (r *gateRig) racks() {
	r.configure(rundir.GateFail, time.Second)
	r.shut(func(node string) []gate.Member { return []gate.Member{{Node: node}} })
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, "^$", map[string]int{"alone": 2})
}

// unjoined lets a job go on after the wait whose nodes have not joined: nobody knows whether they need each other.
func (r *gateRig) unjoined() {
	r.configure(rundir.GateHold, time.Second)
	r.shut(func(string) []gate.Member { return nil })
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, `^(quoin-hook: gate .* message="no entry yet; whether another node of the job is in its clique is not known, so the job goes on"\n){2}$`, map[string]int{"warn": 2})
}

// shut writes gates of nodes that are not ready, with the members of their cliques.
func (r *gateRig) shut(members func(node string) []gate.Member) {
	r.t.Helper()
	for _, node := range r.names() {
		if err := gate.Write(r.path("run-"+node), gate.State{Node: node, Clique: "c0ffee." + node, Reason: "NotRegistered", Message: "no entry yet", Members: members(node)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *gateRig) stale() {
	r.configure(rundir.GateFail, jobsTime)
	r.agents()
	r.eachGate(aged(2 * gate.Stale))
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, fmt.Sprintf(`^(quoin-hook: job %s: gate: gate.json was last written at 20.*: is the agent alive\?; the job goes on without waiting for IMEX\n){2}$`, job), map[string]int{"stale": 2})
}

func (r *gateRig) missing() {
	r.configure(rundir.GateFail, jobsTime)
	r.eachGate(os.Remove)
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	r.settled(job, fmt.Sprintf(`^(quoin-hook: job %s: gate: .*: no such file or directory: is the agent on this node\?; .*\n){2}$`, job), map[string]int{"stale": 2})
}

// dies has the agents write nothing any more while the Prologs wait.
func (r *gateRig) dies() {
	r.configure(rundir.GateFail, jobsTime)
	r.agents()
	r.eachGate(aged(gate.Stale - 10*time.Second))
	began := time.Now()
	job := r.wide()
	r.until("runs", func() bool { return r.ran(job) })
	if took := time.Since(began); took < 8*time.Second {
		r.t.Errorf("runs after %s: the gates were not stale yet", took)
	}
	r.settled(job, `^(quoin-hook: job .*: is the agent alive\?; .*\n){2}$`, map[string]int{"stale": 2})
}
