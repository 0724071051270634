package nodeagent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

func TestInventoryOf(t *testing.T) {
	c := sites.Open(t, "a100-mig")
	m, err := c.Machine("a100-swapped")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := InventoryOf(m.Report)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, e := range inv.Entries {
		if e.GRESIndex != i || e.Minor != i {
			t.Errorf("entry %d: %+v: GRES indices follow the minor numbers", i, e)
		}
		ids = append(ids, e.ExporterID)
	}
	if diff := cmp.Diff([]string{"2", "3", "0", "1", "6", "7", "4", "5"}, ids); diff != "" {
		t.Errorf("exporter ids in GRES order (-want +got):\n%s", diff)
	}
	m, err = c.Machine("a100-mig")
	if err != nil {
		t.Fatal(err)
	}
	if inv, err = InventoryOf(m.Report); err != nil || len(inv.Entries) != 56 || inv.Entries[8].ExporterID != "1.8" {
		t.Errorf("%d entries, the ninth %+v, %v", len(inv.Entries), inv.Entries[8], err)
	}
}

func TestHookFiles(t *testing.T) {
	run := t.TempDir()
	f := &HookFiles{RunDir: rundir.Dir(run), Hook: rundir.HookConfig{MappingDir: "/maps", SummaryDir: "/shared"}}
	minor := 3
	n := &topology.Node{Name: "n1", GPUs: []topology.GPU{{UUID: "GPU-a", Minor: &minor}}}
	if err := f.Write(n); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&topology.Node{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	inv, err := rundir.Dir(run).ReadInventory()
	if err != nil || len(inv.Entries) != 1 {
		t.Errorf("a report without GPUs changed the inventory: %+v, %v", inv, err)
	}
	if c, err := rundir.Dir(run).ReadHookConfig(); err != nil || c.MappingDir != "/maps" || c.SummaryDir != "/shared" {
		t.Errorf("hook configuration %+v, %v", c, err)
	}
	// A GPU that is lost keeps its place, so that the GRES indices after it stay;
	// its id is another's as soon as the driver counts anew.
	gpus := func(minors ...int) []topology.GPU {
		var out []topology.GPU
		for i, m := range minors {
			out = append(out, topology.GPU{Index: i, UUID: "GPU-" + string(rune('a'+m)), Minor: &m})
		}
		return out
	}
	for _, tt := range []struct{ minors, want string }{
		{"\x03\x04\x05", "d:0 e:1 f:2"},
		{"\x03\x05", "d:0 e: f:1"},
		{"\x04", "d: e:0 f:1"},
		{"\x03\x04\x05\x06", "d:0 e:1 f:2 g:3"},
	} {
		var minors []int
		for _, c := range tt.minors {
			minors = append(minors, int(c))
		}
		if err := f.Write(&topology.Node{Name: "n1", GPUs: gpus(minors...)}); err != nil {
			t.Fatal(err)
		}
		if inv, err = rundir.Dir(run).ReadInventory(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, e := range inv.Entries {
			if e.GRESIndex != i {
				t.Errorf("entry %d: %+v", i, e)
			}
			got = append(got, strings.TrimPrefix(e.UUID, "GPU-")+":"+e.ExporterID)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("report of minors %v (-want +got):\n%s", minors, diff)
		}
	}
	if err := (&HookFiles{RunDir: rundir.Dir(filepath.Join(run, "inventory.json")), Hook: f.Hook}).Write(n); err == nil {
		t.Error("a run directory that is a file gave no error")
	}
}

// brokenFiles fails while it is broken, and counts.
type brokenFiles struct {
	broken        atomic.Bool
	wrote, failed atomic.Int32
}

func (f *brokenFiles) Write(*topology.Node) error {
	if f.broken.Load() {
		f.failed.Add(1)
		return errors.New("read-only file system")
	}
	f.wrote.Add(1)
	return nil
}

// TestFilesAreTriedAgain: a file that could not be written is written later,
// though no fact changes and the store is out of reach.
func TestFilesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := &brokenFiles{}
		files.broken.Store(true)
		says := make(fed)
		a := New(Config{Node: "n1", Probe: says}, &memory{broken: errors.New("connection refused")}, files, NewMetrics(prometheus.NewRegistry()), discard())
		defer start(t, a)()
		says <- event(t, goodLine)
		time.Sleep(time.Minute)
		synctest.Wait()
		if files.wrote.Load() != 0 {
			t.Fatal("written though broken")
		}
		if n := files.failed.Load(); n != 6 {
			t.Errorf("%d tries in a minute, want 6", n)
		}
		files.broken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := files.wrote.Load(); n != 1 {
			t.Errorf("%d writes within a minute, want 1", n)
		}
	})
}

func TestInstallHook(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "quoin-hook"), filepath.Join(t.TempDir(), "opt", "bin")
	if err := installFile(from, to); err == nil || !strings.Contains(err.Error(), from) {
		t.Errorf("%v: want an error that names %s", err, from)
	}
	write := func(text string) {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	install := func() os.FileInfo {
		if err := installFile(from, to); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(to, "quoin-hook"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o755 {
			t.Errorf("mode %s, want -rwxr-xr-x", info.Mode())
		}
		return info
	}
	write("one")
	first := install()
	if again := install(); !os.SameFile(first, again) {
		t.Error("the same hook was installed anew")
	}
	if err := os.Chmod(filepath.Join(to, "quoin-hook"), 0o644); err != nil {
		t.Fatal(err)
	}
	install() // checks the mode
	running, err := os.Open(filepath.Join(to, "quoin-hook"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	write("two")
	install()
	if data, err := io.ReadAll(running); err != nil || string(data) != "one" {
		t.Errorf("the hook was written over, under a job that may run it: %q, %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(to, "quoin-hook")); err != nil || string(data) != "two" {
		t.Errorf("installed %q, %v", data, err)
	}
}

// TestLostAfterBoot starts the agent with an empty run directory while GPUs are lost. Their
// places are those of the copy in the mapping directory, or else of unreadable GPUs.
func TestLostAfterBoot(t *testing.T) {
	gpu := func(minor, index int, mig bool) topology.GPU {
		g := topology.GPU{Index: index, UUID: fmt.Sprint("GPU-", minor), Minor: &minor, Product: "NVIDIA H100"}
		if mig {
			g.MIG = []topology.MIGInstance{{UUID: fmt.Sprint("MIG-", minor), GPUInstanceID: 1, Profile: "1g"}}
		}
		return g
	}
	node := func(unreadable int, gpus ...topology.GPU) *topology.Node {
		n := &topology.Node{Name: "n1", GPUs: gpus}
		for range unreadable {
			n.Problems = append(n.Problems, topology.Finding{Reason: topology.ReasonGPUUnreadable, Message: "open GPU"})
		}
		return n
	}
	other := gpu(3, 3, false)
	other.Product = "NVIDIA L40S"
	all := node(0, gpu(0, 0, false), gpu(1, 1, false), gpu(2, 2, false), gpu(3, 3, false))
	for _, tt := range []struct {
		name        string
		before, now *topology.Node
		want        string // exporter's id and UUID; a lost one has a dash
	}{
		{"NVML counts it", nil, node(1, gpu(0, 0, false), gpu(1, 1, false), gpu(3, 3, false)), "0:GPU-0 1:GPU-1 -: 3:GPU-3"},
		{"NVML counts two", nil, node(2, gpu(2, 2, false), gpu(3, 3, false)), "-: -: 2:GPU-2 3:GPU-3"},
		{"the last one", nil, node(1, gpu(0, 0, false), gpu(1, 1, false)), "0:GPU-0 1:GPU-1"},
		{"NVML no longer counts it", all, node(0, gpu(0, 0, false), gpu(1, 1, false), gpu(3, 2, false)), "0:GPU-0 1:GPU-1 -:GPU-2 2:GPU-3"},
		{"NVML shows none", all, node(0), "-0:GPU-0 -1:GPU-1 -2:GPU-2 -3:GPU-3"},
		{"NVML counts it, and its place is known", all, node(1, gpu(0, 0, false), gpu(1, 1, false), gpu(3, 3, false)), "0:GPU-0 1:GPU-1 -2:GPU-2 3:GPU-3"},
		{"MIG, and its place is known", node(0, gpu(0, 0, true), gpu(1, 1, true), gpu(2, 2, true)), node(1, gpu(0, 0, true), gpu(2, 2, true)), "0.1:MIG-0 -1.1:MIG-1 2.1:MIG-2"},
		{"MIG: what it had is not known", nil, node(1, gpu(0, 0, true), gpu(2, 2, true)), ""},
		{"MIG on one: what the lost one had is not known", nil, node(1, gpu(0, 0, false), gpu(2, 2, true)), ""},
		{"MIG: the last one", nil, node(1, gpu(0, 0, true), gpu(1, 1, true)), "0.1:MIG-0 1.1:MIG-1"},
		{"two products", nil, node(1, gpu(0, 0, false), gpu(1, 1, false), other), ""},
		{"two products, and the lost one among those of the first", nil, node(1, gpu(0, 0, false), gpu(2, 2, false), other), ""},
		{"some GPUs are not the agent's to see", nil, node(0, gpu(2, 0, false), gpu(3, 1, false)), "0:GPU-2 1:GPU-3"},
		{"the same, and one is unreadable", nil, node(1, gpu(2, 0, false), gpu(3, 1, false)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			maps := t.TempDir()
			write := func(n *topology.Node) *rundir.Inventory {
				run := rundir.Dir(t.TempDir())
				for range 2 { // the second begins with what the first wrote
					if err := (&HookFiles{RunDir: run, Hook: rundir.HookConfig{MappingDir: maps}}).Write(n); err != nil {
						t.Fatal(err)
					}
				}
				inv, err := run.ReadInventory()
				if err != nil {
					t.Fatal(err)
				}
				return inv
			}
			if tt.before != nil {
				if err := rundir.KeepInventory(dcgm.Mapping{Dir: maps}.Folder(), *write(tt.before)); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			inv := write(tt.now)
			if inv.Unordered != (tt.want == "") {
				t.Errorf("unordered: %t", inv.Unordered)
			}
			if inv.Unordered {
				inv.Entries = nil // in no order
			}
			for i, e := range inv.Entries {
				if e.GRESIndex != i || e.Device != fmt.Sprint("/dev/nvidia", e.Minor) {
					t.Errorf("entry %d: %+v", i, e)
				}
				if e.Lost {
					e.ExporterID = "-" + e.ExporterID
				}
				got = append(got, e.ExporterID+":"+e.UUID)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHookFilesFaults writes what a Prolog warns of: what asks for a reset or a restart, and the
// fabric. What a program causes and what somebody may look at is no reason to warn each job.
func TestHookFilesFaults(t *testing.T) {
	run := rundir.Dir(t.TempDir())
	f := &HookFiles{RunDir: run, Hook: rundir.HookConfig{MappingDir: "/maps"}}
	minor := 0
	n := &topology.Node{Name: "n1", GPUs: []topology.GPU{{UUID: "GPU-a", Minor: &minor}, {Index: 1, UUID: "GPU-b", Minor: new(1)}}}
	var xids fabric.Xids
	xids.Add("GPU-a", 13, 74, 119)
	xids.Show(n)
	n.Problems = append(n.Problems, topology.RowsPendingProblem("GPU-a"), topology.UncorrectedECCProblem("GPU-b"),
		topology.Finding{Reason: topology.ReasonGPULost, Message: "the driver has a GPU"}, topology.Finding{Reason: topology.ReasonFactUnreadable, Message: "memory"})
	want := []rundir.Fault{{UUID: "GPU-a", Text: "GPU GPU-a had Xid 119, GSP does not answer: drain the node and reset the GPU"},
		{UUID: "GPU-a", Text: "GPU GPU-a has memory rows that wait to be remapped: reset the GPU when no job uses it; replace the GPU if errors come again"},
		{UUID: "GPU-b", Text: topology.UncorrectedECCProblem("GPU-b").Message}, {Text: "the driver has a GPU"}}
	for _, links := range []int{18, 17} {
		for i := range n.GPUs {
			n.GPUs[i].Links = &topology.Links{Switch: 18}
		}
		n.GPUs[0].Links = &topology.Links{Switch: links}
		f.Fabric = new(fabric.Site).Alone
		if links < 18 {
			want = append(want, rundir.Fault{Text: "LinksDown: GPU 0, GPU-a: 17 of 18 NVLinks are active"})
		}
		if err := f.Write(n); err != nil {
			t.Fatal(err)
		}
		inv, err := run.ReadInventory()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, inv.Faults); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	}
}
