package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// jobsThere is how many jobs are on the node already, each on all eight GPUs.
const jobsThere = 64

func benchEnv(job int, conf string) []string {
	return []string{fmt.Sprint("SLURM_JOB_ID=", job), "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7", "SLURM_JOB_START_TIME=100", "SLURM_CONF=" + conf,
		"SLURM_CLUSTER_NAME=c", "SLURMD_NODENAME=n1", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_USER=u", "PATH=/usr/bin:/bin"}
}

// benchNode prepares a node whose run directory is in memory and whose mapping
// directory is on a disk, as on a real one, and a slurm.conf and a gres.conf of 1,000 nodes.
func benchNode(b *testing.B) (hook, mapping, conf string) {
	tmp := b.TempDir()
	hook, mapping, conf = filepath.Join(tmp, "quoin-hook"), filepath.Join(tmp, "map"), filepath.Join(tmp, "slurm.conf")
	buildHook(b, hook)
	var text strings.Builder
	text.WriteString("PrologFlags=Alloc,Contain\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "NodeName=n%d CPUs=16 Gres=gpu:8\n", i)
	}
	for name, text := range map[string]string{conf: text.String(), filepath.Join(tmp, "gres.conf"): "NodeName=n[0-999] Name=gpu Type=h200 File=/dev/nvidia[0-7]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return hook, mapping, conf
}

func benchRunDir(b *testing.B, mapping string) string {
	run := filepath.Join(memoryDir(b), "run")
	inv := rundir.Inventory{Node: "n1"}
	for i := range 8 {
		inv.Entries = append(inv.Entries, rundir.Entry{GRESIndex: i, Minor: i, UUID: fmt.Sprint("GPU-", i), ExporterID: fmt.Sprint(i)})
	}
	if err := rundir.Dir(run).WriteInventory(inv); err != nil {
		b.Fatal(err)
	}
	if err := rundir.Dir(run).WriteHookConfig(rundir.HookConfig{MappingDir: mapping}); err != nil {
		b.Fatal(err)
	}
	return run
}

// timed runs a program and returns how long it took, and its CPU time.
func timed(b *testing.B, env []string, args ...string) (wall, cpu time.Duration) {
	cmd := exec.CommandContext(b.Context(), args[0], args[1:]...)
	cmd.Env = env
	before := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatal(err)
	}
	wall = time.Since(before)
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return wall, time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(b *testing.B, walls, cpus []time.Duration) {
	slices.Sort(walls)
	slices.Sort(cpus)
	b.ReportMetric(float64(walls[len(walls)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(cpus[len(cpus)/2].Microseconds())/1000, "cpu-ms/op")
}

// BenchmarkHook measures whole processes on a job with 8 GPUs, on a node with 64 jobs on each. p50-ms
// and cpu-ms/op measure the process alone. ns/op measures an Epilog and a Prolog together.
func BenchmarkHook(b *testing.B) {
	hook, mapping, conf := benchNode(b)
	run := benchRunDir(b, mapping)
	for i := range jobsThere {
		timed(b, benchEnv(i, conf), hook, "prolog", "--run-dir", run)
	}
	for _, name := range []string{"prolog", "epilog"} {
		b.Run(name, func(b *testing.B) {
			var walls, cpus []time.Duration
			for job := 0; b.Loop(); job++ {
				for _, verb := range []string{"epilog", "prolog"} {
					wall, cpu := timed(b, benchEnv(job%jobsThere, conf), hook, verb, "--run-dir", run)
					if verb == name {
						walls, cpus = append(walls, wall), append(cpus, cpu)
					}
				}
			}
			report(b, walls, cpus)
		})
	}
}
