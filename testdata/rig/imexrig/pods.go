package imexrig

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
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
	spec := claiming(template)
	spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec}
	if _, err := f.kube.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make claiming pod %s/%s: %w", namespace, name, err)
	}
	return nil
}

// ClaimingDaemonSet makes a DaemonSet whose pods claim a channel by the template,
// on nodes with GPUs.
func (f *Fleet) ClaimingDaemonSet(ctx context.Context, namespace, name, template string) error {
	labels := map[string]string{"app": name}
	spec := claiming(template)
	spec.NodeSelector = map[string]string{"nvidia.com/gpu.present": "true"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
	if _, err := f.kube.AppsV1().DaemonSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make claiming DaemonSet %s/%s: %w", namespace, name, err)
	}
	return nil
}

func claiming(template string) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{Name: "main", Image: "main",
			Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}},
	}
}
