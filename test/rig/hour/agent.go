package hour

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// say adds a sample to a text.
type say func(name, kind, labels string, value float64)

// AgentText is the agent's exposition of a node at a minute.
func AgentText(n, minute int) string {
	var b strings.Builder
	families := map[string]bool{}
	add := func(name, kind, labels string, value float64) {
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
	node := &Nodes[n]
	node.sayJobs(add, n, minute)
	node.sayDevices(add, n, minute)
	node.sayState(add)
	node.sayMapping(add, n, minute)
	node.sayHook(add, minute)
	node.sayMembership(add, minute)
	return b.String()
}

func (n *Node) sayJobs(add say, index, minute int) {
	for i := range n.Devices {
		for _, j := range Holders(Place{index, i}, minute) {
			add("quoin_gpu_job_info", "gauge", n.deviceLabels(i)+fmt.Sprintf(`,job_id="%s",user="%s",partition="%s",account="%s",qos="%s",cluster="%s",clique="%s"`,
				j.ID, j.User, j.Partition, j.Account, j.QOS, Cluster, n.Clique), 1)
		}
	}
}

func (n *Node) sayDevices(add say, index, minute int) {
	for i := range n.Devices {
		add("quoin_gpu_info", "gauge", n.deviceLabels(i)+fmt.Sprintf(`,modelName="%s",clique="%s",node="%s"`, n.Devices[i].Model, n.Clique, n.Name), 1)
	}
	allocated := n.held(index, minute)
	add("quoin_gpus", "gauge", `state="allocated"`, float64(allocated))
	add("quoin_gpus", "gauge", `state="idle"`, float64(len(n.Devices)-allocated))
	add("quoin_gpus", "gauge", `state="lost"`, 0)
	for _, of := range []struct {
		name, kind string
		value      func(held, idle, stretch float64) float64
	}{
		{"quoin_gpu_held_seconds_total", "counter", func(held, _, _ float64) float64 { return held }},
		{"quoin_gpu_idle_held_seconds_total", "counter", func(_, idle, _ float64) float64 { return idle }},
		{"quoin_gpu_idle_held_stretch_seconds", "gauge", func(_, _, stretch float64) float64 { return stretch }},
	} {
		for i := range n.Devices {
			add(of.name, of.kind, n.deviceLabels(i), of.value(n.Seconds(index, i, minute)))
		}
	}
}

// held is how many of the node's devices jobs hold.
func (n *Node) held(index, minute int) (held int) {
	for i := range n.Devices {
		if len(Holders(Place{index, i}, minute)) > 0 {
			held++
		}
	}
	return held
}

// deviceLabels are those that a series of the exporter has too.
func (n *Node) deviceLabels(i int) string {
	d := &n.Devices[i]
	s := fmt.Sprintf(`UUID="%s",gpu="%d"`, d.UUID, d.GPU)
	if !d.Whole() {
		s += fmt.Sprintf(`,GPU_I_ID="%d"`, d.Instance)
	}
	return s
}

// Seconds returns for how long a device was held, was held and idle, and is idle
// now, by the samples of each minute: a minute counts if one job has held the device from its
// beginning to its end.
func (n *Node) Seconds(index, i, minute int) (held, idle, stretch float64) {
	p := Place{index, i}
	for m := 1; m <= minute; m++ {
		now := Holders(p, m)
		if !slices.ContainsFunc(Holders(p, m-1), func(j *Job) bool { return slices.Contains(now, j) }) {
			continue
		}
		held += 60
		if n.Devices[i].Idle() {
			idle += 60
			stretch += 60
		}
	}
	if len(Holders(p, minute)) == 0 {
		stretch = 0
	}
	return held, idle, stretch
}

// Fabric is the state that the agent shows of the node's GPUs.
func (n *Node) Fabric() string {
	return cmp.Or(map[bool]string{true: "completed"}[n.Clique != ""], "notSupported")
}

// sayState says what the agent knows of the node and of itself.
func (n *Node) sayState(add say) {
	gpus := map[string]bool{}
	for i := range n.Devices {
		gpus[n.Devices[i].UUID] = true
	}
	add("quoin_agent_gpus", "gauge", fmt.Sprintf(`fabric="%s",health="%s"`, n.Fabric(), n.Health), float64(len(gpus)))
	if n.Clique != "" {
		uuid, clique, _ := strings.Cut(n.Clique, ".")
		add("quoin_agent_fabric_info", "gauge", fmt.Sprintf(`cluster_uuid="%s",clique="%s",state="completed",status=""`, uuid, clique), 1)
	}
	if n.IMEX != "" {
		add("quoin_agent_imex_info", "gauge", fmt.Sprintf(`channel_major="234",state="%s"`, n.IMEX), 1)
	}
	for i := range n.Devices {
		if n.Devices[i].Held.Xid != 0 {
			add("quoin_agent_problems", "gauge", `reason="XidCritical"`, 1)
		}
	}
	add("quoin_agent_probe_up", "gauge", "", 1)
	add("quoin_agent_report_stale", "gauge", "", 0)
	add("quoin_agent_report_stored", "gauge", "", 1)
}

// sayMapping says that each job has a record and its lines, that all is as it
// should be, and that a job which has ended has left a summary and empty files.
func (n *Node) sayMapping(add say, index, minute int) {
	here, ended, empty, samples := 0, 0, 0, 0
	for i := range Jobs {
		j := &Jobs[i]
		free, places := 0, 0
		for _, p := range j.Holds {
			if p.Node == index {
				places++
				if len(Holders(p, minute)) == 0 {
					free++
				}
			}
		}
		switch {
		case places == 0:
		case minute < j.To:
			here++
		default:
			ended, empty = ended+1, empty+free
		}
	}
	for m := 0; m <= minute; m++ {
		samples += n.held(index, m)
	}
	add("quoin_agent_job_summaries", "gauge", "", float64(ended))
	for _, of := range []struct {
		state string
		value int
	}{{"held", n.held(index, minute)}, {"empty", empty}, {"foreign", 0}} {
		add("quoin_agent_mapping_files", "gauge", fmt.Sprintf(`state="%s"`, of.state), float64(of.value))
	}
	for _, of := range []struct {
		state string
		value int
	}{{"alive", here}, {"unproven", 0}, {"unreadable", 0}} {
		add("quoin_agent_job_records", "gauge", fmt.Sprintf(`state="%s"`, of.state), float64(of.value))
	}
	add("quoin_agent_sweeps_total", "counter", "", float64(6*minute))
	for _, reason := range []string{"boot", "ended", "overdue", "orphan"} {
		add("quoin_agent_sweep_released_total", "counter", fmt.Sprintf(`reason="%s"`, reason), 0)
	}
	add("quoin_agent_mapping_repairs_total", "counter", "", 0)
	add("quoin_agent_sweep_errors_total", "counter", "", 0)
	add("quoin_agent_samples_total", "counter", `result="ok"`, float64(samples))
	add("quoin_agent_samples_total", "counter", `result="missing"`, 0)
}

// HookFails says whether a Prolog of the node could not get the lock at the
// minute: once in the hour.
func (n *Node) HookFails(minute int) bool { return n.Name == "n2" && minute == 40 }

// HookTook is how long each call of the hook takes, in seconds; one runs in each
// minute. Its sums are exact.
const HookTook = 1. / 256

// sayHook says that in each minute up to now a Prolog ran.
func (n *Node) sayHook(add say, minute int) {
	calls, failed := float64(minute+1), 0.0
	if n.Name == "n2" && minute >= 40 {
		failed = 1
	}
	for _, hook := range []string{"prolog", "epilog"} {
		if hook == "epilog" {
			calls, failed = 0, 0
		}
		add("quoin_hook_runs_total", "counter", fmt.Sprintf(`hook="%s",result="ok"`, hook), calls-failed)
		add("quoin_hook_runs_total", "counter", fmt.Sprintf(`hook="%s",result="error"`, hook), failed)
		add("quoin_hook_errors_total", "counter", fmt.Sprintf(`hook="%s",reason="lock"`, hook), failed)
		for _, le := range []float64{0.001, 0.0025, 0.005, 2.5} {
			value := 0.0
			if le > HookTook {
				value = calls
			}
			add("quoin_hook_duration_seconds_bucket", "histogram", fmt.Sprintf(`hook="%s",le="%g"`, hook, le), value)
		}
		add("quoin_hook_duration_seconds_bucket", "histogram", fmt.Sprintf(`hook="%s",le="+Inf"`, hook), calls)
		add("quoin_hook_duration_seconds_sum", "histogram", fmt.Sprintf(`hook="%s"`, hook), calls*HookTook)
		add("quoin_hook_duration_seconds_count", "histogram", fmt.Sprintf(`hook="%s"`, hook), calls)
	}
}

// PublisherText is what a publisher prints at a minute; only the leader has made a pass.
func PublisherText(leader, minute int) string {
	var s strings.Builder
	fmt.Fprintf(&s, "# TYPE quoin_publisher_leader gauge\nquoin_publisher_leader{} %d\n", leader)
	if leader == 1 {
		s.WriteString("# TYPE quoin_publisher_nodes gauge\nquoin_publisher_nodes{publication=\"slurm\",reason=\"Placed\"} 3\nquoin_publisher_nodes{publication=\"slurm\",reason=\"NoNVLinkDomain\"} 1\n" +
			"# TYPE quoin_publisher_held gauge\nquoin_publisher_held{publication=\"slurm\",reason=\"BigChange\"} 1\n" +
			"# TYPE quoin_publisher_problems gauge\nquoin_publisher_problems{publication=\"slurm\",reason=\"XidCritical\"} 1\n" +
			"# TYPE quoin_node_info gauge\n")
		for i := range Nodes {
			fmt.Fprintf(&s, "quoin_node_info{publication=\"slurm\",node=%q,block=%q,switch=\"\",clique=%q} 1\n", Nodes[i].Name, Nodes[i].Block, Nodes[i].Clique)
		}
	}
	return s.String() + membersText(leader, minute) + segmentsText(leader) + jobsText(leader, minute)
}

// jobsText is what the leader hears from Slurm of the jobs that run, two minutes after the agents.
func jobsText(leader, minute int) string {
	var s strings.Builder
	for i := range Jobs {
		if j := &Jobs[i]; leader == 1 && j.From+1 < minute && minute < j.To {
			fmt.Fprintf(&s, "quoin_job_info{publication=\"slurm\",cluster=%q,job_id=%q,array_job_id=%q,job_name=%q,qos=%q} 1\n", Cluster, j.ID, j.Array, j.Name, j.QOS)
		}
	}
	return s.String()
}

// BlockNodes is how many nodes of each block are free, busy and unavailable.
var BlockNodes = map[string][3]int{"b1": {0, 1, 0}, "b2": {0, 1, 1}, "r1": {10, 8, 0}, "r2": {17, 0, 1}, "r3": {2, 8, 8}}

// FreeSegments is how many segments of each size fit, and StrandedGPUs what they leave of
// the free GPUs.
var (
	FreeSegments = map[string]int{"4": 6, "16": 1}
	StrandedGPUs = map[string]int{"4": 20, "16": 52}
)

// PlacedJob is a running job, and how it lies in the topologies: one leaf switch would do.
type PlacedJob struct {
	ID, Segment, Got              string
	Blocks, Fewest, Split, Leaves int
}

// PlacedJobs are the jobs that Slurm tells the publisher of.
var PlacedJobs = []PlacedJob{
	{ID: "106", Segment: "2", Blocks: 2, Fewest: 1, Leaves: 1},
	{ID: "401", Segment: "12", Got: "17+17+2", Blocks: 3, Fewest: 3, Split: 1, Leaves: 2},
}

// segmentsText is what the leader says of segments.
func segmentsText(leader int) string {
	if leader == 0 {
		return ""
	}
	var s strings.Builder
	s.WriteString("# TYPE quoin_block_nodes gauge\n")
	for block, nodes := range BlockNodes {
		for i, state := range []string{"free", "busy", "unavailable"} {
			fmt.Fprintf(&s, "quoin_block_nodes{publication=\"slurm\",topology=\"nvl\",block=%q,state=%q} %d\n", block, state, nodes[i])
		}
	}
	for name, counts := range map[string]map[string]int{"quoin_free_segments": FreeSegments, "quoin_stranded_gpus": StrandedGPUs} {
		fmt.Fprintf(&s, "# TYPE %s gauge\n", name)
		for size, count := range counts {
			fmt.Fprintf(&s, "%s{publication=\"slurm\",topology=\"nvl\",size=%q} %d\n", name, size, count)
		}
	}
	for _, j := range PlacedJobs {
		of := fmt.Sprintf("publication=\"slurm\",topology=\"nvl\",job_id=%q", j.ID)
		fmt.Fprintf(&s, "quoin_job_blocks{%s} %d\nquoin_job_fewest_blocks{%s} %d\nquoin_job_split_segments{%s,segment=%q,got=%q} %d\n", of, j.Blocks, of, j.Fewest, of, j.Segment, j.Got, j.Split)
		of = strings.Replace(of, "nvl", "fabric", 1)
		fmt.Fprintf(&s, "quoin_job_leaf_switches{%s} %d\nquoin_job_fewest_leaf_switches{%s} %d\n", of, j.Leaves, of, 1)
	}
	s.WriteString("# TYPE quoin_node_unavailable gauge\nquoin_node_unavailable{publication=\"slurm\",node=\"n4\"} 1\n")
	return s.String()
}
