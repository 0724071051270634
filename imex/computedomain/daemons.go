package computedomain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// How the driver gives the daemons of a domain what they run by: its controller has the
// image in $IMAGE_NAME, and writes gates and limit into the same variables of the daemons.
const (
	controllerCommand = "compute-domain-controller"
	imageVariable     = "IMAGE_NAME"
	gatesVariable     = "FEATURE_GATES"
	limitVariable     = "MAX_NODES_PER_IMEX_DOMAIN"
)

// runsBy is what daemons of a domain run by, or what the driver's controller would give
// them. A controller names only the gates that were set.
type runsBy struct {
	namespace, name string
	image, limit    string
	gates           map[string]string
}

// daemonsFacts are the facts of the DaemonSet of a domain's daemons.
type daemonsFacts struct {
	domain string // UID
	runs   runsBy
	// old is how many of the nodes have a pod of an older template.
	nodes, old int
}

// readDaemons reads the DaemonSet of a domain's daemons.
func readDaemons(obj any) (daemonsFacts, bool) {
	set, ok := obj.(*appsv1.DaemonSet)
	if !ok || set.Labels[imex.DomainLabel] == "" || len(set.Spec.Template.Spec.Containers) == 0 {
		return daemonsFacts{}, false
	}
	c := &set.Spec.Template.Spec.Containers[0]
	out := daemonsFacts{domain: set.Labels[imex.DomainLabel], runs: runsOf(set, c, c.Image)}
	if s := &set.Status; s.ObservedGeneration == set.Generation && s.CurrentNumberScheduled > s.UpdatedNumberScheduled {
		out.nodes, out.old = int(s.CurrentNumberScheduled), int(s.CurrentNumberScheduled-s.UpdatedNumberScheduled)
	}
	return out, true
}

// readController reads the Deployment of the driver's controller. Others are not kept.
func readController(obj any) (runsBy, bool) {
	deployment, ok := obj.(*appsv1.Deployment)
	if !ok {
		return runsBy{}, false
	}
	for i := range deployment.Spec.Template.Spec.Containers {
		c := &deployment.Spec.Template.Spec.Containers[i]
		if len(c.Command) > 0 && c.Command[0] == controllerCommand {
			return runsOf(deployment, c, variable(c, imageVariable)), true
		}
	}
	return runsBy{}, false
}

func runsOf(of metav1.Object, c *corev1.Container, image string) runsBy {
	r := runsBy{namespace: of.GetNamespace(), name: of.GetName(), image: image, limit: variable(c, limitVariable), gates: map[string]string{}}
	for gate := range strings.SplitSeq(variable(c, gatesVariable), ",") {
		if name, value, is := strings.Cut(strings.TrimSpace(gate), "="); is {
			r.gates[name] = value
		}
	}
	return r
}

// variable returns the value of an environment variable, empty if there is none.
func variable(c *corev1.Container, name string) string {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return c.Env[i].Value
		}
	}
	return ""
}

// outdated says how daemons differ from what they would get today, empty if they do not. What the
// controller would give them is not compared if none is known in their namespace.
func outdated(d *daemonsFacts, controllers []runsBy) string {
	var out []string
	if d.old > 0 {
		out = append(out, fmt.Sprintf("%d of %d nodes have a pod of an older template", d.old, d.nodes))
	}
	add := func(what, is, would string) {
		if would != "" && is != would {
			out = append(out, fmt.Sprintf("%s is %s, and the driver's controller would set %s", what, cmp.Or(is, "not set"), would))
		}
	}
	controllers = slices.SortedFunc(slices.Values(controllers), func(a, b runsBy) int { return cmp.Compare(a.name, b.name) })
	if i := slices.IndexFunc(controllers, func(c runsBy) bool { return c.namespace == d.runs.namespace }); i >= 0 {
		now := &controllers[i]
		add("the image", d.runs.image, now.image)
		add(limitVariable, d.runs.limit, now.limit)
		for _, gate := range slices.Sorted(maps.Keys(now.gates)) {
			add("the feature gate "+gate, d.runs.gates[gate], now.gates[gate])
		}
	}
	return strings.Join(out, "; ")
}

// describe adds to a domain how many nodes of one clique its daemons take, and, if it has no other note, one if they
// are outdated.
func describe(d *imex.Domain, daemons []daemonsFacts, controllers []runsBy) {
	i := slices.IndexFunc(daemons, func(of daemonsFacts) bool { return of.domain == d.UID })
	if i < 0 {
		return
	}
	runs := &daemons[i].runs
	d.MaxNodes, _ = strconv.Atoi(runs.limit)
	if what := outdated(&daemons[i], controllers); what != "" && d.Note.Reason == "" {
		d.Note = topology.Finding{Reason: imex.DomainOutdated, Message: fmt.Sprintf(
			"DaemonSet %s/%s, which runs the domain's IMEX daemons, is outdated, because the driver never changes it: %s; renew the daemons rack by rack, as manifests/RUNBOOKS.md says",
			runs.namespace, runs.name, what)}
	}
}
