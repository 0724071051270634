package liveness

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// TestRealSteps finds the steps of jobs that a real slurmd runs: in its control groups of version 2, and by the sockets of
// the steps.
func TestRealSteps(t *testing.T) {
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
			scope, spool := filepath.Join(c.ControlGroups(), "system.slice/n1_slurmstepd.scope"), filepath.Join(c.Dir, ".rig/spool/n1")
			sorted := func(all []sighting) []sighting {
				slices.SortFunc(all, func(a, b sighting) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				return all
			}
			sightings := func(alive bool) []sighting {
				return sorted([]sighting{{scope, "n1", alive, true, true}, {spool, "n1", alive, false, false}, {spool, "n1", alive, true, false}, {spool, "n1", alive, true, true}})
			}
			for _, end := range []struct {
				job, how string
				command  []string
				left     []sighting
			}{
				{"1", "cancelled", []string{"scancel", "1"}, nil},
				{"2", "killed", []string{"pkill", "-9", "-x", "slurmstepd|sleep|srun"}, sightings(false)},
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
						s := stepScanner{spools: []string{spool}, cgroupRoot: c.ControlGroups()}
						diff = gocmp.Diff(want, sorted(s.scan(wanted, true, 0).jobs[end.job]), gocmp.AllowUnexported(sighting{}))
						return diff == ""
					}, func() string { return "(-want +got):\n" + diff + c.Log("n1") })
				}
				seen("the job lives", sightings(true))
				c.RunTest(t, end.command...)
				seen("the job was "+end.how, end.left)
			}
		})
	}
}
