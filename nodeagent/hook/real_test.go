package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// nodes is how many slurmds a rig runs on this machine.
const nodes = 8

// hookScript calls the real hook with directories of the node's own, for all
// nodes of a rig share one file system.
const hookScript = `#!/bin/bash
/rig/quoin-hook %s --run-dir /rig/run-$SLURMD_NODENAME --mapping-dir /rig/map-$SLURMD_NODENAME 2>>/rig/log/hook.$SLURMD_NODENAME
rc=$?
env >/rig/log/%s.$SLURM_JOB_ID.$SLURMD_NODENAME
exit $rc
`

// rig is a real Slurm whose Prolog and Epilog are the real hook.
type rig struct {
	*slurmrig.Cluster
	t *testing.T
}

func startRig(t *testing.T, release slurmrig.Release) *rig {
	t.Helper()
	c := slurmrig.StartTest(t, release, slurmrig.Config{
		SlurmConf: fmt.Sprintf(`GresTypes=gpu
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.sh
PrologFlags=Alloc
KillWait=1
SelectType=select/cons_tres
DefMemPerCPU=10
NodeName=n[01-%[1]d] NodeAddr=127.0.0.1 Port=[21001-2100%[1]d] CPUs=16 RealMemory=1000 Gres=gpu:h200:8 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
`, nodes),
		Files: map[string]string{
			"gres.conf": "Name=gpu Type=h200 File=/dev/nvidia[0-7]\n",
			"prolog.sh": fmt.Sprintf(hookScript, "prolog", "prolog"),
			"epilog.sh": fmt.Sprintf(hookScript, "epilog", "epilog"),
		},
		Slurmd: "", GPUs: 8,
	})
	r := &rig{c, t}
	buildHook(t, filepath.Join(c.Dir, ".rig/quoin-hook"))
	for i := 1; i <= nodes; i++ {
		node := fmt.Sprintf("n%02d", i)
		// The exporter's ids run against the order of the GRES indices.
		inv := rundir.Inventory{Node: node}
		for g := range 8 {
			inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: g, Minor: g, UUID: fmt.Sprintf("GPU-%s-%d", node, g), ExporterID: fmt.Sprint(7 - g)})
		}
		if err := rundir.Dir(filepath.Join(c.Dir, ".rig/run-"+node)).WriteInventory(inv); err != nil {
			t.Fatal(err)
		}
		if err := r.Slurmd(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	r.until("all nodes idle", func() bool {
		out, _ := r.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%T")
		return strings.Count(out, "idle\n") == nodes
	})
	return r
}

func buildHook(t testing.TB, path string) {
	t.Helper()
	if err := programs.Put(t.Context(), programs.Hook, path); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) must(args ...string) string {
	r.t.Helper()
	return r.RunTest(r.t, args...)
}

// until waits for what must come.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-ctx.Done():
			jobs, _ := r.Run(r.t.Context(), "scontrol", "show", "job")
			hooks, _ := filepath.Glob(filepath.Join(r.Dir, ".rig/log/hook.*"))
			var said strings.Builder
			for _, h := range hooks {
				text, _ := os.ReadFile(h)
				said.Write(text)
			}
			r.t.Fatalf("%s: not within three minutes\n%s\n%s\n%s", what, jobs, said.String(), r.Log("slurmctld"))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// mapping returns the lines of every file of a node's mapping directory.
func (r *rig) mapping(node string) map[string]string {
	out := map[string]string{}
	dir := filepath.Join(r.Dir, ".rig/map-"+node)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil && string(text) != "\n" {
			out[e.Name()] = strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")
		}
	}
	return out
}

// holders counts the GPUs that any file says the job holds.
func (r *rig) holders(job string) int {
	n := 0
	for i := 1; i <= nodes; i++ {
		for _, lines := range r.mapping(fmt.Sprintf("n%02d", i)) {
			if slices.Contains(strings.Split(lines, ","), job) {
				n++
			}
		}
	}
	return n
}

var submitted = regexp.MustCompile(`Submitted batch job (\d+)`)

func (r *rig) submit(args ...string) string {
	r.t.Helper()
	script := filepath.Join(r.Dir, "job.sh")
	if err := os.WriteFile(script, []byte("#!/bin/bash\nexec sleep 600\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	out := r.must(append(append([]string{"sbatch", "-o", "/dev/null"}, args...), "/etc/slurm/job.sh")...)
	m := submitted.FindStringSubmatch(out)
	if m == nil {
		r.t.Fatalf("sbatch said %q", out)
	}
	return m[1]
}

func TestRealJobs(t *testing.T) {
	t.Parallel()
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			r := startRig(t, release)
			t.Run("srun sees its own mapping", r.srun)
			t.Run("two jobs share a node", r.share)
			t.Run("array", r.array)
			t.Run("requeue", r.requeue)
			t.Run("several nodes", r.wide)
			t.Run("killed job", r.killed)
			t.Run("salloc without a step", r.alloc)
			t.Run("components of a job", r.components)
			out := r.must("sinfo", "-h", "-N", "-o", "%N %T")
			if strings.Contains(out, "drain") || strings.Contains(out, "down") {
				t.Errorf("a hook has drained nodes:\n%s", out)
			}
		})
	}
}

func (r *rig) srun(t *testing.T) {
	r = &rig{r.Cluster, t}
	out := r.must("srun", "-w", "n01", "--gres=gpu:2", "bash", "-c", `echo id $SLURM_JOB_ID; cd /rig/map-n01; grep -H . [0-9]*`)
	m := regexp.MustCompile(`id (\d+)`).FindStringSubmatch(out)
	if m == nil || !strings.Contains(out, "7:"+m[1]+"\n") || !strings.Contains(out, "6:"+m[1]+"\n") || strings.Count(out, ":") != 2 {
		t.Fatalf("the job saw:\n%s", out)
	}
	r.until("released", func() bool { return len(r.mapping("n01")) == 0 })
	if info, err := os.Stat(filepath.Join(r.Dir, ".rig/map-n01/7")); err != nil || info.Size() != 1 || info.Mode().Perm() != 0o644 {
		t.Errorf("after the release: %v, %v; want a blank line, mode 0644", info, err)
	}
}

func (r *rig) share(t *testing.T) {
	r = &rig{r.Cluster, t}
	a := r.submit("-w", "n02", "--gres=gpu:3")
	b := r.submit("-w", "n02", "--gres=gpu:4")
	r.until("both run", func() bool { return r.holders(a) == 3 && r.holders(b) == 4 })
	for gpu, lines := range r.mapping("n02") {
		if lines != a && lines != b {
			t.Errorf("GPU %s is held by %q", gpu, lines)
		}
	}
	r.must("scancel", a)
	r.until("the first is released", func() bool { return r.holders(a) == 0 })
	if n := r.holders(b); n != 4 {
		t.Errorf("the other job holds %d GPUs after its neighbour ended, want 4", n)
	}
	r.must("scancel", b)
	r.until("all released", func() bool { return len(r.mapping("n02")) == 0 })
}

func (r *rig) array(t *testing.T) {
	r = &rig{r.Cluster, t}
	id := r.submit("--array=0-5", "--gres=gpu:2")
	raw := func() []string {
		return strings.Fields(r.must("squeue", "-h", "-t", "R", "-j", id, "-O", "JobID:20"))
	}
	r.until("all tasks hold GPUs", func() bool {
		ids := raw()
		return len(ids) == 6 && !slices.ContainsFunc(ids, func(j string) bool { return r.holders(j) != 2 })
	})
	ids := raw()
	r.must("scancel", id)
	for _, j := range ids {
		r.until("task "+j+" released", func() bool { return r.holders(j) == 0 })
	}
}

func (r *rig) requeue(t *testing.T) {
	r = &rig{r.Cluster, t}
	id := r.submit("-w", "n03", "--gres=gpu:5", "--requeue")
	r.until("runs", func() bool { return r.holders(id) == 5 })
	r.must("scontrol", "requeue", id)
	r.until("its first run is released", func() bool { return r.holders(id) == 0 })
	// The requeue revokes the credentials of its second: a run that starts
	// within it is killed with "Job credential revoked". Slurm itself waits
	// two minutes, which StartTime=now cuts short.
	time.Sleep(2 * time.Second)
	r.until("runs again", func() bool {
		_, _ = r.Run(t.Context(), "scontrol", "update", "job="+id, "StartTime=now") // refused while it completes
		return r.holders(id) == 5
	})
	lines := r.mapping("n03")
	for gpu, l := range lines {
		if l != id {
			t.Errorf("GPU %s has the lines %q after a requeue, want the id once", gpu, l)
		}
	}
	r.must("scancel", id)
	r.until("released", func() bool { return r.holders(id) == 0 })
}

func (r *rig) wide(t *testing.T) {
	r = &rig{r.Cluster, t}
	id := r.submit("-N", "8", "--gres=gpu:8", "--exclusive")
	r.until("holds all GPUs of eight nodes", func() bool { return r.holders(id) == 64 })
	r.must("scancel", id)
	r.until("released", func() bool { return r.holders(id) == 0 })
}

func (r *rig) killed(t *testing.T) {
	r = &rig{r.Cluster, t}
	id := r.submit("-w", "n04", "--gres=gpu:1", "--no-requeue")
	r.until("runs", func() bool { return r.holders(id) == 1 })
	r.until("its process is killed", func() bool {
		_, err := r.Run(t.Context(), "pkill", "-9", "-x", "sleep")
		return err == nil
	})
	r.until("released", func() bool { return r.holders(id) == 0 })
}

// alloc has no step on any node: with PrologFlags=Alloc the Prolog runs all the
// same.
func (r *rig) alloc(t *testing.T) {
	r = &rig{r.Cluster, t}
	out := r.must("salloc", "-w", "n05,n06", "--gres=gpu:2", "bash", "-c", `echo id $SLURM_JOB_ID; cat /rig/map-n05/[0-9]* /rig/map-n06/[0-9]*`)
	m := regexp.MustCompile(`id (\d+)`).FindStringSubmatch(out)
	if m == nil || strings.Count(strings.ReplaceAll(out, "\n", "\n\n"), "\n"+m[1]+"\n") != 4 {
		t.Fatalf("the job saw:\n%s", out)
	}
	r.until("released", func() bool { return r.holders(m[1]) == 0 })
}

// components of a heterogeneous job have ids of their own, and only one of them
// has a batch step.
func (r *rig) components(t *testing.T) {
	r = &rig{r.Cluster, t}
	id := r.submit("-w", "n05", "--gres=gpu:2", ":", "-w", "n06", "--gres=gpu:3")
	leader, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	second := strconv.Itoa(leader + 1)
	r.until("both hold their GPUs", func() bool { return r.holders(id) == 2 && r.holders(second) == 3 })
	for node, job := range map[string]string{"n05": id, "n06": second} {
		for gpu, lines := range r.mapping(node) {
			if lines != job {
				t.Errorf("node %s: GPU %s is held by %q, want job %s", node, gpu, lines, job)
			}
		}
	}
	r.must("scancel", id)
	r.until("released", func() bool { return r.holders(id)+r.holders(second) == 0 })
}
