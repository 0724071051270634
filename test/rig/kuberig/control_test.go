package kuberig

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	eventually(t, "claim template", func(ctx context.Context) (bool, error) {
		made, err := c.Client().ResourceV1().ResourceClaimTemplates("default").Get(ctx, template, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		class := made.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName
		_, err = c.Client().ResourceV1().DeviceClasses().Get(ctx, class, metav1.GetOptions{})
		return err == nil, err
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "holder"}, Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "channel"}}}}},
		ResourceClaims: []corev1.PodResourceClaim{{Name: "channel", ResourceClaimTemplateName: &template}},
	}}
	if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "claim of the pod, and a word of the scheduler", func(ctx context.Context) (bool, error) {
		claims, err := c.Client().ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) != 1 {
			return false, err
		}
		pod, err := c.Client().CoreV1().Pods("default").Get(ctx, "holder", metav1.GetOptions{})
		if err != nil || len(pod.Status.Conditions) == 0 {
			return false, err
		}
		return pod.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable, nil
	})
}

func eventually(t *testing.T, what string, done wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 5*time.Minute, true, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
