//go:build cgo

package nvml

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// until reads the machine until it is as wanted.
func (p *process) until(what string, ok func(*topology.Node) bool) *topology.Node {
	p.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n := p.read()
		if ok(n) {
			return n
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s has not come: problems %v", what, n.Problems)
		}
	}
}

// watched starts a reader and waits until it sees events of GPU 0.
func watched(t *testing.T, m *fake.Machine) *process {
	t.Helper()
	p := start(t, 580, m)
	p.read()
	p.until("the first event", func(n *topology.Node) bool {
		m.Change("gpu 0", "xid 13") // once and again, for what came before the watch does not count
		m.Change()
		m.Change("gpu 0", "xid 13")
		return slices.Equal(p.read().GPUs[0].Xids, []int{13})
	})
	return p
}

// TestLoadedXids has events come, of a program, of the hardware, twice, and of a
// GPU that is lost by it.
func TestLoadedXids(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	if n := p.read(); len(n.Problems) > 0 {
		t.Errorf("problems of a program's own Xid: %v", n.Problems)
	}
	const second = "GPU-b200b200-0000-0000-0000-000000000001"
	m.Change("gpu 0", "xid 13", "gpu 1", "xid 119", "xid 79", "xid 119")
	n := p.until("the events of GPU 1", func(n *topology.Node) bool { return len(n.GPUs[1].Xids) == 2 })
	problems := []topology.Finding{
		{Reason: "XidCritical", Message: "GPU " + second + " had Xid 79, GPU has fallen off the bus: drain the node and restart the machine"},
		{Reason: "XidCritical", Message: "GPU " + second + " had Xid 119, GSP does not answer: drain the node and reset the GPU"},
	}
	if diff := cmp.Diff(problems, n.Problems); diff != "" || !slices.Equal(n.GPUs[1].Xids, []int{79, 119}) {
		t.Errorf("Xids %v, problems (-want +got):\n%s", n.GPUs[1].Xids, diff)
	}
	m.Change("gpu 1", "lost")
	n = p.until("the loss", func(n *topology.Node) bool { return len(n.GPUs) == 7 })
	if diff := cmp.Diff(problems, n.Problems[:2]); diff != "" {
		t.Errorf("problems of a lost GPU (-want +got):\n%s", diff)
	}
	m.Change()
	n = p.until("the GPU is back", func(n *topology.Node) bool { return len(n.GPUs) == 8 })
	if !slices.Equal(n.GPUs[1].Xids, []int{79, 119}) || !slices.Equal(n.GPUs[0].Xids, []int{13}) {
		t.Errorf("Xids %v and %v", n.GPUs[0].Xids, n.GPUs[1].Xids)
	}
}

// TestLoadedXidsOfLostGPU loses a GPU whose events are waited for, and whose Xids are already
// kept. Xids of other GPUs still come, and its own come when it is back.
func TestLoadedXidsOfLostGPU(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	const first, lost = "xid 13", "gpu 1\nxid 119\nxid 79"
	m.Change("gpu 0", first, lost)
	p.until("the events of GPU 1", func(n *topology.Node) bool { return len(n.GPUs[1].Xids) == 2 })

	before := m.Registrations()
	m.Change("gpu 0", first, lost, "lost")
	p.until("the loss, and that the others are registered anew", func(n *topology.Node) bool { return len(n.GPUs) == 7 && m.Registrations() >= before+7 })
	m.Change("gpu 0", first, lost, "lost", "gpu 2", "xid 31")
	n := p.until("the event of another GPU", func(n *topology.Node) bool { return slices.Equal(n.GPUs[1].Xids, []int{31}) })
	problems := []string{
		"XidCritical: GPU GPU-b200b200-0000-0000-0000-000000000001 had Xid 79, GPU has fallen off the bus: drain the node and restart the machine",
		"XidCritical: GPU GPU-b200b200-0000-0000-0000-000000000001 had Xid 119, GSP does not answer: drain the node and reset the GPU",
		"GPUUnreadable: open GPU 1: GPU_IS_LOST",
	}
	if diff := cmp.Diff(problems, words(n)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	before = m.Registrations()
	m.Change("gpu 0", first, "gpu 2", "xid 31")
	p.until("the GPU is back, and all are registered anew", func(n *topology.Node) bool { return len(n.GPUs) == 8 && m.Registrations() >= before+8 })
	m.Change("gpu 0", first, "gpu 1", "xid 48", "gpu 2", "xid 31")
	n = p.until("its next event", func(n *topology.Node) bool { return slices.Equal(n.GPUs[1].Xids, []int{48, 79, 119}) })
	if len(n.Problems) != 3 || !slices.Equal(n.GPUs[0].Xids, []int{13}) || !slices.Equal(n.GPUs[2].Xids, []int{31}) {
		t.Errorf("problems %v, Xids %v, %v", n.Problems, n.GPUs[0].Xids, n.GPUs[2].Xids)
	}
}

// TestLoadedRecovery reads the recovery action, and errors of the memory, as a driver says them, does not know
// them, or fails.
func TestLoadedRecovery(t *testing.T) {
	t.Parallel()
	const first = "GPU-b200b200-0000-0000-0000-000000000000"
	for _, tt := range []struct{ statement, want, problem string }{
		{"", "", ""},
		{"field 230 0", "none", ""},
		{"field 230 1", "resetGPU", "RecoveryNeeded: GPU " + first + " has NVML's recovery action resetGPU: drain the node and reset the GPU"},
		{"field 230 5", "recoverIMEXDomain", "RecoveryAdvised: GPU " + first + " has NVML's recovery action recoverIMEXDomain: end the jobs of the IMEX domain, and restart its daemons"},
		{"field 230 error 2", "", ""}, // INVALID_ARGUMENT of an older driver
		{"field 230 error 999", "", "FactUnreadable: recovery action of GPU " + first + ": UNKNOWN"},
		{"field 144 1", "", "MemoryErrors: GPU " + first + " has memory rows that wait to be remapped: reset the GPU when no job uses it; replace the GPU if errors come again"},
		{"field 144 error 999", "", "FactUnreadable: pending remapping of memory rows of GPU " + first + ": UNKNOWN"},
		{"field 144 error 3", "", ""}, // with MIG
		{"field 4 7", "", "MemoryErrors: GPU " + first + " has had uncorrected ECC errors since the driver was loaded: reset the GPU when no job uses it; replace the GPU if errors come again"},
		{"field 4 error 999", "", "FactUnreadable: uncorrected ECC errors of GPU " + first + ": UNKNOWN"},
		{"field 4 error 3", "", ""}, // ECC is off
		{"call nvmlDeviceGetFieldValues error 3", "", ""},
		{"call nvmlDeviceGetFieldValues error 15", "", "FactUnreadable: recovery action of GPU " + first + ": GPU_IS_LOST"},
	} {
		n := start(t, 580, fake.New(t, "gb200", "gpu 0", tt.statement)).read()
		if got := strings.Join(words(n), "\n"); n.GPUs[0].Recovery != tt.want || n.GPUs[1].Recovery != "" || got != tt.problem {
			t.Errorf("%s: %q, %q, problems %s", tt.statement, n.GPUs[0].Recovery, n.GPUs[1].Recovery, got)
		}
	}
}

// TestLoadedXidsAfterRecovery: the Xids of a GPU end when NVML takes back that it needs a reset.
func TestLoadedXidsAfterRecovery(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	m.Change("gpu 0", "xid 13", "gpu 1", "xid 119", "field 230 4")
	p.until("Xid 119", func(n *topology.Node) bool { return len(n.Problems) == 2 && len(n.GPUs[1].Xids) == 1 })
	m.Change("gpu 0", "xid 13", "gpu 1", "xid 119", "field 230 0")
	n := p.read()
	if len(n.Problems) > 0 || n.GPUs[1].Xids != nil || !slices.Equal(n.GPUs[0].Xids, []int{13}) {
		t.Errorf("problems %v, Xids %v and %v", n.Problems, n.GPUs[0].Xids, n.GPUs[1].Xids)
	}
}

func words(n *topology.Node) (problems []string) {
	for _, p := range n.Problems {
		problems = append(problems, p.String())
	}
	return problems
}

// TestLoadedXidsWithoutLeak loses a thousand times a GPU, while the one before it is
// back: no event set and no descriptor is left, and events still come.
func TestLoadedXidsWithoutLeak(t *testing.T) {
	t.Parallel()
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	descriptors := func() int {
		files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	want := descriptors()
	for i := range 1000 {
		before := m.Registrations()
		m.Change("gpu 0", "xid 13", fmt.Sprint("gpu ", i%8), "lost")
		if n := p.read(); len(n.GPUs) != 7 {
			t.Fatalf("%d GPUs, want 7", len(n.GPUs))
		}
		await.Until(t, "a new set", func() bool { return m.Registrations() > before })
	}
	m.Change("gpu 0", "xid 13")
	p.until("each GPU's event", func(*topology.Node) bool {
		m.Change("gpu 0", "xid 13", "gpu *", "xid 31") // once and again, until all are registered
		n := p.read()
		m.Change("gpu 0", "xid 13")
		return len(n.GPUs) == 8 && !slices.ContainsFunc(n.GPUs, func(g topology.GPU) bool { return !slices.Contains(g.Xids, 31) })
	})
	got := descriptors()
	for end := time.Now().Add(3 * time.Minute); got > want && time.Now().Before(end); got = descriptors() {
		time.Sleep(10 * time.Millisecond) // a reading has one open for a moment
	}
	if got > want {
		t.Errorf("%d descriptors, at first %d", got, want)
	}
}

// TestLoadedXidsFail has each call about events fail or hang: readings go on as
// without them.
func TestLoadedXidsFail(t *testing.T) {
	const first = "GPU-b200b200-0000-0000-0000-000000000000"
	tests := []struct {
		statement, problem string
	}{
		{"call nvmlEventSetCreate error 3", ""},
		{"call nvmlEventSetCreate error 23", "FactUnreadable: Xid events: INSUFFICIENT_RESOURCES"},
		{"call nvmlEventSetCreate hang", ""},
		{"call nvmlDeviceGetSupportedEventTypes error 3", ""},
		{"gpu 0\ncall nvmlDeviceGetSupportedEventTypes error 15", "FactUnreadable: Xid events of GPU " + first + ": GPU_IS_LOST"},
		{"call nvmlDeviceGetSupportedEventTypes hang", ""},
		{"gpu 0\ncall nvmlDeviceRegisterEvents error 999", "FactUnreadable: Xid events of GPU " + first + ": UNKNOWN"},
		{"call nvmlDeviceRegisterEvents hang", ""},
		{"call nvmlEventSetWait_v2 error 15", "FactUnreadable: Xid events: GPU_IS_LOST"},
		{"call nvmlEventSetWait_v2 error 3", ""},
		{"call nvmlEventSetWait_v2 hang", ""},
	}
	for _, tt := range tests {
		t.Run(tt.statement, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "gb200", tt.statement)
			p := start(t, 580, m)
			n := p.until("the call", func(n *topology.Node) bool {
				return (len(n.Problems) > 0) == (tt.problem != "") && (m.Hung() || !strings.HasSuffix(tt.statement, "hang"))
			})
			if tt.problem != "" && (len(n.Problems) != 1 || n.Problems[0].String() != tt.problem) {
				t.Errorf("problems %v, want %s", n.Problems, tt.problem)
			}
			if len(n.GPUs) != 8 || n.GPUs[0].Xids != nil {
				t.Errorf("%d GPUs, Xids %v", len(n.GPUs), n.GPUs[0].Xids)
			}
			m.Change("fabric notStarted")
			if n := p.read(); n.GPUs[7].Fabric.State != topology.FabricNotStarted {
				t.Errorf("a later reading: %+v", n.GPUs[7].Fabric)
			}
		})
	}
}

// TestLoadedXidCounts counts each Xid as often as it comes, for its own GPU.
func TestLoadedXidCounts(t *testing.T) {
	t.Parallel()
	const first, second = "GPU-b200b200-0000-0000-0000-000000000000", "GPU-b200b200-0000-0000-0000-000000000001"
	m := fake.New(t, "gb200", "xid none")
	p := watched(t, m)
	p.sampleOf(first, second)
	m.Change("gpu 0", "xid 13", "gpu 1", "xid 119", "xid 79", "xid 119")
	p.until("the events", func(n *topology.Node) bool { return len(n.GPUs[1].Xids) == 2 && len(n.GPUs[0].Xids) == 1 })
	var got map[string]topology.XidCounts
	for range 100 { // the second 119 changes no report
		if got = p.xids(); got[second].Came[119] == 2 {
			break
		}
		p.read()
	}
	if diff := cmp.Diff(map[int]uint64{79: 1, 119: 2}, got[second].Came); diff != "" || got[second].Since == 0 || got[first].Came[119] > 0 {
		t.Errorf("since %d (-want +got):\n%s", got[second].Since, diff)
	}
	// A GPU without events has no count of them, and no zero.
	for _, statement := range []string{"call nvmlDeviceGetSupportedEventTypes error 3", "call nvmlDeviceRegisterEvents error 999"} {
		p := start(t, 580, fake.New(t, "gb200", "gpu 0", statement))
		p.read()
		p.sampleOf(first)
		p.until(statement, func(*topology.Node) bool { _, watched := p.xids()[first]; return !watched })
	}
}
