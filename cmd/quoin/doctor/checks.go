package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// Site is how the cluster is configured.
type Site struct {
	// All are the configured publications. Publications are the ones to look at.
	Publications, All []*publication.Cluster
	// ConfigErr says why the configuration is not known. There are no Publications then, and no Join.
	// AgentsErr says why the agents refuse theirs.
	ConfigErr, AgentsErr error
	// Again has the flags of quoin for the commands that are advised.
	Again string
	// Namespace is where Quoin's configuration and plans were looked for.
	Namespace string
	// MappingDir is the exporter's directory as the agents know it, or none. Empty: not known.
	MappingDir string
	// Version is the release of this program.
	Version string
	// Join is how nodes join the IMEX domain, and Why says why if the configuration leaves it
	// open.
	Join, Why string
	// Domain is what is wrong with the ComputeDomain, and Note what is to be done beside it. Both may be without
	// a Reason.
	Domain, Note topology.Finding
	// NoConditions says that the publisher keeps no conditions of Nodes.
	NoConditions bool
}

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

// checks are what is looked at on a cluster.
type checks struct{ *Cluster }

// Findings says what is in order and what is not.
func (c *Cluster) Findings(s *Site) []topology.Finding {
	var f findings
	for resource, err := range c.Missing {
		f.unknown(resource, toSee(err), "%v", err)
	}
	slices.SortFunc(f, func(a, b topology.Finding) int { return strings.Compare(a.Thing, b.Thing) })
	if d := c.own("deployments", "publisher"); d != nil && d.GetNamespace() != s.Namespace {
		f.unknown("config", "look there: quoin doctor"+s.Again+config.Flag("--namespace", d.GetNamespace()), "the publisher runs in namespace %s, and its configuration was looked for in %s", d.GetNamespace(), s.Namespace)
	}
	c.config(&f, s)
	look := checks{c}
	look.server(&f)
	look.definition(&f)
	look.agents(&f)
	look.publisher(&f, s)
	for _, p := range s.Publications {
		look.publication(&f, p, s)
		look.release(&f, p)
		look.slinky(&f, p, s)
	}
	look.imex(&f, s)
	look.nodes(&f, s)
	look.classes(&f, s)
	look.admission(&f)
	look.rights(&f)
	look.exporter(&f, s)
	return f.joined()
}

func (c checks) server(f *findings) {
	switch release, err := version.ParseGeneric(c.Version); {
	case err != nil:
		f.unknown("kubernetes", "see which release it is: "+c.Kubectl+" version", "the API server is Kubernetes %s: it is not known whether this is %s or newer", c.Version, oldestKubernetes)
	case release.LessThan(oldestKubernetes):
		f.fatal("kubernetes", "upgrade Kubernetes", "the API server is Kubernetes %s: Quoin needs %s, for admission policies", c.Version, oldestKubernetes)
	case release.LessThan(domainsKubernetes):
		f.warn("kubernetes", "upgrade Kubernetes for IMEX domains", "the API server is %s: ComputeDomains and ResourceSlices need %s", c.Version, domainsKubernetes)
	default:
		f.ok("kubernetes", "the API server is Kubernetes %s", c.Version)
	}
	if c.Ahead.Abs() > maxClock {
		f.warn("clock", "let NTP set the clocks: timedatectl set-ntp true", "the clock here differs by %s from the API server's", c.Ahead)
	}
}

// config says why a configuration is not known. Programs do not start with one that they refuse.
func (c *Cluster) config(f *findings, s *Site) {
	if refused := (*session.ConfigError)(nil); errors.As(s.ConfigErr, &refused) && refused.Refused {
		f.fatal("config", c.correct("deployments", "publisher"), "the publisher does not start: %v", s.ConfigErr)
	} else if s.ConfigErr != nil {
		f.unknown("config", moreRights+", or give the configuration by --config", "%v", s.ConfigErr)
	}
	if s.AgentsErr != nil {
		f.fatal("config", c.correct("daemonsets", "agent"), "the agents do not start: %v", s.AgentsErr)
	}
}

func (c checks) definition(f *findings) {
	if c.Missing["customresourcedefinitions"] != nil {
		return
	}
	if c.named("customresourcedefinitions", "", reportsDefinition) == nil {
		f.fatal("definition", c.apply(), "the API server has no NodeReports: no agent can report")
		return
	}
	f.ok("definition", "NodeReports are defined")
}

func (c checks) publisher(f *findings, s *Site) {
	if c.Missing["deployments"] != nil {
		return
	}
	d := c.own("deployments", "publisher")
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
	if lease := c.named("leases", where, "quoin-publisher"); lease == nil && c.Missing["leases"] == nil {
		f.fatal("leader", logs, "no publisher has ever led: there is no Lease %s/quoin-publisher", where)
	} else if age, leads := c.renewed(lease); lease != nil && !leads {
		f.fatal("leader", logs, "no publisher leads: the Lease was last renewed %s ago", age)
	}
	c.versions(f, s, d)
}

// renewed returns how old the last sign of the leader is, and whether a publisher still leads. lease may be nil.
func (c *Cluster) renewed(lease *unstructured.Unstructured) (age time.Duration, leads bool) {
	if lease == nil {
		return 0, false
	}
	at, err := time.Parse(time.RFC3339, text(lease, "spec", "renewTime"))
	age = c.Now.Add(-c.Ahead).Sub(at)
	return age.Round(time.Second), err == nil && age <= maxLease && text(lease, "spec", "holderIdentity") != ""
}

// versions compares the images of agents and publisher, and this program.
func (c checks) versions(f *findings, s *Site, d *unstructured.Unstructured) {
	of := imageOf(d)
	if set := c.own("daemonsets", "agent"); set != nil && imageOf(set) != of {
		f.warn("version", c.apply(), "the agents run %s and the publisher %s", imageOf(set), of)
	} else if tag := inputs.TagOf(of); isRelease(tag) && tag != s.Version {
		f.warn("version", "use the quoin of that release", "this is quoin %s, and the cluster runs %s", s.Version, tag)
	} else {
		f.ok("version", "agents and publisher run %s", of)
	}
}

// isRelease reports whether a tag is a release, and no name such as latest.
func isRelease(tag string) bool {
	_, err := version.ParseGeneric(tag)
	return err == nil
}

func (c checks) publication(f *findings, p *publication.Cluster, s *Site) {
	if c.Missing["configmaps"] != nil {
		return
	}
	const check = "files"
	cm := c.named("configmaps", p.Namespace, p.ConfigMap)
	status := "quoin plan status" + config.Flag("--publication", p.Name) + s.Again
	waits := ""
	if cm != nil {
		for _, w := range plandoc.Waits(cm.GetAnnotations(), c.Now.Add(-c.Ahead)) {
			waits += "; waits: " + w.Text(c.Now.Add(-c.Ahead))
		}
	}
	switch {
	case cm == nil:
		f.fatal(check, "look into the publisher's log: it says what it waits for", "%s: nothing is published in ConfigMap %s", p.Name, p.Place())
	case !isPublication(cm):
		f.fatal(check, fmt.Sprintf("%s -n %s label configmap %s quoin.dev/kind=publication", c.Kubectl, p.Namespace, p.ConfigMap), "%s: ConfigMap %s is somebody else's, so the publisher does not write it", p.Name, p.Place())
	case cm.GetAnnotations()[plandoc.AnnotationHeldReason] != "":
		f.fatal(check, status, "%s: changes are held: %s%s", p.Name, strings.ReplaceAll(cm.GetAnnotations()[plandoc.AnnotationHeldReason], "\n", "; "), waits)
	case cm.GetAnnotations()[plandoc.AnnotationPending] == plandoc.LoadNotKnown:
		f.unknown(check, status, "%s: %s (%s)", p.Name, plandoc.LoadNotKnown, client.Ago(plandoc.Asked(cm.GetAnnotations()), c.Now.Add(-c.Ahead)))
	case cm.GetAnnotations()[plandoc.AnnotationPending] == plandoc.CannotAsk:
		f.unknown(check, status, "%s: whether Slurm has loaded the files: %s (%s)", p.Name, plandoc.CannotAsk, client.Ago(plandoc.Asked(cm.GetAnnotations()), c.Now.Add(-c.Ahead)))
	case cm.GetAnnotations()[plandoc.AnnotationPending] != "":
		f.fatal(check, status, "%s: %s (%s)", p.Name, cm.GetAnnotations()[plandoc.AnnotationPending], client.Ago(plandoc.Asked(cm.GetAnnotations()), c.Now.Add(-c.Ahead)))
	case cm.GetAnnotations()[plandoc.AnnotationSeed] != "" || cm.GetAnnotations()[plandoc.AnnotationRevision] == "":
		f.warn(check, "wait, or look into the publisher's log: it says what it waits for", "%s: no plan is published yet, so no node has a place%s", p.Name, waits)
	default:
		f.ok(check, "%s: revision %s is published in %s%s", p.Name, cm.GetAnnotations()[plandoc.AnnotationRevision], p.Place(), waits)
	}
}

// release says which release of Slurm runs, and whether slurmVersion is another one, by the
// image of the Controller. A Slurm that is asked is judged by the publisher.
func (c checks) release(f *findings, p *publication.Cluster) {
	if c.Missing["configmaps"] != nil || c.Missing["controllers"] != nil {
		return
	}
	_, controller := p.Loader(c.controllers())
	p.Follow(controller.Release(), nil)
	const check = "release"
	switch differs := publisher.JudgeRelease(p, c.filesOf(p.Namespace, p.ConfigMap)); {
	case differs != nil:
		f.add(differs.Severity, check, differs.Remedy, "%s: %s", p.Name, differs.Message)
	case p.Seen != 0:
		f.ok(check, "%s: Slurm %s runs, as the image of Controller %s says", p.Name, p.Seen, controller)
	case p.Guesses() && p.Slurm.URL+p.Slurm.Scontrol == "":
		f.warn(check, "set slurmVersion of the publication, or slurm.url", "%s: no release of Slurm is seen: the files are for %s and newer", p.Name, p.Release)
	}
}

// conditions are the publisher's conditions of Nodes, and what each is about.
var conditions = []struct{ of, what string }{{nodestatus.ConditionFabric, "fabric"}, {nodestatus.ConditionIMEX, "imex"}, {nodestatus.ConditionDrift, "places"}}

// nodes names the nodes on which a condition of the publisher reports a fault. The condition of a fabric that
// is not ready may be false, because two causes look alike. Such nodes are named too.
func (c checks) nodes(f *findings, s *Site) {
	if c.Missing["nodes"] != nil {
		return
	}
	if s.NoConditions {
		f.unknown("nodes", "look at the map: quoin map"+s.Again, "publisher.nodeConditions is false, so Nodes do not say how fabric and IMEX are")
		return
	}
	perhaps := "" // conditions stay when nobody judges
	if _, leads := c.renewed(c.named("leases", c.publisherNamespace(), "quoin-publisher")); !leads && c.Missing["leases"] == nil && c.Missing["deployments"] == nil {
		perhaps = " (no publisher leads: this may be over)"
	}
	for _, look := range conditions {
		nodes, said := map[string][]string{}, map[string]string{}
		for i := range c.Objects["nodes"] {
			n := &c.Objects["nodes"][i]
			for _, o := range objectsAt(n.Object, "status", "conditions") {
				if o["type"] != look.of || o["status"] != "True" && o["reason"] != topology.ReasonFabricNotReady {
					continue
				}
				reason, _ := o["reason"].(string)
				if nodes[reason] = append(nodes[reason], n.GetName()); said[reason] == "" {
					said[reason], _ = o["message"].(string)
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

func (c checks) imex(f *findings, s *Site) {
	if s.ConfigErr != nil {
		return
	}
	how := s.Join
	if s.Why != "" {
		how += " (imex.join is auto: " + s.Why + ")"
	}
	for _, resource := range []string{"deviceclasses", "computedomains"} {
		if err := c.Missing[resource]; err != nil && s.Why != "" {
			f.unknown("imex", toSee(err), "it is not known how nodes join: %v", err)
			return
		}
	}
	if s.Domain.Reason != "" {
		f.fatal("imex", s.Domain.Remedy, "nodes join as %s; %s", how, s.Domain)
		return
	}
	if s.Note.Remedy != "" { // old daemons are no fault of the installation
		f.warn("imex", s.Note.Remedy, "nodes join as %s; %s", how, s.Note)
		return
	}
	f.ok("imex", "nodes join as %s", how)
}

// policies are the admission policies that hold a stolen token, by component: a site may give objects other names.
var policies = []string{"agent-own-report", "publisher-annotations", "publisher-conditions", "publisher-domain", "publisher-lease", "publisher-publications"}

func (c checks) admission(f *findings) {
	if c.Missing["validatingadmissionpolicies"] != nil || c.Missing["validatingadmissionpolicybindings"] != nil {
		return
	}
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
