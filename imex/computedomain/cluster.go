package computedomain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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

// Cluster keeps one ComputeDomain as it is configured, and watches who in the
// cluster joins it or another.
type Cluster struct {
	config  imex.Config
	kube    kubernetes.Interface
	nvidia  nvclient.ResourceV1beta1Interface
	meta    metadata.Interface
	log     *slog.Logger
	health  *apihealth.Health
	changes chan struct{}
	domains *defined
	cliques *defined

	domain  *source[domainFacts]
	clique  *source[imex.Clique]
	claims  *source[claimFacts]
	joining *source[podFacts] // holders' and Slurm's
	waiting *source[podFacts] // all that are not scheduled
	refusal refusal
}

// NewCluster returns an observer of the cluster that rc leads to. Nothing is
// asked of the API server before Run. config is complete.
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
	c := &Cluster{config: config, kube: kube, nvidia: nvidia, meta: meta, log: log, health: apihealth.New(log), changes: make(chan struct{}, 1)}
	changed := func() { notify(c.changes) }
	c.domain, c.clique = newSource(readDomain, changed), newSource(readClique, changed)
	c.claims, c.joining, c.waiting = newSource(readClaim, changed), newSource(joiningReader(config.Join), changed), newSource(readPod, changed)
	c.domains, c.cliques = newDefined(meta, whatDomainsCRD, domainsCRD, c.health, changed), newDefined(meta, whatCliquesCRD, cliquesCRD, c.health, changed)
	return c, nil
}

// notify wakes who waits, once for all that has changed since.
func notify(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default:
	}
}

// Changes wakes when a Snapshot, or what Ensure returns, would differ.
func (c *Cluster) Changes() <-chan struct{} { return c.changes }

// Run watches until ctx ends; what cannot be read is tried again and again with
// what is known kept. As long as the driver's definitions are missing, they
// alone are watched.
func (c *Cluster) Run(ctx context.Context) error {
	if c.config.Join == imex.JoinNone { // there is nothing to see
		<-ctx.Done()
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() {
		c.domains.run(ctx, c.health, []func(){c.domain.forget, c.refusal.end, c.claims.forget, c.joining.forget, c.waiting.forget}, c.followed)
	})
	running.Go(func() {
		c.cliques.run(ctx, c.health, []func(){c.clique.forget}, func() []followed {
			return []followed{newFollowed(whatCliques, &nvapi.ComputeDomainClique{}, c.nvidia.ComputeDomainCliques(metav1.NamespaceAll), all, c.clique, c.health)}
		})
	})
	running.Wait()
	return nil
}

func all(*metav1.ListOptions) {}

func named(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) { o.FieldSelector = metav1.ObjectNameField + "=" + name }
}

// followed is what is watched once there are ComputeDomains.
func (c *Cluster) followed() []followed {
	pods := c.kube.CoreV1().Pods(metav1.NamespaceAll)
	return []followed{
		newFollowed(whatDomain, &nvapi.ComputeDomain{}, c.nvidia.ComputeDomains(c.config.Namespace), named(c.config.Name), c.domain, c.health),
		newFollowed(whatClaims, &resourcev1.ResourceClaim{}, c.kube.ResourceV1().ResourceClaims(metav1.NamespaceAll), all, c.claims, c.health),
		newFollowed(whatPods, &corev1.Pod{}, pods, func(o *metav1.ListOptions) { o.LabelSelector = joiningPods }, c.joining, c.health),
		newFollowed(whatWaiting, &corev1.Pod{}, pods, func(o *metav1.ListOptions) { o.FieldSelector = unscheduledPods }, c.waiting, c.health),
	}
}

// Snapshot returns what is seen, all but Nodes. It does not wait: as long as what
// it needs has not been read its error says why, and Changes wakes afterwards.
func (c *Cluster) Snapshot() (*imex.Seen, error) {
	seen := &imex.Seen{Join: c.config.Join, HostChannels: c.config.HostChannels}
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
