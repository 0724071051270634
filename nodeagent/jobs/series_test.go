package jobs

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// processSeries is what quoin agent serves beside the registry's series.
func processSeries() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// handler serves the registry's series and those of reg.
func handler(j *Registry, reg *prometheus.Registry) http.Handler {
	reg.MustRegister(j.Collector())
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// scrape returns the body of an answer.
func scrape(t testing.TB, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// families parses a text of version 0.0.4.
func families(t testing.TB, text string) map[string]int {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	for name, f := range parsed {
		if strings.HasPrefix(name, "quoin_gpu") || strings.HasPrefix(name, "quoin_hook") || strings.HasPrefix(name, "quoin_agent_") {
			out[name] = len(f.GetMetric())
		}
	}
	return out
}

// TestSeriesCount counts the series: jobs times devices, and a constant that
// depends on the node's devices only.
func TestSeriesCount(t *testing.T) {
	count := func(jobs int) map[string]int {
		return families(t, scrape(t, handler(manyJobs(t, jobs), processSeries())))
	}
	none, few, many := count(0), count(3), count(40)
	if none["quoin_gpu_job_info"] != 0 || few["quoin_gpu_job_info"] != 3*8 || many["quoin_gpu_job_info"] != 40*8 {
		t.Errorf("%d, %d and %d series of 0, 3 and 40 jobs on eight GPUs", none["quoin_gpu_job_info"], few["quoin_gpu_job_info"], many["quoin_gpu_job_info"])
	}
	delete(few, "quoin_gpu_job_info")
	delete(many, "quoin_gpu_job_info")
	if diff := cmp.Diff(none, few); diff != "" {
		t.Errorf("other series change with the jobs (-0 +3):\n%s", diff)
	}
	if diff := cmp.Diff(none, many); diff != "" {
		t.Errorf("other series change with the jobs (-0 +40):\n%s", diff)
	}
	want := map[string]int{
		"quoin_gpu_info": 8, "quoin_gpus": 3, "quoin_gpu_held_seconds_total": 8, "quoin_gpu_idle_held_seconds_total": 8, "quoin_gpu_idle_held_stretch_seconds": 8,
		"quoin_hook_errors_total": 2 * len(callReasons), "quoin_hook_duration_seconds": 2, "quoin_hook_gate_total": len(gateResults), "quoin_hook_gate_duration_seconds": 1,
		"quoin_agent_sweep_released_total": 4, "quoin_agent_mapping_repairs_total": 1, "quoin_agent_sweep_errors_total": 1,
		"quoin_agent_mapping_files": 3, "quoin_agent_job_records": 3, "quoin_agent_job_summaries": 1, "quoin_agent_samples_total": 2,
	}
	for name, n := range want {
		if none[name] != n {
			t.Errorf("%s: %d series, want %d", name, none[name], n)
		}
	}
}

// TestSeriesOfNode has labels and values of a GPU and a MIG instance that jobs hold, and of calls of the hook.
func TestSeriesOfNode(t *testing.T) {
	r := newJobsRig(t)
	r.must(rundir.Dir(r.run).WriteInventory(rundir.Inventory{Node: "n1", BootID: r.boot, Entries: []rundir.Entry{
		{UUID: gpuUUID(0), ExporterID: "0", Product: "old"}, {GRESIndex: 1, UUID: "MIG-1", GPUUUID: gpuUUID(1), ExporterID: "1.2"}, {GRESIndex: 2, UUID: gpuUUID(2), ExporterID: "2"}}}))
	fabric := topology.Fabric{ClusterUUID: topology.UUID{15: 1}, CliqueID: 7, State: topology.FabricCompleted}
	r.j.node = &topology.Node{Name: "n1", GPUs: []topology.GPU{{UUID: gpuUUID(0), Product: "NVIDIA GB200", Fabric: fabric},
		{Index: 1, UUID: gpuUUID(1), Product: "NVIDIA A100", MIG: []topology.MIGInstance{{UUID: "MIG-1", GPUInstanceID: 2}}}}}
	rec := r.record("17")
	rec.User, rec.Account, rec.Partition, rec.QOS, rec.GPUs, rec.UUIDs = "alice", "physics", "gpu", "high", []string{"0", "1.2"}, []string{gpuUUID(0), "MIG-1"}
	r.Step("17.extern")
	r.write("17", rec)
	r.must(dcgm.Mapping{Dir: r.maps}.Set("17", rec.GPUs))
	r.must(dcgm.Mapping{Dir: r.maps}.Set("16", []string{"2"}))
	r.must(dcgm.Mapping{Dir: r.maps}.Clear("16", []string{"2"}))
	r.must(rundir.CopySummary(rundir.Dir(r.run).SummaryDir(), rundir.Summary{Key: "16", Record: r.record("16")}))
	for _, c := range []rundir.Call{{Hook: "prolog", Ns: 4e6, Gate: rundir.GateWaited, GateNs: 4e9}, {Hook: "prolog", Ns: 2e6, Error: rundir.CallLock}, {Hook: "epilog", Ns: 2e6}} {
		r.must(rundir.Dir(r.run).AppendCall(c))
	}
	r.after(20 * time.Second) // the log of calls is put aside first
	const of0, of1 = `UUID="GPU-00000000-0000-0000-0000-000000000000",`, `UUID="GPU-00000000-0000-0000-0000-000000000001",`
	const job = `,job_id="17",partition="gpu",qos="high",user="alice"} 1`
	r.wantSeries(
		`quoin_gpu_info{GPU_I_ID="",`+of0+`clique="00000000-0000-0000-0000-000000000001.7",gpu="0",modelName="NVIDIA GB200",node="n1"} 1`,
		`quoin_gpu_info{GPU_I_ID="2",`+of1+`clique="",gpu="1",modelName="NVIDIA A100",node="n1"} 1`,
		`quoin_gpu_job_info{GPU_I_ID="",`+of0+`account="physics",clique="00000000-0000-0000-0000-000000000001.7",cluster="c1",gpu="0"`+job,
		`quoin_gpu_job_info{GPU_I_ID="2",`+of1+`account="physics",clique="",cluster="c1",gpu="1"`+job,
		`quoin_gpus{state="allocated"} 2`, `quoin_gpus{state="idle"} 1`,
		`quoin_agent_mapping_files{state="held"} 2`, `quoin_agent_mapping_files{state="empty"} 1`, `quoin_agent_mapping_files{state="foreign"} 0`,
		`quoin_agent_job_records{state="alive"} 1`, `quoin_agent_job_records{state="unproven"} 0`, `quoin_agent_job_summaries 1`,
		`quoin_hook_duration_seconds_count{hook="prolog"} 2`, `quoin_hook_duration_seconds_count{hook="epilog"} 1`,
		`quoin_hook_errors_total{hook="prolog",reason="lock"} 1`, `quoin_hook_duration_seconds_bucket{hook="prolog",le="0.0025"} 1`, `quoin_hook_duration_seconds_bucket{hook="prolog",le="0.005"} 2`,
		`quoin_hook_gate_total{result="waited"} 1`, `quoin_hook_gate_duration_seconds_sum 4`, `quoin_hook_gate_duration_seconds_bucket{le="1"} 0`, `quoin_hook_gate_duration_seconds_bucket{le="5"} 1`)
}

// TestLostGPUsAreCounted counts GPUs that were never read, and GPUs that are lost and not held, and no GPU twice.
func TestLostGPUsAreCounted(t *testing.T) {
	r := newJobsRig(t)
	inv := rundir.Inventory{Node: "n1", Entries: []rundir.Entry{
		{UUID: gpuUUID(0), ExporterID: "0"},
		{GRESIndex: 1, UUID: gpuUUID(1), ExporterID: "1", Lost: true},
		{GRESIndex: 2, UUID: gpuUUID(2), ExporterID: "2", Lost: true},
		{GRESIndex: 3},
		{GRESIndex: 4},
	}}
	r.must(rundir.Dir(r.run).WriteInventory(inv))
	r.prolog("17", 2)
	r.wantSeries(`quoin_gpus{state="allocated"} 1`, `quoin_gpus{state="idle"} 1`, `quoin_gpus{state="lost"} 3`)
}

// TestRunbookOfHookErrors holds that the runbook says what to do for each reason of the hook, and for no other.
func TestRunbookOfHookErrors(t *testing.T) {
	page, err := os.ReadFile("../../manifests/RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## QuoinHookErrors\n")
	_, todo, _ := strings.Cut(section, "\nDo: ")
	todo, _, _ = strings.Cut(todo, "\n")
	var got []string
	for _, m := range regexp.MustCompile("((?:`[a-z]+`, )*`[a-z]+`): ").FindAllStringSubmatch(todo, -1) {
		got = append(got, strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ")...)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(callReasons)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("reasons in RUNBOOKS.md (-want +got):\n%s", diff)
	}
}

// TestSeriesOfOddNames escapes what users put into names, and replaces what is no
// UTF-8.
func TestSeriesOfOddNames(t *testing.T) {
	j := manyJobs(t, 5)
	for _, b := range j.records.jobs {
		b.record.User, b.info = "a\"b\\c\nd\xff", nil
	}
	j.show()
	text := scrape(t, handler(j, processSeries()))
	if n := families(t, text)["quoin_gpu_job_info"]; n != 40 {
		t.Errorf("%d series of jobs, want 40", n)
	}
	if !strings.Contains(text, `user="a\"b\\c\nd`+"\uFFFD"+`"`) {
		t.Error("a label is not escaped")
	}
}

// TestSeriesAreClean lets client_golang check the collector's names, types and
// help texts, and that no series stands twice.
func TestSeriesAreClean(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(manyJobs(t, 3).Collector()); err != nil {
		t.Fatal(err)
	}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Errorf("%d kinds of series", len(all))
	}
}

// jobLines returns the series of quoin_gpu_job_info.
func jobLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "quoin_gpu_job_info{") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// valueOf returns a series' value, 0 where there is none.
func valueOf(t testing.TB, text, name, uuid string) float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range parsed[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "UUID" && l.GetValue() == uuid {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
