package manifests_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestRealHints evaluates the hints on a real Prometheus: on what they are for, and on what
// looks like it and is not.
func TestRealHints(t *testing.T) {
	t.Parallel()
	// held are whole GPUs of one job, two on a node, each with a utilisation and a power.
	held := func(model, utilization string, watts ...string) map[string]string {
		out := map[string]string{}
		for i, w := range watts {
			of := fmt.Sprintf(`UUID="GPU-%d"`, i)
			labels := fmt.Sprintf(`%s, gpu="%d", modelName="%s", node="n%d", job="quoin-agent", instance="i"`, of, i, model, i/2)
			out["quoin_gpu_info{"+labels+"}"] = "1x60"
			out[fmt.Sprintf(`quoin_gpu_job_info{%s, gpu="%d", job_id="7", cluster="c", job="quoin-agent", instance="i"}`, of, i)] = "1x60"
			out["DCGM_FI_DEV_GPU_UTIL{"+of+"}"] = utilization
			out["DCGM_FI_DEV_POWER_USAGE{"+of+"}"] = w
		}
		return out
	}
	with := func(all map[string]string, more ...string) map[string]string {
		out := maps.Clone(all)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	const h100 = "NVIDIA H100 80GB HBM3"
	const hung, gpu, node, busy, pods = `quoin:hint_job_hung:devices`, `max by (UUID, job_id) (quoin:hint_gpu_straggler:ratio)`, `max by (job_id, node) (quoin:hint_node_straggler:ratio)`,
		`max by (UUID) (quoin:hint_gpu_busy_without_job:ratio)`, `quoin:hint_node_gpu_pods:count`
	job7 := []sample{{`quoin:hint_job_hung:devices{cluster="c", job_id="7"}`, 2}}
	alone := map[string]string{`quoin_gpu_info{UUID="GPU-0", gpu="0", modelName="M", node="n0", job="quoin-agent", instance="i"}`: "1x60"}
	onNode := func(name, container, phase string) map[string]string {
		return map[string]string{`quoin_node_info{node="n0", block="b", job="quoin-publisher"}`: "1x60",
			`kube_pod_container_resource_requests{namespace="a", pod="p", container="` + container + `", node="` + name + `", resource="nvidia_com_gpu"}`: "8x60",
			`kube_pod_status_phase{namespace="a", pod="p", phase="` + phase + `"}`:                                                                        "1x60"}
	}
	var tests []unitTest
	for _, c := range []struct {
		name, expr string
		series     map[string]string
		want       []sample
	}{
		{"busy at little power", hung, held(h100, "100x60", "120x60", "130x60"), job7},
		{"busy and at work", hung, held(h100, "100x60", "120x60", "400x60"), nil},
		{"idle", hung, held(h100, "0x60", "70x60", "70x60"), nil},
		{"at work five minutes ago", hung, held(h100, "100x60", "400x15 120x45", "400x15 120x45"), nil},
		{"one pause of a minute", hung, held(h100, "100x14 20 100x45", "120x60", "120x60"), nil},
		{"a model that draws more at rest", hung, held("NVIDIA A100-SXM4-40GB", "100x60", "130x60", "130x60"), job7},
		{"a model without a known limit", hung, held("NVIDIA RTX A6000", "100x60", "30x60", "30x60"), nil},
		{"the exporter tells the limit", hung, with(held(h100, "100x60", "90x60", "90x60"), `DCGM_FI_DEV_ENFORCED_POWER_LIMIT{UUID="GPU-0"}`, "300x60"), nil},
		{"one GPU below its job's median", gpu, held(h100, "100x60", "600x60", "300x60", "600x60", "600x60"), []sample{{`{UUID="GPU-1", job_id="7"}`, 0.5}}},
		{"one GPU above it", gpu, held(h100, "100x60", "300x60", "300x60", "600x60", "300x60"), []sample{{`{UUID="GPU-2", job_id="7"}`, 2}}},
		{"all alike", gpu, held(h100, "100x60", "600x60", "500x60", "600x60", "650x60"), nil},
		{"a job on three GPUs", gpu, held(h100, "100x60", "600x60", "300x60", "600x60"), nil},
		{"a job that has just begun", gpu, with(held(h100, "100x60", "600x60", "300x60", "600x60", "600x60"), `quoin_gpu_job_info{UUID="GPU-1", gpu="1", job_id="7", cluster="c", job="quoin-agent", instance="i"}`, "_x10 1x50"), nil},
		{"two models", gpu, with(held(h100, "100x60", "600x60", "300x60", "600x60", "600x60"),
			`quoin_gpu_info{UUID="GPU-9", gpu="9", modelName="NVIDIA H200", node="n9", job="quoin-agent", instance="i"}`, "1x60",
			`quoin_gpu_job_info{UUID="GPU-9", gpu="9", job_id="7", cluster="c", job="quoin-agent", instance="i"}`, "1x60"), nil},
		{"a node below its job's median", node, held(h100, "100x60", "600x60", "600x60", "600x60", "600x60", "420x60", "480x60"), []sample{{`{job_id="7", node="n2"}`, 0.75}}},
		{"a job on two nodes", node, held(h100, "100x60", "600x60", "600x60", "420x60", "420x60"), nil},
		{"busy without a job", busy, with(alone, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0"}`, "50x60"), []sample{{`{UUID="GPU-0"}`, 0.5}}},
		{"idle without a job", busy, with(alone, `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-0"}`, "0x60"), nil},
		{"busy with a job", busy, held(h100, "50x60", "300x60"), nil},
		{"its job ended five minutes ago", busy, with(held(h100, "50x60", "300x60"), `quoin_gpu_job_info{UUID="GPU-0", gpu="0", job_id="7", cluster="c", job="quoin-agent", instance="i"}`, "1x15 stale"), nil},
		{"a pod beside slurmd", pods, onNode("n0", "train", "Running"), []sample{{`quoin:hint_node_gpu_pods:count{node="n0"}`, 1}}},
		{"slurmd itself", pods, onNode("n0", "slurmd", "Running"), nil},
		{"a pod that has ended", pods, onNode("n0", "train", "Succeeded"), nil},
		{"a node that Slurm does not have", pods, onNode("n1", "train", "Running"), nil},
	} {
		// promtool says the expression of what fails, and not the name.
		u := unitTest{Name: c.name, Interval: "1m", Exprs: []exprTest{{c.expr + " # " + c.name, "20m", c.want}}}
		for _, s := range slices.Sorted(maps.Keys(c.series)) {
			u.Series = append(u.Series, series{s, c.series[s]})
		}
		tests = append(tests, u)
	}
	if out, err := runUnits(t, unitFile{rulesFor(t, readRules(t), hung, gpu, node, busy, pods), "1m", tests}); err != nil {
		t.Error(out)
	}
}
