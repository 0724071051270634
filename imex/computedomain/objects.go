package computedomain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
)

// ListCommand prints the objects that count.
const ListCommand = "kubectl get nodes,pods,resourceclaims,computedomains,computedomaincliques,deviceclasses,daemonsets,deployments -A -o json"

// Objects are the facts of a cluster's objects in JSON, as kubectl prints them.
type Objects struct {
	config  imex.Config
	domains objects[domainFacts]
	cliques objects[imex.Clique]
	claims  objects[claimFacts]
	pods    objects[podFacts]
	classes []string // of devices
	listed  bool     // DeviceClasses are in the list

	daemons     objects[daemonsFacts]
	controllers objects[runsBy]
}

type objects[T any] map[types.NamespacedName]*record[T]

// NewObjects returns the facts of no objects. config is complete.
func NewObjects(config imex.Config) *Objects {
	return &Objects{config: config, domains: objects[domainFacts]{}, cliques: objects[imex.Clique]{}, claims: objects[claimFacts]{}, pods: objects[podFacts]{},
		daemons: objects[daemonsFacts]{}, controllers: objects[runsBy]{}}
}

// Add keeps the facts of a ComputeDomain, ComputeDomainClique, ResourceClaim, DeviceClass,
// Pod, DaemonSet, Deployment or NodeSet of Slinky. It ignores other kinds.
func (o *Objects) Add(kind string, text []byte) error {
	switch kind {
	case nvapi.ComputeDomainKind:
		return o.domains.add(readDomain, text, &nvapi.ComputeDomain{})
	case "ComputeDomainClique":
		return o.cliques.add(readClique, text, &nvapi.ComputeDomainClique{})
	case "ResourceClaim":
		return o.claims.add(readClaim, text, &resourcev1.ResourceClaim{})
	case "DeviceClass":
		var class metav1.PartialObjectMetadata
		err := json.Unmarshal(text, &class)
		o.classes, o.listed = append(o.classes, class.Name), true
		return err
	case "DaemonSet":
		return o.daemons.add(readDaemons, text, &appsv1.DaemonSet{})
	case "Deployment":
		return o.controllers.add(readController, text, &appsv1.Deployment{})
	case "NodeSet":
		return o.pods.add(readNodeSet, text, &unstructured.Unstructured{})
	case "Pod":
		if !bytes.Contains(text, []byte("resourceClaims")) && !bytes.Contains(text, []byte(slurmdName)) {
			return nil // most pods are long, have no claims and are not Slurm's
		}
		return o.pods.add(podReader(o.config.Join), text, &corev1.Pod{})
	}
	return nil
}

func (o objects[T]) add(read func(any) (T, bool), text []byte, object metav1.Object) error {
	if err := json.Unmarshal(text, object); err != nil {
		return err
	}
	if facts, keep := read(object); keep {
		r := newRecord(object, facts, true)
		o[r.NamespacedName] = r
	}
	return nil
}

func (o objects[T]) all() []*record[T] { return slices.Collect(maps.Values(o)) }

// Seen returns what is seen, all but the nodes. Without a ComputeDomain the cluster has
// none. A list without any DeviceClass does not say whether there is a driver. claims are
// known beside the list.
func (o *Objects) Seen(claims ...imex.Claim) *imex.Observation {
	pods, domains := o.pods.all(), o.domains.all()
	seen := &imex.Observation{HostChannels: o.config.HostChannels, Cliques: factsOf(o.cliques.all()), Claims: joinClaims(o.claims.all(), pods)}
	serves := imex.OwnDaemons
	if o.listed {
		serves = ServiceOf(o.classes)
	}
	w := choose(o.config, serves, append(claims, seen.Claims...), domains, workerTemplates(pods), types.NamespacedName{})
	seen.Join, seen.Why = w.join, w.why
	if seen.Join == imex.JoinSlurmd {
		seen.Workers = workersOn(pods)
	}
	switch {
	case !isClaimed(o.config.Join) && o.config.Join != imex.JoinAuto:
		return seen
	case serves != imex.OwnDaemons:
		seen.Domain = withoutDaemons(&o.config, serves)
		return seen
	}
	var there bool
	if seen.Domain, seen.Members, there = w.domain(o.config, domains); there {
		describe(&seen.Domain, factsOf(o.daemons.all()), factsOf(o.controllers.all()))
	} else {
		seen.Domain = noDomain(o.config, imex.NoDomain, fmt.Sprintf("the list has no ComputeDomain %s", keyOf(o.config)))
		seen.Domain.Problem = cmp.Or(elsewhere(o.config, seen.Claims, domains), seen.Domain.Problem)
	}
	return seen
}
