package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// leaseName is the Lease that names the leader.
const leaseName = "quoin-publisher"

// The times of the election. The leader writes the Lease every leaseRetry and stops
// publishing when it could not for leaseRenew. Another publisher takes over leaseLasts
// after the last write, or leaseRetry after a leader that ended by itself.
const (
	leaseLasts = 15 * time.Second
	leaseRenew = 10 * time.Second
	leaseRetry = 2 * time.Second
)

// election chooses one of several publishers by the Lease. The periodic renewal of the
// Lease is the publisher's only write at rest.
type election struct {
	client    kubernetes.Interface
	namespace string
	id        string
	log       *slog.Logger
}

// newElection returns the election in which this process has an identity of its own.
func newElection(client kubernetes.Interface, namespace string, log *slog.Logger) (*election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name this publisher in the Lease: %w", err)
	}
	return &election{client, namespace, host + "_" + string(uuid.NewUUID()), log}, nil
}

// run stands for election until ctx ends, and runs lead each time it is elected. When
// the lead is lost it stops lead and stands again. It returns lead's error.
func (e *election) run(ctx context.Context, lead func(context.Context) error) error {
	e.log.Info("standing for leader", "lease", e.namespace+"/"+leaseName, "identity", e.id)
	for ctx.Err() == nil {
		if err := e.term(ctx, lead); !errors.Is(err, errLeadLost) {
			return err
		}
		e.log.Warn("no longer the leader, standing again", "lease", e.namespace+"/"+leaseName, "identity", e.id)
	}
	return nil
}

var errLeadLost = errors.New("the lead was lost")

// term waits until this process is elected and runs lead for as long as it stays so.
// The Lease is given back only after lead has returned.
func (e *election) term(ctx context.Context, lead func(context.Context) error) error {
	elected := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          e.lock(),
		LeaseDuration: leaseLasts, RenewDeadline: leaseRenew, RetryPeriod: leaseRetry,
		ReleaseOnCancel: true, Name: leaseName,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(elected) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("elect a leader: %w", err)
	}
	// client-go logs every try; lock says what is worth a line.
	electing, giveBack := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	defer giveBack()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electing)
	}()
	defer func() {
		giveBack()
		<-ended
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-elected:
		e.log.Info("elected", "identity", e.id)
	}
	leading, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- lead(leading) }()
	select {
	case err := <-done:
		return err
	case <-ended:
		stop()
		return errors.Join(errLeadLost, <-done)
	}
}

// lock is the Lease, as client-go reads and writes it.
func (e *election) lock() resourcelock.Interface {
	return &saidLock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: leaseName, Namespace: e.namespace},
		Client:     e.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: e.id},
	}, log: e.log}
}

// saidLock logs the first of several failures in a row.
type saidLock struct {
	resourcelock.Interface
	log    *slog.Logger
	failed atomic.Bool
}

// Get implements resourcelock.Interface.
func (l *saidLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.say(err)
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *saidLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, record)
	l.say(err)
	return err
}

// Update implements resourcelock.Interface.
func (l *saidLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	l.say(err)
	return err
}

// say logs an error that is not part of every election.
func (l *saidLock) say(err error) {
	switch {
	case err == nil:
		l.failed.Store(false)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), errors.Is(err, context.Canceled):
	case !l.failed.Swap(true):
		l.log.Warn("lease not read or written, trying again", "lease", l.Describe(), "err", err)
	}
}

// confirm asks the API server whether this process still leads. After a pause of the
// process or of the network it may not know that another has taken over.
func (e *election) confirm(ctx context.Context) error {
	lease, err := e.client.CoordinationV1().Leases(e.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("confirm that this publisher leads: %w", err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	if holder != e.id {
		name, _, _ := strings.Cut(holder, "_")
		return fmt.Errorf("nothing written: publisher %q leads now", name)
	}
	return nil
}
