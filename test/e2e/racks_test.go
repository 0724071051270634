package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// The racks that join, each a clique.
const (
	newRacks     = 4
	newRackNodes = 18
)

// TestBoxRacks lets racks join whose kubelets are simulated.
func TestBoxRacks(t *testing.T) {
	w := newWorld(t)
	w.step("install", installFirst)
	w.step("register", register)
	w.step("racks", racks)
}

// racks adds racks whose kubelets kwok plays: nothing runs in their pods, no agent and no slurmd.
// Quoin knows their nodes by labels. Each node with a worker pod gets the annotation of its rack's
// block, and Slurm has the new blocks. The nodes that run stay where they are.
func racks(w *world) {
	if err := w.box.StartKwok(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	var objects strings.Builder
	for rack := range newRacks {
		for tray := range newRackNodes {
			fmt.Fprintf(&objects, playedNode, rack, tray, clique(rack+10))
		}
	}
	fmt.Fprintf(&objects, playedNodeSet, newRacks*newRackNodes)
	begin := time.Now()
	if err := w.box.Apply(w.t.Context(), objects.String()); err != nil {
		w.t.Fatal(err)
	}
	w.until("worker pods on the new racks", func(out string) bool { return strings.Count(out, "rack") >= newRacks*newRackNodes/2 }, workersOfRacks...)
	// The operator makes worker pods again that Slurm does not know, and none of these ever is.
	w.kubectl("-n", "slinky", "scale", "deploy/slurm-operator", "--replicas=0", "--timeout=3m")
	w.until("no slurm-operator", func(out string) bool { return out == "" }, "-n", "slinky", "get", "deploy/slurm-operator", "-o=jsonpath={.status.replicas}")
	w.untilAnnotated()
	w.t.Logf("%s until the new racks have their annotations", time.Since(begin).Round(time.Second))
	loaded := w.scontrol("show", "topology")
	for rack := range newRacks {
		if block := blockOf(rack); !strings.Contains(loaded, "BlockName="+block+" ") {
			w.t.Errorf("Slurm does not have block %s:\n%s", block, loaded)
		}
	}
	w.topologyIsPlan()
	w.nothingHeld()
	id := w.submit()
	w.finish(id)
}

// workersOfRacks are the arguments of kubectl that print the nodes of the racks' worker pods.
var workersOfRacks = []string{"-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/instance=more", `-o=jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}`}

// blockOf is the block of a new rack.
func blockOf(rack int) string {
	return "nvl-" + strings.NewReplacer("-", "", ".", "-").Replace(clique(rack+10))
}

// untilAnnotated waits until each node of the racks with a worker pod is annotated, and holds that
// no node has the block of another rack.
func (w *world) untilAnnotated() {
	w.t.Helper()
	var out string
	await.Until(w.t, "each new node with a worker pod has its annotation", func() bool {
		out = w.kubectl("get", "nodes", "-l", "type=kwok", `-o=jsonpath={range .items[*]}{.metadata.name} {.metadata.annotations.topology\.slinky\.slurm\.net/spec}{"\n"}{end}`)
		annotated := map[string]bool{}
		for line := range strings.Lines(out) {
			name, spec, _ := strings.Cut(strings.TrimSpace(line), " ")
			annotated[name] = spec != ""
		}
		for node := range strings.FieldsSeq(w.kubectl(workersOfRacks...)) {
			if !annotated[node] {
				return false
			}
		}
		return true
	}, func() string { return out })
	for line := range strings.Lines(out) {
		name, spec, _ := strings.Cut(strings.TrimSpace(line), " ")
		var rack, tray int
		if _, err := fmt.Sscanf(name, "rack%d-%d", &rack, &tray); err != nil || spec != "" && spec != "nvl:"+blockOf(rack) {
			w.t.Errorf("%s is annotated %s, want %s: %v", name, spec, blockOf(rack), err)
		}
	}
}

// playedNode is a node of a rack, by number, tray and clique.
const playedNode = `---
apiVersion: v1
kind: Node
metadata:
  name: rack%[1]d-%[2]d
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {type: kwok, kubernetes.io/hostname: rack%[1]d-%[2]d, nvidia.com/gpu.present: "true", nvidia.com/gpu.clique: %[3]s}
spec:
  taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoExecute}]
`

// playedNodeSet is a NodeSet with a worker pod for each node of the racks.
const playedNodeSet = `---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: more, namespace: slurm}
spec:
  controllerRef: {name: slurm, namespace: slurm}
  replicas: %d
  extraConf: "Gres=gpu:gb200:4"
  logfile: {image: "box/slurmd:1"}
  slurmd: {image: "box/slurmd:1"}
  template:
    spec:
      nodeSelector: {type: kwok}
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app.kubernetes.io/name: slurmd}}
`
