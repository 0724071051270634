package computedomain

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// Node observes the membership of one node, for its agent: whether NVIDIA's DRA driver
// starts daemons at all, the node's labels and, once a label names a domain, the node's
// clique of that domain. If that clique is not there, it looks for any other one.
type Node struct {
	config  imex.Config
	name    string
	nvidia  nvclient.ResourceV1beta1Interface
	health  *apihealth.Health
	changes chan struct{}
	wake    chan struct{} // another clique may be meant
	driver  *driver
	labels  *watch[nodeLabels]
	// oldAfter is how long a trouble lasts until what was read before counts no longer.
	oldAfter time.Duration

	mu   sync.Mutex
	nvml string // the clique by NVML
	own  ownClique
}

// ownClique is the ComputeDomainClique that the node is in.
type ownClique struct {
	name  string // of the object that is watched, empty for none
	watch *watch[imex.Clique]
	// others is one clique of another name, if the own one is not there and there is
	// any. A driver without any has its feature turned off.
	others      []imex.Clique
	othersKnown bool
}

// nodeLabels are the labels of a Node that count.
type nodeLabels struct{ domain, clique string }

// NewNode returns an observer of the node called name in the cluster that rc leads to.
// It asks nothing of the API server before Run. config is complete.
func NewNode(rc *rest.Config, config imex.Config, name string, log *slog.Logger) (*Node, error) {
	nvidia, noNVIDIA := nvclient.NewForConfig(rc)
	meta, noMeta := metadata.NewForConfig(rc)
	if err := cmp.Or(noNVIDIA, noMeta); err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	n := &Node{config: config, name: name, oldAfter: oldAfter, nvidia: nvidia, health: apihealth.New(log), changes: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	n.driver = newDriver(meta, n.health, n.changed)
	n.labels = newWatch(whatLabels, n.health, &metav1.PartialObjectMetadata{}, meta.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), named(name), labelsOf, n.changed)
	return n, nil
}

func labelsOf(obj any) (nodeLabels, bool) {
	node, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nodeLabels{}, false
	}
	return nodeLabels{domain: node.Labels[imex.DomainLabel], clique: node.Labels[topology.CliqueLabel]}, true
}

func (n *Node) changed() {
	again.Notify(n.wake)
	again.Notify(n.changes)
}

// SetClique says in which clique NVML sees the node, "<cluster UUID>.<clique id>". It is
// empty if NVML sees none or has not been read. Then the node's label counts.
func (n *Node) SetClique(id string) {
	n.mu.Lock()
	old := n.nvml
	n.nvml = id
	n.mu.Unlock()
	if old != id {
		n.changed()
	}
}

// Changes wakes when a Snapshot would differ.
func (n *Node) Changes() <-chan struct{} { return n.changes }

// Run watches until ctx ends. It tries again what cannot be read, and keeps what was
// read before.
func (n *Node) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.driver.run(ctx) })
	running.Go(func() { n.labels.run(ctx) })
	for ctx.Err() == nil {
		if name := n.wanted(); name != "" {
			n.watchClique(ctx, name)
			continue
		}
		select {
		case <-ctx.Done():
		case <-n.wake:
		}
	}
	return nil
}

// seenLabels returns the labels that were last seen. A Node that is not there has none.
func (n *Node) seenLabels() (nodeLabels, error) {
	nodes, err := n.labels.all()
	if len(nodes) == 0 {
		return nodeLabels{}, err
	}
	return nodes[0].facts, nil
}

// wanted names the ComputeDomainClique of the node, empty if it is not known.
func (n *Node) wanted() string {
	l, _ := n.seenLabels()
	n.mu.Lock()
	defer n.mu.Unlock()
	clique := cmp.Or(n.nvml, l.clique)
	if l.domain == "" || clique == "" {
		return ""
	}
	return l.domain + "." + clique
}

// What is watched, for people.
const (
	whatLabels = "labels of the own Node"
	whatClique = "the own ComputeDomainClique"
)

// oldAfter and the 45 s in which the client notices that a connection is dead are two minutes.
const oldAfter = 75 * time.Second

// watchClique watches one clique until another is wanted or ctx ends.
func (n *Node) watchClique(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	own := newWatch(whatClique, n.health, &nvapi.ComputeDomainClique{}, n.nvidia.ComputeDomainCliques(metav1.NamespaceAll), named(name), readClique, n.changed)
	n.setOwn(ownClique{name: name, watch: own})
	defer n.setOwn(ownClique{})
	running.Go(func() { own.run(ctx) })
	for asked := false; n.wanted() == name; {
		if cliques, err := own.all(); err == nil && (len(cliques) > 0 || !asked) {
			asked = len(cliques) == 0 && n.askForOthers(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
	}
}

// askPause is the time before an error of asking for other cliques is tried again.
const askPause = 30 * time.Second

// askForOthers asks once whether there is any ComputeDomainClique, and reports whether
// that is known now. If it is not, askForOthers wakes Run after a while.
func (n *Node) askForOthers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askPause)
	defer cancel()
	list, err := n.nvidia.ComputeDomainCliques(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		time.AfterFunc(askPause, func() { again.Notify(n.wake) })
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.own.others, n.own.othersKnown = nil, true
	for i := range list.Items {
		if c, ok := readClique(&list.Items[i]); ok {
			n.own.others = append(n.own.others, c)
		}
	}
	again.Notify(n.changes)
	return true
}

func (n *Node) setOwn(own ownClique) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.own = own
	again.Notify(n.changes)
}

// Snapshot returns what is seen of the node: its labels and its clique. The domain has
// no UID, because the agent may not read it. Snapshot does not wait: its error says why
// something has not been read yet, and Changes wakes when it has.
func (n *Node) Snapshot() (*imex.Observation, error) {
	l, err := n.seenLabels()
	if err := cmp.Or(err, n.health.Lasting(n.oldAfter, whatLabels, whatClique, whatClasses)); err != nil {
		return nil, err
	}
	seen := &imex.Observation{
		HostChannels: n.config.HostChannels, Domain: unseen(&n.config), ClaimsUnread: true,
		Nodes: map[string]imex.Node{n.name: {Name: n.name, DomainLabel: l.domain, CliqueLabel: l.clique}},
	}
	serves, err := n.driver.known()
	if err != nil && n.config.Join != imex.JoinHost {
		return nil, err
	}
	switch seen.Join, seen.Why = n.config.Choose(serves, false); {
	case n.config.Join == imex.JoinHost:
		return seen, nil
	case serves != imex.OwnDaemons:
		seen.Domain = withoutDaemons(&n.config, serves)
		return seen, nil
	}
	want := n.wanted()
	if want == "" {
		return seen, nil
	}
	n.mu.Lock()
	own := n.own
	n.mu.Unlock()
	if own.name != want {
		return nil, unread(whatClique, nil)
	}
	cliques, err := own.watch.all()
	switch {
	case err != nil:
		return nil, err
	case len(cliques) > 0:
		seen.Cliques = factsOf(cliques)
	case !own.othersKnown:
		return nil, unread("whether there are ComputeDomainCliques", nil)
	default:
		seen.Cliques = own.others
	}
	return seen, nil
}
