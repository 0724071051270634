package computedomain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// joinClaims finds the pods of each claim. Of two records of one pod the last counts.
func joinClaims(claims []*record[claimFacts], pods []*record[podFacts]) []imex.Claim {
	known := make(map[types.NamespacedName]*podFacts, len(pods))
	for _, pod := range pods {
		known[pod.key()] = &pod.facts
	}
	users := make(map[types.NamespacedName][]podRef) // of claims that are not reserved
	for _, claim := range claims {
		if len(claim.facts.reserved) == 0 {
			users[claim.key()] = nil
		}
	}
	if len(users) > 0 {
		findUsers(users, known)
	}
	out := make([]imex.Claim, len(claims))
	for i, claim := range claims {
		pods := claim.facts.reserved
		if len(pods) == 0 {
			pods = users[claim.key()]
			slices.SortFunc(pods, func(a, b podRef) int { return strings.Compare(a.name, b.name) })
		}
		out[i] = joinClaim(claim, pods, known)
	}
	return out
}

// findUsers adds to each claim the pods that name it.
func findUsers(users map[types.NamespacedName][]podRef, pods map[types.NamespacedName]*podFacts) {
	for key, pod := range pods {
		for _, name := range pod.claims {
			claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
			if others, wanted := users[claim]; wanted {
				users[claim] = append(others, podRef{key.Name, pod.uid})
			}
		}
	}
}

// joinClaim joins a claim with its pods: the pods that the claim is reserved for, or,
// if there are none, the pods that name the claim. The first pod gives node and owner.
func joinClaim(claim *record[claimFacts], pods []podRef, known map[types.NamespacedName]*podFacts) imex.Claim {
	facts := &claim.facts
	out := imex.Claim{Namespace: claim.Namespace, Name: claim.Name, Domain: facts.domain, Node: facts.node}
	for _, r := range facts.reserved {
		out.Pods = append(out.Pods, claim.Namespace+"/"+r.name)
	}
	for _, r := range pods {
		owner, node := imex.OwnerOther, "" // all pods of holders and Slurm are known
		if pod := known[types.NamespacedName{Namespace: claim.Namespace, Name: r.name}]; pod != nil {
			if r.uid != pod.uid { // another pod has its name now
				continue
			}
			owner, node = pod.owner, pod.node
		}
		out.Owner, out.Node = cmp.Or(out.Owner, owner), cmp.Or(out.Node, node)
		if !facts.allocated {
			out.Waiting = cmp.Or(out.Waiting, claim.Namespace+"/"+r.name)
		}
	}
	return out
}
