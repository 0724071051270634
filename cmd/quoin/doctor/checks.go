package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// The limits of what is in order.
const (
	maxClock = 30 * time.Second
	maxLease = 30 * time.Second
)

// The releases of Kubernetes from which there are admission policies, and ComputeDomains and
// ResourceSlices.
var (
	oldestKubernetes  = version.MustParseGeneric("1.30")
	domainsKubernetes = version.MustParseGeneric("1.34")
)

// Findings says what is in order and what is not.
func (c *Cluster) Findings() []topology.Finding {
	var f findings
	for resource, err := range c.Missing {
		f.unknown(resource, toSee(err), "%v", err)
	}
	slices.SortFunc(f, func(a, b topology.Finding) int { return strings.Compare(a.Thing, b.Thing) })
	for _, check := range c.checks() {
		if !slices.ContainsFunc(check.needs, func(resource string) bool { return c.Missing[resource] != nil }) {
			check.look(&f)
		}
	}
	return f.joined()
}

// check is one thing that is looked at.
type check struct {
	// needs are the resources without which the check is left out. Findings says why they could not be listed.
	needs []string
	look  func(*findings)
}

// checks are all checks, in the order of their findings.
func (c *Cluster) checks() []check {
	all := []check{
		{nil, c.config},
		{nil, c.server},
		{[]string{"customresourcedefinitions"}, c.definition},
		{[]string{"daemonsets"}, c.agents},
		{[]string{"deployments"}, c.publisher},
	}
	for _, p := range c.Publications {
		all = append(all,
			check{[]string{"configmaps"}, func(f *findings) { c.publication(f, p) }},
			check{[]string{"configmaps", "controllers"}, func(f *findings) { c.release(f, p) }},
			check{[]string{"controllers"}, func(f *findings) { c.slinky(f, p) }})
	}
	return append(all,
		check{nil, c.imex},
		check{[]string{"nodes"}, c.nodes},
		check{[]string{"deviceclasses"}, c.classes},
		check{[]string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, c.admission},
		check{nil, c.rights},
		check{nil, c.exporter})
}

// Head says in one line how large the cluster is, and which publisher leads.
func (c *Cluster) Head() string {
	nodes, leader := "nodes: not known", "nobody"
	if c.Missing["nodes"] == nil {
		gpus := 0
		for _, n := range c.Objects["nodes"] {
			if n.GetLabels()[labelGPU] == "true" {
				gpus++
			}
		}
		nodes = fmt.Sprintf("nodes: %d, of which %d are labelled as nodes with GPUs", len(c.Objects["nodes"]), gpus)
	}
	if lease, _, _ := c.lease(); lease != nil {
		leader = text(lease, "spec", "holderIdentity") + ", renewed " + text(lease, "spec", "renewTime")
	} else if c.Missing["leases"] != nil {
		leader = "not known"
	}
	return nodes + "; leader: " + leader
}

func (c *Cluster) server(f *findings) {
	switch release, err := version.ParseGeneric(c.Kubernetes); {
	case err != nil:
		f.unknown("kubernetes", "see which release it is: "+c.Kubectl+" version", "the API server is Kubernetes %s: it is not known whether this is %s or newer", c.Kubernetes, oldestKubernetes)
	case release.LessThan(oldestKubernetes):
		f.fatal("kubernetes", "upgrade Kubernetes", "the API server is Kubernetes %s: Quoin needs %s, for admission policies", c.Kubernetes, oldestKubernetes)
	case release.LessThan(domainsKubernetes):
		f.warn("kubernetes", "upgrade Kubernetes for IMEX domains", "the API server is %s: ComputeDomains and ResourceSlices need %s", c.Kubernetes, domainsKubernetes)
	default:
		f.ok("kubernetes", "the API server is Kubernetes %s", c.Kubernetes)
	}
	if c.Ahead.Abs() > maxClock {
		f.warn("clock", "let NTP set the clocks: timedatectl set-ntp true", "the clock here differs by %s from the API server's", c.Ahead)
	}
}

// config says why a configuration is not known. Programs do not start with one that they refuse.
func (c *Cluster) config(f *findings) {
	if d := c.workload(componentPublisher); d != nil && d.GetNamespace() != c.Config.Publisher.Namespace {
		f.unknown("config", "look there: quoin doctor"+c.Again+config.Flag("--namespace", d.GetNamespace()), "the publisher runs in namespace %s, and its configuration was looked for in %s", d.GetNamespace(), c.Config.Publisher.Namespace)
	}
	if refused := (*session.ConfigError)(nil); errors.As(c.ConfigErr, &refused) && refused.Refused {
		f.fatal("config", c.installed().correct(componentPublisher), "the publisher does not start: %v", c.ConfigErr)
	} else if c.ConfigErr != nil {
		f.unknown("config", moreRights+", or give the configuration by --config", "%v", c.ConfigErr)
	}
	if _, err := c.agentsConfig(); err != nil {
		f.fatal("config", c.installed().correct(componentAgent), "the agents do not start: %v", err)
	}
}

func (c *Cluster) definition(f *findings) {
	if c.named("customresourcedefinitions", "", reportsDefinition) == nil {
		f.fatal("definition", c.apply(), "the API server has no NodeReports: no agent can report")
		return
	}
	f.ok("definition", "NodeReports are defined")
}

func (c *Cluster) publisher(f *findings) {
	d := c.workload(componentPublisher)
	if d == nil {
		f.fatal("publisher", c.apply(), "there is no Deployment of the publisher")
		return
	}
	where := d.GetNamespace()
	logs := fmt.Sprintf("%s -n %s logs deploy/%s", c.Kubectl, where, d.GetName())
	switch ready, wanted := number(d, "status", "readyReplicas"), number(d, "spec", "replicas"); {
	case ready == 0:
		f.fatal("publisher", logs, "no publisher is ready, so nothing is published")
	case ready < wanted:
		f.warn("publisher", logs, "%d of %d publishers are ready", ready, wanted)
	default:
		f.ok("publisher", "%d publishers are ready", ready)
	}
	if lease, age, leads := c.lease(); lease == nil && c.Missing["leases"] == nil {
		f.fatal("leader", logs, "no publisher has ever led: there is no Lease %s/quoin-publisher", where)
	} else if lease != nil && !leads {
		f.fatal("leader", logs, "no publisher leads: the Lease was last renewed %s ago", age)
	}
	c.versions(f, d)
}

// lease returns the Lease of the publishers, nil without one, how old the last sign of the leader is, and whether a
// publisher still leads.
func (c *Cluster) lease() (lease *unstructured.Unstructured, age time.Duration, leads bool) {
	if d := c.workload(componentPublisher); d != nil {
		lease = c.named("leases", d.GetNamespace(), "quoin-publisher")
	}
	if lease == nil {
		return nil, 0, false
	}
	at, err := time.Parse(time.RFC3339, text(lease, "spec", "renewTime"))
	age = c.Now.Sub(at)
	return lease, age.Round(time.Second), err == nil && age <= maxLease && text(lease, "spec", "holderIdentity") != ""
}

// versions compares the images of agents and publisher, and this program.
func (c *Cluster) versions(f *findings, d *unstructured.Unstructured) {
	of := imageOf(d)
	if set := c.workload(componentAgent); set != nil && imageOf(set) != of {
		f.warn("version", c.apply(), "the agents run %s and the publisher %s", imageOf(set), of)
	} else if tag := inputs.TagOf(of); isRelease(tag) && tag != c.Version {
		f.warn("version", "use the quoin of that release", "this is quoin %s, and the cluster runs %s", c.Version, tag)
	} else {
		f.ok("version", "agents and publisher run %s", of)
	}
}

// isRelease reports whether a tag is a release, and no name such as latest.
func isRelease(tag string) bool {
	_, err := version.ParseGeneric(tag)
	return err == nil
}

func (c *Cluster) publication(f *findings, p *publication.Cluster) {
	const about = "files"
	set, ours := c.published(p)
	switch {
	case set == nil:
		f.fatal(about, "look into the publisher's log: it says what it waits for", "%s: nothing is published in ConfigMap %s", p.Name, p.Place())
		return
	case !ours:
		f.fatal(about, fmt.Sprintf("%s -n %s label configmap %s quoin.dev/kind=publication", c.Kubectl, p.Namespace, p.ConfigMap), "%s: ConfigMap %s is somebody else's, so the publisher does not write it", p.Name, p.Place())
		return
	}
	var worst *topology.Finding
	waits := ""
	for _, stands := range set.Findings(c.Now) {
		switch {
		case stands.Thing == plandoc.AboutWaits:
			waits += "; waits: " + stands.Message
		case worst == nil && (stands.Severity != topology.OK || stands.Thing == plandoc.AboutPlan): // the first is the worst
			worst = &stands
		}
	}
	remedy := "quoin plan status" + config.Flag("--publication", p.Name) + c.Again
	switch worst.Severity {
	case topology.OK:
		remedy, waits = "", " in "+p.Place().String()+waits
	case topology.Warning:
		remedy = "wait, or look into the publisher's log: it says what it waits for"
	}
	f.add(worst.Severity, about, remedy, "%s: %s%s", p.Name, worst.Message, waits)
}

// published returns what is in a publication's ConfigMap, nil without one, and whether the publisher writes it.
func (c *Cluster) published(p *publication.Cluster) (set *plandoc.Published, ours bool) {
	cm := c.named("configmaps", p.Namespace, p.ConfigMap)
	if cm == nil {
		return nil, false
	}
	return &plandoc.Published{Files: c.filesOf(p.Namespace, p.ConfigMap), Annotations: cm.GetAnnotations()}, isPublication(cm)
}

// release says which release of Slurm runs, and whether slurmVersion is another one, by the
// image of the Controller. A Slurm that is asked is judged by the publisher.
func (c *Cluster) release(f *findings, p *publication.Cluster) {
	_, controller := p.Loader(c.controllers())
	p.Follow(controller.Release(), nil)
	const about = "release"
	switch differs := publisher.JudgeRelease(p, c.filesOf(p.Namespace, p.ConfigMap)); {
	case differs != nil:
		f.add(differs.Severity, about, differs.Remedy, "%s: %s", p.Name, differs.Message)
	case p.Seen != 0:
		f.ok(about, "%s: Slurm %s runs, as the image of Controller %s says", p.Name, p.Seen, controller)
	case p.Guesses() && p.Slurm.URL+p.Slurm.Scontrol == "":
		f.warn(about, "set slurmVersion of the publication, or slurm.url", "%s: no release of Slurm is seen: the files are for %s and newer", p.Name, p.Release)
	}
}

// conditions are the publisher's conditions of Nodes, and what each is about.
var conditions = []struct{ of, what string }{{nodestatus.ConditionFabric, "fabric"}, {nodestatus.ConditionIMEX, "imex"}, {nodestatus.ConditionDrift, "places"}}

// nodes names the nodes on which a condition of the publisher reports a fault. The condition of a fabric that
// is not ready may be false, because two causes look alike. Such nodes are named too.
func (c *Cluster) nodes(f *findings) {
	if c.ConfigErr == nil && !c.Config.Publisher.NodeConditions {
		f.unknown("nodes", "look at the map: quoin map"+c.Again, "publisher.nodeConditions is false, so Nodes do not say how fabric and IMEX are")
		return
	}
	perhaps := "" // conditions stay when nobody judges
	if _, _, leads := c.lease(); !leads && c.Missing["leases"] == nil && c.Missing["deployments"] == nil {
		perhaps = " (no publisher leads: this may be over)"
	}
	all := c.nodesOf()
	for _, look := range conditions {
		nodes, said := map[string][]string{}, map[string]string{}
		for _, n := range all {
			for _, o := range n.Status.Conditions {
				if string(o.Type) != look.of || o.Status != corev1.ConditionTrue && o.Reason != topology.ReasonFabricNotReady {
					continue
				}
				if nodes[o.Reason] = append(nodes[o.Reason], n.Name); said[o.Reason] == "" {
					said[o.Reason] = o.Message
				}
			}
		}
		for _, reason := range slices.Sorted(maps.Keys(nodes)) {
			names := nodes[reason]
			f.warn(look.what, "read what the node says and what to do: "+c.Kubectl+" describe node "+names[0], "%s: %d nodes: %s; %s: %s%s",
				reason, len(names), hostlist.Shorten(hostlist.Compress(names)), names[0], said[reason], perhaps)
		}
	}
}

func (c *Cluster) imex(f *findings) {
	if c.ConfigErr != nil {
		return
	}
	seen := c.membership()
	how := seen.Join
	if seen.Why != "" {
		how += " (imex.join is auto: " + seen.Why + ")"
	}
	for _, resource := range []string{"deviceclasses", "computedomains"} {
		if err := c.Missing[resource]; err != nil && seen.Why != "" {
			f.unknown("imex", toSee(err), "it is not known how nodes join: %v", err)
			return
		}
	}
	switch joins := seen.Join == imex.JoinHolder || seen.Join == imex.JoinSlurmd; {
	case joins && seen.Domain.Problem.Reason != "":
		f.fatal("imex", seen.Domain.Problem.Remedy, "nodes join as %s; %s", how, seen.Domain.Problem)
	case joins && seen.Domain.Note.Remedy != "": // old daemons are no fault of the installation
		f.warn("imex", seen.Domain.Note.Remedy, "nodes join as %s; %s", how, seen.Domain.Note)
	default:
		f.ok("imex", "nodes join as %s", how)
	}
}

// membership says how nodes join the IMEX domain.
func (c *Cluster) membership() *imex.Observation {
	objects := computedomain.NewObjects(c.Config.IMEX)
	objects.ClassesRead, objects.Installed = c.Missing["deviceclasses"] == nil, true // other checks look for the publisher
	for resource, kind := range map[string]string{"deviceclasses": "DeviceClass", "computedomains": "ComputeDomain", "daemonsets": "DaemonSet", "deployments": "Deployment", "nodesets": "NodeSet"} {
		for i := range c.Objects[resource] {
			if data, err := c.Objects[resource][i].MarshalJSON(); err == nil {
				_ = objects.Add(kind, data) // an object that cannot be read counts as absent
			}
		}
	}
	return objects.Seen()
}

// policies are the admission policies that hold a stolen token, by component: a site may give objects other names.
var policies = []string{"agent-own-report", "publisher-annotations", "publisher-conditions", "publisher-domain", "publisher-lease", "publisher-publications"}

func (c *Cluster) admission(f *findings) {
	var missing, weak []string
	for _, name := range policies {
		policy, bound := c.own("validatingadmissionpolicies", name), c.own("validatingadmissionpolicybindings", name)
		actions := []string(nil)
		if bound != nil {
			actions, _, _ = unstructured.NestedStringSlice(bound.Object, "spec", "validationActions")
		}
		switch {
		case policy == nil || bound == nil:
			missing = append(missing, name)
		case text(policy, "spec", "failurePolicy") != "Fail" || !slices.Contains(actions, "Deny"):
			weak = append(weak, policy.GetName())
		}
	}
	switch {
	case len(missing) > 0:
		f.fatal("admission", c.apply(), "admission policies or their bindings are missing: %s", strings.Join(missing, ", "))
	case len(weak) > 0:
		f.fatal("admission", c.apply(), "admission policies do not deny: %s", strings.Join(weak, ", "))
	case c.Forgery == nil:
		f.fatal("admission", c.apply(), "an agent's token may write another node's report")
	case errors.Is(c.Forgery, nodereport.ErrOwnOnly):
		f.ok("admission", "a stolen agent token is refused: %d policies deny", len(policies))
	default:
		f.unknown("admission", moreRights, "%d policies deny; whether they refuse a stolen agent token was not tried (%s)", len(policies), reason(c.Forgery))
	}
}

// reason is an error in few words.
func reason(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
