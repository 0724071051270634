package sites

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/topology/simulated"
)

// KubectlJSON is what `kubectl get nodes -o json` prints of a site's nodes, with the fields that a
// kubelet fills.
func KubectlJSON(c *simulated.Cluster) ([]byte, error) {
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
	return json.MarshalIndent(list, "", "    ")
}
