package e2e_test

import (
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
)

// workersDomain is a domain in Slurm's namespace, as NVIDIA's recipe for Slinky has it.
const workersDomain = `apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: workers, namespace: slurm}
spec:
  numNodes: 0
  channel:
    allocationMode: All
    resourceClaimTemplate: {name: workers-channel}
`

// adopt has Slurm's worker pods claim from a domain of their own, and then no longer. Quoin adopts the domain, names its own, which
// has lost its members, and deletes neither. At last a new domain of its own serves again.
func adopt(w *world) {
	if err := w.box.Apply(w.t.Context(), workersDomain); err != nil {
		w.t.Fatal(err)
	}
	w.kubectl("-n", "quoin-node", "delete", "ds", "quoin-imex", "--timeout=3m")
	w.until("Quoin's domain has no members", func(out string) bool { return out == "" }, "-n", "quoin-node", "get", "computedomain", "quoin", "-o=jsonpath={.status.nodes[*].name}")
	w.workersClaim(`[{"name":"channel"}]`, `[{"name":"channel","resourceClaimTemplateName":"workers-channel"}]`)
	want := append(slices.Repeat([]string{"False Ready"}, nodeWorkers), slices.Repeat([]string{"False NotWanted"}, nodes-nodeWorkers)...)
	slices.Sort(want)
	w.until("each node with a worker pod is a member", func(out string) bool {
		lines := strings.Split(out, "\n")
		slices.Sort(lines)
		return cmp.Equal(lines, want)
	}, "get", "nodes", `-o=jsonpath={range .items[*]}{range .status.conditions[?(@.type=="QuoinImexNotReady")]}{.status} {.reason}{end}{"\n"}{end}`)
	uid := w.kubectl("-n", "slurm", "get", "computedomain", "workers", "-o=jsonpath={.metadata.uid}")
	if labels := w.kubectl("get", "nodes", "-l", "resource.nvidia.com/computeDomain", `-o=jsonpath={range .items[*]}{.metadata.labels.resource\.nvidia\.com/computeDomain}{"\n"}{end}`); labels != strings.TrimSpace(strings.Repeat(uid+"\n", nodeWorkers)) {
		w.t.Errorf("the nodes joined %q, want %s", labels, uid)
	}
	out, err := w.runQuoin("imex", "check")
	const remove = "kubectl -n quoin-node delete computedomain quoin"
	if !strings.Contains(out, "ComputeDomain quoin-node/quoin has no members, and nodes join slurm/workers") || !strings.Contains(out, remove) {
		w.t.Errorf("quoin imex check: %v\n%s", err, out)
	}
	w.kubectl(append(strings.Fields(remove)[1:], "--timeout=3m")...)

	w.workersClaim("null", "null")
	w.kubectl("-n", "slurm", "delete", "computedomain", "workers", "--timeout=3m")
	w.helm(append([]string{"upgrade"}, w.chart(version.Number)...)...) // again with the pods that hold channels
	w.imexReady()
	w.healthy()
}

// workersClaim changes the claims of the NodeSet's slurmd and of its pods, in JSON, while it has no pods: when slurm-operator 1.1
// replaces them itself, it can lose sight of one that it deleted, and makes none for five minutes.
func (w *world) workersClaim(slurmd, pods string) {
	w.t.Helper()
	w.scale(0)
	w.until("no worker pods", func(out string) bool { return out == "" }, "-n", "slurm", "get", "pods", "-l", workerPods, "-o=name")
	w.kubectl("-n", "slurm", "patch", "nodesets.slinky.slurm.net", slinky.NodeSet, "--type=merge",
		"--patch", `{"spec":{"slurmd":{"resources":{"claims":`+slurmd+`}},"template":{"spec":{"resourceClaims":`+pods+`}}}}`)
	w.scale(nodeWorkers)
	w.untilWorkers(nil, nodeWorkers)
}
