package kuberig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetReady says of a Pod what its kubelet, or the node controller, would.
func (c *Cluster) SetReady(ctx context.Context, namespace, name string, ready corev1.ConditionStatus) error {
	pods := c.Client().CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read pod: %w", err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()}}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write status of pod: %w", err)
	}
	return nil
}

// RemovePod removes a Pod and does not wait for a kubelet.
func (c *Cluster) RemovePod(ctx context.Context, namespace, name string) error {
	now := int64(0)
	if err := c.Client().CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return nil
}
