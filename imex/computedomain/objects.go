package computedomain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// ListCommand prints the objects that count.
const ListCommand = "kubectl get nodes,pods,resourceclaims,computedomains,computedomaincliques -A -o json"

// Objects are the facts of a cluster's objects in JSON, as kubectl prints them.
type Objects struct {
	config  imex.Config
	domains map[types.NamespacedName]domainFacts
	cliques map[types.NamespacedName]imex.Clique
	claims  map[types.NamespacedName]claimFacts
	pods    map[types.NamespacedName]podFacts
}

// NewObjects returns the facts of no objects. config is complete.
func NewObjects(config imex.Config) *Objects {
	return &Objects{config: config, domains: map[types.NamespacedName]domainFacts{}, cliques: map[types.NamespacedName]imex.Clique{},
		claims: map[types.NamespacedName]claimFacts{}, pods: map[types.NamespacedName]podFacts{}}
}

// Add keeps the facts of an object of one of these kinds: ComputeDomain,
// ComputeDomainClique, ResourceClaim, Pod. It ignores other kinds.
func (o *Objects) Add(kind string, text []byte) error {
	switch kind {
	case nvapi.ComputeDomainKind:
		return add(o.domains, readDomain, text, &nvapi.ComputeDomain{})
	case "ComputeDomainClique":
		return add(o.cliques, readClique, text, &nvapi.ComputeDomainClique{})
	case "ResourceClaim":
		return add(o.claims, readClaim, text, &resourcev1.ResourceClaim{})
	case "Pod":
		if !bytes.Contains(text, []byte("resourceClaims")) && !bytes.Contains(text, []byte(slurmdName)) {
			return nil // most pods are long, have no claims and are not Slurm's
		}
		return add(o.pods, joiningReader(o.config.Join), text, &corev1.Pod{})
	}
	return nil
}

func add[T any](facts map[types.NamespacedName]T, read func(any) (T, bool), text []byte, object metav1.Object) error {
	if err := json.Unmarshal(text, object); err != nil {
		return err
	}
	if f, keep := read(object); keep {
		facts[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = f
	}
	return nil
}

// Seen returns what is seen, all but the nodes. Without a ComputeDomain the cluster has
// none.
func (o *Objects) Seen() *imex.Observation {
	seen := &imex.Observation{Join: o.config.Join, HostChannels: o.config.HostChannels,
		Domain:  noDomain(o.config, imex.ReasonNoDomain, fmt.Sprintf("the list has no ComputeDomain %s", keyOf(o.config))),
		Cliques: slices.Collect(maps.Values(o.cliques)), Claims: joinClaims(o.claims, o.pods)}
	if facts, there := o.domains[keyOf(o.config)]; there {
		seen.Domain, seen.Members = domainOf(o.config, &facts), facts.members
	} else if holder := heldElsewhere(o.config, seen.Claims); holder != "" {
		seen.Domain.Problem.Message = holder
	}
	if o.config.Join == imex.JoinSlurmd {
		seen.Workers = workersOn(o.pods)
	}
	return seen
}
