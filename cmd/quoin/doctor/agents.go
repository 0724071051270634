package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	schedule "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

// Labels of nodes that decide where agents run.
const (
	labelGPU   = "nvidia.com/gpu.present"
	labelAgent = "quoin.dev/agent"
	// operands begins the labels by which GPU Operator takes its operands away while it works on a
	// node. The values are then such as paused-for-driver-upgrade.
	operands = "nvidia.com/gpu.deploy."
	paused   = "paused-for-"
)

// agents looks at the DaemonSet, at the nodes that get no agent, and at the nodes that report.
func (c *Cluster) agents(f *findings) {
	set := c.workload(componentAgent)
	if set == nil {
		f.fatal("agents", c.apply(), "there is no DaemonSet of agents")
		return
	}
	where, wanted, ready := set.GetNamespace(), number(set, "status", "desiredNumberScheduled"), number(set, "status", "numberReady")
	kept := c.keptNodes(f, set)
	switch {
	case wanted == 0 && len(kept) > 0: // keptNodes has said why
	case wanted == 0:
		f.fatal("agents", "let GPU Feature Discovery label the nodes, or give each GPU node the label "+labelAgent+"=true", "no node gets an agent: none is seen with the labels that DaemonSet %s/%s asks for", where, set.GetName())
	case ready < wanted:
		f.fatal("agents", fmt.Sprintf("see why some are not ready: %s -n %s describe pods -l app.kubernetes.io/component=agent", c.Kubectl, where), "%d of %d agents are ready", ready, wanted)
	default:
		f.ok("agents", "%d agents are ready", ready)
	}
	reports, silent := map[string]bool{}, []string{}
	for i := range c.Objects["nodereports"] {
		reports[c.Objects["nodereports"][i].GetName()] = true
	}
	for i := range c.Objects["nodes"] {
		if n := &c.Objects["nodes"][i]; n.GetLabels()[labelGPU] == "true" && !reports[n.GetName()] && !kept[n.GetName()] {
			silent = append(silent, n.GetName())
		}
	}
	if len(silent) > 0 && c.Missing["nodereports"] == nil {
		f.fatal("reports", fmt.Sprintf("see whether an agent runs there: %s -n %s get pods -l app.kubernetes.io/component=agent --field-selector spec.nodeName=%s", c.Kubectl, where, silent[0]), "%d nodes with GPUs have no report: %s", len(silent), hostlist.Shorten(hostlist.Compress(silent)))
	} else if c.Missing["nodereports"] == nil {
		f.ok("reports", "%d nodes report", len(reports))
	}
}

// keptAway is a cause that keeps agents away, and the nodes with GPUs that have this cause.
type keptAway struct {
	severity    topology.Severity
	why, remedy string
	nodes       []string
}

// keptNodes says why nodes with GPUs get no agent, by the rules of the DaemonSet's pods: first the taints,
// then the labels. keptNodes returns the names of these nodes.
func (c *Cluster) keptNodes(f *findings, set *unstructured.Unstructured) map[string]bool {
	pod, err := part[corev1.PodSpec](set, pods...)
	if err != nil {
		f.unknown("agents", c.apply(), "the pods of DaemonSet %s/%s cannot be read: %v", set.GetNamespace(), set.GetName(), err)
		return nil
	}
	byLabels := nodeaffinity.NewRequiredNodeAffinity(pod.NodeSelector, pod.Affinity)
	ofGPUs := pod.NodeSelector
	if pod.Affinity != nil { // it says which nodes have GPUs, and the nodeSelector says what they need besides
		ofGPUs = nil
	}
	byGPUs := nodeaffinity.NewRequiredNodeAffinity(ofGPUs, pod.Affinity)
	// Match fails only on terms that the API server refuses.
	takesAll, _ := byGPUs.Match(&corev1.Node{})
	kept, causes := map[string]bool{}, map[string]*keptAway{}
	for _, n := range c.nodesOf() {
		matches, _ := byLabels.Match(n)
		if hasGPUs, _ := byGPUs.Match(n); n.Labels[labelGPU] != "true" && (takesAll || !hasGPUs) {
			continue // nothing says that the node has GPUs
		}
		taint, tainted := schedule.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, pod.Tolerations, keeps, true)
		var cause keptAway
		switch {
		case tainted:
			cause = keptAway{severity: topology.Fatal, why: fmt.Sprintf("DaemonSet %s/%s does not tolerate the taint %s", set.GetNamespace(), set.GetName(), taint.ToString()),
				remedy: c.installed().remedy(config.Flag("--set-json", `agent.tolerations=[{"operator":"Exists"}]`), "give the DaemonSet tolerations: [{operator: Exists}] in your kustomization")}
		case !matches:
			cause = c.keptByLabel(n, set, &pod)
		default:
			continue
		}
		kept[n.Name] = true
		if causes[cause.why] == nil {
			causes[cause.why] = &cause
		}
		causes[cause.why].nodes = append(causes[cause.why].nodes, n.Name)
	}
	for _, why := range slices.Sorted(maps.Keys(causes)) {
		cause := causes[why]
		f.add(cause.severity, "agents", cause.remedy, "%d nodes with GPUs get no agent, because %s: %s", len(cause.nodes), why, hostlist.Shorten(hostlist.Compress(cause.nodes)))
	}
	return kept
}

// keeps reports whether a taint keeps pods away that do not tolerate it. Kubernetes' own taints are
// states of a node, such as not-ready. To tolerate such a state is no remedy.
func keeps(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, "node.kubernetes.io/")
}

// keptByLabel says which label of a node keeps the agent away. That is fatal if no node has an agent.
// Otherwise the site may have chosen its nodes so.
func (c *Cluster) keptByLabel(n *corev1.Node, set *unstructured.Unstructured, pod *corev1.PodSpec) keptAway {
	of := "DaemonSet " + set.GetNamespace() + "/" + set.GetName()
	cause := keptAway{severity: topology.Warning, why: "their labels match no term in the affinity of " + of,
		remedy: "if Slurm uses the nodes, correct these labels, or agent.nodeSelector and agent.affinity: " + c.Kubectl + " get node " + n.Name + " --show-labels"}
	if number(set, "status", "desiredNumberScheduled") == 0 {
		cause.severity = topology.Fatal
	}
	for _, key := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
		want := pod.NodeSelector[key]
		value, there := n.Labels[key]
		if there && value == want {
			continue
		}
		cause.why = fmt.Sprintf("their label %s is %q, and %s asks for %q", key, value, of, want)
		if !there {
			cause.why = fmt.Sprintf("they have no label %s, and %s asks for %q", key, of, want)
		}
		switch {
		case strings.HasPrefix(key, operands) && strings.HasPrefix(value, paused):
			cause.severity, cause.why = topology.Warning, fmt.Sprintf("GPU Operator works on them: their label %s is %q", key, value)
			cause.remedy = "wait until GPU Operator has set the label to " + want + "; see how far the work is: " + c.Kubectl + " get node " + n.Name + " -L nvidia.com/gpu-driver-upgrade-state,nvidia.com/mig.config.state"
		case strings.HasPrefix(key, operands): // others take the label away too, such as for a reset
			cause.remedy = "if nobody works on their GPUs, and GPU Operator does not give the label, give it to each of these nodes: " + c.Kubectl + " label node " + n.Name + " --overwrite " + key + "=" + want
		}
		return cause
	}
	if n.Labels[labelAgent] == "false" {
		cause.why = "their label " + labelAgent + " is \"false\""
		cause.remedy = "when the work on their GPUs has ended, take the label away: " + c.Kubectl + " label node " + n.Name + " " + labelAgent + "-"
	}
	return cause
}
