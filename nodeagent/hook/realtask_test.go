package hook

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/testdata/rig/slurmrig"
)

// taskScript is a TaskProlog that calls the hook.
const taskScript = `#!/bin/sh
exec /rig/quoin-hook task --wait 5m --run-dir /rig/run-$SLURMD_NODENAME
`

// TestRealTask runs jobs of an ordinary user on a real Slurm: each task learns its place from
// topology.conf, and where that has no nodes, from slurmctld.
func TestRealTask(t *testing.T) {
	slurmrig.NeedTest(t)
	for _, release := range slurmrig.Releases() {
		for _, dynamic := range []bool{false, true} {
			if dynamic && release == slurmrig.Slurm2411 {
				continue // it does not start with blocks that have no nodes
			}
			t.Run(fmt.Sprintf("%s/dynamic=%t", release.Slurm, dynamic), func(t *testing.T) {
				r := startTaskRig(t, release, dynamic)
				// 24.11 does not tell tasks the segment's size.
				segment := func(n int) string {
					if release == slurmrig.Slurm2411 {
						return ""
					}
					return fmt.Sprint(n)
				}
				want := []string{
					"n01 GPU.1 b1 2 0 " + segment(0), "n01 GPU.1 b1 2 1 " + segment(0), "n02 GPU.1 b1 2 2 " + segment(0), "n02 GPU.1 b1 2 3 " + segment(0),
					"n04 GPU.1 b2 2 0 " + segment(1), "n04 GPU.1 b2 2 1 " + segment(1), "n05 GPU.1 b2 2 2 " + segment(1), "n05 GPU.1 b2 2 3 " + segment(1),
				}
				if diff := cmp.Diff(want, r.tasks("-N4", "-x", "n[03,06]", "--ntasks-per-node=2", "--segment=2", "--gres=gpu:2")); diff != "" {
					t.Errorf("a job on two blocks (-want +got):\n%s\n%s", diff, r.Log("slurmctld"))
				}
				if got := r.tasks("-N1", "-w", "n06", "--gres=gpu:1"); !slices.Equal(got, []string{"n06 GPU.1 b2 1 0 "}) {
					t.Errorf("a job on one node: %q", got)
				}
				r.until("the Epilogs have taken the files away", func() bool {
					left, err := filepath.Glob(filepath.Join(r.Dir, ".rig/run-*/tasks/*"))
					return err == nil && len(left) == 0
				})
				// Slurm ends tasks without the file that TaskProlog names: the page warns of that.
				if err := os.Remove(filepath.Join(r.Dir, "task.sh")); err != nil {
					t.Fatal(err)
				}
				if out, err := r.As(t.Context(), "alice", "srun", "--mpi=none", "-N1", "-w", "n06", "true"); err == nil || !strings.Contains(out, "TaskProlog failed") {
					t.Errorf("without the file: %v, %s", err, out)
				}
			})
		}
	}
}

// tasks runs a job as another user and returns a line for each task: its node, and the
// values that it got.
func (r *rig) tasks(args ...string) []string {
	r.t.Helper()
	const show = `echo "$SLURMD_NODENAME" $QUOIN_CLIQUE "$QUOIN_BLOCK" $QUOIN_BLOCKS $QUOIN_RANK_IN_BLOCK "$QUOIN_SEGMENT"`
	out, err := r.As(r.t.Context(), "alice", append(append([]string{"srun", "--mpi=none"}, args...), "sh", "-c", show)...)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	lines := slices.Sorted(strings.Lines(strings.ReplaceAll(out, "  \n", "\n")))
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	return lines
}

// startTaskRig starts six nodes in two blocks. Dynamic nodes are in no file.
func startTaskRig(t *testing.T, release slurmrig.Release, dynamic bool) *rig {
	t.Helper()
	conf := `GresTypes=gpu
Prolog=/etc/slurm/prolog.sh
Epilog=/etc/slurm/epilog.sh
TaskProlog=/etc/slurm/task.sh
PrologFlags=Alloc
SelectType=select/cons_tres
TopologyPlugin=topology/block
MaxNodeCount=20
DefMemPerCPU=10
`
	blocks := "BlockName=b1 Nodes=n[01-03]\nBlockName=b2 Nodes=n[04-06]\nBlockSizes=2\n"
	if dynamic {
		blocks = regexp.MustCompile(` Nodes=\S+`).ReplaceAllString(blocks, "")
	} else {
		conf += "NodeName=n[01-06] NodeAddr=127.0.0.1 Port=[21001-21006] CPUs=16 RealMemory=1000 Gres=gpu:h200:8 State=UNKNOWN\n"
	}
	conf += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
	c := slurmrig.StartTest(t, release, slurmrig.Config{SlurmConf: conf, GPUs: 8, Files: map[string]string{
		"gres.conf": "Name=gpu Type=h200 File=/dev/nvidia[0-7]\n", "topology.conf": blocks, "task.sh": taskScript,
		"prolog.sh": fmt.Sprintf(hookScript, "prolog --wait 5m", "prolog"), "epilog.sh": fmt.Sprintf(hookScript, "epilog", "epilog"),
	}})
	r := &rig{c, t}
	buildHook(t, filepath.Join(c.Dir, ".rig/quoin-hook"))
	for i := 1; i <= 6; i++ {
		node := fmt.Sprintf("n%02d", i)
		run := rundir.Dir(filepath.Join(c.Dir, ".rig/run-"+node))
		inv := rundir.Inventory{Node: node, Clique: "GPU.1"}
		for g := range 8 {
			inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: g, Minor: g, UUID: fmt.Sprintf("GPU-%s-%d", node, g), ExporterID: fmt.Sprint(g)})
		}
		if err := run.WriteInventory(inv); err != nil {
			t.Fatal(err)
		}
		config := rundir.HookConfig{MappingDir: "/rig/map-" + node, JobInfo: &rundir.JobInfo{Command: "/usr/bin/scontrol", Timeout: rundir.Duration(time.Minute)}} // the longest that is taken
		if !dynamic {
			config.JobInfo = nil
		}
		if err := run.WriteHookConfig(config); err != nil {
			t.Fatal(err)
		}
		var args []string
		if dynamic {
			args = append(args, "-Z", "--conf", fmt.Sprintf("CPUs=16 RealMemory=1000 Gres=gpu:h200:8 Port=%d NodeAddr=127.0.0.1 Topology=default:b%d", 21000+i, 1+i/4))
		}
		if err := c.Slurmd(t.Context(), node, args...); err != nil {
			t.Fatal(err)
		}
		// Slurm numbers dynamic nodes as they come.
		r.until("the nodes are idle", func() bool {
			out, _ := r.Run(t.Context(), "sinfo", "-h", "-N", "-o", "%T")
			return !dynamic && i < 6 || strings.Count(out, "idle\n") == i
		})
	}
	return r
}
