package computedomain

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// joinClaims finds the pods of each claim.
func joinClaims(claims []*record[claimFacts], pods []*record[podFacts]) []imex.Claim {
	users := usersOf(claims, pods)
	byName := sync.OnceValue(func() map[types.NamespacedName]*podFacts {
		known := make(map[types.NamespacedName]*podFacts, len(pods))
		for _, pod := range pods {
			known[pod.NamespacedName] = &pod.facts
		}
		return known
	})
	out := make([]imex.Claim, len(claims))
	for i, claim := range claims {
		out[i] = joinClaim(claim, users[i], byName)
	}
	return out
}

// usersOf returns, beside the claims, the pods that name each claim.
func usersOf(claims []*record[claimFacts], pods []*record[podFacts]) [][]*record[podFacts] {
	at := make(map[types.NamespacedName]int, len(claims))
	users, first := make([][]*record[podFacts], len(claims)), make([]*record[podFacts], len(claims)) // most claims have one pod
	for i, claim := range claims {
		at[claim.NamespacedName], users[i] = i, first[i:i:i+1]
	}
	for _, pod := range pods {
		for _, name := range pod.facts.claims {
			if i, known := at[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; known {
				users[i] = append(users[i], pod)
			}
		}
	}
	return users
}

// joinClaim joins a claim with its pods: the pods that the claim is reserved for, or,
// if there are none, the users, which name the claim. The first pod gives node and owner.
func joinClaim(claim *record[claimFacts], users []*record[podFacts], byName func() map[types.NamespacedName]*podFacts) imex.Claim {
	facts := &claim.facts
	out := imex.Claim{Namespace: claim.Namespace, Name: claim.Name, Domain: facts.domain, Node: facts.node}
	add := func(pod, owner, node string) {
		out.Owner, out.Node = cmp.Or(out.Owner, owner), cmp.Or(out.Node, node)
		if !facts.allocated {
			out.Waiting = cmp.Or(out.Waiting, pod)
		}
	}
	for _, r := range facts.reserved {
		name := claim.Namespace + "/" + r.name
		out.Pods = append(out.Pods, name)
		var pod *podFacts
		if i := slices.IndexFunc(users, func(u *record[podFacts]) bool { return u.Name == r.name }); i >= 0 {
			pod = &users[i].facts
		} else {
			pod = byName()[types.NamespacedName{Namespace: claim.Namespace, Name: r.name}]
		}
		switch {
		case pod == nil:
			add(name, imex.OwnerOther, "") // all pods of holders and Slurm are known
		case pod.uid == r.uid: // otherwise another pod has its name now
			add(name, pod.owner, pod.node)
		}
	}
	if len(facts.reserved) > 0 {
		return out
	}
	slices.SortFunc(users, func(a, b *record[podFacts]) int { return strings.Compare(a.Name, b.Name) })
	for _, pod := range users {
		add(claim.Namespace+"/"+pod.Name, pod.facts.owner, pod.facts.node)
	}
	return out
}
