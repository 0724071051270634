package computedomain

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// way is how nodes join, and which domain.
type way struct {
	join, why string
	// config is as given, or it has the keys of the adopted domain.
	config  imex.Config
	adopted *record[domainFacts]
	// none says why nodes can join no domain, whatever domains are there.
	none topology.Finding
}

// choose says how nodes join. Where the configuration leaves the domain open, the domain of
// Slurm's worker pods is adopted: the one whose channels they claim, by the template that they name. A
// job's own domain ends with the job, so the domains of other pods do not count. last is the domain that was
// adopted before: it stays while no worker pod is there.
func choose(config imex.Config, serves imex.Service, claims []imex.Claim, domains []*record[domainFacts], templates map[types.NamespacedName]bool, last types.NamespacedName) way {
	w := way{config: config}
	var found []*record[domainFacts]
	if config.Adopts() {
		found = selected(domains, func(d *record[domainFacts]) bool {
			return templates[types.NamespacedName{Namespace: d.Namespace, Name: d.facts.spec.template}]
		})
		if len(found) == 0 {
			found = selected(domains, func(d *record[domainFacts]) bool { return d.NamespacedName == last })
		}
	}
	var names []string
	for _, d := range found {
		names = append(names, d.String())
	}
	w.join, w.why = config.Choose(serves, claims, names...)
	switch {
	case w.join != imex.JoinSlurmd:
	case len(found) == 1:
		w.adopted = found[0]
		w.config.Namespace, w.config.Name, w.config.ClaimTemplate = w.adopted.Namespace, w.adopted.Name, w.adopted.facts.spec.template
	case len(found) > 1:
		w.none = topology.Finding{Reason: imex.ReasonConflict, Message: fmt.Sprintf("worker pods of Slurm claim channels of %d ComputeDomains, %s and %s, and none of them is adopted: CUDA fails in a clique of two domains", len(found), names[0], names[1]),
			Remedy: "have all NodeSets claim from one of them; or set imex.namespace, imex.name and imex.claimTemplate to those of the domain that nodes are to join"}
	case config.Namespace == imex.DefaultNamespace:
		w.none = topology.Finding{Reason: imex.NoDomain, Message: "worker pods of Slurm claim channels, and no ComputeDomain in their namespace has the template that they name",
			Remedy: "create a ComputeDomain with that template in that namespace; or name the domain that nodes are to join by imex.namespace, imex.name and imex.claimTemplate"}
	}
	return w
}

// selected returns the domains that keep takes, sorted by name.
func selected(domains []*record[domainFacts], keep func(*record[domainFacts]) bool) []*record[domainFacts] {
	out := slices.DeleteFunc(slices.Clone(domains), func(d *record[domainFacts]) bool { return !keep(d) })
	slices.SortFunc(out, func(a, b *record[domainFacts]) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// domain returns the domain that nodes are to join, and its members. It is false if that is none of
// domains. own is the configured one.
func (w *way) domain(own imex.Config, domains []*record[domainFacts]) (imex.Domain, map[string]imex.Member, bool) {
	find := func(key types.NamespacedName) *record[domainFacts] {
		if i := slices.IndexFunc(domains, func(d *record[domainFacts]) bool { return d.NamespacedName == key }); i >= 0 {
			return domains[i]
		}
		return nil
	}
	if w.none.Reason != "" {
		return imex.Domain{Namespace: own.Namespace, Name: own.Name, Problem: w.none}, map[string]imex.Member{}, true
	}
	r := find(keyOf(w.config))
	if r == nil {
		return imex.Domain{}, nil, false
	}
	d := domainOf(w.config, &r.facts, w.adopted != nil)
	if beside := find(keyOf(own)); w.adopted != nil && beside != nil && beside != r && len(beside.facts.members) == 0 {
		d.Note = topology.Finding{Reason: imex.ReasonConflict, Message: fmt.Sprintf("ComputeDomain %s has no members, and nodes join %s, from which Slurm's worker pods claim", beside, r),
			Remedy: fmt.Sprintf("set holder.enabled to false in the chart's values, then run kubectl -n %s delete computedomain %s", beside.Namespace, beside.Name)}
	}
	return d, r.facts.members, true
}

// elsewhere says why the configured domain is not created while it is not there: nodes may be in another domain or join one.
// Its channels would be taken away, or CUDA would fail in a clique of two domains. It is empty if nothing shows that. Jobs' own
// domains do not count with imex.join: holder. They come and go, so no message names one: all nodes have the message.
func elsewhere(config imex.Config, claims []imex.Claim, domains []*record[domainFacts]) topology.Finding {
	because := func(why, remedy string) topology.Finding {
		return topology.Finding{Reason: imex.NoDomain, Message: fmt.Sprintf("ComputeDomain %s is not created, because %s", keyOf(config), why), Remedy: remedy}
	}
	others := config.Adopts() && slices.ContainsFunc(domains, func(d *record[domainFacts]) bool { return d.NamespacedName != keyOf(config) && !d.facts.deleting })
	var ours *imex.Claim
	for i := range claims {
		switch c := &claims[i]; {
		case c.Domain == "" || len(c.Pods) == 0:
		case c.Owner == imex.OwnerOther:
			others = others || config.Join != imex.JoinHolder
		case ours == nil || c.Pods[0] < ours.Pods[0]:
			ours = c
		}
	}
	switch {
	case ours != nil:
		return because(fmt.Sprintf("pod %s holds a channel of another domain (uid %s) on node %s", ours.Pods[0], ours.Domain, ours.Node),
			"if that domain was deleted, end all pods that hold its channels; if nodes are to join it, set imex.namespace: "+ours.Namespace+" and imex.name to its name")
	case others:
		return because("there is another ComputeDomain, or a pod that holds a channel of one: CUDA fails in a clique of two domains",
			"run kubectl get computedomains -A; if jobs made them, set imex.join to holder; if one is that of Slurm, set imex.namespace, imex.name and imex.claimTemplate to what it has, or wait for Slinky's worker pods that claim from it")
	}
	return topology.Finding{}
}
