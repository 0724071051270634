package imexrig

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// run takes a pod that is bound to the node as far as it gets now: its claims are
// prepared, then it runs.
func (n *Node) run(ctx context.Context, v view, pod *corev1.Pod) error {
	claims, ok, err := n.fleet.claimsOf(pod)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if !ok {
			break
		}
		if ok, err = n.prepare(ctx, v, claim); err != nil {
			return fmt.Errorf("prepare claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	p := n.running[pod.UID]
	if !ok { // it waits, after a boot maybe with the status that it had before
		if p == nil && podReady(pod) {
			return n.setStatus(ctx, pod, pod.Status.PodIP, false)
		}
		return nil
	}
	if p == nil {
		p = &process{address: n.fleet.address(), clique: v.clique}
		n.running[pod.UID] = p
	}
	if n.fleet.isDaemon(pod) {
		return n.runDaemon(ctx, v, pod, p)
	}
	return n.setStatus(ctx, pod, p.address, true)
}

// claimsOf returns a pod's claims, and whether all are there, allocated and
// reserved for it.
func (f *Fleet) claimsOf(pod *corev1.Pod) (claims []*resourcev1.ResourceClaim, ok bool, err error) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || name == nil { // the claim controller has not said yet
			return nil, false, nil //nolint:nilerr // an event comes
		}
		obj, there, err := f.claims.GetByKey(pod.Namespace + "/" + *name)
		if err != nil {
			return nil, false, err
		}
		claim, _ := obj.(*resourcev1.ResourceClaim)
		if !there || claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, false) {
			return nil, false, nil
		}
		claims = append(claims, claim)
	}
	return claims, true, nil
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// setStatus says that a pod runs at an address, and whether it is ready.
func (n *Node) setStatus(ctx context.Context, pod *corev1.Pod, address string, ready bool) error {
	if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP == address && podReady(pod) == ready {
		return nil
	}
	pod = pod.DeepCopy()
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.Now()})
	if _, err := n.fleet.kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// remove removes the object of a pod that has ended.
func (n *Node) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := n.fleet.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
