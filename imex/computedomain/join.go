package computedomain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// joinClaims finds the pods of each claim.
func joinClaims(claims map[types.NamespacedName]claimFacts, pods map[types.NamespacedName]podFacts) []imex.Claim {
	keys := slices.SortedFunc(maps.Keys(claims), compareKeys)
	users := usersOf(keys, claims, pods)
	out := make([]imex.Claim, len(keys))
	for i, key := range keys {
		facts := claims[key]
		out[i] = joinClaim(key, &facts, users[key], pods)
	}
	return out
}

// usersOf returns, in order, the names of the pods that use each claim that was made by
// hand. Other claims name their pod themselves.
func usersOf(keys []types.NamespacedName, claims map[types.NamespacedName]claimFacts, pods map[types.NamespacedName]podFacts) map[types.NamespacedName][]string {
	users := map[types.NamespacedName][]string{}
	for _, key := range keys {
		if claims[key].madeFor.name == "" {
			users[key] = nil
		}
	}
	if len(users) == 0 {
		return nil
	}
	for key, pod := range pods {
		for _, name := range pod.claims {
			claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
			if names, byHand := users[claim]; byHand {
				users[claim] = append(names, key.Name)
			}
		}
	}
	for _, names := range users {
		slices.Sort(names)
	}
	return users
}

// joinClaim finds the pod of a claim: the pod that it is reserved for, otherwise the pod
// that it was made for, otherwise a pod that names it.
func joinClaim(key types.NamespacedName, facts *claimFacts, users []string, pods map[types.NamespacedName]podFacts) imex.Claim {
	claim := imex.Claim{Namespace: key.Namespace, Name: key.Name, Domain: facts.domain, Node: facts.node}
	find := func(r podRef) {
		pod, known := pods[types.NamespacedName{Namespace: key.Namespace, Name: r.name}]
		if known && r.uid != "" && r.uid != pod.uid { // another pod has its name now
			return
		}
		if !known {
			pod.owner = imex.OwnerOther // all pods of holders and Slurm are known
		}
		claim.Owner = cmp.Or(claim.Owner, pod.owner)
		claim.Node = cmp.Or(claim.Node, pod.node)
		if !facts.allocated {
			claim.Waiting = cmp.Or(claim.Waiting, key.Namespace+"/"+r.name)
		}
	}
	for _, r := range facts.reserved {
		claim.Pods = append(claim.Pods, key.Namespace+"/"+r.name)
		find(r)
	}
	if facts.madeFor.name == "" {
		for _, name := range users {
			find(podRef{name: name})
		}
	} else if !slices.Contains(facts.reserved, facts.madeFor) {
		find(facts.madeFor)
	}
	return claim
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
