package computedomain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
)

// What is watched, for people.
const (
	whatDomain     = "the ComputeDomain"
	whatCliques    = "ComputeDomainCliques"
	whatClaims     = "ResourceClaims"
	whatPods       = "pods that join domains"
	whatWaiting    = "pods that are not scheduled"
	whatDomainsCRD = "the definition of ComputeDomains"
	whatCliquesCRD = "the definition of ComputeDomainCliques"
)

// Cluster creates the configured ComputeDomain, and observes who in the cluster joins
// it or another.
type Cluster struct {
	config  imex.Config
	nvidia  nvclient.ResourceV1beta1Interface
	log     *slog.Logger
	health  *apihealth.Health
	changes chan struct{}
	refusal refusal

	domainCRD, cliqueCRD *definition

	domains *watch[domainFacts] // the configured one
	cliques *watch[imex.Clique]
	claims  *watch[claimFacts]
	joining *watch[podFacts] // pods of the holder and of Slurm
	waiting *watch[podFacts] // all pods that are not scheduled
}

// NewCluster returns an observer of the cluster that rc leads to. It asks nothing of
// the API server before Run. config is complete.
func NewCluster(rc *rest.Config, config imex.Config, log *slog.Logger) (*Cluster, error) {
	kube, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	nvidia, err := nvclient.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	meta, err := metadata.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	c := &Cluster{config: config, nvidia: nvidia, log: log, health: apihealth.New(log), changes: make(chan struct{}, 1)}
	changed := func() { notify(c.changes) }
	pods := kube.CoreV1().Pods(metav1.NamespaceAll)
	c.domainCRD = newDefinition(meta, whatDomainsCRD, domainsCRD, c.health, changed)
	c.cliqueCRD = newDefinition(meta, whatCliquesCRD, cliquesCRD, c.health, changed)
	c.domains = newWatch(whatDomain, c.health, &nvapi.ComputeDomain{}, nvidia.ComputeDomains(config.Namespace), named(config.Name), readDomain, changed)
	c.cliques = newWatch(whatCliques, c.health, &nvapi.ComputeDomainClique{}, nvidia.ComputeDomainCliques(metav1.NamespaceAll), all, readClique, changed)
	c.claims = newWatch(whatClaims, c.health, &resourcev1.ResourceClaim{}, kube.ResourceV1().ResourceClaims(metav1.NamespaceAll), all, readClaim, changed)
	c.joining = newWatch(whatPods, c.health, &corev1.Pod{}, pods, func(o *metav1.ListOptions) { o.LabelSelector = joiningPods }, joiningReader(config.Join), changed)
	c.waiting = newWatch(whatWaiting, c.health, &corev1.Pod{}, pods, func(o *metav1.ListOptions) { o.FieldSelector = unscheduledPods }, readPod, changed)
	return c, nil
}

// Changes wakes when a Snapshot, or what Ensure returns, would differ.
func (c *Cluster) Changes() <-chan struct{} { return c.changes }

// Run watches until ctx ends. It tries again what cannot be read, and keeps what was
// read before. While the driver's definitions are missing, it watches only these.
func (c *Cluster) Run(ctx context.Context) error {
	if c.config.Join == imex.JoinNone { // there is nothing to see
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { c.domainCRD.run(ctx, c.domains.run, c.claims.run, c.joining.run, c.waiting.run, c.endRefusal) })
	running.Go(func() { c.cliqueCRD.run(ctx, c.cliques.run) })
	running.Wait()
	return nil
}

// endRefusal forgets that the API server refused the domain once its definition is
// gone.
func (c *Cluster) endRefusal(ctx context.Context) {
	<-ctx.Done()
	c.refusal.end()
}

// Snapshot returns what is seen, all but Nodes. It does not wait: its error says why
// something has not been read yet, and Changes wakes when it has.
func (c *Cluster) Snapshot() (*imex.Observation, error) {
	seen := &imex.Observation{Join: c.config.Join, HostChannels: c.config.HostChannels}
	if c.config.Join == imex.JoinNone {
		return seen, nil
	}
	domain, facts, err := c.lookup()
	if err != nil {
		return nil, err
	}
	seen.Domain = domain
	if domain.Problem.Reason == imex.ReasonNoCRD {
		return seen, nil
	}
	if seen.Cliques, err = c.allCliques(); err != nil {
		return nil, err
	}
	if seen.Members = facts.members; seen.Members == nil {
		seen.Members = map[string]imex.Member{}
	}
	seen.Workers = c.allWorkers()
	seen.Claims, err = c.allClaims()
	if refused := (*unreadError)(nil); errors.As(err, &refused) && refused.final() {
		seen.ClaimsUnread = true
	} else if err != nil {
		return nil, err
	}
	return seen, nil
}

// lookup returns the domain as it was last seen.
func (c *Cluster) lookup() (imex.Domain, domainFacts, error) {
	var none domainFacts
	switch is, read := c.domainCRD.known(); {
	case !read:
		return imex.Domain{}, none, c.domainCRD.crds.unread()
	case !is:
		return noCRD(c.config, unknownDomains), none, nil
	}
	domains, read := c.domains.all()
	if !read {
		if err := c.domains.unread(); !apierrors.IsNotFound(err) {
			return imex.Domain{}, none, err
		}
		return noCRD(c.config, fmt.Sprintf("the API server knows ComputeDomains, but not of %s", nvapi.SchemeGroupVersion)), none, nil
	}
	facts, there := domains[keyOf(c.config)]
	if !there {
		return c.absent(), none, nil
	}
	return domainOf(c.config, &facts), facts, nil
}

// allCliques returns the cliques of all domains. A driver without cliques has none.
func (c *Cluster) allCliques() ([]imex.Clique, error) {
	switch is, read := c.cliqueCRD.known(); {
	case !read:
		return nil, c.cliqueCRD.crds.unread()
	case !is:
		return nil, nil
	}
	cliques, read := c.cliques.all()
	if !read {
		if err := c.cliques.unread(); !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(cliques)), nil
}

// allClaims returns the channel claims of all domains, and whose they are.
func (c *Cluster) allClaims() ([]imex.Claim, error) {
	claims, read := c.claims.all()
	if !read {
		return nil, c.claims.unread()
	}
	joining, read := c.joining.all()
	if !read {
		return nil, c.joining.unread()
	}
	pods, read := c.waiting.all()
	if !read {
		return nil, c.waiting.unread()
	}
	maps.Copy(pods, joining) // if both have a pod, these facts are the newer ones
	return joinClaims(claims, pods), nil
}

// allWorkers returns the nodes that have worker pods of Slurm. It is nil if that is not
// known or does not matter.
func (c *Cluster) allWorkers() map[string]bool {
	if c.config.Join != imex.JoinSlurmd {
		return nil
	}
	pods, read := c.joining.all()
	if !read {
		return nil
	}
	return workersOn(pods)
}

// unreadError says that something has never been read, and why, if that is known.
type unreadError struct {
	what string
	err  error
}

// Error names what has not been read.
func (e *unreadError) Error() string {
	if e.err == nil {
		return e.what + " not read yet"
	}
	return fmt.Sprintf("%s not read yet: %v", e.what, e.err)
}

// Unwrap returns why it has not been read.
func (e *unreadError) Unwrap() error { return e.err }

// final reports whether the API server has refused, so that waiting does not help.
func (e *unreadError) final() bool {
	return apierrors.IsForbidden(e.err) || apierrors.IsNotFound(e.err)
}
