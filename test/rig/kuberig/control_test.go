package kuberig

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

const domain = `apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: all, namespace: default}
spec: {numNodes: 0, channel: {allocationMode: All, resourceClaimTemplate: {name: all-channel}}}
`

// TestRealControlPlane holds that the programs do their work: the driver's
// controller makes a domain's claim template, from which the controller manager
// makes a pod's claim, for which the scheduler finds no node.
func TestRealControlPlane(t *testing.T) {
	t.Parallel()
	for _, driver := range Drivers() {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			controlPlane(t, driver)
		})
	}
}

func controlPlane(t *testing.T, driver string) {
	c := StartTest(t)
	c.Driver = driver
	for _, start := range []func(context.Context) error{c.ApplyComputeDomainCRDs, c.ApplyDeviceClasses, c.StartControllerManager, c.StartScheduler} {
		if err := start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.StartComputeDomainController(t.Context(), "driver"); err != nil {
		t.Fatal(err)
	}
	if err := c.Objects().ApplyText(t.Context(), domain); err != nil {
		t.Fatal(err)
	}
	template := "all-channel"
	eventually(t, "claim template", func(ctx context.Context) error {
		made, err := c.Client().ResourceV1().ResourceClaimTemplates("default").Get(ctx, template, metav1.GetOptions{})
		if err != nil {
			return err
		}
		class := made.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName
		_, err = c.Client().ResourceV1().DeviceClasses().Get(ctx, class, metav1.GetOptions{})
		return err
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "holder"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}},
	}}
	if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "claim of the pod, and a word of the scheduler", func(ctx context.Context) error {
		claims, err := c.Client().ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) != 1 {
			return fmt.Errorf("claims %v: %w", claims, err)
		}
		pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "holder", metav1.GetOptions{})
		if err != nil || len(pod.Status.Conditions) == 0 || pod.Status.Conditions[0].Reason != corev1.PodReasonUnschedulable {
			return fmt.Errorf("pod %v: %w", pod, err)
		}
		return nil
	})
}

func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	if err := await.NoError(t.Context(), what, ask); err != nil {
		t.Fatal(err)
	}
}
