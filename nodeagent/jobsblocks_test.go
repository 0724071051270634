package nodeagent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/topology"
)

func (r *jobsRig) slurmTopology(name, text string) {
	r.t.Helper()
	r.must(os.MkdirAll(filepath.Join(r.run, "topology"), 0o755))
	r.must(os.WriteFile(filepath.Join(r.run, "topology", name), []byte(text), 0o600))
}

// TestBlocks takes the blocks of a job from Slurm's topology, in both formats, and
// follows a change of it.
func TestBlocks(t *testing.T) {
	const yaml = `---
- topology: flat
  cluster_default: false
  flat: true
- topology: other
  cluster_default: false
  block: {block_sizes: [1], blocks: [{block: wrong, nodes: "n[1-9]"}, {block: far, nodes: x1}]}
- topology: blocks
  cluster_default: true
  block: {block_sizes: [2], blocks: [{block: b1, nodes: "n[1-2]"}, {block: b2, nodes: "n[3-4]"}, {block: empty}]}
`
	r := newJobsRig(t)
	rec := r.record("17", 0)
	rec.NodeList = "n[1,4],x1,nowhere"
	r.slurmTopology("c1.yaml", yaml)
	r.slurmTopology("c2.conf", "BlockName=c2b nodes=n[1-9]\nBlockSizes=9\n")
	r.slurmTopology("c3.yaml", "- {")
	r.write("17", rec)
	rec.JobID, rec.Cluster, rec.NodeList = "18", "c2", "n1"
	r.write("18", rec)
	rec.JobID, rec.Cluster = "19", "c3"
	r.write("19", rec)
	rec.JobID, rec.Cluster = "20", "../c1"
	r.write("20", rec)
	r.after(10 * time.Second)
	for key, want := range map[string]string{"17": "b1 b1,b2,far", "18": "c2b c2b", "19": " ", "20": " "} {
		if got := r.j.jobs[key].block + " " + strings.Join(r.j.jobs[key].blocks, ","); got != want {
			t.Errorf("job %s: %q, want %q", key, got, want)
		}
	}
	if r.j.problems["topology"] == "" || !strings.Contains(r.text(), `job_id="17",`) || !strings.Contains(r.text(), `block="b1"} 1`) {
		t.Errorf("problems %v, series\n%s", r.j.problems, r.text())
	}
	r.slurmTopology("c1.yaml", strings.ReplaceAll(yaml, "b1", "renamed"))
	r.after(10 * time.Second)
	if b := r.j.jobs["17"]; b.block != "renamed" || !slices.Equal(b.use.Blocks, []string{"b2", "far", "renamed"}) {
		t.Errorf("after a change: %q, %v", b.block, b.use.Blocks)
	}
}

// TestBlockIsAnyText serves a block's name that is no text, which Slurm takes.
func TestBlockIsAnyText(t *testing.T) {
	r := newJobsRig(t)
	r.slurmTopology("c1.conf", "BlockName=b\xff\"x nodes=n[1-9]\nBlockSizes=1\n")
	r.prolog("17", 0)
	if n := strings.Count(r.text(), `block="b`+"\uFFFD"+`\"x"`); n != 5 {
		t.Errorf("%d series have the block, want those of four devices and of a job:\n%s", n, r.text())
	}
}

func (r *jobsRig) text() string {
	text, _ := scrape(r.t, r.j.Handler(agentSeries()), plain, "identity")
	return text
}

// TestNodeBlock knows the node's block by the name that a job has told, over a
// restart and without a job; else by the report's name.
func TestNodeBlock(t *testing.T) {
	r := newJobsRig(t)
	r.slurmTopology("c1.yaml", "- {topology: t, cluster_default: true, block: {block_sizes: [1], blocks: [{block: b1, nodes: n1}, {block: b2, nodes: kube-7}]}}\n")
	block := func() string {
		r.after(10 * time.Second)
		for line := range strings.Lines(r.text()) {
			if _, rest, ok := strings.Cut(line, `block="`); ok && strings.HasPrefix(line, "quoin_gpu_info{") {
				b, _, _ := strings.Cut(rest, `"`)
				return b
			}
		}
		return "no series"
	}
	r.j.Observe(&topology.Node{Name: "kube-7.example.com"})
	if got := block(); got != "b2" {
		t.Errorf("before any job: %q, want that of the report's name", got)
	}
	r.prolog("17", 0)
	if got := block(); got != "b1" {
		t.Errorf("with a job: %q, want b1", got)
	}
	r.must(os.Remove(r.j.recordPath("17")))
	r.after(time.Minute)
	r.start()
	r.j.Observe(&topology.Node{Name: "kube-7.example.com"})
	if got := block(); got != "b1" {
		t.Errorf("after the job, another agent: %q, want b1", got)
	}
}
