package nodeagent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/fakeprobe"
	"github.com/quoin-hpc/quoin/test/rig/process"
)

// usage is what a process holds.
type usage struct{ descriptors, goroutines, threads, residentKiB int }

func (u usage) String() string {
	return fmt.Sprintf("%d descriptors, %d goroutines, %d threads, %d KiB resident", u.descriptors, u.goroutines, u.threads, u.residentKiB)
}

func used(t *testing.T) usage {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	u := usage{descriptors: entries(t, "/proc/self/fd"), goroutines: runtime.NumGoroutine(), threads: entries(t, "/proc/self/task"), residentKiB: process.KiB(t, os.Getpid(), "VmRSS")}
	return u
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// processes returns the children of this process, and all others whose command
// line has the word.
func processes(t *testing.T, word string) (out []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	parent := fmt.Sprintf(" %d ", os.Getpid())
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if err != nil { // it has ended
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		if len(rest) > 2 && strings.HasPrefix(rest[1:], parent) || strings.Contains(string(command), word) {
			out = append(out, fmt.Sprintf("%s %q", strings.TrimSpace(string(stat)), command))
		}
	}
	return out
}

// TestSoak runs an agent whose probes hang, crash, lie and leave processes
// behind, 300 of them or as many as QUOIN_SOAK says, and counts what is left.
func TestSoak(t *testing.T) {
	want := 300
	if n, err := strconv.Atoi(os.Getenv("QUOIN_SOAK")); err == nil {
		want = n
	}
	if testing.Short() {
		want = 100
	}
	t.Setenv(fakeprobe.Variable, "soak")
	sleep := fakeprobe.SleepOf(t.Setenv)
	reg := prometheus.NewRegistry()
	run := t.TempDir()
	store := &memory{}
	a := newAgent(t, store, func(s *probe.Supervisor) {
		s.Pause, s.Start, s.Silence = time.Millisecond, 15*time.Second, 50*time.Millisecond
	})
	a.config.Stale = 24 * time.Hour // on a busy machine no probe may report for minutes, and a stale report is another one
	a.metrics, a.files = NewMetrics(reg), &HookFiles{RunDir: rundir.Dir(run), Hook: rundir.HookConfig{MappingDir: "/maps"}}
	writes := func() int { _, puts := store.now(); return puts }
	ends := func(reason string) int { return int(testutil.ToFloat64(a.metrics.restarts.WithLabelValues(reason))) }
	all := func() int {
		return ends(probe.EndExit) + ends(probe.EndHang) + ends(probe.EndGarbage) + ends(probe.EndStart)
	}
	idle := used(t)
	stop := start(t, a)
	defer stop()
	begun := time.Now()
	var early usage
	// What a probe does is drawn by lot, so the kinds that are asserted below are waited for.
	for all() < want || ends(probe.EndHang) == 0 || ends(probe.EndGarbage) == 0 || writes() == 0 {
		time.Sleep(10 * time.Millisecond)
		if early.threads == 0 && all() > want/10 {
			early = used(t)
		}
	}
	late, took := used(t), time.Since(begun)
	stop()
	// Processes that were killed, and threads and pipes that waited for them, may take a moment
	// to go. What is left for good is a leak.
	var end usage
	var left []string
	rests := func() bool {
		end, left = used(t), processes(t, sleep)
		return len(left) == 0 && end.descriptors <= idle.descriptors && end.goroutines <= idle.goroutines+1
	}
	await.Until(t, "no process, descriptor or goroutine is left", rests, func() string {
		return fmt.Sprintf("%s; before the agent %s; processes left: %s", end, idle, strings.Join(left, "; "))
	})
	t.Logf("%d ends in %s: %d exits, %d hangs, %d of garbage; %d writes", all(), took.Round(time.Second), ends(probe.EndExit), ends(probe.EndHang), ends(probe.EndGarbage), writes())
	t.Logf("before %s; after a tenth %s; at the end %s; when it has ended %s", idle, early, late, end)
	if late.threads > early.threads+8 || late.residentKiB > early.residentKiB+16<<10 {
		t.Errorf("grown: %s; after a tenth %s", late, early)
	}
	if n := ends(probe.EndStart); n > 0 {
		t.Errorf("%d probes not started", n)
	}
	if string(a.line) != goodLine {
		t.Errorf("the last good report is %s", a.line)
	}
	if n := writes(); n != 1 {
		t.Errorf("%d writes of one report", n)
	}
}
