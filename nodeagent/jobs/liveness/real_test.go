package liveness

import (
	"cmp"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// TestRealGroups finds the steps of jobs in the control groups of version 2 that a real slurmd makes.
func TestRealGroups(t *testing.T) {
	t.Parallel()
	conf := slurmrig.Config{
		SlurmConf: "PrologFlags=Alloc,Contain\nProlog=/etc/slurm/prolog.sh\n" +
			"NodeName=n1 NodeAddr=127.0.0.1 Port=20001 CPUs=2\nPartitionName=main Nodes=ALL Default=YES\n",
		Files:         map[string]string{"prolog.sh": "#!/bin/bash\necho \"$SLURM_JOB_SLUID\" >/tmp/sluid.$SLURM_JOB_ID\n"},
		Slurmd:        "n1",
		ControlGroups: true,
	}
	for _, release := range slurmrig.Releases() {
		t.Run(release.Slurm, func(t *testing.T) {
			t.Parallel()
			c := slurmrig.StartTest(t, release, conf)
			scope := filepath.Join(c.ControlGroups(), "system.slice/n1_slurmstepd.scope")
			for _, end := range []struct {
				job, how string
				command  []string
				left     []sighting
			}{
				{"1", "cancelled", []string{"scancel", "1"}, nil},
				{"2", "killed", []string{"pkill", "-9", "-x", "slurmstepd|sleep|srun"}, []sighting{{scope, "n1", false, true, true}}},
			} {
				c.RunTest(t, "sbatch", "-o", "/dev/null", "--wrap", "srun sleep 600 & exec sleep 600")
				var sluid string
				await.Until(t, "the job's Prolog", func() bool {
					out, err := c.Run(t.Context(), "cat", "/tmp/sluid."+end.job)
					sluid = strings.TrimSpace(out)
					return err == nil && strings.HasSuffix(out, "\n")
				})
				for _, step := range []string{"step_extern", "step_batch", "step_0"} {
					await.Until(t, step, func() bool { return isDir(filepath.Join(scope, cmp.Or(sluid, "job_"+end.job), step)) })
				}
				wanted := wantedJobs{}
				wanted.add(end.job, sluid)
				seen := func(what string, want []sighting) {
					t.Helper()
					var diff string
					await.Until(t, what, func() bool {
						s := stepScanner{cgroupRoot: c.ControlGroups()}
						diff = gocmp.Diff(want, s.scan(wanted, true, 0).jobs[end.job], gocmp.AllowUnexported(sighting{}))
						return diff == ""
					}, func() string { return "(-want +got):\n" + diff + c.Log("n1") })
				}
				seen("the job lives", []sighting{{scope, "n1", true, true, true}})
				c.RunTest(t, end.command...)
				seen("the job was "+end.how, end.left)
			}
		})
	}
}
