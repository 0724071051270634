package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/testdata/rig/programs"
	"github.com/quoin-hpc/quoin/testdata/rig/sites"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// largeSite is 10,008 nodes in 556 racks.
func largeSite(b testing.TB) *simulated.Cluster {
	b.Helper()
	return sites.Parse(b, `
name: large
groups:
  - racks: 556
    nodes: 18
    node: gb200-{node:05}
    nvlink: rack
    gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471, numaNodes: 2, cpus: 144, nvlinks: 18}
`)
}

// kubectlJSON is what kubectl prints of the site's nodes, with the fields that a
// kubelet fills.
func kubectlJSON(b testing.TB, c *simulated.Cluster) []byte {
	b.Helper()
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}}
	for i, m := range c.Machines() {
		n := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		n.Name, n.UID, n.ResourceVersion, n.Labels = m.Name, types.UID(m.Report.BootID), fmt.Sprint(100000+i), m.Labels
		n.Annotations = map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"}
		n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
		n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("144"), "memory": resource.MustParse("960Gi"), "nvidia.com/gpu": resource.MustParse("4"), "pods": resource.MustParse("110")}
		n.Status.Allocatable = n.Status.Capacity
		for _, t := range []corev1.NodeConditionType{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: t, Status: "False", Reason: "KubeletHasSufficient", Message: "kubelet has enough of it available"})
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: fmt.Sprintf("10.8.%d.%d", i/256, i%256)}, {Type: "Hostname", Address: m.Name}}
		n.Status.NodeInfo = corev1.NodeSystemInfo{BootID: m.Report.BootID, KernelVersion: "6.8.0-1025-nvidia-64k", OSImage: "Ubuntu 24.04.2 LTS", ContainerRuntimeVersion: "containerd://1.7.27", KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "arm64"}
		list.Items = append(list.Items, n)
	}
	data, err := json.MarshalIndent(list, "", "    ")
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkRenderOnce is the whole one-shot command as a process: 10,008 nodes of
// kubectl's JSON in, files out.
func BenchmarkRenderOnce(b *testing.B) {
	quoin := programs.QuoinTest(b)
	data := kubectlJSON(b, largeSite(b))
	path := filepath.Join(b.TempDir(), "nodes.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), quoin, "render", "--nodes", path, "--dir", b.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	// By way of a shell: a child of this large process would begin with its size.
	out, err := exec.CommandContext(b.Context(), "bash", "-c", `"$1" render --nodes "$2" --dir "$3" & p=$!; m=0
while r=$(awk '/VmHWM/{print $2}' /proc/$p/status 2>/dev/null) && [ -n "$r" ]; do m=$r; done; wait; echo $m`, "bash", quoin, path, b.TempDir()).Output()
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Fields(string(out))
	kib, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		b.Fatalf("%v: %q", err, out)
	}
	b.ReportMetric(float64(len(data))/1e6, "MB-in")
	b.ReportMetric(float64(kib)*1024/1e6, "MB-resident")
}

// BenchmarkReadNodes is the reading of kubectl's JSON alone, as quoin render reads it.
func BenchmarkReadNodes(b *testing.B) {
	data := kubectlJSON(b, largeSite(b))
	auto := nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}}
	rules := inputs.NewRules(inputs.Config{SlurmNames: "short", Labels: auto}, func(key, message string) { b.Fatal(key, message) })
	reader := inputs.ListReader{Keep: inputs.KeysOf(&rules)}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reader.Read("nodes", bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}
