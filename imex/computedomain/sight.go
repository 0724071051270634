package computedomain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	nvapi "sigs.k8s.io/dra-driver-nvidia-gpu/api/nvidia.com/resource/v1beta1"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// sight is what is known of a cluster's domains, and of the pods that may claim their channels.
type sight struct {
	config imex.Config
	serves imex.Service
	// undefined says that the API server does not know ComputeDomains.
	undefined bool
	domains   []*record[domainFacts] // the configured one, or all if one may be adopted
	cliques   []imex.Clique          // of all domains
	pods      []*record[podFacts]    // of the holder and of Slurm
	// podsUnread says that pods may not be read, so that their absence means nothing.
	podsUnread bool
	// holders says that pods of the DaemonSet quoin-imex run, beside what pods says.
	holders bool
	// installed says that Quoin has a publisher, which creates the domain.
	installed bool
	// last is the domain that was adopted before. It stays while no worker pod is there.
	last types.NamespacedName
	// job is a pod with a channel that is neither the holder's nor Slurm's, empty if none is known.
	job string
}

// way is how nodes join, and which domain.
type way struct {
	join, why string
	// config is as given, or it has the keys of the adopted domain.
	config  imex.Config
	adopted bool
	// rivals are the domains of worker pods, if there are several: none of them is adopted.
	rivals []string
}

// choose says how nodes join. Where the configuration leaves the domain open, the domain of
// Slurm's worker pods is adopted: the one whose channels they claim, by the template that they name. A
// job's own domain ends with the job, so the domains of other pods do not count.
func (s *sight) choose() way {
	w := way{config: s.config}
	templates := workerTemplates(s.pods)
	var found []*record[domainFacts]
	var names []string
	switch {
	case s.config.Adopts():
		found = s.selected(func(d *record[domainFacts]) bool { return templates[templateOf(d)] })
		if len(found) == 0 {
			found = s.selected(func(d *record[domainFacts]) bool { return d.NamespacedName == s.last })
		}
		for _, d := range found {
			names = append(names, d.String())
		}
	case templates[types.NamespacedName{Namespace: s.config.Namespace, Name: s.config.ClaimTemplate}]:
		names = []string{keyOf(s.config).String()}
	}
	w.join, w.why = s.config.Choose(s.serves, s.held(), names...)
	switch {
	case w.join != imex.JoinSlurmd:
	case len(found) == 1:
		w.adopted = true
		w.config.Namespace, w.config.Name, w.config.ClaimTemplate = found[0].Namespace, found[0].Name, found[0].facts.spec.template
	case len(found) > 1:
		w.rivals = names
	}
	return w
}

// templateOf names the ResourceClaimTemplate of a domain.
func templateOf(d *record[domainFacts]) types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.facts.spec.template}
}

// held reports whether pods of the holder have channels.
func (s *sight) held() bool {
	return s.holders || slices.ContainsFunc(s.pods, func(p *record[podFacts]) bool { return p.facts.owner == imex.OwnerHolder && p.facts.claimed })
}

// selected returns the domains that keep takes, sorted by name.
func (s *sight) selected(keep func(*record[domainFacts]) bool) []*record[domainFacts] {
	out := slices.DeleteFunc(slices.Clone(s.domains), func(d *record[domainFacts]) bool { return !keep(d) })
	slices.SortFunc(out, func(a, b *record[domainFacts]) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// find returns a domain, nil if it is not there.
func (s *sight) find(key types.NamespacedName) *record[domainFacts] {
	if i := slices.IndexFunc(s.domains, func(d *record[domainFacts]) bool { return d.NamespacedName == key }); i >= 0 {
		return s.domains[i]
	}
	return nil
}

// see returns what is seen, all but nodes and claims. create reports that the configured domain is to be created:
// nodes are to join it, it is not there, and nothing speaks against it.
func (s *sight) see(w way) (seen *imex.Observation, create bool) {
	seen = &imex.Observation{HostChannels: s.config.HostChannels, Join: w.join, Why: w.why,
		Domain: unseen(&s.config), Members: map[string]imex.Member{}}
	switch {
	case !s.config.Claims():
		return seen, false
	case s.serves != imex.OwnDaemons:
		seen.Domain = withoutDaemons(&s.config, s.serves)
		return seen, false
	case s.undefined:
		seen.Domain = noDriver(&s.config, fmt.Sprintf("there are DeviceClasses of NVIDIA's DRA driver, but the API server does not know ComputeDomains of %s", nvapi.SchemeGroupVersion))
		return seen, false
	}
	seen.Cliques = s.cliques
	if seen.Join == imex.JoinSlurmd && !s.podsUnread {
		seen.Workers = workersOn(s.pods)
	}
	d, own := s.find(keyOf(w.config)), s.find(keyOf(s.config))
	switch {
	case len(w.rivals) > 0:
		seen.Domain.Problem = topology.Finding{Reason: imex.ReasonConflict, Message: fmt.Sprintf("worker pods of Slurm claim channels of %d ComputeDomains, %s and %s, and none of them is adopted: CUDA fails in a clique of two domains", len(w.rivals), w.rivals[0], w.rivals[1]),
			Remedy: "have all NodeSets claim from one of them; or set imex.namespace, imex.name and imex.claimTemplate to those of the domain that nodes are to join"}
	case d != nil:
		seen.Domain, seen.Members = domainOf(w.config, &d.facts, w.adopted), d.facts.members
		if own != nil && own != d && len(own.facts.members) == 0 {
			seen.Domain.Note = topology.Finding{Reason: imex.ReasonConflict, Message: fmt.Sprintf("ComputeDomain %s has no members, and nodes join %s, from which Slurm's worker pods claim", own, d),
				Remedy: fmt.Sprintf("set holder.enabled to false in the chart's values, then run kubectl -n %s delete computedomain %s", own.Namespace, own.Name)}
		}
	case !s.installed && s.config.Adopts() && !s.held():
		seen.Join, seen.Why = imex.JoinNone, "no publisher of Quoin is in the cluster, and no pod of Quoin or Slurm claims from a ComputeDomain"
		seen.Domain.Problem = s.unshared()
	default:
		why := s.elsewhere()
		create = why.Reason == ""
		seen.Domain.Problem = cmp.Or(why, s.absent())
	}
	return seen, create
}

// absent says that the configured domain is not there.
func (s *sight) absent() topology.Finding {
	f := topology.Finding{Reason: imex.NoDomain, Message: fmt.Sprintf("there is no ComputeDomain %s", keyOf(s.config)),
		Remedy: "wait until the publisher creates the domain; if that takes long, its log says why it cannot"}
	if !s.installed {
		f.Remedy = "install Quoin's publisher, which creates the domain: none is in the cluster; or create the domain by hand"
	}
	return f
}

// unshared says that there is no domain for jobs of Slurm, where nobody is there to create one.
func (s *sight) unshared() topology.Finding {
	none := "there is no ComputeDomain at all"
	if len(s.domains) > 0 {
		none = "there is no ComputeDomain that jobs of Slurm share"
	}
	return topology.Finding{Reason: imex.NoDomain, Message: none,
		Remedy: "nothing, if each job brings a ComputeDomain of its own; if jobs of Slurm are to share one, install Quoin's publisher, or let Slinky's worker pods claim from one"}
}

// elsewhere says why the configured domain is not created while it is not there: nodes may be in another domain or join one.
// Its channels would be taken away, or CUDA would fail in a clique of two domains. It is empty if nothing shows that. Jobs' own
// domains do not count with imex.join: holder. They come and go, so no message of the publisher names one.
func (s *sight) elsewhere() topology.Finding {
	because := func(why, remedy string) topology.Finding {
		return topology.Finding{Reason: imex.NoDomain, Message: fmt.Sprintf("ComputeDomain %s is not created, because %s", keyOf(s.config), why), Remedy: remedy}
	}
	members := s.members()
	var ours *record[podFacts]
	for _, p := range s.pods {
		if p.facts.claimed && (p.facts.owner == imex.OwnerHolder || members[p.facts.node]) && (ours == nil || p.String() < ours.String()) {
			ours = p
		}
	}
	unknown := workerTemplates(s.pods) // which no domain has
	delete(unknown, types.NamespacedName{Namespace: s.config.Namespace, Name: s.config.ClaimTemplate})
	others := s.config.Join != imex.JoinHolder && (len(members) > 0 || s.job != "")
	for _, d := range s.domains {
		delete(unknown, templateOf(d))
		others = others || s.config.Adopts() && !d.facts.deleting
	}
	switch {
	case ours != nil:
		return because(fmt.Sprintf("pod %s holds a channel of another domain, or of one that was deleted, on node %s", ours, ours.facts.node),
			"if that domain was deleted, end all pods that hold its channels; if nodes are to join it, set imex.namespace: "+ours.Namespace+" and imex.name to its name")
	case others && s.job != "" && s.config.Adopts():
		return because("there is another ComputeDomain: CUDA fails in a clique of two domains",
			"set imex.join to holder, because pods of jobs, such as "+s.job+", hold channels of domains of their own")
	case others:
		return because("there is another ComputeDomain, or a node that has joined one: CUDA fails in a clique of two domains",
			"run kubectl get computedomains -A; if jobs made them, set imex.join to holder; if one is that of Slurm, set imex.namespace, imex.name and imex.claimTemplate to what it has, or wait for Slinky's worker pods that claim from it")
	case s.config.Adopts() && len(unknown) > 0:
		first := slices.MinFunc(slices.Collect(maps.Keys(unknown)), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
		return because(fmt.Sprintf("worker pods of Slurm claim by the template %s, and it is not known whether that gives channels: no ComputeDomain has it", first),
			"create the ComputeDomain with that template in namespace "+first.Namespace+"; or set imex.join to holder, if the template gives something else")
	}
	return topology.Finding{}
}

// members are the nodes with an entry in any domain.
func (s *sight) members() map[string]bool {
	nodes := map[string]bool{}
	for i := range s.cliques {
		for k := range s.cliques[i].Daemons {
			nodes[s.cliques[i].Daemons[k].Node] = true
		}
	}
	for _, d := range s.domains {
		for node := range d.facts.members {
			nodes[node] = true
		}
	}
	return nodes
}
