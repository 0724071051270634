package manifests_test

import (
	"fmt"
	"strings"
)

// idle says whether the device does nothing when a job holds it.
func (d *device) idle() bool { return d.held.Utilization == 0 && d.held.Engine == 0 }

// agentText is the agent's exposition of a node at a minute.
func agentText(n, minute int) string {
	var b strings.Builder
	families := map[string]bool{}
	say := func(name, kind, labels string, value float64) {
		family := name
		if kind == "histogram" {
			family = name[:strings.LastIndex(name, "_")]
		}
		if !families[family] {
			families[family] = true
			fmt.Fprintf(&b, "# TYPE %s %s\n", family, kind)
		}
		fmt.Fprintf(&b, "%s{%s} %v\n", name, labels, value)
	}
	node := &nodes[n]
	for i := range node.devices {
		for _, j := range holders(place{n, i}, minute) {
			say("quoin_gpu_job_info", "gauge", node.deviceLabels(i)+fmt.Sprintf(`,job_id="%s",array_job_id="%s",job_name="%s",user="%s",partition="%s",account="%s",cluster="alpha",clique="%s",block="%s"`,
				j.id, j.array, j.name, j.user, j.partition, j.account, node.clique, node.block), 1)
		}
	}
	allocated := 0
	for i := range node.devices {
		if len(holders(place{n, i}, minute)) > 0 {
			allocated++
		}
		say("quoin_gpu_info", "gauge", node.deviceLabels(i)+fmt.Sprintf(`,modelName="%s",clique="%s",block="%s"`, node.devices[i].Model, node.clique, node.block), 1)
	}
	say("quoin_gpus", "gauge", `state="allocated"`, float64(allocated))
	say("quoin_gpus", "gauge", `state="idle"`, float64(len(node.devices)-allocated))
	for _, name := range []string{"quoin_gpu_held_seconds_total", "quoin_gpu_idle_held_seconds_total", "quoin_gpu_idle_held_stretch_seconds"} {
		for i := range node.devices {
			held, idle, stretch := node.seconds(n, i, minute)
			say(name, map[bool]string{true: "counter", false: "gauge"}[strings.HasSuffix(name, "_total")], node.deviceLabels(i),
				map[string]float64{"quoin_gpu_held_seconds_total": held, "quoin_gpu_idle_held_seconds_total": idle, "quoin_gpu_idle_held_stretch_seconds": stretch}[name])
		}
	}
	node.writeState(say, allocated, minute)
	return b.String()
}

// deviceLabels are those that a series of the exporter has too.
func (n *node) deviceLabels(i int) string {
	d := &n.devices[i]
	s := fmt.Sprintf(`UUID="%s",gpu="%d"`, d.UUID, d.GPU)
	if d.Profile != "" {
		s += fmt.Sprintf(`,GPU_I_ID="%d"`, d.Instance)
	}
	return s
}

// seconds returns for how long a device was held, was held and idle, and is idle
// now.
func (n *node) seconds(index, i, minute int) (held, idle, stretch float64) {
	d := &n.devices[i]
	for m := 1; m <= minute; m++ {
		if len(holders(place{index, i}, m)) == 0 {
			stretch = 0
			continue
		}
		held += 60
		if d.idle() {
			idle += 60
			stretch += 60
		}
	}
	return held, idle, stretch
}

// writeState says what the agent knows of itself and of the node.
func (n *node) writeState(say func(name, kind, labels string, value float64), held, minute int) {
	say("quoin_agent_gpus", "gauge", fmt.Sprintf(`fabric="%s",health="%s"`, n.fabric(), n.health), float64(len(n.devices)))
	if n.clique != "" {
		uuid, clique, _ := strings.Cut(n.clique, ".")
		say("quoin_agent_fabric_info", "gauge", fmt.Sprintf(`cluster_uuid="%s",clique="%s",state="completed",status=""`, uuid, clique), 1)
	}
	if n.imex != "" {
		say("quoin_agent_imex_info", "gauge", fmt.Sprintf(`channel_major="234",state="%s"`, n.imex), 1)
	}
	if n.name == "n4" {
		say("quoin_agent_problems", "gauge", `reason="XidError"`, 1)
	}
	for _, s := range []struct {
		name  string
		value float64
	}{{"probe_up", 1}, {"report_stale", 0}, {"report_stored", 1}, {"job_summaries", float64(minute / 30)}} {
		say("quoin_agent_"+s.name, "gauge", "", s.value)
	}
	say("quoin_agent_mapping_files", "gauge", `state="held"`, float64(held))
	say("quoin_agent_mapping_files", "gauge", `state="empty"`, float64(len(n.devices)-held))
	say("quoin_agent_mapping_files", "gauge", `state="foreign"`, 0)
	for _, state := range []string{"alive", "unproven", "unreadable"} {
		value := 0.0
		if state == "alive" {
			value = float64(held)
		}
		say("quoin_agent_job_records", "gauge", fmt.Sprintf(`state="%s"`, state), value)
	}
	say("quoin_agent_sweeps_total", "counter", "", float64(6*minute))
	for _, reason := range []string{"boot", "ended", "overdue", "orphan"} {
		say("quoin_agent_sweep_released_total", "counter", fmt.Sprintf(`reason="%s"`, reason), 0)
	}
	say("quoin_agent_mapping_repairs_total", "counter", "", 0)
	say("quoin_agent_sweep_errors_total", "counter", "", 0)
	say("quoin_agent_samples_total", "counter", `result="ok"`, float64(6*minute))
	say("quoin_agent_samples_total", "counter", `result="missing"`, 0)
	n.writeHook(say, minute)
}

// writeHook says that each minute a Prolog ran and took 3 ms, and that n2's could
// not get the lock once, at minute 40.
func (n *node) writeHook(say func(name, kind, labels string, value float64), minute int) {
	failed := 0.0
	if n.name == "n2" && minute >= 40 {
		failed = 1
	}
	say("quoin_hook_runs_total", "counter", `hook="prolog",result="ok"`, float64(minute)+100-failed)
	say("quoin_hook_runs_total", "counter", `hook="prolog",result="error"`, failed)
	say("quoin_hook_errors_total", "counter", `hook="prolog",reason="lock"`, failed)
	for _, le := range []string{"0.001", "0.0025", "0.005", "2.5", "+Inf"} {
		value := float64(minute) + 100
		if le < "0.005" && le != "+Inf" {
			value = 0
		}
		say("quoin_hook_duration_seconds_bucket", "histogram", fmt.Sprintf(`hook="prolog",le="%s"`, le), value)
	}
	say("quoin_hook_duration_seconds_sum", "histogram", `hook="prolog"`, (float64(minute)+100)*0.003)
	say("quoin_hook_duration_seconds_count", "histogram", `hook="prolog"`, float64(minute)+100)
}

// publisherText is what a publisher prints; only the leader has made a pass.
func publisherText(leader int) string {
	s := fmt.Sprintf("# TYPE quoin_publisher_leader gauge\nquoin_publisher_leader{} %d\n", leader)
	if leader == 1 {
		s += "# TYPE quoin_publisher_nodes gauge\nquoin_publisher_nodes{publication=\"slurm\",reason=\"Placed\"} 3\nquoin_publisher_nodes{publication=\"slurm\",reason=\"NoNVLinkDomain\"} 1\n" +
			"# TYPE quoin_publisher_held gauge\nquoin_publisher_held{publication=\"slurm\",reason=\"BigChange\"} 1\n" +
			"# TYPE quoin_publisher_problems gauge\nquoin_publisher_problems{publication=\"slurm\",reason=\"XidError\"} 1\n"
	}
	return s
}
