package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/boxrig/slinky"
)

// TestBoxKinds runs NodeSets of two kinds of machines with GPUs, and one of machines without.
func TestBoxKinds(t *testing.T) {
	w := newWorld(t)
	w.step("kinds", kinds)
}

// smallGPUs is how many GPUs, of another product, each machine of the NodeSet small has.
const smallGPUs = 4

// kindOf says which NodeSet the machines belong to.
var kindOf = [nodes]string{"gpu", "gpu", "gpu", "small", "small", "cpu"}

// kinds installs Quoin where NodeSets have different machines, and lets each NodeSet grow by one. gres.conf
// names the next nodes already. No slurmd ends, because none reads a line of devices that it lacks, and
// slurmctld drains no node.
func kinds(w *world) {
	w.prepare()
	for i, m := range w.box.Machines {
		w.kubectl("label", "node", m.Name, "kind="+kindOf[i])
		gone := map[string]string{"small": fmt.Sprintf("[%d-%d]", smallGPUs, nodeGPUs-1), "cpu": "*"}[kindOf[i]]
		if gone == "" {
			continue
		}
		if _, err := m.Run(w.t.Context(), "sh", "-c", "rm -f /dev/nvidia"+gone); err != nil {
			w.t.Fatal(err)
		}
		if kindOf[i] == "small" {
			writeMachine(w.t, m, "t4", uuidStatements(i, smallGPUs))
		} else {
			w.kubectl("label", "node", m.Name, "nvidia.com/gpu.present-", exporterLabel+"-")
		}
	}
	if err := slinky.InstallOperator(w.t.Context(), w.box); err != nil {
		w.t.Fatal(err)
	}
	if err := w.slurm.Install(w.t.Context(), kindsValues+kindsGres); err != nil {
		w.t.Fatal(err)
	}
	w.untilKinds(2, 1, 0)

	w.openPage(kindsValues)
	*w.began = time.Now()
	w.follow("Install Quoin")
	gres := []string{"-n", "slurm", "get", "configmap", "quoin-slurm", `-o=jsonpath={.data.gres\.conf}`}
	const gpu = "NodeName=gpu-[0-63] Name=gpu Type=gb200 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env\n"
	const small = "NodeName=small-[0-63] Name=gpu Type=t4 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env"
	w.until("gres.conf with the next names", func(out string) bool { return strings.HasSuffix(out, gpu+small) }, gres...)
	w.follow("Tell Slinky")
	w.untilKinds(2, 1, 0)
	before := w.kubectl(gres...)

	for i, set := range []string{"gpu", "small", "cpu"} {
		w.kubectl("-n", "slurm", "scale", "nodesets.slinky.slurm.net", "slurm-worker-"+set, fmt.Sprintf("--replicas=%d", 3-i))
	}
	w.untilKinds(3, 2, 1)
	if now := w.kubectl(gres...); now != before {
		w.t.Errorf("gres.conf was\n%s\nand is\n%s", before, now)
	}
	restarts := w.kubectl("-n", "slurm", "get", "pods", "-l", "app.kubernetes.io/name=slurmd", `-o=jsonpath={range .items[*]}{.status.containerStatuses[?(@.name=="slurmd")].restartCount} {end}`)
	if strings.Trim(restarts, " 0") != "" {
		w.t.Errorf("slurmd has started again: %s", restarts)
	}
}

// untilKinds waits until Slurm has so many nodes of each kind, all of them idle with their GPUs.
func (w *world) untilKinds(gpu, small, cpu int) {
	w.t.Helper()
	w.untilSlurm(fmt.Sprintf("%d, %d and %d nodes of three kinds", gpu, small, cpu), func(out string) bool {
		idle := func(kind, gres string) (n int) {
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "NodeName="+kind+"-") && strings.Contains(line, " State=IDLE+DYNAMIC_NORM ") && strings.Contains(line, " Gres="+gres+" ") {
					n++
				}
			}
			return n
		}
		return strings.Count(out, "NodeName=") == gpu+small+cpu && idle("gpu", "gpu:gb200:8") == gpu && idle("small", "gpu:t4:4") == small && idle("cpu", "(null)") == cpu
	}, "show", "nodes", "-o")
}

// kindsValues are values of the NodeSets.
var kindsValues = "\nnodesets:\n  gpu:\n    replicas: 2\n    podSpec: {nodeSelector: {kind: gpu}}\n" +
	fmt.Sprintf(kindValues, "small", 1, "Gres=gpu:t4:4") + fmt.Sprintf(kindValues, "cpu", 0, "Weight=1")

// kindValues are values of a NodeSet by name, number of pods and what its slurmd says.
const kindValues = `  %[1]s:
    enabled: true
    scalingMode: StatefulSet
    replicas: %[2]d
    ordinalPadding: 0
    taintKubeNodes: false
    workloadDisruptionProtection: true
    updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%%}}
    extraConf: %[3]s
    partition: {enabled: true}
    logfile: {image: {repository: box/slurmd, tag: "1"}}
    slurmd: {image: {repository: box/slurmd, tag: "1"}}
    podSpec:
      nodeSelector: {kind: %[1]s}
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app.kubernetes.io/name: slurmd}}
`

// kindsGres is what the site has before Quoin writes it.
const kindsGres = `configFiles:
  gres.conf: |
    NodeName=gpu-[0-7] Name=gpu Type=gb200 File=/dev/nvidia[0-7] Flags=nvidia_gpu_env
    NodeName=small-[0-7] Name=gpu Type=t4 File=/dev/nvidia[0-3] Flags=nvidia_gpu_env
`
