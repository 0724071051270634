// Package imexrig plays GB200 nodes for tests on a real control plane: of each
// node the kubelet, the ComputeDomain kubelet plugin of NVIDIA's DRA driver and its
// IMEX daemon, as far as the API server sees them. Scheduler, claim controller,
// DaemonSet controller and the driver's own controller are real (package kuberig).
// It watches, as the real ones do, and does what they do in the same order; no
// container runs and no GPU is there.
package imexrig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned"
	nvinformers "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/informers/externalversions"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
)

// Names of the driver's.
const (
	DriverName  = "compute-domain.nvidia.com"
	DomainLabel = "resource.nvidia.com/computeDomain"          // of nodes, daemons' pods and cliques
	CliqueLabel = "resource.nvidia.com/computeDomain.cliqueID" // of daemons' pods and cliques
	GPUClique   = topology.CliqueLabel                         // of nodes, by GPU Feature Discovery
)

// MaxDaemons is how many daemons a clique takes by default.
const MaxDaemons = 18

// Options say what a fleet is.
type Options struct {
	// DriverNamespace is that of StartComputeDomainController.
	DriverNamespace string
	Driver          string // a release of kuberig.Drivers, empty for the default
	Nodes           []Spec
	// ReadyAfter is how long an IMEX daemon takes to be ready once it has its
	// entry; Node.SetReadyAfter sets it for one node.
	ReadyAfter time.Duration
	// NoCliques is for the driver without its feature ComputeDomainCliques, as it was
	// before 0.3: daemons have their entries in the domain's status.
	NoCliques bool
	// Own gives the test an API server that it may stop.
	Own bool
}

// Spec is a node to be. A node without a clique has no multi-node NVLink.
type Spec struct {
	Name, Clique string
	Labels       map[string]string // beside those that every GPU node has
	GPUs         int               // 0 is 4
	// NoDevices says that the kubelet plugin does not run at first: it publishes no
	// devices until Node.Publish.
	NoDevices bool
}

// Racks returns the nodes of some cliques, NAME r<clique>n<node> with two digits
// each, all of one NVLink cluster.
func Racks(cliques, nodes int) []Spec {
	var out []Spec
	for c := range cliques {
		for n := range nodes {
			out = append(out, Spec{Name: fmt.Sprintf("r%02dn%02d", c, n), Clique: RackClique(c)})
		}
	}
	return out
}

// RackClique is the clique of a rack of Racks.
func RackClique(rack int) string {
	return fmt.Sprintf("5f2e8a10-7c4b-4d1e-9a36-2b8c0d6e4f11.%d", rack+1)
}

// Fleet is the simulated nodes.
type Fleet struct {
	kube       kubernetes.Interface
	nvidia     nvclient.Interface
	namespace  string
	readyAfter time.Duration
	noCliques  bool
	queue      workqueue.TypedRateLimitingInterface[string]

	pods, claims, machines, cliques, domains cache.Indexer

	mu        sync.Mutex
	nodes     map[string]*Node
	addresses int
}

// Start makes the nodes and plays them until ctx ends. The ComputeDomain CRDs must
// have been applied.
func Start(ctx context.Context, c *kuberig.Cluster, o Options) (*Fleet, error) {
	nvidia, err := nvclient.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("start fleet: %w", err)
	}
	f := &Fleet{
		kube: c.Client(), nvidia: nvidia, namespace: o.DriverNamespace, readyAfter: o.ReadyAfter, noCliques: o.NoCliques, nodes: map[string]*Node{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Second)),
	}
	if err := f.watch(ctx); err != nil {
		return nil, fmt.Errorf("start fleet: %w", err)
	}
	for range 8 {
		go f.work(ctx)
	}
	go func() {
		<-ctx.Done()
		f.queue.ShutDown()
	}()
	for _, s := range o.Nodes {
		if _, err := f.AddNode(ctx, s); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// byNode indexes pods by the node that they are bound to.
const byNode = "node"

func (f *Fleet) watch(ctx context.Context) error {
	kube := informers.NewSharedInformerFactory(f.kube, 0)
	nvidia := nvinformers.NewSharedInformerFactory(f.nvidia, 0)
	pods := kube.Core().V1().Pods().Informer()
	if err := pods.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) { return nodesOf(obj), nil }}); err != nil {
		return err
	}
	claims, machines := kube.Resource().V1().ResourceClaims().Informer(), kube.Core().V1().Nodes().Informer()
	cliques, domains := nvidia.Resource().V1beta1().ComputeDomainCliques().Informer(), nvidia.Resource().V1beta1().ComputeDomains().Informer()
	f.pods, f.claims, f.machines, f.cliques, f.domains = pods.GetIndexer(), claims.GetIndexer(), machines.GetIndexer(), cliques.GetIndexer(), domains.GetIndexer()
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{pods, claims, machines, cliques, domains} {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    f.enqueue,
			UpdateFunc: func(before, now any) { f.enqueue(before); f.enqueue(now) },
			DeleteFunc: f.enqueue,
		})
		if err != nil {
			return err
		}
		synced = append(synced, handler.HasSynced)
	}
	kube.Start(ctx.Done())
	nvidia.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("the API server did not answer in time")
	}
	return nil
}

// enqueue has a look taken at the nodes that an object is about.
func (f *Fleet) enqueue(obj any) {
	for _, name := range nodesOf(obj) {
		f.queue.Add(name)
	}
}

// nodesOf returns the nodes that an object is about.
func nodesOf(obj any) []string {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	var out []string
	switch o := obj.(type) {
	case *corev1.Pod:
		if o.Spec.NodeName != "" {
			out = append(out, o.Spec.NodeName)
		}
	case *corev1.Node:
		out = append(out, o.Name)
	case *resourcev1.ResourceClaim:
		if o.Status.Allocation != nil {
			for _, r := range o.Status.Allocation.Devices.Results {
				out = append(out, r.Pool)
			}
		}
	case *nvapi.ComputeDomainClique:
		for _, d := range o.Daemons {
			out = append(out, d.NodeName)
		}
	case *nvapi.ComputeDomain:
		for _, n := range o.Status.Nodes {
			out = append(out, n.Name)
		}
	}
	return out
}

func (f *Fleet) work(ctx context.Context) {
	for {
		name, quit := f.queue.Get()
		if quit {
			return
		}
		if n := f.Node(name); n != nil {
			err := n.sync(ctx)
			n.setErr(err)
			if err != nil {
				f.queue.AddRateLimited(name)
			} else {
				f.queue.Forget(name)
			}
		}
		f.queue.Done(name)
	}
}

// Node returns a node by name, nil where the fleet has none of that name.
func (f *Fleet) Node(name string) *Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[name]
}

// address returns one that nobody has had.
func (f *Fleet) address() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addresses++
	return fmt.Sprintf("10.%d.%d.%d", 64+f.addresses>>16, f.addresses>>8&0xff, f.addresses&0xff)
}
