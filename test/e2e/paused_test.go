package e2e_test

import (
	"strconv"

	"github.com/google/go-cmp/cmp"
)

// exporterLabel is the label by which GPU Operator runs DCGM Exporter on a node. The agent follows it too.
const exporterLabel = "nvidia.com/gpu.deploy.dcgm-exporter"

// paused changes the label of a node as GPU Operator does before it upgrades the driver: the agent's pod
// goes. A job that ends meanwhile leaves no label, and has its summary when the agent is back. No place
// changes, and no pod that jobs across nodes need.
func paused(w *world) {
	id := w.submit()
	w.scraped(id) // so the agents have seen the job
	published, places, members := w.revision(), w.places(), w.members()
	machines := w.jobMachines(id)
	node := machines[0].Name
	w.pauseAgent(node)
	w.finish(id)
	for _, m := range machines {
		w.untilMapping(m, "")
	}
	w.resumeAgent(node)
	server := w.prometheus()
	w.counted(server, `count(up{job="quoin"} == 1)`, nodes)
	w.counted(server, `count(quoin_gpu_job_info) or vector(0)`, 0)
	for _, m := range machines {
		w.untilMapping(m, "")
	}
	w.summary(id)
	if diff := cmp.Diff(published, w.revision()); diff != "" {
		w.t.Errorf("the published ConfigMap (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(places, w.places()); diff != "" {
		w.t.Errorf("places of the nodes (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(members, w.members()); diff != "" {
		w.t.Errorf("pods that hold channels, and IMEX daemons (-before +after):\n%s", diff)
	}
	w.topologyIsPlan()
	w.nothingHeld()
	w.healthy()
}

// pauseAgent gives a node the label of a driver upgrade, and waits until the node has no agent.
func (w *world) pauseAgent(node string) {
	w.t.Helper()
	w.kubectl("label", "node", node, "--overwrite", exporterLabel+"=paused-for-driver-upgrade")
	w.until("no agent on "+node, func(out string) bool { return out == "" }, agentOf(node, "-o=name")...)
}

// resumeAgent takes that back, and waits until the node's agent is ready, and the DaemonSet says so.
func (w *world) resumeAgent(node string) {
	w.t.Helper()
	w.kubectl("label", "node", node, "--overwrite", exporterLabel+"=true")
	w.until("a ready agent on "+node, func(out string) bool { return out == "True" },
		agentOf(node, `-o=jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}`)...)
	w.until("all agents are ready", func(out string) bool { return out == strconv.Itoa(nodes) }, "-n", "quoin-node", "get", "ds/quoin-agent", "-o=jsonpath={.status.numberReady}")
}

// agentOf are the arguments of kubectl that show the agent's pod of a node.
func agentOf(node, output string) []string {
	return []string{"-n", "quoin-node", "get", "pods", "-l", "app.kubernetes.io/component=agent", "--field-selector=spec.nodeName=" + node, output}
}

// places are the annotations that place the nodes.
func (w *world) places() string {
	w.t.Helper()
	return w.kubectl("get", "nodes", `-o=jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations.topology\.slinky\.slurm\.net/spec}{"\n"}{end}`)
}
