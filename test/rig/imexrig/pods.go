package imexrig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
)

// AddDomain makes a ComputeDomain for any number of nodes with all channels, whose
// claim template the driver's controller calls by the name of template.
func (f *Fleet) AddDomain(ctx context.Context, namespace, name, template string) (*nvapi.ComputeDomain, error) {
	domain := &nvapi.ComputeDomain{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	domain.Spec.Channel = &nvapi.ComputeDomainChannelSpec{AllocationMode: nvapi.ComputeDomainChannelAllocationModeAll}
	domain.Spec.Channel.ResourceClaimTemplate.Name = template
	made, err := f.nvidia.ResourceV1beta1().ComputeDomains(namespace).Create(ctx, domain, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make ComputeDomain %s/%s: %w", namespace, name, err)
	}
	return made, nil
}

// Entries returns the entries of a domain's daemons in a clique by node, as the
// fleet sees them.
func (f *Fleet) Entries(domain types.UID, clique string) map[string]nvapi.ComputeDomainDaemonInfo {
	out := map[string]nvapi.ComputeDomainDaemonInfo{}
	if object := f.clique(string(domain), clique); object != nil {
		for _, d := range object.Daemons {
			out[d.NodeName] = *d
		}
	}
	return out
}

// ClaimingPod makes a pod that claims a channel by the template, and that only the
// node will do for.
func (f *Fleet) ClaimingPod(ctx context.Context, namespace, name, node, template string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelHostname: node},
		Containers: []corev1.Container{{Name: "main", Image: "main",
			Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}},
	}}
	if _, err := f.kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make claiming pod %s/%s: %w", namespace, name, err)
	}
	return nil
}
