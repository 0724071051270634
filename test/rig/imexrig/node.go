package imexrig

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is one simulated node. All its methods may be called at any time.
type Node struct {
	fleet *Fleet
	name  string

	mu         sync.Mutex
	clique     string
	dead       bool
	ready      bool // the IMEX daemon, once it has had its time
	lost       bool
	frozen     bool
	behind     bool // with unpreparing
	readyAfter time.Duration
	err        error
	boot       int // how often it has booted

	// Of the boot: what the kubelet plugin has prepared, and which pods run. Only
	// sync touches them.
	booted   int
	prepared map[types.UID]*prepared
	running  map[types.UID]*process
}

// process is a pod that runs.
type process struct {
	address string
	clique  string    // a daemon's, as it was when that started
	domain  string    // a daemon's
	joined  time.Time // when a daemon got its entry
	up      bool      // a daemon's IMEX has had its time
}

func newNode(f *Fleet, s Spec) *Node {
	return &Node{fleet: f, name: s.Name, clique: s.Clique, ready: true, readyAfter: f.readyAfter,
		prepared: map[types.UID]*prepared{}, running: map[types.UID]*process{}}
}

// view is what sync goes by.
type view struct {
	clique                      string
	ready, lost, frozen, behind bool
	readyAfter                  time.Duration
}

// look returns what is set, and forgets what a reboot ends.
func (n *Node) look() (v view, dead bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.booted != n.boot {
		n.booted = n.boot
		clear(n.prepared)
		clear(n.running)
	}
	return view{n.clique, n.ready, n.lost, n.frozen, n.behind, n.readyAfter}, n.dead
}

// sync does what is to be done now. What comes later comes with an event.
func (n *Node) sync(ctx context.Context) error {
	v, dead := n.look()
	if dead {
		return nil
	}
	objects, err := n.fleet.pods.ByIndex(byNode, n.name)
	if err != nil {
		return err
	}
	var live, ending []*corev1.Pod
	for _, obj := range objects {
		switch pod := obj.(*corev1.Pod); {
		case pod.DeletionTimestamp != nil:
			ending = append(ending, pod)
		case pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			live = append(live, pod)
		}
	}
	errs := n.end(ctx, v, ending, live)
	for _, pod := range live {
		errs = append(errs, n.run(ctx, v, pod))
	}
	return errors.Join(errs...)
}

// end ends pods as a kubelet does: containers, then claims that no pod uses any
// more, then the object.
func (n *Node) end(ctx context.Context, v view, ending, live []*corev1.Pod) []error {
	var errs []error
	for _, pod := range ending {
		if p := n.running[pod.UID]; p != nil {
			if err := n.leave(ctx, p); err != nil {
				return append(errs, err)
			}
		}
	}
	there := map[types.UID]bool{}
	for _, pod := range live {
		there[pod.UID] = true
	}
	for uid := range n.running {
		if !there[uid] {
			delete(n.running, uid)
		}
	}
	if !v.behind {
		if err := n.unprepareUnused(ctx, live); err != nil {
			return append(errs, err)
		}
	}
	for _, pod := range ending {
		errs = append(errs, n.remove(ctx, pod))
	}
	return errs
}
