package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// leaseName is the Lease that names the leader.
const leaseName = "quoin-publisher"

// podSelector finds the Pods of publishers.
const podSelector = "app.kubernetes.io/component=publisher,app.kubernetes.io/name=quoin"

// election chooses one of several publishers' Pods. The Lease is written when
// the leader changes and at no other time: whether the leader lives is seen from
// its Pod, which the kubelet and the node controller keep. A Pod takes the Lease
// when it is ready and the Pod that the Lease names is not, has ended, or is
// gone. A leader that finds another named stops.
//
// client-go's election renews the Lease every few seconds, at rest too.
type election struct {
	client    kubernetes.Interface
	namespace string
	id        string // of this Pod, as holderID gives it
	log       *slog.Logger
	leases    coordinationlisters.LeaseNamespaceLister
	pods      corelisters.PodNamespaceLister
	changes   chan struct{}
}

// electionRetry is the time to the next try when the Lease could not be written.
const electionRetry = 5 * time.Second

// newElection joins the Pod to the election; its watches end with ctx.
func newElection(ctx context.Context, client kubernetes.Interface, namespace, pod string, log *slog.Logger) (*election, error) {
	me, err := client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read this publisher's Pod: %w", err)
	}
	publishers, err := labels.Parse(podSelector)
	if err != nil {
		return nil, fmt.Errorf("select the publishers' Pods: %w", err)
	}
	if !publishers.Matches(labels.Set(me.Labels)) {
		return nil, fmt.Errorf("this publisher's Pod %s/%s: want the labels %s, by which publishers find each other", namespace, pod, podSelector)
	}
	e := &election{client: client, namespace: namespace, id: holderID(me), log: log, changes: make(chan struct{}, 1)}
	watch := func(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(tweak))
	}
	forLease := watch(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + leaseName })
	forPods := watch(func(o *metav1.ListOptions) { o.LabelSelector = podSelector })
	leases, pods := forLease.Coordination().V1().Leases(), forPods.Core().V1().Pods()
	e.leases, e.pods = leases.Lister().Leases(namespace), pods.Lister().Pods(namespace)
	for _, informer := range []cache.SharedIndexInformer{leases.Informer(), pods.Informer()} {
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only on a stopped informer
			AddFunc:    func(any) { notify(e.changes) },
			UpdateFunc: func(_, _ any) { notify(e.changes) },
			DeleteFunc: func(any) { notify(e.changes) },
		})
	}
	forLease.Start(ctx.Done())
	forPods.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), leases.Informer().HasSynced, pods.Informer().HasSynced) {
		return nil, ctx.Err()
	}
	return e, nil
}

// holderID is what a Lease calls a Pod. A later Pod of the same name is another.
func holderID(pod *corev1.Pod) string { return pod.Name + "_" + string(pod.UID) }

// holder returns who a Lease names, empty for nobody.
func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// role is what a publisher has to do in an election.
type role int

const (
	standsBy role = iota
	takesOver
	leads
)

// roleOf returns the role of the Pod that the Lease would call id.
func roleOf(id string, lease *coordinationv1.Lease, pods []*corev1.Pod) role {
	var me, leader *corev1.Pod
	for _, p := range pods {
		switch holderID(p) {
		case id:
			me = p
		case holder(lease):
			leader = p
		}
	}
	switch {
	case holder(lease) == id:
		return leads
	case isReady(me) && !isReady(leader):
		return takesOver
	}
	return standsBy
}

// isReady reports whether the Pod is there, has not ended, and its containers
// are up and answer.
func isReady(pod *corev1.Pod) bool {
	if pod == nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// current returns the Lease as last watched, nil when there is none, and the
// role that it gives.
func (e *election) current() (*coordinationv1.Lease, role) {
	pods, _ := e.pods.List(labels.Everything()) // a cache, which cannot fail
	lease, err := e.leases.Get(leaseName)
	if err != nil {
		lease = nil
	}
	return lease, roleOf(e.id, lease, pods)
}

// run waits until this Pod leads, and then runs lead. It returns when lead has
// returned, which is also told to stop when another leads.
func (e *election) run(ctx context.Context, lead func(context.Context) error) error {
	for {
		switch lease, role := e.current(); role {
		case leads:
			return e.lead(ctx, lead)
		case takesOver:
			err := e.write(ctx, lease, e.id)
			if err == nil {
				e.log.Info("elected", "pod", e.id, "after", holder(lease))
			} else if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				e.log.Warn("lease not written, trying again", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-e.changes:
		case <-time.After(electionRetry):
		}
	}
}

func (e *election) lead(ctx context.Context, lead func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- lead(ctx) }()
	var lost error
	for {
		select {
		case err := <-done:
			if lost != nil {
				return errors.Join(lost, err)
			}
			e.release(ctx)
			return err
		case <-e.changes:
			if lease, role := e.current(); role != leads && lost == nil {
				lost = fmt.Errorf("no longer the leader: Lease %s/%s names %q", e.namespace, leaseName, holder(lease))
				cancel()
			}
		}
	}
}

// release leaves the Lease to the next one at once. Where that fails the next
// one waits for the end of this Pod.
func (e *election) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), electionRetry)
	defer cancel()
	lease, role := e.current()
	if role != leads {
		return
	}
	if err := e.write(ctx, lease, ""); err != nil {
		e.log.Warn("lease not given back", "err", err)
	}
}

// write has the Lease name id, if it is still the given one.
func (e *election) write(ctx context.Context, lease *coordinationv1.Lease, id string) error {
	api := e.client.CoordinationV1().Leases(e.namespace)
	transitions := int32(0)
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: e.namespace}}
	if lease != nil {
		next.ObjectMeta = *lease.ObjectMeta.DeepCopy()
		if lease.Spec.LeaseTransitions != nil {
			transitions = *lease.Spec.LeaseTransitions
		}
	}
	next.Spec.HolderIdentity = &id
	if id != "" {
		transitions++
		now := metav1.NowMicro()
		next.Spec.AcquireTime = &now
	}
	next.Spec.LeaseTransitions = &transitions
	var err error
	if lease == nil {
		_, err = api.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		_, err = api.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return err
}

// confirm asks the API server itself whether this Pod still leads. What has been
// watched may be old, after a pause of the process or of the network.
func (e *election) confirm(ctx context.Context) error {
	lease, err := e.client.CoordinationV1().Leases(e.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("confirm that this publisher leads: %w", err)
	}
	if h := holder(lease); h != e.id {
		name, _, _ := strings.Cut(h, "_")
		return fmt.Errorf("nothing written: Pod %q leads now", name)
	}
	return nil
}
