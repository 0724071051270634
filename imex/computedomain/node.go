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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// What a Node watches, for people.
const (
	whatNode   = "labels of the own Node"
	whatClique = "the own ComputeDomainClique"
	whatOthers = "whether there are ComputeDomainCliques"
)

// Node watches the membership of one node, for its agent: whether there are
// ComputeDomains at all, the node's labels and, once a label names a domain, the
// clique of that domain which the node is in. It keeps no more than these, and where
// that clique is not there one other, if there is any.
type Node struct {
	config  imex.Config
	name    string
	nvidia  nvclient.ResourceV1beta1Interface
	health  *apihealth.Health
	changes chan struct{}
	wake    chan struct{} // another clique may be meant
	defined *defined      // of ComputeDomains
	labels  *source[nodeLabels]
	watched followed // of the labels

	mu     sync.Mutex
	nvml   string // the clique by NVML
	clique *source[imex.Clique]
	meant  string // the name of the ComputeDomainClique that is watched
	// others are some clique of another name, where that one is not there and it is
	// known whether there are any: a driver with none has its feature turned off.
	others      []imex.Clique
	othersKnown bool
}

// nodeLabels are the labels of a Node that are of interest.
type nodeLabels struct{ domain, clique string }

// NewNode returns an observer of the node called name in the cluster that rc
// leads to. Nothing is asked of the API server before Run. config is complete.
func NewNode(rc *rest.Config, config imex.Config, name string, log *slog.Logger) (*Node, error) {
	nvidia, err := nvclient.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	meta, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	n := &Node{config: config, name: name, nvidia: nvidia, health: apihealth.New(log), changes: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	n.defined = newDefined(meta, whatDomainsCRD, domainsCRD, n.health, n.changed)
	n.labels = newSource(readLabels, n.changed)
	n.watched = newFollowed(whatNode, &metav1.PartialObjectMetadata{}, meta.Resource(corev1.SchemeGroupVersion.WithResource("nodes")), named(name), n.labels, n.health)
	return n, nil
}

func readLabels(obj any) (nodeLabels, bool) {
	node, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nodeLabels{}, false
	}
	return nodeLabels{domain: node.Labels[labelDomain], clique: node.Labels[labelClique]}, true
}

func (n *Node) changed() {
	notify(n.wake)
	notify(n.changes)
}

// SetClique says in which clique NVML sees the node, "<cluster UUID>.<clique id>";
// empty where it sees none or is not known. Until it is known the node's label
// counts.
func (n *Node) SetClique(id string) {
	n.mu.Lock()
	was := n.nvml
	n.nvml = id
	n.mu.Unlock()
	if was != id {
		n.changed()
	}
}

// Changes wakes when a Snapshot would differ.
func (n *Node) Changes() <-chan struct{} { return n.changes }

// Trouble says what cannot be read now, although it may have been before; empty
// if all can.
func (n *Node) Trouble() string { return n.health.String() }

// Run watches until ctx ends; what cannot be read is tried again and again with
// what is known kept.
func (n *Node) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { n.defined.watch.follow(ctx, n.health) })
	running.Go(func() { n.watched.follow(ctx, n.health) })
	for ctx.Err() == nil {
		if name := n.wanted(); name != "" {
			n.followClique(ctx, name)
			continue
		}
		select {
		case <-ctx.Done():
		case <-n.wake:
		}
	}
	return nil
}

// wanted names the ComputeDomainClique that the node is in, as far as is known.
func (n *Node) wanted() string {
	labels, _ := n.labels.all()
	l := labels[types.NamespacedName{Name: n.name}]
	n.mu.Lock()
	defer n.mu.Unlock()
	clique := cmp.Or(n.nvml, l.clique)
	if l.domain == "" || clique == "" {
		return ""
	}
	return l.domain + "." + clique
}

// followClique watches one clique until another is meant or ctx ends.
func (n *Node) followClique(ctx context.Context, name string) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	clique := newSource(readClique, n.changed)
	n.mean(name, clique)
	defer n.mean("", nil)
	watched := newFollowed(whatClique, &nvapi.ComputeDomainClique{}, n.nvidia.ComputeDomainCliques(metav1.NamespaceAll), named(name), clique, n.health)
	running.Go(func() { watched.follow(ctx, n.health) })
	for looked := false; n.wanted() == name; {
		if own, read := clique.all(); read && (len(own) > 0 || !looked) {
			looked = len(own) == 0 && n.lookForOthers(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
	}
}

// lookForOthers asks once whether there are ComputeDomainCliques at all, and reports
// whether that is known now. It wakes Run where it is not, after a while.
func (n *Node) lookForOthers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, errorPause)
	defer cancel()
	list, err := n.nvidia.ComputeDomainCliques(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		time.AfterFunc(errorPause, func() { notify(n.wake) })
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others, n.othersKnown = nil, true
	for i := range list.Items {
		if c, ok := readClique(&list.Items[i]); ok {
			n.others = append(n.others, c)
		}
	}
	notify(n.changes)
	return true
}

func (n *Node) mean(name string, clique *source[imex.Clique]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.meant, n.clique, n.others, n.othersKnown = name, clique, nil, false
	notify(n.changes)
}

// Snapshot returns what is seen of the node: its labels and its clique. The
// domain has no UID, for it is not this observer's to read. It does not wait: as
// long as what it needs has not been read its error says why, and Changes wakes
// afterwards.
func (n *Node) Snapshot() (*imex.Seen, error) {
	labels, read := n.labels.all()
	if !read {
		return nil, &unreadError{whatNode, n.health.Of(whatNode)}
	}
	l := labels[types.NamespacedName{Name: n.name}]
	seen := &imex.Seen{
		Join: n.config.Join, HostChannels: n.config.HostChannels, Domain: imex.Domain{Namespace: n.config.Namespace, Name: n.config.Name}, ClaimsUnread: true,
		Nodes: map[string]imex.Node{n.name: {Name: n.name, DomainLabel: l.domain, CliqueLabel: l.clique}},
	}
	switch is, read := n.defined.known(); {
	case !read:
		return nil, &unreadError{whatDomainsCRD, n.health.Of(whatDomainsCRD)}
	case !is:
		seen.Domain = noCRD(n.config, unknownDomains)
		return seen, nil
	}
	want := n.wanted()
	if want == "" {
		return seen, nil
	}
	n.mu.Lock()
	meant, clique, others, othersKnown := n.meant, n.clique, n.others, n.othersKnown
	n.mu.Unlock()
	if meant != want {
		return nil, &unreadError{what: whatClique}
	}
	cliques, read := clique.all()
	if !read {
		return nil, &unreadError{whatClique, n.health.Of(whatClique)}
	}
	for _, c := range cliques {
		seen.Cliques = append(seen.Cliques, c)
	}
	switch {
	case len(cliques) > 0:
	case !othersKnown:
		return nil, &unreadError{what: whatOthers}
	default:
		seen.Cliques = others
	}
	return seen, nil
}
