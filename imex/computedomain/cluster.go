// Package computedomain is the Kubernetes side of IMEX membership. For the publisher
// it creates the configured ComputeDomain and observes who joins: the domain, the
// cliques and the channel claims of the whole cluster. For the agent it observes one
// node: its labels and its clique.
//
// Everything is watched by informers of client-go. A cluster at rest asks nothing of
// the API server. The package changes no domain, because a spec is immutable, and
// deletes none. Package imex judges what is seen.
package computedomain

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"
	nvclient "sigs.k8s.io/dra-driver-nvidia-gpu/pkg/nvidia.com/clientset/versioned/typed/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// The words of NVIDIA's driver for ComputeDomains.
const (
	driverName     = "compute-domain.nvidia.com"
	channelClass   = "compute-domain-default-channel.nvidia.com" // of devices
	daemonClass    = "compute-domain-daemon.nvidia.com"          // there if the driver starts daemons
	wantedNumNodes = 0                                           // the driver's advice: nodes join as they come
)

// Cluster creates the configured ComputeDomain, and observes who in the cluster joins
// it or another. Ensure and Snapshot are for one goroutine.
type Cluster struct {
	config  imex.Config
	kube    kubernetes.Interface
	nvidia  nvclient.ResourceV1beta1Interface
	log     *slog.Logger
	health  *apihealth.Health
	changes chan struct{}

	driver *driver

	domains *watch[domainFacts] // the configured one, or all if one may be adopted
	cliques *watch[imex.Clique]
	claims  *watch[claimFacts]
	pods    *watch[podFacts] // of the holder and of Slurm
	runs    driverWatch      // what the driver runs

	joined  joined               // as of the last Snapshot
	adopted types.NamespacedName // the domain that was adopted last

	refusal refusal
}

// refusal is why the API server refused to create the domain, until it is asked again.
type refusal struct {
	why topology.Finding
	at  time.Time
}

// NewCluster returns an observer of the cluster that rc leads to. It asks nothing of
// the API server before Run. config is complete.
func NewCluster(rc *rest.Config, config imex.Config, log *slog.Logger) (*Cluster, error) {
	kube, noKube := kubernetes.NewForConfig(rc)
	nvidia, noNVIDIA := nvclient.NewForConfig(rc)
	meta, noMeta := metadata.NewForConfig(rc)
	if err := cmp.Or(noKube, noNVIDIA, noMeta); err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	c := &Cluster{config: config, kube: kube, nvidia: nvidia, log: log, health: apihealth.New(log), changes: make(chan struct{}, 1)}
	changed := func() { again.Notify(c.changes) }
	c.driver = newDriver(meta, c.health, changed)
	namespace, which := config.Namespace, named(config.Name)
	if config.Adopts() {
		namespace, which = metav1.NamespaceAll, all
	}
	c.domains = newWatch("the ComputeDomain", c.health, &nvapi.ComputeDomain{}, nvidia.ComputeDomains(namespace), which, readDomain, changed)
	c.cliques = newWatch("ComputeDomainCliques", c.health, &nvapi.ComputeDomainClique{}, nvidia.ComputeDomainCliques(metav1.NamespaceAll), all, readClique, changed)
	c.claims = newWatch("ResourceClaims", c.health, &resourcev1.ResourceClaim{}, kube.ResourceV1().ResourceClaims(metav1.NamespaceAll), all, readClaim, changed)
	c.pods = newWatch("pods that join domains", c.health, &corev1.Pod{}, kube.CoreV1().Pods(metav1.NamespaceAll), func(o *metav1.ListOptions) { o.LabelSelector = joiningPods }, podReader(config.Join), changed)
	c.runs = newDriverWatch(kube.AppsV1(), c.health, changed)
	return c, nil
}

// Changes wakes when a Snapshot, or what Ensure returns, would differ.
func (c *Cluster) Changes() <-chan struct{} { return c.changes }

// Run watches until ctx ends. It tries again what cannot be read, and keeps what was
// read before. While the driver starts no daemons, it watches only DeviceClasses.
func (c *Cluster) Run(ctx context.Context) error {
	if c.config.Join == imex.JoinNone || c.config.Join == imex.JoinHost { // there is nothing to see
		<-ctx.Done()
		return nil
	}
	c.driver.run(ctx, c.domains.run, c.cliques.run, c.claims.run, c.pods.run, c.runs.daemons.run, c.runs.controllers.run)
	return nil
}

// Snapshot returns what is seen, all but Nodes. It does not wait: its error says why
// something has not been read yet, and Changes wakes when it has. Claims and Workers belong to
// the Cluster, which returns them again: a caller does not change them.
func (c *Cluster) Snapshot() (*imex.Observation, error) {
	w, err := c.way()
	if err != nil {
		return nil, err
	}
	seen := &imex.Observation{HostChannels: c.config.HostChannels, Join: w.join, Why: w.why}
	if seen.Domain, seen.Members, err = c.lookup(&w); err != nil || !isClaimed(seen.Join) || seen.Domain.Problem.Reason == imex.ReasonNoDriver {
		return seen, err
	}
	if seen.Cliques, err = c.allCliques(); err != nil {
		return nil, err
	}
	known, err := c.joinedClaims()
	seen.Claims = known.claims
	if seen.Join == imex.JoinSlurmd {
		seen.Workers = known.workers
	}
	seen.ClaimsUnread = refused(err)
	if err != nil && !seen.ClaimsUnread {
		return nil, err
	}
	return seen, nil
}

// isClaimed reports whether pods claim the nodes' channels.
func isClaimed(join string) bool { return join == imex.JoinHolder || join == imex.JoinSlurmd }

// way says how nodes join, and which domain.
func (c *Cluster) way() (way, error) {
	if c.config.Join != imex.JoinAuto {
		return way{join: c.config.Join, config: c.config}, nil
	}
	serves, err := c.driver.known()
	if err != nil || serves != imex.OwnDaemons {
		return choose(c.config, serves, nil, nil, nil, c.adopted), err
	}
	seen, err := c.joinedClaims()
	if err != nil && !refused(err) {
		return way{}, err
	}
	var domains []*record[domainFacts]
	if c.config.Adopts() {
		if domains, err = c.domains.all(); err != nil && !refused(err) {
			return way{}, err
		}
	}
	w := choose(c.config, serves, seen.claims, domains, seen.templates, c.adopted)
	if w.adopted != nil {
		c.adopted = w.adopted.NamespacedName
	}
	return w, nil
}

// lookup returns the domain as it was last seen, and its members.
func (c *Cluster) lookup(w *way) (imex.Domain, map[string]imex.Member, error) {
	members := map[string]imex.Member{}
	if !isClaimed(c.config.Join) && c.config.Join != imex.JoinAuto {
		return imex.Domain{Namespace: c.config.Namespace, Name: c.config.Name}, members, nil
	}
	switch serves, err := c.driver.known(); {
	case err != nil:
		return imex.Domain{}, nil, err
	case serves != imex.OwnDaemons:
		return withoutDaemons(&c.config, serves), members, nil
	}
	domains, err := c.domains.all()
	switch {
	case apierrors.IsNotFound(err):
		return noDomain(c.config, imex.ReasonNoDriver, fmt.Sprintf("there are DeviceClasses of NVIDIA's DRA driver, but the API server does not know ComputeDomains of %s", nvapi.SchemeGroupVersion)), members, nil
	case err != nil:
		return imex.Domain{}, nil, err
	}
	domain, listed, there := w.domain(c.config, domains)
	if !there {
		return c.absent(), members, nil
	}
	c.runs.describe(&domain)
	return domain, listed, nil
}

// allCliques returns the cliques of all domains. A driver without cliques has none.
func (c *Cluster) allCliques() ([]imex.Clique, error) {
	cliques, err := c.cliques.all()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return factsOf(cliques), err
}

// joined are the claims of all domains with their pods, the nodes with workers, and the templates
// that these name.
type joined struct {
	claims    []imex.Claim // nil before the first
	workers   map[string]bool
	templates map[types.NamespacedName]bool
	of        [2]int64 // versions of what is watched
}

// joinedClaims returns the channel claims of all domains, whose they are, and what is known of
// workers, which may be something even if there is an error. Claims and pods are joined again
// only if one of them has changed.
func (c *Cluster) joinedClaims() (joined, error) {
	next := joined{of: [2]int64{c.claims.version.Load(), c.pods.version.Load()}}
	if c.joined.claims != nil && next.of == c.joined.of {
		return c.joined, nil
	}
	claims, noClaims := c.claims.all()
	pods, noPods := c.pods.all()
	if noPods == nil {
		next.workers, next.templates = workersOn(pods), workerTemplates(pods)
	}
	if err := cmp.Or(noClaims, noPods); err != nil {
		return next, err
	}
	next.claims = joinClaims(claims, pods)
	c.joined = next
	return next, nil
}

// refused reports whether the API server has refused to read something, so that
// waiting does not help.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }
