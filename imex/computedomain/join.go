package computedomain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// joinClaims finds the pods of each claim.
func joinClaims(claims []*record[claimFacts], pods []*record[podFacts]) []imex.Claim {
	known := make(map[types.NamespacedName]*podFacts, len(pods))
	users := make(map[types.NamespacedName][]*record[podFacts], len(claims)) // by the claim that they name
	for _, pod := range pods {
		known[pod.NamespacedName] = &pod.facts
		for _, name := range pod.facts.claims {
			claim := types.NamespacedName{Namespace: pod.Namespace, Name: name}
			users[claim] = append(users[claim], pod)
		}
	}
	out := make([]imex.Claim, len(claims))
	for i, claim := range claims {
		out[i] = joinClaim(claim, users[claim.NamespacedName], known)
	}
	return out
}

// joinClaim joins a claim with its pods: the pods that the claim is reserved for, or,
// if there are none, the users, which name the claim. The first pod gives node and owner.
func joinClaim(claim *record[claimFacts], users []*record[podFacts], known map[types.NamespacedName]*podFacts) imex.Claim {
	facts := &claim.facts
	out := imex.Claim{Namespace: claim.Namespace, Name: claim.Name, Domain: facts.domain, Node: facts.node}
	add := func(pod, owner, node string) {
		out.Owner, out.Node = cmp.Or(out.Owner, owner), cmp.Or(out.Node, node)
		if !facts.allocated {
			out.Waiting = cmp.Or(out.Waiting, pod)
		}
	}
	for _, r := range facts.reserved {
		name := types.NamespacedName{Namespace: claim.Namespace, Name: r.name}
		out.Pods = append(out.Pods, name.String())
		switch pod := known[name]; {
		case pod == nil:
			add(name.String(), imex.OwnerOther, "") // all pods of holders and Slurm are known
		case pod.uid == r.uid: // otherwise another pod has its name now
			add(name.String(), pod.owner, pod.node)
		}
	}
	if len(facts.reserved) > 0 {
		return out
	}
	slices.SortFunc(users, func(a, b *record[podFacts]) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range users {
		add(pod.String(), pod.facts.owner, pod.facts.node)
	}
	return out
}
