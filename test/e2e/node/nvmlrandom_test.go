//go:build cgo

package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// faultAtRandom is what may be wrong with one GPU of a loaded machine, or with NVML.
func faultAtRandom(rng *rand.Rand, functions []string) string {
	call := "call " + functions[rng.IntN(len(functions))]
	faults := []string{
		"lost", "fabric inProgress", "fabric notStarted", "fabric notSupported", "fabric completed 999", inDomain(2),
		"mig on 7\nmigdevice 0 MIG-a 1 0 NVIDIA GB200 MIG 1g.24gb", "xid 79", "xid 31", "platform 0x0001fe 3 2 1",
		call + " exit 127", call + " crash", call + " abort", "call nvmlEventSetWait_v2 hang",
		fmt.Sprintf("%s error %d", call, 1+rng.IntN(30)),
	}
	return fmt.Sprintf("gpu %d\n%s", rng.IntN(8), faults[rng.IntN(len(faults))])
}

// TestNVMLAtRandom has a machine and its NVML fail in many ways one after the other,
// and the probe be killed. When all is well again the report is as before the first
// of it, and nothing is left; and no domain but the first was ever confirmed.
func TestNVMLAtRandom(t *testing.T) {
	t.Parallel()
	quoin, m, p := programs.QuoinTest(t), fake.New(t, "gb200", inDomain(1)), newAgentProcess(t)
	functions := fake.Functions(t, fake.Library(t, 580))
	p.start(p.onNVML(quoin, 580, m, "20ms"))
	p.until("the first report", p.settled)
	want := p.report()
	descriptors := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	p.until("it rests", func() bool { return p.metric("quoin_agent_probe_up") == 1 })
	before := descriptors()
	rng := rand.New(rand.NewPCG(1, 7))
	const steps = 80
	step := time.NewTicker(50 * time.Millisecond)
	defer step.Stop()
	for range steps {
		var faults []string
		for range rng.IntN(4) {
			faults = append(faults, faultAtRandom(rng, functions))
		}
		m.Change(append([]string{inDomain(1)}, faults...)...)
		if probe := p.probe(); probe > 0 && rng.IntN(10) == 0 {
			_ = syscall.Kill(probe, syscall.SIGKILL) // it may have ended
		}
		<-step.C
		if !strings.Contains(p.report(), `"domain":"00000000-0000-0000-0000-000000000001.0"`) {
			t.Fatalf("after %q: another domain is confirmed:\n%s", faults, p.report())
		}
	}
	m.Change(inDomain(1))
	p.until("all is as before", func() bool { return cmp.Equal(withoutXids(t, want), withoutXids(t, p.report())) })
	p.until("no descriptor is left", func() bool { return descriptors() <= before })
	if left, err := filepath.Glob(filepath.Join(p.dir, "*", ".new-*")); len(left) > 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if n := p.writes(); n > 3*steps {
		t.Errorf("%d writes of %d steps", n, steps)
	}
	ended := endOf(p.probe())
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil || !ended() {
		t.Errorf("the agent ended with %v, its probe has ended: %t", err, ended())
	}
}

// withoutXids returns a report without what stays: Xids of the boot, and GPUs that were there.
func withoutXids(t *testing.T, report string) *topology.Node {
	t.Helper()
	n, err := topology.ParseReport("report", []byte(report))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.GPUs {
		n.GPUs[i].Xids = nil
	}
	n.Problems = slices.DeleteFunc(n.Problems, func(p topology.Finding) bool {
		return strings.HasPrefix(p.Reason, "Xid") || p.Reason == topology.ReasonGPUMissing
	})
	if len(n.Problems) == 0 {
		n.Problems = nil
	}
	return n
}
