// Package computedomain is the Kubernetes side of IMEX membership. For the publisher
// it creates the configured ComputeDomain and observes who joins: the domain, the
// cliques, and the pods that may claim. For the agent it observes one node: its labels
// and its clique. Who holds and who wants which claim is read only when somebody asks,
// from [Objects].
//
// Everything else is watched by informers of client-go. A cluster at rest asks nothing of
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
// it or another. Ensure is for one goroutine.
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
	pods    *watch[podFacts] // of the holder and of Slurm

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
	c.pods = newWatch("pods that join domains", c.health, &corev1.Pod{}, kube.CoreV1().Pods(metav1.NamespaceAll), func(o *metav1.ListOptions) { o.LabelSelector = joiningPods }, readPod, changed)
	return c, nil
}

// Changes wakes when what Ensure returns would differ.
func (c *Cluster) Changes() <-chan struct{} { return c.changes }

// Run watches until ctx ends. It tries again what cannot be read, and keeps what was
// read before. While the driver starts no daemons, it watches only DeviceClasses.
func (c *Cluster) Run(ctx context.Context) error {
	if !c.config.Claims() { // there is nothing to see
		<-ctx.Done()
		return nil
	}
	c.driver.run(ctx, c.domains.run, c.cliques.run, c.pods.run)
	return nil
}

// see returns what is seen, and whether the configured domain is to be created.
func (c *Cluster) see() (seen *imex.Observation, create bool, err error) {
	s, err := c.look()
	if err != nil {
		return nil, false, err
	}
	w := s.choose()
	if w.adopted {
		c.adopted = keyOf(w.config)
	}
	seen, create = s.see(w)
	seen.ClaimsUnread = true
	return seen, create, nil
}

// look reads what is watched. A driver without cliques has none. Waiting does not help if pods are refused.
func (c *Cluster) look() (*sight, error) {
	s := &sight{config: c.config, installed: true, last: c.adopted}
	if !c.config.Claims() {
		return s, nil
	}
	var err error
	if s.serves, err = c.driver.known(); err != nil || s.serves != imex.OwnDaemons {
		return s, err
	}
	var noDomains, noCliques, noPods error
	s.domains, noDomains = c.domains.all()
	s.pods, noPods = c.pods.all()
	cliques, noCliques := c.cliques.all()
	s.cliques = factsOf(cliques)
	if s.undefined = apierrors.IsNotFound(noDomains); s.undefined {
		return s, nil
	}
	if apierrors.IsNotFound(noCliques) {
		noCliques = nil
	}
	if s.podsUnread = apierrors.IsForbidden(noPods); s.podsUnread {
		noPods = nil
	}
	return s, cmp.Or(noDomains, noCliques, noPods)
}
