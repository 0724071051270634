//go:build cgo

package node_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// benchProbe runs quoin probe on eight GPUs of a loaded NVML.
func benchProbe(b *testing.B, quoin, machine string, args ...string) (cmd *exec.Cmd, lines *bufio.Reader, end func()) {
	b.Helper()
	m := fake.New(b, machine)
	cmd = exec.CommandContext(b.Context(), quoin, slices.Insert(args, 1, "--set", "agent.nvmlLibrary="+fake.Library(b, 580), "--set", "agent.hostRoot="+m.Root(), "--node", "n1")...)
	cmd.Env = append(probe.Environment(), m.Environment())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	return cmd, bufio.NewReaderSize(stdout, 1<<20), func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProbeStart is the time from the start of a probe's process to its first
// report.
func BenchmarkProbeStart(b *testing.B) {
	quoin := programs.QuoinTest(b)
	for _, machine := range []string{"h100", "gb200", "a100-mig"} {
		b.Run(machine, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				cmd, lines, end := benchProbe(b, quoin, machine, "probe", "--times", "read: 1h")
				b.StartTimer()
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "NodeReport") {
					b.Fatalf("%q, %v", line, err)
				}
				b.StopTimer()
				end()
				b.StartTimer()
			}
		})
	}
}

// inTmpfs copies a program into memory, where its file is not mapped in large
// pieces.
func inTmpfs(b *testing.B, program string) string {
	b.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "quoin-bench-") //nolint:usetesting // that would be on a disk
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, filepath.Base(program))
	if out, err := exec.CommandContext(b.Context(), "cp", program, path).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}

// BenchmarkProbePoll measures a hundred readings by a running probe: processor time
// of each, the most memory of its own, and the most that is resident, which includes
// pages of the program's file. From Linux 6.18 on the kernel maps files in large
// pieces, on ext4 but not on a tmpfs.
func BenchmarkProbePoll(b *testing.B) {
	const polls = 100
	quoin := programs.QuoinTest(b)
	inMemory := inTmpfs(b, quoin)
	for _, of := range []struct{ name, program, machine string }{
		{"h100", quoin, "h100"}, {"gb200", quoin, "gb200"}, {"gb200-tmpfs", inMemory, "gb200"}, {"a100-mig-tmpfs", inMemory, "a100-mig"},
	} {
		b.Run(of.name, func(b *testing.B) {
			var used time.Duration
			var resident, own, peak int
			for b.Loop() {
				cmd, lines, end := benchProbe(b, of.program, of.machine, "probe", "--times", "read: 50ms")
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				var before time.Duration
				for i := range polls + 2 {
					if _, err := lines.ReadString('\n'); err != nil {
						b.Fatal(err)
					}
					if i == 1 {
						before = processorTime(b, cmd.Process.Pid)
					}
					if i > 1 {
						resident = max(resident, process.KiB(b, cmd.Process.Pid, "VmRSS"))
						own = max(own, process.KiB(b, cmd.Process.Pid, "RssAnon"))
					}
				}
				used += processorTime(b, cmd.Process.Pid) - before
				peak = max(peak, process.KiB(b, cmd.Process.Pid, "VmHWM"))
				end()
			}
			b.ReportMetric(float64(used.Microseconds())/float64(polls*b.N), "µs-CPU/poll")
			b.ReportMetric(float64(resident)*1024/1e6, "MB-resident")
			b.ReportMetric(float64(own)*1024/1e6, "MB-own")
			b.ReportMetric(float64(peak)*1024/1e6, "MB-at-start")
		})
	}
}
