package liveness

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
)

// TestRealSteps finds the steps of jobs that real slurmds run, with control groups of version 2 and without
// any.
func TestRealSteps(t *testing.T) {
	t.Parallel()
	for _, release := range slurmrig.Releases() {
		for _, flags := range []string{"Alloc", "Contain"} {
			t.Run(release.Slurm+" "+flags, func(t *testing.T) {
				t.Parallel()
				c := slurmrig.StartTest(t, release, slurmrig.Config{
					SlurmConf:     "PrologFlags=" + flags + "\nDefMemPerCPU=10\nNodeName=n[1-2] NodeAddr=127.0.0.1 Port=[20001-20002] CPUs=4 RealMemory=1000\nPartitionName=main Nodes=ALL Default=YES\n",
					Slurmd:        "n[1-2]",
					ControlGroups: flags == "Contain",
				})
				extern := flags == "Contain"
				look := func() processes {
					return readProcesses(filepath.Join("/proc", c.PID(), "root", release.Root(), "proc"))
				}
				seen := func(what string, want map[string]steps) {
					t.Helper()
					var diff string
					await.Until(t, what, func() bool {
						p := look()
						diff = cmp.Diff(want, p.steps, cmp.AllowUnexported(steps{}))
						return diff == "" && p.quiet && p.slurmd > 0 && p.init > 0
					}, func() string { return "(-want +got):\n" + diff + c.Log("n1") })
				}
				seen("no job", map[string]steps{})
				c.RunTest(t, "sbatch", "-w", "n1", "-o", "/dev/null", "--wrap", "exec sleep 600")
				c.RunTest(t, "sbatch", "-N2", "--array=0-0", "-o", "/dev/null", "--wrap", `srun sh -c 'touch /rig/runs-$SLURMD_NODENAME; exec sleep 600'`)
				living := map[string]steps{"1": {extern, true}, "2": {extern, true}}
				seen("batch jobs, one on two nodes", living)
				await.Until(t, "tasks of srun on both nodes", func() bool { // else srun fails when slurmd is killed
					_, err := c.Run(t.Context(), "ls", "/rig/runs-n1", "/rig/runs-n2")
					return err == nil
				})
				c.RunTest(t, "scontrol", "suspend", "1")
				c.Kill("slurmd")
				if diff := cmp.Diff(processes{steps: living}, look(), cmp.AllowUnexported(processes{}, steps{}), cmpopts.IgnoreFields(processes{}, "init")); diff != "" {
					t.Errorf("without a slurmd (-want +got):\n%s", diff)
				}
				for _, node := range []string{"n1", "n2"} {
					if err := c.Slurmd(t.Context(), node); err != nil {
						t.Fatal(err)
					}
				}
				seen("the next slurmds", living)
				c.RunTest(t, "scancel", "1", "2")
				seen("cancelled", map[string]steps{})
			})
		}
	}
}
