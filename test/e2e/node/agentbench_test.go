package node_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// BenchmarkAgentRest measures what an agent and its probe use at rest, by default
// intervals, on a simulated machine: processor time and memory.
func BenchmarkAgentRest(b *testing.B) {
	quoin := programs.QuoinTest(b)
	b.Run("directory", func(b *testing.B) {
		for b.Loop() {
			measureAgent(b, startAgent(b, quoin, "5s"))
		}
	})
	b.Run("kubernetes", func(b *testing.B) {
		c := kuberig.StartTest(b)
		if err := c.Objects().Apply(b.Context(), "../../../manifests/plain/base/05-nodereports.yaml"); err != nil {
			b.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		if _, err := c.Client().CoreV1().Nodes().Create(b.Context(), node, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			measureAgent(b, startAgent(b, quoin, "5s", "--kubeconfig", c.Kubeconfig()))
		}
	})
}

// measureAgent waits until the agent has settled, and reports what it and its
// probe use in the half minute after: the share of a core, and memory of their own,
// the agent's on average and at most; then the most during scrapes, and what is
// resident then, which includes pages of the program's file.
func measureAgent(b *testing.B, p *agentProcess) {
	b.Helper()
	const rest = 30 * time.Second
	p.until("report", func() bool { return p.metric("quoin_agent_report_stored") == 1 && p.probe() != 0 })
	time.Sleep(12 * time.Second) // until it has settled
	pid, probe := p.cmd.Process.Pid, p.probe()
	used, probeUsed := processorTime(b, pid), processorTime(b, probe)
	megabytes := func(pid int, key string) float64 { return float64(process.KiB(b, pid, key)) * 1024 / 1e6 }
	own := func(pid int) float64 { return megabytes(pid, "RssAnon") }
	var sum, most float64
	const looks = 60
	for range looks {
		time.Sleep(rest / looks)
		now := own(pid)
		sum += now
		most = max(most, now)
	}
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / rest.Seconds() }
	b.ReportMetric(share(processorTime(b, pid)-used), "%core-agent")
	b.ReportMetric(share(processorTime(b, probe)-probeUsed), "%core-probe")
	b.ReportMetric(sum/looks, "MB-agent")
	b.ReportMetric(most, "MB-agent-most")
	b.ReportMetric(own(probe), "MB-probe")
	most = 0
	for range 20 {
		if code, _ := p.get("/metrics"); code != http.StatusOK {
			b.Fatal("no metrics")
		}
		most = max(most, own(pid))
	}
	b.ReportMetric(most, "MB-agent-scraped")
	b.ReportMetric(megabytes(pid, "VmRSS"), "MB-agent-resident")
	b.ReportMetric(megabytes(probe, "VmRSS"), "MB-probe-resident")
}

// processorTime is what the threads of a process have run, to the nanosecond: the
// ticks of /proc/PID/stat are too coarse.
func processorTime(b *testing.B, pid int) (total time.Duration) {
	b.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		b.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, thread := range threads {
		data, err := os.ReadFile(thread)
		if err != nil {
			b.Fatal(err)
		}
		var ns int64
		if _, err := fmt.Sscan(string(data), &ns); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}
