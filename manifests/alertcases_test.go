package manifests_test

import (
	"fmt"
	"strings"
)

func alertCases() []alertCase {
	all := append(jobAlerts(), agentAlerts()...)
	return append(append(all, fabricAlerts()...), publisherAlerts()...)
}

func jobAlerts() []alertCase {
	stretch := func(values string) series { return agent("quoin_gpu_idle_held_stretch_seconds", gpu1, values) }
	device := func(uuid, node string) series {
		return series{`quoin_gpu_info{UUID="` + uuid + `", gpu="0", modelName="M", clique="k.1", node="` + node + `", ` + onAgent + `}`, always}
	}
	holds := func(uuid string) series {
		return series{`quoin_gpu_job_info{UUID="` + uuid + `", gpu="0", job_id="7", cluster="c", clique="k.1", ` + onAgent + `}`, always}
	}
	inBlock := func(node, block string) series {
		return series{`quoin_node_info{node="` + node + `", block="` + block + `", job="quoin-publisher"}`, always}
	}
	used := func(more string) series { return series{exporterOf + more + "}", always} }
	utilized := func(more string) series {
		return series{strings.Replace(used(more).Series, "FB_USED", "GPU_UTIL", 1), always}
	}
	mapping := agent("quoin_agent_mapping_files", `state="held"`, always)
	byNode := map[string]string{"node": "n"}
	// lone is a node whose GPUs have a clique of their own, half of them held.
	lone := func(n string) (all []series) {
		for _, gpu := range []string{"0", "1"} {
			of := `{UUID="GPU-` + n + gpu + `", gpu="` + gpu + `", clique="k.` + n + `", node="n` + n + `", ` + onAgent
			all = append(all, series{"quoin_gpu_info" + of + "}", always}, series{"quoin_gpu_job_info" + of + `, job_id="7", cluster="c"}`, always})
		}
		return all[:3]
	}
	// short are jobs of a minute on two devices of a node; the exporter tells of each
	// when it has ended.
	var short []series
	for i, values := range []string{strings.Repeat("1 stale ", 60), strings.Repeat("stale 1 ", 60)} {
		uuid := fmt.Sprintf("GPU-%d", i+1)
		of := `DCGM_FI_DEV_FB_USED{UUID="` + uuid + `", Hostname="n"`
		short = append(short, device(uuid, "n"), series{holds(uuid).Series, values},
			series{of + "}", always}, series{of + `, hpc_job="7"}`, "stale " + values})
	}
	return []alertCase{
		{"QuoinGPUIdleButHeld", job7(stretch("0+60x200")), 36, job7Labels(), 2160, [][]series{
			job7(stretch("0+60x25 0+60x25 0+60x25 0+60x25 0+60x25")), {{ofGPU1, always}, stretch("0+60x200")}}},
		{"QuoinJobGPUNeverUsed", job7(stretch("0+60x200")), 66, job7Labels(), 3960, [][]series{
			job7(stretch("0x20 0+60x180")), job7(stretch("0x200"))}},
		{"QuoinJobStraddles", []series{device("GPU-1", "n"), device("GPU-2", "m"), device("GPU-3", "n"), device("GPU-4", "m"), inBlock("n", "b1"), inBlock("m", "b2"), holds("GPU-1"), holds("GPU-2")},
			10, map[string]string{"cluster": "c", "job_id": "7"}, 2, [][]series{
				{device("GPU-1", "n"), device("GPU-2", "m"), device("GPU-3", "l"), {`quoin_gpu_info{UUID="GPU-5", gpu="0", clique="k.2", node="k", ` + onAgent + `}`, always},
					inBlock("n", "b1"), inBlock("m", "b2"), inBlock("l", "b3"), holds("GPU-1"), holds("GPU-2")}, // no block is large enough
				{device("GPU-1", "n"), device("GPU-2", "m"), inBlock("n", "b1"), inBlock("m", "b1"), holds("GPU-1"), holds("GPU-2")},
				{device("GPU-1", "n"), device("GPU-2", "m"), holds("GPU-1"), holds("GPU-2")},                     // no blocks are known
				{device("GPU-1", "n"), device("GPU-2", "m"), inBlock("n", "b1"), holds("GPU-1"), holds("GPU-2")}, // one is not
				append(lone("1"), lone("2")...)}}, // each node is a clique
		{"QuoinGPUUnownedMemory", []series{device("GPU-1", "n"), agent("quoin_gpu_unowned_memory_bytes", gpu1, "75161927680x200")}, 10,
			map[string]string{"UUID": "GPU-1", "gpu": "0", "node": "n"}, 70, [][]series{
				{device("GPU-1", "n"), agent("quoin_gpu_unowned_memory_bytes", gpu1, "1073741824x200")},
				{device("GPU-1", "n"), agent("quoin_gpu_unowned_memory_bytes", gpu1, "75161927680x8 0x200")},
				{device("GPU-1", "n")}}},
		{"QuoinExporterMissing", []series{{ofGPU1, always}, device("GPU-3", "n"), {`DCGM_FI_DEV_FB_USED{UUID="GPU-2", Hostname="m"}`, always}}, 15,
			byNode, 2, [][]series{
				{{ofGPU1, always}}, {{ofGPU1, always}, used("")}, {{ofGPU1, always}, {`DCGM_FI_DEV_FB_USED_BYTES{UUID="GPU-1", hostname="n"}`, always}},
				{{ofGPU1, always}, device("GPU-3", "n"), {`DCGM_FI_DEV_FB_USED{UUID="GPU-2", Hostname="m"}`, always}, // GB10 has no FB_USED
					{`DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1", Hostname="n"}`, always}, {`DCGM_FI_DEV_GPU_TEMP_CELSIUS{UUID="GPU-3", hostname="n"}`, always}}}},
		{"QuoinExporterWithoutJobs", job7(utilized(""), mapping), 10, byNode, 1, [][]series{job7(utilized(`, hpc_job="7"`), mapping)}}, // GB10 has no FB_USED
		{"QuoinExporterJobsDiffer", job7(utilized(`, hpc_job="7"`), utilized(`, hpc_job="8"`)), 10, byNode, 1, [][]series{job7(utilized(`, hpc_job="7"`))}},
		{"QuoinExporterWithoutJobs", job7(used(""), mapping), 10, byNode, 1, [][]series{
			job7(used(`, hpc_job="7"`), mapping), job7(mapping), {{ofGPU1, always}, used(""), mapping}, append(short, mapping),
			job7(used(""))}}, // mappingDir: none
		{"QuoinExporterJobsDiffer", append(job7(used(`, hpc_job="7"`), used(`, hpc_job="8"`)), // one more than hold GPU-1, one fewer than GPU-2
			device("GPU-2", "n"), holds("GPU-2"), series{strings.Replace(holds("GPU-2").Series, `job_id="7"`, `job_id="8"`, 1), always},
			series{`DCGM_FI_DEV_FB_USED{UUID="GPU-2", Hostname="n", hpc_job="7"}`, always}), 10, byNode, 2, [][]series{
			job7(used(`, hpc_job="7"`)), job7(used("")), {{ofGPU1, always}, used("")}, short,
			job7(used(`, hpc_job="7"`), used(`, hpc_job="7", pod="other"`))}}, // two exporters
	}
}

func agentAlerts() []alertCase {
	buckets := func(low, high string) []series {
		const b = "quoin_hook_duration_seconds_bucket"
		return []series{agent(b, `hook="prolog", le="0.005"`, low), agent(b, `hook="prolog", le="1"`, low), agent(b, `hook="prolog", le="2.5"`, high), agent(b, `hook="prolog", le="+Inf"`, high)}
	}
	state := func(name, state, values string) []series {
		return []series{agent("quoin_agent_"+name, `state="`+state+`"`, values)}
	}
	plain := func(name, values string) []series { return []series{agent("quoin_agent_"+name, "", values)} }
	released := func(reason, values string) []series {
		return []series{agent("quoin_agent_sweep_released_total", `reason="`+reason+`"`, values)}
	}
	hookErrors := func(values string) []series {
		return []series{agent("quoin_hook_errors_total", `hook="prolog", reason="lock"`, values)}
	}
	held := func(files string) []series {
		return []series{agent("quoin_gpus", `state="allocated"`, "3x200"), agent("quoin_agent_mapping_files", `state="held"`, files)}
	}
	problems := func(reason, values string) []series {
		return []series{agent("quoin_agent_problems", `reason="`+reason+`"`, values)}
	}
	return []alertCase{
		{"QuoinMappingStale", released("orphan", "0+1x200"), 6, fromAgent("reason", "orphan"), 6, [][]series{released("orphan", "0x200"), released("boot", "0+1x200"), released("ended", "0x30 1x30 2x30 3x30")}},
		{"QuoinRecordsUnproven", state("job_records", "unproven", "2x200"), 60, fromAgent("state", "unproven"), 2, [][]series{state("job_records", "alive", "2x200"), state("job_records", "unproven", "0x200")}},
		{"QuoinRecordsUnreadable", state("job_records", "unreadable", "2x200"), 10, fromAgent("state", "unreadable"), 2, [][]series{state("job_records", "unreadable", "0x200")}},
		{"QuoinSweepErrors", plain("sweep_errors_total", "0+1x200"), 16, fromAgent(), 15, [][]series{plain("sweep_errors_total", "0x200"), plain("sweep_errors_total", "0x5 1x200")}},
		{"QuoinMappingForeign", state("mapping_files", "foreign", "1x200"), 15, fromAgent("state", "foreign"), 1, [][]series{state("mapping_files", "held", "1x200"), state("mapping_files", "foreign", "0x200")}},
		{"QuoinMappingNotWritten", held("0x200"), 5, fromAgent("state", "allocated"), 3, [][]series{held("2x200"), {agent("quoin_gpus", `state="allocated"`, "0x200")}, held("0x3 1x200")}},
		{"QuoinHookErrors", hookErrors("0x5 1x200"), 6, fromAgent("hook", "prolog", "reason", "lock"), 1, [][]series{hookErrors("0x200"),
			{hookErrors("3x200")[0], {`process_start_time_seconds{` + onAgent + `}`, "-3600x200"}}}}, // Prometheus was away
		{"QuoinHookSlow", buckets("0x200", "0+10x200"), 6, fromAgent("hook", "prolog"), 2.35, [][]series{buckets("0+10x200", "0+10x200"), buckets("0x200", "0x200")}},
		{"QuoinAgentDown", []series{{`up{` + onAgent + `}`, "0x200"}}, 15, fromAgent(), 0, [][]series{
			{{`up{` + onAgent + `}`, always}}, {{`up{instance="i", job="other"}`, "0x200"}}, {{`up{` + onAgent + `}`, "1x10 stale"}}, {{`up{` + onAgent + `}`, "1 0x13 1x200"}}}}, // a reboot
		{"QuoinProbeDown", plain("probe_up", "0x200"), 10, fromAgent(), 0, [][]series{plain("probe_up", always), plain("probe_up", "0x5 1x200")}},
		{"QuoinReportStale", plain("report_stale", always), 5, fromAgent(), 1, [][]series{plain("report_stale", "0x200")}},
		{"QuoinReportNotStored", plain("report_stored", "0x200"), 15, fromAgent(), 0, [][]series{plain("report_stored", always)}},
		{"QuoinNodeProblem", problems("GPUUnreadable", "2x200"), 30, fromAgent("reason", "GPUUnreadable"), 2, [][]series{problems("XidCritical", "2x200"), problems("XidLook", "2x200"), problems("RecoveryNeeded", "2x200"), problems("GPULost", "2x200"), problems("GPUUnreadable", "1x20 stale")}},
		{"QuoinGPULost", []series{agent("quoin_gpus", `state="lost"`, "2x200")}, 15, fromAgent(), 2, [][]series{
			{agent("quoin_gpus", `state="lost"`, "0x200"), agent("quoin_gpus", `state="idle"`, "8x200")}, {agent("quoin_gpus", `state="lost"`, "1x10 0x200")}, problems("GPUUnreadable", always)}},
		{"QuoinGPULost", append(append(problems("GPUMissing", "3x200"), problems("GPULost", "2x200")...), agent("quoin_gpus", `state="lost"`, "0x200")), 15, fromAgent(), 3, [][]series{problems("GPUMissing", "0x200")}},
		{"QuoinXid", append(problems("XidCritical", "2x200"), problems("RecoveryNeeded", "1x200")...), 0, fromAgent(), 3, [][]series{
			problems("GPUUnreadable", "2x200"), problems("XidLook", "2x200"), problems("RecoveryAdvised", "2x200")}},
		{"QuoinXidLook", append(problems("XidLook", "2x200"), problems("RecoveryAdvised", "1x200")...), 5, fromAgent(), 3, [][]series{
			problems("XidCritical", "2x200"), problems("RecoveryNeeded", "2x200"), problems("GPUUnreadable", "2x200"), problems("XidLook", "1x2 stale")}},
	}
}

func fabricAlerts() []alertCase {
	gpus := func(fabric, health, values string) []series {
		return []series{agent("quoin_agent_gpus", `fabric="`+fabric+`", health="`+health+`"`, values)}
	}
	faults := func(reason, values string) []series {
		return []series{{`quoin_publisher_fabric_faults{node="n", reason="` + reason + `", instance="p0", job="pub"}`, values}}
	}
	imex := func(state string) []series {
		return []series{agent("quoin_agent_imex_info", `channel_major="234", state="`+state+`"`, always)}
	}
	member := func(ready string) []series {
		return []series{agent("quoin_agent_imex_ready", `clique="k.1", reason="NotRegistered"`, ready+"x4 stale"), agent("quoin_agent_imex_ready", `clique="k.1", reason="NotReady"`, "_x4 "+ready+"x200")}
	}
	gate := func(result, values string) []series {
		return []series{agent("quoin_hook_gate_total", `result="`+result+`"`, values)}
	}
	in := func(clique, values string) series {
		return series{`quoin_gpu_info{` + gpu1 + `, modelName="M", clique="` + clique + `", node="n", ` + onAgent + `}`, values}
	}
	remap := func(value string) []series {
		return []series{{ofGPU1, always}, {`DCGM_FI_DEV_ROW_REMAP_FAILED{UUID="GPU-1", hostname="n"}`, value}}
	}
	return []alertCase{
		{"QuoinRowRemapFailed", remap("0x5 1x200"), 6, map[string]string{"UUID": "GPU-1"}, 1, [][]series{remap("0x200")}},
		{"QuoinFabricUnhealthy", gpus("completed", "unhealthy", "4x200"), 5, fromAgent("health", "unhealthy"), 4, [][]series{gpus("completed", "healthy", "4x200"), gpus("notSupported", "", "4x200")}},
		{"QuoinFabricDegraded", faults("FabricNotReady", always), 5, map[string]string{"node": "n", "reason": "FabricNotReady"}, 1, [][]series{faults("FabricNotReady", "1x3 stale"), faults("FabricUnhealthy", always),
			gpus("inProgress", "", "4x200")}}, // an HGX machine that starts, or has FABRIC_MODE=1
		{"QuoinDomainChanged", []series{in("k.1", "1x69 stale"), in("k.2", "_x70 1x130")}, 70, map[string]string{"clique": "k.1"}, 1, [][]series{
			{in("k.1", always)}, {in("k.1", "1x69 stale")}, {in("", "1x69 stale"), in("k.2", "_x70 1x130")}}},
		{"QuoinIMEXNoMember", member("0"), 10, fromAgent("clique", "k.1"), 0, [][]series{member("1"),
			{agent("quoin_agent_imex_ready", `clique="k.1", reason="NotRegistered"`, "0x5 1x200")}}},
		{"QuoinGateShut", gate("warn", "0x5 1x200"), 6, fromAgent("result", "warn"), 1, [][]series{gate("ready", "0x5 1x200"), gate("waited", "0x5 1x200"), gate("alone", "0x5 1x200"), gate("signal", "0x5 1x200"), gate("unknown", "0x5 1x200"), gate("fail", "3x200")}},
		{"QuoinIMEXNotReady", imex("DOWN"), 10, fromAgent("channel_major", "234", "state", "DOWN"), 1, [][]series{imex("READY"), imex("")}},
	}
}

func publisherAlerts() []alertCase {
	leads := func(a, b string) []series {
		return []series{{`quoin_publisher_leader{instance="p0", job="pub"}`, a}, {`quoin_publisher_leader{instance="p1", job="pub"}`, b}}
	}
	held := func(reason, values string) []series {
		return []series{{`quoin_publisher_held{publication="slurm", reason="` + reason + `", instance="p0"}`, values}}
	}
	pending := func(stage, values string) []series {
		return []series{{`quoin_publisher_nodes_pending{publication="slurm", stage="` + stage + `", instance="p0"}`, values}}
	}
	never := func(nodes, values string) []series {
		return append(pending("loaded", nodes), series{`quoin_publisher_file_never_loaded{publication="slurm", instance="p0"}`, values})
	}
	failed := func(values string) []series {
		return []series{{`quoin_publisher_passes_total{publication="slurm", result="error", instance="p0"}`, values}}
	}
	domain := func(problem, values string) []series {
		return []series{{`quoin_publisher_imex_domain_info{namespace="quoin-node", name="quoin", uid="", problem="` + problem + `", instance="p0"}`, values}}
	}
	ofPub := map[string]string{"job": "pub"}
	block := func(free, busy, unavailable string) (all []series) {
		for state, values := range map[string]string{"free": free, "busy": busy, "unavailable": unavailable} {
			all = append(all, series{`quoin_block_nodes{publication="slurm", topology="nvl", block="r1", state="` + state + `", instance="p0", job="pub"}`, values})
		}
		return all
	}
	segments := func(name, values string) series {
		return series{`quoin_` + name + `_segments{publication="slurm", topology="nvl", size="16", instance="p0", job="pub"}`, values}
	}
	split := func(got, values string) []series {
		return []series{{`quoin_job_split_segments{publication="slurm", topology="nvl", job_id="7", segment="12", got="` + got + `", instance="p0", job="pub"}`, values}}
	}
	ofTopology := map[string]string{"publication": "slurm", "topology": "nvl"}
	ofBlock := map[string]string{"publication": "slurm", "topology": "nvl", "block": "r1"}
	return []alertCase{
		{"QuoinPublisherHeld", held("BigChange", always), 15, map[string]string{"publication": "slurm", "reason": "BigChange"}, 1, [][]series{held("BigChange", "1x10 stale"), held("NothingToPublish", always)}},
		{"QuoinFileNeverLoaded", pending("loaded", "18x200"), 5, map[string]string{"publication": "slurm"}, 18, [][]series{pending("loaded", "0x200"), pending("loaded", "18x3 0x200"), pending("registered", "18x200")}},
		{"QuoinFileNeverLoaded", never("0x200", "1x200"), 5, map[string]string{"publication": "slurm"}, 0, [][]series{never("0x200", "0x200"), never("0x200", "1x3 0x200")}},
		{"QuoinBlockShort", block("5x200", "10x200", "3x200"), 30, ofBlock, 15, [][]series{
			block("6x200", "10x200", "2x200"), block("5x20 6x200", "10x200", "3x20 2x200"), block("5x200", "4x200", "1x200")}},
		{"QuoinSegmentsScattered", append(block("40x600", "0x600", "0x600"), segments("free", "1x600"), segments("max", "9x600")), 360, ofTopology, 16, [][]series{
			append(block("40x600", "0x600", "0x600"), segments("free", "2x600"), segments("max", "9x600")),
			append(block("30x600", "0x600", "0x600"), segments("free", "0x600"), segments("max", "9x600")),
			append(block("40x600", "0x600", "0x600"), segments("free", "0x600"), segments("max", "0x600"))}},
		{"QuoinSegmentSplit", split("17+17+2", "2x30"), 2, map[string]string{"publication": "slurm", "topology": "nvl", "job_id": "7", "segment": "12", "got": "17+17+2"}, 2, [][]series{
			split("", "0x30"), split("17+17+2", "2x1 stale")}},
		{"QuoinPublisherFails", failed("0+1x200"), 4, map[string]string{"publication": "slurm"}, 4, [][]series{failed("0x200"), failed("0x20 1x20 2x20")}},
		{"QuoinIMEXDomainProblem", domain("NoDomain", always), 10, map[string]string{"namespace": "quoin-node", "name": "quoin", "problem": "NoDomain"}, 1,
			[][]series{domain("", always), domain("NoDomain", "1x5 stale"), domain("NoDriver", always)}},
		{"QuoinPublisherNoLeader", leads("0x200", "0x200"), 10, ofPub, 0, [][]series{leads(always, "0x200"), failed("0x200")}}, // a site whose publisher nobody scrapes
		{"QuoinPublisherNoLeader", leads("1x5 stale", "0x5 stale"), 16, ofPub, 0, [][]series{leads("1x5 stale", always), leads("1x5 _x5 1x200", "_x200")}},
		{"QuoinPublisherTwoLeaders", leads(always, always), 10, ofPub, 2, [][]series{leads(always, "0x200"), leads("1x20 0x100", "0x15 1x100")}},
	}
}
