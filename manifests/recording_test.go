package manifests_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestRealRecording evaluates recording rules on what the small site has not.
func TestRealRecording(t *testing.T) {
	t.Parallel()
	const link = `nvlink="%d", gpu="0", gpu_uuid="GPU-1", model_name="M", hostname="n"`
	info := func(instance, more string) string {
		return `quoin_gpu_info{` + gpu1 + `, modelName="M", job="quoin-agent", instance="` + instance + `"` + more + `}`
	}
	jobInfo := func(instance string) string {
		return `quoin_gpu_job_info{` + gpu1 + `, job_id="7", cluster="c", job="quoin-agent", instance="` + instance + `"}`
	}
	node := func(name string) []sample {
		return []sample{{`quoin:gpu:info{UUID="GPU-1", gpu="0", modelName="M", node="` + name + `"}`, 1}}
	}
	inBlock := func(name, block string) []sample {
		return []sample{{`quoin:gpu:info{UUID="GPU-1", gpu="0", modelName="M", node="` + name + `", block="` + block + `"}`, 1}}
	}
	ofNode := func(labels string) string { return `quoin_node_info{job="quoin-publisher", ` + labels + `}` }
	named := func(instance, more string) string {
		return `quoin_job_info{publication="p", cluster="c", job_id="7", job="quoin-publisher", instance="` + instance + `"` + more + `}`
	}
	job7 := func(more string) []sample {
		return []sample{{`quoin:job:info{cluster="c", job_id="7"` + more + `}`, 1}}
	}
	ofNode1 := info("i", `, node="n"`)
	one7 := []sample{{`quoin:job_devices:count{cluster="c", job_id="7"}`, 1}}
	row := func(value float64) []sample { return []sample{{`{UUID="GPU-1"}`, value}} }
	var tests []unitTest
	for _, c := range []struct {
		name   string
		series map[string]string
		expr   string
		want   []sample
	}{
		{"NVLink by link, before 4.9, of a shared GPU", map[string]string{
			"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" + fmt.Sprintf(link, 0) + `, hpc_job="1"}`: "10x9", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" + fmt.Sprintf(link, 0) + `, hpc_job="2"}`: "10x9",
			"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" + fmt.Sprintf(link, 1) + "}": "20x9"}, `max by (UUID) (quoin:gpu_nvlink:bytes_per_second)`, row(30e6)},
		{"NVLink by link, since 4.9", map[string]string{
			"DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND{" + fmt.Sprintf(link, 0) + "}": "10x9", "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND{" + fmt.Sprintf(link, 1) + "}": "20x9"},
			`max by (UUID) (quoin:gpu_nvlink:bytes_per_second)`, row(30)},
		{"no reserved memory", map[string]string{`DCGM_FI_DEV_FB_USED{UUID="GPU-1"}`: "10x9", `DCGM_FI_DEV_FB_FREE{UUID="GPU-1"}`: "20x9"}, `max by (UUID) (quoin:gpu_memory_size:bytes)`, row(30 << 20)},
		{"no reserved memory, with --use-old-namespace", map[string]string{`DCGM_FI_DEV_FB_USED{uuid="GPU-1"}`: "10x9", `DCGM_FI_DEV_FB_FREE{uuid="GPU-1"}`: "20x9"}, `max by (UUID) (quoin:gpu_memory_size:bytes)`, row(30 << 20)},
		{"both generations at once", map[string]string{`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1", Hostname="n"}`: "50x9", `DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-1", hostname="n"}`: "0.75x9"},
			`max by (UUID) (quoin:gpu_utilization:ratio)`, row(0.75)},
		{"the power of a GPU with MIG and jobs is one", map[string]string{`DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1", GPU_I_ID="1", hpc_job="1"}`: "200x9", `DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1", GPU_I_ID="1", hpc_job="2"}`: "200x9",
			`DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1", GPU_I_ID="2"}`: "200x9"}, `sum by (UUID) (quoin:gpu_power:watts)`, row(200)},
		{"a MIG instance has no GPU_UTIL", map[string]string{`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1", GPU_I_ID="1"}`: "90x9", `DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1", GPU_I_ID="1"}`: "0.25x9"},
			`quoin:gpu_utilization:ratio`, []sample{{`quoin:gpu_utilization:ratio{GPU_I_ID="1", UUID="GPU-1"}`, 0.25}}},
		{"a node by its label", map[string]string{info("10.0.0.1:9835", `, node="n1"`): "1x9", `DCGM_FI_DEV_FB_USED{UUID="GPU-1", Hostname="other"}`: "1x9"}, `quoin:gpu:info`, node("n1")},
		{"a node whose scrape has another name for it", map[string]string{info("i", `, node="n1.site", exported_node="n1"`): "1x9", ofNode(`node="n1", block="b1"`): "1x9"}, `quoin:gpu:info`, inBlock("n1", "b1")},
		{"a node in a block, by a publisher whose scrape names its own node", map[string]string{info("i", `, node="n1"`): "1x9", ofNode(`node="cpu3", exported_node="n1", block="b1"`): "1x9"}, `quoin:gpu:info`, inBlock("n1", "b1")},
		{"a node of the same name up to the first dot", map[string]string{info("i", `, node="n1"`): "1x9", ofNode(`node="n1.site", block="b1"`): "1x9"}, `quoin:gpu:info`, node("n1")},
		{"a node in no block", map[string]string{info("i", `, node="n1"`): "1x9", ofNode(`node="n1", clique="k.1"`): "1x9"}, `quoin:gpu:info`, node("n1")},
		{"a node that the next leader has in the same block", map[string]string{info("i", `, node="n1"`): "1x9", ofNode(`node="n1", block="b1", instance="old"`): "1x9", ofNode(`node="n1", block="b1", instance="new"`): "1x9"},
			`quoin:gpu:info`, inBlock("n1", "b1")},
		{"a node that has come into another block", map[string]string{info("i", `, node="n1"`): "1x9", ofNode(`node="n1", block="b1"`): "1x3 stale", ofNode(`node="n1", block="b2"`): "_x3 1x6"}, `quoin:gpu:info`, inBlock("n1", "b2")},
		{"a job in a block", map[string]string{info("i", `, node="n1"`): "1x9", jobInfo("i"): "1x9", ofNode(`node="n1", block="b1"`): "1x9"}, `count by (job_id, block) (quoin:gpu_job:info)`, []sample{{`{job_id="7", block="b1"}`, 1}}},
		{"the agent's old Pod and its new", map[string]string{info("10.0.0.1:9835", `, node="n"`): "1x9", info("10.0.0.2:9835", `, node="n"`): "1x9", jobInfo("10.0.0.1:9835"): "1x9", jobInfo("10.0.0.2:9835"): "1x9",
			`DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"}`: "50x9"}, `sum by (UUID) (quoin:gpu_job_utilization:ratio)`, row(0.5)},
		{"the age of a job that came at minute 2", map[string]string{info("i", `, node="n"`): "1x9", jobInfo("i"): "_x2 1x7"}, `max by (UUID) (quoin:gpu_job_age:seconds)`, row(240)},
		{"an error before the first scrape of a new agent", map[string]string{`quoin_hook_errors_total{hook="prolog", reason="lock", instance="i"}`: "2x9", `process_start_time_seconds{instance="i"}`: "0x9"},
			`sum by (alertname) (ALERTS{alertstate="firing"})`, []sample{{`{alertname="QuoinHookErrors"}`, 1}}},
		{"links whose GPU has both names", map[string]string{"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" + fmt.Sprintf(link, 0) + `, UUID="GPU-1"}`: "10x9", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" + fmt.Sprintf(link, 0) + "}": "10x9"},
			`quoin:gpu_nvlink:bytes_per_second`, []sample{{`quoin:gpu_nvlink:bytes_per_second{UUID="GPU-1"}`, 10e6}}},
		{"a GPU of before a restart of Prometheus", map[string]string{info("i", `, node="n"`): "1x9", jobInfo("i"): "1x9", `quoin:gpu:info{` + gpu1 + `, modelName="M", node="n", block="old"}`: "_x2 1"}, `quoin:job_devices:count`, one7},
		{"a node of before a restart of Prometheus", map[string]string{info("i", `, node="n"`): "1x9", jobInfo("i"): "1x9", `quoin:gpu_node:info{UUID="GPU-1", node="old"}`: "_x2 1"}, `quoin:job_devices:count`, one7},
		{"a block of before a restart of Prometheus", map[string]string{info("i", `, node="n"`): "1x9", jobInfo("i"): "1x9", ofNode(`node="n", block="b1"`): "1x9", `quoin:node_block:info{node="n", block="old"}`: "_x2 1"}, `quoin:job_devices:count`, one7},
		{"two exporters, and Pods that share a GPU", map[string]string{`DCGM_FI_DEV_FB_USED{UUID="GPU-1", hpc_job="7", instance="a", exported_pod="p"}`: "1x9", `DCGM_FI_DEV_FB_USED{UUID="GPU-1", hpc_job="7", instance="a", exported_pod="q"}`: "1x9",
			`DCGM_FI_DEV_FB_USED{UUID="GPU-1", hpc_job="7", instance="b"}`: "1x9"}, `sum by (UUID) (quoin:gpu_exporter_jobs:count)`, row(1)},
		{"one job id in two Slurm clusters", map[string]string{info("i", `, node="n"`): "1x9", jobInfo("i"): "1x9", strings.Replace(jobInfo("i"), `cluster="c"`, `cluster="d"`, 1): "1x9"},
			`quoin:gpu_job_share:ratio{cluster="d"} * 0 + on (cluster, job_id) group_left () quoin:job_devices:count`, []sample{{`{UUID="GPU-1", cluster="d", gpu="0", job_id="7", modelName="M", node="n"}`, 1}}},
		{"what Slurm calls a job", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", named("a", `, array_job_id="5", job_name="train", qos="high"`): "1x9"},
			`quoin:job:info`, job7(`, array_job_id="5", job_name="train", qos="high"`)},
		{"a job that no publisher names", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", strings.Replace(named("a", `, job_name="other"`), `cluster="c"`, `cluster="d"`, 1): "1x9"}, `quoin:job:info`, job7("")},
		{"a publisher that has stopped at minute 2", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", named("a", `, job_name="train"`): "1x2 stale"}, `quoin:job:info`, job7(`, job_name="train"`)},
		{"a job that has a new name since minute 4", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", named("a", `, job_name="old"`): "1x3 stale", named("a", `, job_name="new"`): "_x4 1x5"}, `quoin:job:info`, job7(`, job_name="new"`)},
		{"two publishers while the lead changes", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", named("a", `, job_name="train"`): "1x9", named("b", `, job_name="train"`): "1x9"}, `quoin:job:info`, job7(`, job_name="train"`)},
		{"a name and no device", map[string]string{ofNode1: "1x9", named("a", `, job_name="train"`): "1x9"}, `quoin:job:info`, nil},
		{"a device's series before and after its job has a name", map[string]string{ofNode1: "1x9", jobInfo("i"): "1x9", named("a", `, job_name="train"`): "_x2 1x7"},
			`count(last_over_time(quoin:gpu_job:info[6m]))`, []sample{{`{}`, 1}}},
		{"a limit that the driver enforces", map[string]string{info("i", ""): "1x9", `DCGM_FI_DEV_ENFORCED_POWER_LIMIT{UUID="GPU-1"}`: "500x9"}, `max by (UUID) (quoin:gpu_power_limit:watts)`, row(500)},
	} {
		// promtool says the expression of what fails, and not the name.
		u := unitTest{Name: c.name, Interval: "1m", Exprs: []exprTest{{c.expr + " # " + c.name, "6m", c.want}}}
		for s, v := range c.series {
			u.Series = append(u.Series, series{s, v})
		}
		tests = append(tests, u)
	}
	if out, err := runUnits(t, unitFile{allRules(t), "1m", tests}); err != nil {
		t.Error(out)
	}
}

// TestRealHardwareOfJob joins what DCGM Exporter counts of a GPU, by either generation of
// names, with the job that holds the GPU. No series of the exporter has a label hpc_job.
func TestRealHardwareOfJob(t *testing.T) {
	t.Parallel()
	var tests []unitTest
	for _, c := range []struct {
		record string
		old    []string
		now    []string
		want   float64
	}{
		{"quoin:gpu_nvlink_recoveries:total", []string{"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"}, []string{"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL"}, 4},
		{"quoin:gpu_nvlink_recoveries:total", nil, []string{"DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL"}, 4},
		{"quoin:gpu_nvlink_replays:total", []string{"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"}, []string{"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL"}, 4},
		{"quoin:gpu_nvlink_crc_errors:total", []string{"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"},
			[]string{"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL"}, 8},
		{"quoin:gpu_nvlink_crc_errors:total", nil, []string{"DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL"}, 4},
		{"quoin:gpu_pcie_replays:total", []string{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER"}, []string{"DCGM_FI_DEV_PCIE_REPLAY_TOTAL"}, 4},
		{"quoin:gpu_clock_events:mask", []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS"}, nil, 4},
	} {
		generations := map[string][]string{"before 4.9": c.old, "since 4.9": c.now, "both at once": slices.Concat(c.old, c.now)}
		for _, generation := range slices.Sorted(maps.Keys(generations)) {
			names := generations[generation]
			if len(names) == 0 {
				continue
			}
			// promtool says the expression of what fails, and not the name.
			expr := "sum by (job_id, UUID) (quoin:gpu_job:info * on (UUID) group_left () " + c.record + ") # " + generation
			u := unitTest{Interval: "1m", Exprs: []exprTest{{expr, "6m", []sample{{`{UUID="GPU-1", job_id="7"}`, c.want}}}}, Series: []series{
				{`quoin_gpu_info{` + gpu1 + `, modelName="M", node="n", job="quoin-agent", instance="i"}`, "1x9"},
				{`quoin_gpu_job_info{` + gpu1 + `, job_id="7", cluster="c", job="quoin-agent", instance="i"}`, "1x9"},
			}}
			for _, name := range names {
				u.Series = append(u.Series, series{name + `{UUID="GPU-1", gpu="0", Hostname="n"}`, "4x9"})
			}
			tests = append(tests, u)
		}
	}
	if out, err := runUnits(t, unitFile{allRules(t), "1m", tests}); err != nil {
		t.Error(out)
	}
}

// TestRealModels checks the power limit of each model where the exporter tells
// none.
func TestRealModels(t *testing.T) {
	t.Parallel()
	u := unitTest{Interval: "1m", Exprs: []exprTest{{`sum by (modelName) (quoin:gpu:info * on (UUID) group_left () quoin:gpu_power_limit:watts)`, "1m", nil}}}
	for model, watts := range map[string]float64{
		"NVIDIA GB300 NVL": 1400, "NVIDIA GB300": 1400, "NVIDIA GB200": 1200, "NVIDIA B300 SXM6 AC": 1100, "NVIDIA B200": 1000, "NVIDIA GH200 480GB": 900, "NVIDIA H200": 700, "NVIDIA H200 NVL": 600,
		"NVIDIA H100 80GB HBM3": 700, "NVIDIA H100 PCIe": 350, "NVIDIA H100 NVL": 400, "NVIDIA A100-SXM4-40GB": 400, "NVIDIA A100-SXM4-80GB": 400, "NVIDIA A100 80GB PCIe": 300,
		"NVIDIA L40S": 350, "NVIDIA L40": 300, "NVIDIA L4": 72, "Tesla T4": 70, "NVIDIA T4": 70, "NVIDIA RTX A6000": 0, // not known
	} {
		u.Series = append(u.Series, series{fmt.Sprintf(`quoin_gpu_info{UUID="GPU-%s", gpu="0", modelName="%s", instance="i"}`, model, model), "1x2"})
		if watts > 0 {
			u.Exprs[0].Samples = append(u.Exprs[0].Samples, sample{fmt.Sprintf(`{modelName="%s"}`, model), watts})
		}
	}
	if out, err := runUnits(t, unitFile{allRules(t), "1m", []unitTest{u}}); err != nil {
		t.Error(out)
	}
}
