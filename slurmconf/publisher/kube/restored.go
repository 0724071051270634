package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// errRestored ends a publisher, which is then started again. Its watches would go on from a
// version that the API server has yet to reach, and show none of what is older now.
var errRestored = errors.New("etcd was restored from a backup: everything has to be read again")

// versionGuard sees each version of the Lease that the election reads or writes. Every
// candidate does so every two seconds. Versions only grow, unless etcd was restored.
type versionGuard struct {
	coordination.LeasesGetter
	mu       sync.Mutex
	last     string
	restored chan error // gets an error once
}

func newVersionGuard(client coordination.LeasesGetter) *versionGuard {
	return &versionGuard{LeasesGetter: client, restored: make(chan error, 1)}
}

// Leases implements coordination.LeasesGetter.
func (g *versionGuard) Leases(namespace string) coordination.LeaseInterface {
	return guardedLeases{g.LeasesGetter.Leases(namespace), g}
}

// known returns the newest version that was seen.
func (g *versionGuard) known() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// saw notes the version of an answer. known is what was known before the question, because
// answers to two questions at a time come in any order.
func (g *versionGuard) saw(known string, lease *coordinationv1.Lease, err error) {
	if err != nil {
		return
	}
	if older(lease.ResourceVersion, known) {
		select {
		case g.restored <- fmt.Errorf("%w: Lease %s has version %s and had %s", errRestored, lease.Name, lease.ResourceVersion, known):
		default:
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !older(lease.ResourceVersion, g.last) {
		g.last = lease.ResourceVersion
	}
}

func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// guardedLeases shows every version to the guard.
type guardedLeases struct {
	coordination.LeaseInterface
	guard *versionGuard
}

// Get implements coordination.LeaseInterface.
func (l guardedLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	known := l.guard.known()
	lease, err := l.LeaseInterface.Get(ctx, name, o)
	l.guard.saw(known, lease, err)
	return lease, err
}

// Create implements coordination.LeaseInterface.
func (l guardedLeases) Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	known := l.guard.known()
	written, err := l.LeaseInterface.Create(ctx, lease, o)
	l.guard.saw(known, written, err)
	return written, err
}

// Update implements coordination.LeaseInterface.
func (l guardedLeases) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	known := l.guard.known()
	written, err := l.LeaseInterface.Update(ctx, lease, o)
	l.guard.saw(known, written, err)
	return written, err
}
