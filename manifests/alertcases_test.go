package manifests_test

func alertCases() []alertCase {
	all := append(jobAlerts(), agentAlerts()...)
	return append(append(all, fabricAlerts()...), publisherAlerts()...)
}

func jobAlerts() []alertCase {
	stretch := func(values string) series { return agent("quoin_gpu_idle_held_stretch_seconds", gpu1, values) }
	device := func(uuid, block, values string) series {
		return series{`quoin_gpu_info{UUID="` + uuid + `", gpu="0", modelName="M", clique="k.1", block="` + block + `", node="n", ` + onAgent + `}`, values}
	}
	holds := func(uuid, block string) series {
		return series{`quoin_gpu_job_info{UUID="` + uuid + `", gpu="0", job_id="7", cluster="c", clique="k.1", block="` + block + `", ` + onAgent + `}`, always}
	}
	used := func(more string) series { return series{exporterOf + more + "}", always} }
	byNode := map[string]string{"node": "n"}
	return []alertCase{
		{"QuoinGPUIdleButHeld", job7(stretch("0+60x200")), 36, job7Labels(), 2160, [][]series{
			job7(stretch("0+60x25 0+60x25 0+60x25 0+60x25 0+60x25")), {{ofGPU1, always}, stretch("0+60x200")}}},
		{"QuoinJobGPUNeverUsed", job7(stretch("0+60x200")), 66, job7Labels(), 3960, [][]series{
			job7(stretch("0x20 0+60x180")), job7(stretch("0x200"))}},
		{"QuoinJobStraddles", []series{device("GPU-1", "b1", always), device("GPU-2", "b2", always), device("GPU-3", "b1", always), device("GPU-4", "b2", always), holds("GPU-1", "b1"), holds("GPU-2", "b2")},
			10, map[string]string{"cluster": "c", "job_id": "7"}, 2, [][]series{
				{device("GPU-1", "b1", always), device("GPU-2", "b2", always), device("GPU-3", "b3", always), {`quoin_gpu_info{UUID="GPU-5", gpu="0", clique="k.2", node="m", ` + onAgent + `}`, always},
					holds("GPU-1", "b1"), holds("GPU-2", "b2")}, // no block is large enough
				{device("GPU-1", "b1", always), device("GPU-2", "b1", always), holds("GPU-1", "b1"), holds("GPU-2", "b1")}}},
		{"QuoinExporterMissing", []series{{ofGPU1, always}, {`DCGM_FI_DEV_FB_USED{UUID="GPU-2", Hostname="m"}`, always}}, 15,
			map[string]string{"UUID": "GPU-1", "gpu": "0", "modelName": "M", "clique": "k.1", "block": "b1", "node": "n"}, 1, [][]series{
				{{ofGPU1, always}}, {{ofGPU1, always}, used("")}, {{ofGPU1, always}, {`DCGM_FI_DEV_FB_USED_BYTES{UUID="GPU-1", hostname="n"}`, always}}}},
		{"QuoinExporterWithoutJobs", job7(used("")), 10, byNode, 1, [][]series{
			job7(used(`, hpc_job="7"`)), job7(), {{ofGPU1, always}, used("")}}},
		{"QuoinExporterJobsDiffer", job7(used(`, hpc_job="7"`), used(`, hpc_job="8"`)), 10, byNode, 1, [][]series{
			job7(used(`, hpc_job="7"`)), job7(used("")), {{ofGPU1, always}, used("")}}},
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
		{"QuoinHookErrors", hookErrors("0x5 1x200"), 6, fromAgent("hook", "prolog", "reason", "lock"), 1, [][]series{hookErrors("0x200")}},
		{"QuoinHookSlow", buckets("0x200", "0+10x200"), 6, fromAgent("hook", "prolog"), 2.35, [][]series{buckets("0+10x200", "0+10x200"), buckets("0x200", "0x200")}},
		{"QuoinAgentDown", []series{{`up{` + onAgent + `}`, "0x200"}}, 5, fromAgent(), 0, [][]series{
			{{`up{` + onAgent + `}`, always}}, {{`up{instance="i", job="other"}`, "0x200"}}, {{`up{` + onAgent + `}`, "1x10 stale"}}}},
		{"QuoinProbeDown", plain("probe_up", "0x200"), 10, fromAgent(), 0, [][]series{plain("probe_up", always), plain("probe_up", "0x5 1x200")}},
		{"QuoinReportStale", plain("report_stale", always), 5, fromAgent(), 1, [][]series{plain("report_stale", "0x200")}},
		{"QuoinReportNotStored", plain("report_stored", "0x200"), 15, fromAgent(), 0, [][]series{plain("report_stored", always)}},
		{"QuoinNodeProblem", problems("GPUUnreadable", "2x200"), 30, fromAgent("reason", "GPUUnreadable"), 2, [][]series{problems("XidError", "2x200"), problems("GPUUnreadable", "1x20 stale")}},
		{"QuoinXid", problems("XidError", "2x200"), 0, fromAgent(), 2, [][]series{problems("GPUUnreadable", "2x200")}},
	}
}

func fabricAlerts() []alertCase {
	gpus := func(fabric, health, values string) []series {
		return []series{agent("quoin_agent_gpus", `fabric="`+fabric+`", health="`+health+`"`, values)}
	}
	fabric := func(status string) []series {
		return []series{agent("quoin_agent_fabric_info", `cluster_uuid="k", clique="1", state="completed", status="`+status+`"`, always)}
	}
	imex := func(state string) []series {
		return []series{agent("quoin_agent_imex_info", `channel_major="234", state="`+state+`"`, always)}
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
		{"QuoinFabricInProgress", gpus("inProgress", "", "4x200"), 15, fromAgent("fabric", "inProgress"), 4, [][]series{gpus("inProgress", "", "4x10 stale"), gpus("completed", "healthy", "4x200")}},
		{"QuoinFabricFailed", fabric("ERROR_UNKNOWN"), 5, fromAgent("status", "ERROR_UNKNOWN"), 1, [][]series{fabric("")}},
		{"QuoinDomainChanged", []series{in("k.1", "1x69 stale"), in("k.2", "_x70 1x130")}, 70, map[string]string{"clique": "k.1"}, 1, [][]series{
			{in("k.1", always)}, {in("k.1", "1x69 stale")}, {in("", "1x69 stale"), in("k.2", "_x70 1x130")}}},
		{"QuoinIMEXNotReady", imex("DOWN"), 10, fromAgent("channel_major", "234", "state", "DOWN"), 1, [][]series{imex("READY"), imex("")}},
	}
}

func publisherAlerts() []alertCase {
	leads := func(a, b string) []series {
		return []series{{`quoin_publisher_leader{instance="p0", job="pub"}`, a}, {`quoin_publisher_leader{instance="p1", job="pub"}`, b}}
	}
	held := func(values string) []series {
		return []series{{`quoin_publisher_held{publication="slurm", reason="BigChange", instance="p0"}`, values}}
	}
	failed := func(values string) []series {
		return []series{{`quoin_publisher_passes_total{publication="slurm", result="error", instance="p0"}`, values}}
	}
	ofPub := map[string]string{"job": "pub"}
	return []alertCase{
		{"QuoinPublisherHeld", held(always), 15, map[string]string{"publication": "slurm", "reason": "BigChange"}, 1, [][]series{held("1x10 stale")}},
		{"QuoinPublisherFails", failed("0+1x200"), 4, map[string]string{"publication": "slurm"}, 4, [][]series{failed("0x200"), failed("0x20 1x20 2x20")}},
		{"QuoinPublisherNoLeader", leads("0x200", "0x200"), 10, ofPub, 0, [][]series{leads(always, "0x200")}},
		{"QuoinPublisherTwoLeaders", leads(always, always), 10, ofPub, 2, [][]series{leads(always, "0x200"), leads("1x20 0x100", "0x15 1x100")}},
	}
}
