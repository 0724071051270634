package imexrig

import (
	"context"
	"fmt"
	"slices"

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
	var entry *nvapi.ComputeDomainNode
	var beside []*nvapi.ComputeDomainDaemonInfo
	for _, e := range domain.Status.Nodes {
		switch {
		case e.Name == n.name:
			entry = e
		case e.CliqueID == p.clique:
			beside = append(beside, &nvapi.ComputeDomainDaemonInfo{Index: e.Index})
		}
	}
	switch status := statusOf(pod); {
	case v.lost && entry == nil:
		return true, nil
	case v.lost:
		domain.Status.Nodes = slices.DeleteFunc(domain.Status.Nodes, func(e *nvapi.ComputeDomainNode) bool { return e == entry })
	case entry == nil:
		index, err := freeIndex(beside)
		if err != nil {
			return false, err
		}
		domain.Status.Nodes = append(domain.Status.Nodes, &nvapi.ComputeDomainNode{
			Name: n.name, IPAddress: p.address, CliqueID: p.clique, Index: index, Status: nvapi.ComputeDomainStatusNotReady,
		})
	case entry.IPAddress != p.address:
		entry.IPAddress = p.address
	case entry.Status != status && !v.frozen:
		entry.Status = status
	default:
		return true, nil
	}
	if _, err := n.fleet.nvidia.ResourceV1beta1().ComputeDomains(domain.Namespace).UpdateStatus(ctx, domain, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("write status of domain %s/%s: %w", domain.Namespace, domain.Name, err)
	}
	return false, nil
}
