package computedomain

import (
	"bytes"
	"encoding/json"
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
	// ClassesRead says that all DeviceClasses were added. Otherwise a list without any does not say
	// whether NVIDIA's DRA driver is there.
	ClassesRead bool
	// Installed says that Quoin has a publisher. Add sets it for the publisher's Deployment.
	Installed bool

	config  imex.Config
	domains objects[domainFacts]
	cliques objects[imex.Clique]
	claims  objects[claimFacts]
	pods    objects[podFacts]
	classes []string // of devices
	// holders are the DaemonSet quoin-imex if its pods run.
	holders bool

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
		o.classes, o.ClassesRead = append(o.classes, class.Name), true
		return err
	case "DaemonSet":
		var set appsv1.DaemonSet
		err := o.daemons.add(readDaemons, text, &set)
		o.holders = o.holders || ownerOf(set.Labels) == imex.OwnerHolder && set.Status.NumberReady > 0
		return err
	case "Deployment":
		var deployment appsv1.Deployment
		err := o.controllers.add(readController, text, &deployment)
		o.Installed = o.Installed || deployment.Labels[labelName] == holderName && deployment.Labels[labelComponent] == publisherComponent
		return err
	case "NodeSet":
		return o.pods.add(readNodeSet, text, &unstructured.Unstructured{})
	case "Pod":
		if !bytes.Contains(text, []byte("resourceClaims")) && !bytes.Contains(text, []byte(slurmdName)) {
			return nil // most pods are long, have no claims and are not Slurm's
		}
		return o.pods.add(readPod, text, &corev1.Pod{})
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

// Seen returns what is seen, all but the nodes.
func (o *Objects) Seen() *imex.Observation {
	pods, claims := o.pods.all(), joinClaims(o.claims.all(), o.pods.all())
	s := &sight{config: o.config, serves: imex.OwnDaemons, domains: o.domains.all(), cliques: factsOf(o.cliques.all()), pods: pods, holders: o.holders, installed: o.Installed}
	if o.ClassesRead {
		s.serves = serviceOf(o.classes)
	}
	for i := range claims {
		if c := &claims[i]; c.Owner == imex.OwnerOther && c.Domain != "" && len(c.Pods) > 0 && (s.job == "" || c.Pods[0] < s.job) {
			s.job = c.Pods[0]
		}
	}
	seen, _ := s.see(s.choose())
	seen.Claims = claims
	describe(&seen.Domain, factsOf(o.daemons.all()), factsOf(o.controllers.all()))
	return seen
}
