package imexrig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
)

// gates are the arguments of the driver's controller for such a fleet.
func (o *Options) gates() []string {
	if o.NoCliques {
		return []string{"--feature-gates=ComputeDomainCliques=false"}
	}
	return nil
}

// enterStatus does in the domain's status what enter does in a clique. The driver's
// controller takes entries away whose daemon is gone.
func (n *Node) enterStatus(ctx context.Context, v view, pod *corev1.Pod, p *process) (bool, error) {
	domain := n.fleet.domain(p.domain)
	if domain == nil {
		return false, fmt.Errorf("ComputeDomain not found: %s", p.domain)
	}
	domain = domain.DeepCopy()
	var entries []*nvapi.ComputeDomainDaemonInfo
	for _, e := range domain.Status.Nodes {
		entries = append(entries, &nvapi.ComputeDomainDaemonInfo{NodeName: e.Name, IPAddress: e.IPAddress, CliqueID: e.CliqueID, Index: e.Index, Status: e.Status})
	}
	changed, err := n.change(&entries, v, pod, p)
	if err != nil || !changed {
		return err == nil, err
	}
	domain.Status.Nodes = nil
	for _, e := range entries {
		domain.Status.Nodes = append(domain.Status.Nodes, &nvapi.ComputeDomainNode{Name: e.NodeName, IPAddress: e.IPAddress, CliqueID: e.CliqueID, Index: e.Index, Status: e.Status})
	}
	if _, err := n.fleet.nvidia.ResourceV1beta1().ComputeDomains(domain.Namespace).UpdateStatus(ctx, domain, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("write status of domain %s/%s: %w", domain.Namespace, domain.Name, err)
	}
	return false, nil
}
