package nodeagent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// TestXids: what one probe saw of a boot is kept when another does not see it.
func TestXids(t *testing.T) {
	report := func(boot string, xids ...int) *topology.Node {
		return &topology.Node{Name: "n1", BootID: boot, GPUs: []topology.GPU{{UUID: "GPU-a", Xids: xids}, {UUID: "GPU-b"}}}
	}
	var f facts
	for _, step := range []struct {
		name string
		n    *topology.Node
		want []int
	}{
		{"first", report("b"), nil},
		{"one", report("b", 79), []int{79}},
		{"another probe", report("b"), []int{79}},
		{"more", report("b", 48, 79), []int{48, 79}},
		{"boot unreadable", report("", 31), []int{31, 48, 79}},
		{"another boot", report("c"), nil},
		{"its own", report("c", 31), []int{31}},
	} {
		f.takeProbe(step.n)
		got := f.report()
		if diff := cmp.Diff(step.want, got.GPUs[0].Xids); diff != "" || got.GPUs[1].Xids != nil {
			t.Errorf("%s (-want +got):\n%s, other GPU %v", step.name, diff, got.GPUs[1].Xids)
		}
	}
}

// TestXidsAfterReset: what an earlier agent stored of this boot is recalled once, unless NVML has
// taken back that the GPU needs a recovery. A GPU that is lost keeps its Xids.
func TestXidsAfterReset(t *testing.T) {
	report := func(recovery string, xids ...int) *topology.Node {
		n := &topology.Node{Name: "n1", BootID: "b", GPUs: []topology.GPU{{UUID: "GPU-a", Recovery: recovery, Xids: xids}}}
		var all fabric.Xids
		all.Take(n)
		all.Show(n)
		return n
	}
	lost := report("", 79)
	lost.GPUs = nil
	for _, tt := range []struct {
		name            string
		stored          *topology.Node
		readings        []*topology.Node
		want, wantAfter int // problems that need a repair, before and after the stored report is read again
	}{
		{"reset", report("resetGPU", 119), []*topology.Node{report("none"), report("none")}, 0, 0},
		{"reset, and broken again", report("resetGPU", 119), []*topology.Node{report("none"), report("resetGPU", 95)}, 2, 2},
		{"not reset", report("resetGPU", 119), []*topology.Node{report("resetGPU")}, 2, 2},
		{"not known", report("", 119), []*topology.Node{report("")}, 1, 1},
		{"lost", lost, []*topology.Node{{Name: "n1", BootID: "b"}}, 1, 1},
		{"another boot", lost, []*topology.Node{{Name: "n1", BootID: "c"}}, 0, 0},
	} {
		var f facts
		f.takeStored(tt.stored)
		count := func(want int) {
			t.Helper()
			got := slices.DeleteFunc(slices.Clone(f.report().Problems), func(p topology.Finding) bool { return !fabric.NeedsRepair(p) })
			if len(got) != want {
				t.Errorf("%s: %v, want %d", tt.name, got, want)
			}
		}
		for _, n := range tt.readings {
			f.takeProbe(n)
		}
		count(tt.want)
		f.takeStored(tt.stored)
		count(tt.wantAfter)
	}
}

// TestStale follows the mark through the end of all probes in fake time.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		store := &memory{}
		says := make(fed)
		a := New(Config{Node: "n1", Probe: says, Stale: 3 * time.Minute}, store, nil, NewMetrics(reg), discard())
		defer start(t, a)()
		hear := func(line string) {
			t.Helper()
			if line == "" {
				says <- probe.Event{Kind: probe.Unchanged}
			} else {
				says <- event(t, line)
			}
		}
		check := func(when string, puts int, stale float64, problem string) {
			t.Helper()
			synctest.Wait()
			report, n := store.now()
			if n != puts || strings.Contains(report, topology.ReasonFactsStale) != (problem != "") || !strings.Contains(report, problem) {
				t.Errorf("%s: %d writes, want %d with %q: %s", when, n, puts, problem, report)
			}
			if got := testutil.ToFloat64(a.metrics.stale); got != stale {
				t.Errorf("%s: stale %v, want %v", when, got, stale)
			}
		}
		hear(goodLine)
		for range 1000 { // well over the limit
			time.Sleep(5 * time.Second)
			hear("")
		}
		check("confirmed again and again", 1, 0, "")
		time.Sleep(2 * time.Minute) // in which a probe hung and another came
		hear(goodLine)
		check("a gap", 1, 0, "")
		ended := func(reason string) { says <- probe.Event{Kind: probe.Ended, Reason: reason} }
		ended(probe.EndHang)
		time.Sleep(3*time.Minute - time.Second)
		check("no probe for less than the limit", 1, 0, "")
		time.Sleep(2 * time.Second)
		const hangs = `{"reason":"FactsStale","message":"the facts are old: the probe hangs; see the agent's log"}`
		check("no probe", 2, 1, hangs)
		ended(probe.EndExit)
		time.Sleep(24 * time.Hour)
		check("a day later", 2, 1, hangs)
		hear(goodLine)
		check("a probe reports", 3, 0, "")
		if report, _ := store.now(); report != goodLine {
			t.Errorf("stored %s", report)
		}
		time.Sleep(4 * time.Minute)
		check("no probe again", 4, 1, "the probe ends")
		hear("")
		check("the probe has only been slow", 5, 0, "")
	})
}

// TestStaleFromBefore: an agent whose probe never reports marks what an agent
// before it stored, writes no files of it, and takes the mark off again.
func TestStaleFromBefore(t *testing.T) {
	for _, tt := range []struct{ name, stored, want string }{
		{"nothing stored", "", ""},
		{"not a report", "somebody else's", "somebody else's"},
		{"another node's", strings.Replace(goodLine, "n1", "n2", 1), strings.Replace(goodLine, "n1", "n2", 1)},
		{"a report", goodLine, strings.TrimSuffix(goodLine, "]}") +
			`,{"reason":"FactsStale","message":"the facts are old: the probe hangs; see the agent's log"}]}`},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, files, says := &memory{report: []byte(tt.stored)}, &brokenFiles{}, make(fed)
			if tt.stored == "" {
				store.report = nil
			}
			defer start(t, New(Config{Node: "n1", Probe: says, Stale: 3 * time.Minute}, store, files, NewMetrics(prometheus.NewRegistry()), discard()))()
			check := func(when string, after time.Duration, want string, puts int) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				if report, n := store.now(); report != want || n != puts {
					t.Errorf("%s, %s: %d writes, want %d; stored %s\nwant %s", tt.name, when, n, puts, report, want)
				}
			}
			puts := 0
			if tt.want != tt.stored {
				puts = 1
			}
			check("before it is known to be stale", 2*time.Minute, tt.stored, 0)
			check("stale", 2*time.Minute, tt.want, puts)
			check("stale for hours", 5*time.Hour, tt.want, puts)
			if n := files.wrote.Load(); n > 0 {
				t.Errorf("%s: %d files written", tt.name, n)
			}
			says <- event(t, goodLine)
			check("a probe has reported", 0, goodLine, puts+1)
		})
	}
}

// TestMetricsLint holds the series to what promtool asks of them.
func TestMetricsLint(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewMetrics(reg)
	m.dcgmReads.WithLabelValues("exporter", "ok").Inc()
	n, err := topology.ParseReport("line", []byte(goodLine))
	if err != nil {
		t.Fatal(err)
	}
	n.GPUs = append(n.GPUs, topology.GPU{Index: len(n.GPUs), UUID: "GPU-without", Fabric: topology.Fabric{State: topology.FabricNotSupported}})
	m.observe(n)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	const want = `# HELP quoin_agent_fabric_info 1 for each NVLink fabric that a GPU is in.
# TYPE quoin_agent_fabric_info gauge
quoin_agent_fabric_info{clique="0",cluster_uuid="00000000-0000-0000-0000-000000000000",state="inProgress",status=""} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "quoin_agent_fabric_info"); err != nil {
		t.Error(err)
	}
}

// TestInventoryWithoutAll: NVML's index is not taken for the id of a GPU where it
// is another's.
func TestInventoryWithoutAll(t *testing.T) {
	var f facts
	minors := []int{0, 1, 2}
	f.takeProbe(&topology.Node{Name: "n1", GPUs: []topology.GPU{
		{Index: 0, UUID: "GPU-a", Minor: &minors[0]},
		{Index: 1, UUID: "GPU-b", Minor: &minors[1], MIG: []topology.MIGInstance{{UUID: "MIG-b", GPUInstanceID: 7}}},
		{Index: 2, UUID: "GPU-c", Minor: &minors[2]},
	}})
	for _, tt := range []struct {
		ids  map[string]int
		want []string
	}{
		{nil, []string{"0", "2", "1.7"}},
		{map[string]int{"GPU-a": 1, "GPU-b": 0, "GPU-c": 2}, []string{"1", "2", "0.7"}},
		{map[string]int{"GPU-a": 1}, []string{"1", "2", ""}},
		{map[string]int{"GPU-b": 2}, []string{"0", "", "2.7"}},
	} {
		f.ids = tt.ids
		inv, err := InventoryOf(f.report())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range inv.Entries {
			got = append(got, e.ExporterID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.ids, diff)
		}
	}
}
