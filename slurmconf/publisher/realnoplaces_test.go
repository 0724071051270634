package publisher

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealNoPlaces publishes a site of HGX machines whose switches nobody has named, from reports in a
// directory to jobs. 24.11 and slurm.conf without TopologyPlugin get gres.conf alone. 26.05
// starts with the seed, and takes the flat topology by a reconfigure while a job runs.
func TestRealNoPlaces(t *testing.T) {
	t.Parallel()
	slurmrig.NeedTest(t)
	t.Run("24.11 gres.conf alone", func(t *testing.T) {
		r := newNoPlaces(t, Publication{SlurmVersion: "24.11"}, false)
		r.dir.reports(sites.Parse(t, hgxMachines))
		files := r.until("gres.conf alone", func(files map[string]string) bool { return len(files) == 1 && files["gres.conf"] != "" })
		r.start(slurmrig.Slurm2411, files)
		r.jobsRun()
	})
	t.Run("26.05 seed becomes flat", func(t *testing.T) {
		r := newNoPlaces(t, Publication{}, true)
		r.start(slurmrig.Slurm2605, r.until("a seed", func(files map[string]string) bool {
			return strings.Contains(files["topology.yaml"], "block: "+seedUnit)
		}))
		r.registers()
		// As Slinky's worker pods register. No Node has an annotation, so this one names no place.
		if err := r.rig.Slurmd(t.Context(), "dynamic", "-Z", "--conf", "NodeAddr=127.0.0.1 CPUs=2 RealMemory=100 Port=21004"); err != nil {
			t.Fatal(err)
		}
		r.idle("dynamic")
		r.rig.RunTest(t, "sbatch", "-N1", "-w", "n01", "--output=/dev/null", "--wrap=sleep 600")
		job := ""
		await.Until(t, "the job runs", func() bool {
			job, _ = r.rig.Run(t.Context(), "squeue", "-h", "-o", "%T %r")
			return strings.HasPrefix(job, "RUNNING")
		}, func() string { return job })
		r.dir.reports(sites.Parse(t, hgxMachines))
		for name, text := range r.until("a flat topology", func(files map[string]string) bool {
			return strings.Contains(files["topology.yaml"], "flat: true") && strings.Contains(files["gres.conf"], "h100")
		}) {
			path := filepath.Join(r.rig.Dir, name)
			if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}
		r.rig.RunTest(t, "scontrol", "reconfigure")
		if out := r.rig.RunTest(t, "scontrol", "show", "topology", "flat"); strings.TrimSpace(out) != "" {
			t.Errorf("topology flat: %s", out)
		}
		if out := r.rig.RunTest(t, "squeue", "-h", "-o", "%T"); out != "RUNNING\n" {
			t.Errorf("the job is %q", out)
		}
		r.idle("dynamic")
		r.rig.RunTest(t, "scancel", "1")
		r.jobsRun()
		if log := r.rig.Log("slurmctld"); strings.Contains(log, "fatal:") {
			t.Error(log)
		}
	})
}

// noPlaces is a directory with a publisher on it, and a real Slurm that loads what is published.
type noPlaces struct {
	t    *testing.T
	dir  *dirRig
	rig  *slurmrig.Cluster
	root string
}

func newNoPlaces(t *testing.T, pub Publication, seeded bool) *noPlaces {
	t.Helper()
	pub.SettleTime = Duration{Duration: 100 * time.Millisecond}
	pubs := complete(t, pub)
	r := &noPlaces{t: t, root: t.TempDir()}
	store := dir.New(r.root)
	store.Rescan = 20 * time.Millisecond
	r.dir = &dirRig{t: t, dir: r.root, store: store, pub: pubs[0]}
	p := newPublisher(store, pubs)
	p.options.Seed = seeded
	inBackground(t, store.Run, func(ctx context.Context) error { return store.Lead(ctx, p.Run) })
	return r
}

// until waits for published files, and returns them.
func (r *noPlaces) until(what string, is func(files map[string]string) bool) map[string]string {
	r.t.Helper()
	set := r.dir.until(what, func(p *plandoc.Published) bool { return is(p.Own()) })
	return maps.Clone(set.Own())
}

// start starts slurmctld with the published files.
func (r *noPlaces) start(release slurmrig.Release, files map[string]string) {
	r.t.Helper()
	r.rig = slurmrig.StartTest(r.t, release, slurmrig.Config{GPUs: 8, Model: "NVIDIA H100 80GB HBM3", Files: files, SlurmConf: `SelectType=select/cons_tres
GresTypes=gpu
MaxNodeCount=10
NodeName=h01 NodeAddr=127.0.0.1 Port=21001 CPUs=8 RealMemory=1000 Gres=gpu:h100_80gb_hbm3:8
NodeName=h02 NodeAddr=127.0.0.1 Port=21002 CPUs=8 RealMemory=1000 Gres=gpu:h100_80gb_hbm3:8
NodeName=n01 NodeAddr=127.0.0.1 Port=21003 CPUs=8 RealMemory=1000 Gres=gpu:h100_80gb_hbm3:8
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`})
}

// registers starts the slurmds, and waits until all nodes are up with their GPUs.
func (r *noPlaces) registers() {
	r.t.Helper()
	for _, node := range []string{"h01", "h02", "n01"} {
		if err := r.rig.Slurmd(r.t.Context(), node); err != nil {
			r.t.Fatal(err)
		}
	}
	nodes := ""
	await.Until(r.t, "all nodes are idle", func() bool {
		nodes, _ = r.rig.Run(r.t.Context(), "sinfo", "-h", "-N", "-o", "%N %T %G")
		return strings.Count(nodes, " idle gpu:h100_80gb_hbm3:8") == 3
	}, func() string { return nodes })
}

// idle waits until a node is idle.
func (r *noPlaces) idle(node string) {
	r.t.Helper()
	state := ""
	await.Until(r.t, node+" is idle", func() bool {
		state, _ = r.rig.Run(r.t.Context(), "sinfo", "-h", "-n", node, "-o", "%T")
		return state == "idle\n"
	}, func() string { return state + r.rig.Log(node) })
}

// jobsRun runs a job on all GPUs of the reported nodes, when the last job there has ended.
func (r *noPlaces) jobsRun() {
	r.t.Helper()
	if out, _ := r.rig.Run(r.t.Context(), "sinfo", "-h", "-N", "-o", "%T"); strings.Contains(out, "unk") {
		r.registers()
	}
	out := r.rig.RunTest(r.t, "srun", "-N3", "-w", "h01,h02,n01", "--gres=gpu:8", "bash", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES")
	for _, node := range []string{"h01", "h02", "n01"} {
		if !strings.Contains(out, node+" ") {
			r.t.Errorf("no task on %s: %s", node, out)
		}
	}
	if n := strings.Count(out, " 0,1,2,3,4,5,6,7\n"); n != 3 {
		r.t.Errorf("%d tasks have all GPUs: %s", n, out)
	}
}
