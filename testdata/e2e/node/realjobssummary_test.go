package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/jobs/report"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/testdata/jobstats"
)

// sampleInterval lets jobs of some seconds have samples.
const sampleInterval = "1s"

// usedMachines are what all agents of a rig simulate: the order of the devices is
// not NVML's, and a job uses every GPU in the same way.
const usedMachines = `name: rig
groups:
- racks: 1
  nodes: 3
  node: "n{node:02}"
  gpus: {count: 8, product: NVIDIA H200, memoryMiB: 143771, minors: [2, 3, 0, 1, 6, 7, 4, 5]}
  use: {processes: 1, utilization: 40, memoryMiB: 2048, power: 300}
`

// commentScript calls the shipped EpilogSlurmctld, but in storms: it does for each
// job what a cluster's slurmctld does some times a second. Of sacctmgr, which has
// nothing to say without a slurmdbd, it keeps the words.
const commentScript = `#!/bin/bash
[ -e /rig/comments ] || exit 0
export QUOIN=/rig/bin/quoin QUOIN_SUMMARIES=/rig/summaries QUOIN_WAIT=5 SACCTMGR=/rig/bin/sacctmgr
exec 2>>/rig/log/comments
exec /etc/slurm/epilogslurmctld-quoin.sh
`

const sacctmgrWords = `#!/bin/bash
printf '%s\n' "$*" >>/rig/comments/words
`

// withComments has each job that ends get its AdminComment from now on.
func (r *jobsRig) withComments(on bool) {
	r.t.Helper()
	if on {
		r.check(os.MkdirAll(r.path("comments"), 0o755))
		return
	}
	r.check(os.Rename(r.path("comments"), r.path("comments.done")))
}

// sampled waits until the job has samples of every GPU on each of its nodes.
func (r *jobsRig) sampled(job string) {
	r.t.Helper()
	r.until("job "+job+" is sampled on all its nodes", func() bool {
		found := false
		for _, n := range r.nodes {
			record, err := rundir.Dir(r.path("run-" + n.Name)).ReadRecord(job)
			if record == nil || err != nil {
				continue
			}
			found = true
			use, err := rundir.Dir(r.path("run-" + n.Name)).Uses().Read(job)
			if use == nil || err != nil || len(use.Devices) != len(record.GPUs) || slices.ContainsFunc(use.Devices, func(d rundir.DeviceUse) bool { return d.Seconds == 0 }) {
				return false
			}
		}
		return found
	})
}

// compareComment reads what sacctmgr was told of a job: id is how it names it,
// gpus how many the job had on each node.
func (r *jobsRig) compareComment(id string, gpus map[string]int) {
	r.t.Helper()
	words, comment := "-i modify job where jobid="+id+" cluster=rig set AdminComment=", ""
	r.until("AdminComment of job "+id, func() bool {
		text, _ := os.ReadFile(r.path("comments/words"))
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, words); ok && strings.HasPrefix(rest, report.JobstatsMark) {
				comment = strings.TrimSpace(rest)
			}
		}
		return comment != ""
	})
	var got report.JobstatsSummary
	if err := jobstats.Unpack(comment, &got); err != nil {
		r.t.Errorf("AdminComment %q of job %s: %v", comment, id, err)
		return
	}
	want := map[string]int{}
	for node, n := range got.Nodes {
		want[node] = len(n.GPUUtilization)
		for gpu, percent := range n.GPUUtilization {
			if percent != 40 || n.GPUUsedMemory[gpu] != 2<<30 || n.GPUTotalMemory[gpu] != 143771<<20 {
				r.t.Errorf("job %s, node %s, GPU %s: %v%%, %d of %d bytes, want 40%%, 2 GiB of 143771 MiB", id, node, gpu, percent, n.GPUUsedMemory[gpu], n.GPUTotalMemory[gpu])
			}
		}
	}
	if diff := cmp.Diff(gpus, want); diff != "" {
		r.t.Errorf("AdminComment of job %s: GPUs by node (-want +got):\n%s", id, diff)
	}
}

// compareEnded compares the AdminComments of jobs by kind: sacctmgr must be told of
// the one task and the one component, and not of all of them.
func (r *jobsRig) compareEnded(jobs map[string][]string) {
	r.t.Helper()
	array, het, wide := jobs["array"], jobs["heterogeneous"], jobs["several nodes"][0]
	r.compareComment(jobs["single"][0], map[string]int{"n01": 1})
	r.compareComment(wide, map[string]int{"n01": 1, "n02": 1, "n03": 1})
	for task := range array { // the last task has the array's id, which is the lowest
		r.compareComment(fmt.Sprintf("%s_%d", array[0], 3+task), map[string]int{"n02": 1})
	}
	r.compareComment(het[0]+"+0", map[string]int{"n01": 1})
	r.compareComment(het[0]+"+1", map[string]int{"n02": 2})
	r.withComments(false)
	r.comparePrinted(wide)
}

// comparePrinted runs quoin job on a job of all nodes that has ended.
func (r *jobsRig) comparePrinted(job string) {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), r.quoin, "job", job, "--set", "agent.runDir="+r.path("run-n01"), "--summary-dir", r.path("summaries")).CombinedOutput()
	if err != nil {
		r.t.Errorf("quoin job %s: %v\n%s", job, err, out)
		return
	}
	for _, want := range []string{"Job       " + job, "n01, n02, n03", "partition main", "cluster rig", "40%"} {
		if !strings.Contains(string(out), want) {
			r.t.Errorf("quoin job %s lacks %q:\n%s", job, want, out)
		}
	}
}

// compareSummaries looks for the summary of every run whose hooks did their work.
func (r *jobsRig) compareSummaries(w *jobsWatch) {
	r.t.Helper()
	r.until("the agents have made all summaries", func() bool {
		return !slices.ContainsFunc(r.nodes, func(n *jobNode) bool {
			endings, err := rundir.Dir(r.path("run-" + n.Name)).Endings()
			return len(endings) > 0 || err != nil
		})
	})
	all, err := rundir.ReadSummaries(r.path("summaries"))
	if err != nil {
		r.t.Error(err)
	}
	type run struct{ node, job, start string }
	found := map[run][]rundir.Summary{}
	for i := range all {
		key := run{all[i].Record.Node, all[i].Record.JobID, all[i].Record.StartTime}
		found[key] = append(found[key], all[i])
	}
	compared, wrong := 0, 0
	for _, h := range w.holds {
		if h.disturbed || h.over.IsZero() || len(h.gpus) == 0 {
			continue
		}
		compared++
		if why := compareSummary(h, found[run{h.node, h.job, h.run}]); why != "" {
			if wrong++; wrong < 10 {
				r.t.Errorf("job %s on node %s, run %s: %s", h.job, h.node, h.run, why)
			}
		}
	}
	r.t.Logf("%d summaries of %d runs; %d compared", len(all), len(w.holds), compared)
	if compared == 0 {
		r.t.Error("no run was left alone")
	}
}

func compareSummary(h *hold, found []rundir.Summary) string {
	if len(found) != 1 {
		return fmt.Sprintf("%d summaries, want one", len(found))
	}
	s := &found[0]
	gpus, want := slices.Sorted(slices.Values(s.Record.GPUs)), slices.Sorted(slices.Values(h.gpus))
	start, _ := strconv.ParseInt(h.run, 10, 64)
	switch {
	case !slices.Equal(gpus, want):
		return fmt.Sprintf("GPUs %v, want %v", gpus, want)
	case s.Ended < start || s.Ended > h.over.Unix()+1:
		return fmt.Sprintf("ended %d, want %d to %d", s.Ended, start, h.over.Unix())
	case s.Use != nil && s.Use.JobID != h.job:
		return "the use of job " + s.Use.JobID
	}
	return ""
}
