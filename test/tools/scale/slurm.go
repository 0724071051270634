package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

const (
	slurmSample = 12 // how many of the published files Slurm loads
	slurmNodes  = 4  // that run a job
)

// reconfigures has a real slurmctld load a sample of the published files, one after another,
// while jobs run.
func (b *bencher) reconfigures(ctx context.Context) error {
	files := b.revisions.sample(slurmSample)
	var names []string
	for _, m := range b.site.machines {
		names = append(names, m.name)
	}
	conf := fmt.Sprintf("MaxNodeCount=%d\nNodeName=%s NodeAddr=127.0.0.1 Port=[22001-%d] CPUs=2 RealMemory=100 State=UNKNOWN\n"+
		"NodeName=%s NodeAddr=127.0.0.1 Port=30000 CPUs=2 RealMemory=100 State=DOWN\nPartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE\n",
		len(names)+1, hostlist.Compress(names[:slurmNodes]), 22000+slurmNodes, hostlist.Compress(names[slurmNodes:]))
	dir := b.path("slurm")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("start Slurm: %w", err)
	}
	rig, err := slurmrig.Start(ctx, slurmrig.Slurm2605, dir, slurmrig.Config{
		SlurmConf: conf, Slurmd: hostlist.Compress(names[:slurmNodes]), Files: map[string]string{"topology.yaml": files[0].files["topology.yaml"]},
	})
	if err != nil {
		return err
	}
	defer rig.Stop()
	if _, err := rig.As(ctx, "alice", "sh", "-c", "cd /tmp && sbatch -N2 --wrap 'srun sleep 3600' && sbatch -N1 --wrap 'sleep 3600' && sbatch -N1 --wrap 'sleep 3600'"); err != nil {
		return err
	}
	want, err := running(ctx, rig)
	if err != nil {
		return err
	}
	var longest time.Duration
	for _, r := range files {
		if err := os.WriteFile(filepath.Join(rig.Dir, "topology.yaml"), []byte(r.files["topology.yaml"]), 0o600); err != nil {
			return fmt.Errorf("write revision %s: %w", r.number, err)
		}
		began := time.Now()
		if _, err := rig.Run(ctx, "scontrol", "reconfigure"); err != nil {
			return fmt.Errorf("revision %s: %w", r.number, err)
		}
		longest = max(longest, time.Since(began))
		if got, err := running(ctx, rig); err != nil || got != want {
			return fmt.Errorf("revision %s: jobs %q ran before, now %q: %w", r.number, want, got, err)
		}
	}
	fmt.Fprintf(b.stdout, "slurmctld 26.05 loaded %d of %d files by scontrol reconfigure, in %s at most; %d jobs ran on\n",
		len(files), b.revisions.count(), longest.Round(time.Millisecond), strings.Count(want, "\n"))
	return nil
}

// jobCount is how many jobs run.
const jobCount = 3

// running waits until all jobs run, and returns each with its nodes.
func running(ctx context.Context, rig *slurmrig.Cluster) (out string, err error) {
	err = await.NoError(ctx, "jobs run", func(ctx context.Context) (err error) {
		out, err = rig.Run(ctx, "squeue", "-h", "-S", "i", "-o", "%i %T %N")
		if err == nil && strings.Count(out, " RUNNING ") != jobCount {
			err = errors.New(out)
		}
		return err
	})
	return out, err
}

// sample returns some of all files, the first and the last ones among them.
func (r *revisions) sample(most int) (some []*revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(most, len(r.all))
	for i := range n {
		some = append(some, r.all[i*(len(r.all)-1)/max(1, n-1)])
	}
	return some
}
