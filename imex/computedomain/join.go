package computedomain

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// allClaims returns the channel claims of all domains, and whose they are.
func (c *Cluster) allClaims() ([]imex.Claim, error) {
	claims, read := c.claims.all()
	if !read {
		return nil, c.unread(whatClaims)
	}
	joining, read := c.joining.all()
	if !read {
		return nil, c.unread(whatPods)
	}
	waiting, read := c.waiting.all()
	if !read {
		return nil, c.unread(whatWaiting)
	}
	maps.Copy(waiting, joining)
	return joinClaims(claims, waiting), nil
}

// joinClaims says of each claim for which pod it is.
func joinClaims(claims map[types.NamespacedName]claimFacts, pods map[types.NamespacedName]podFacts) []imex.Claim {
	users := map[types.NamespacedName][]string{} // pods by the claims that they name, where a claim names none
	for key, pod := range pods {
		for _, name := range pod.claims {
			claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
			if facts, there := claims[claim]; there && facts.madeFor.name == "" {
				users[claim] = append(users[claim], key.Name)
			}
		}
	}
	out := make([]imex.Claim, 0, len(claims))
	for key, facts := range claims {
		out = append(out, joinClaim(key, &facts, users[key], pods))
	}
	slices.SortFunc(out, func(a, b imex.Claim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// joinClaim finds the pod of a claim: the one it is reserved for, else the one it
// was made for, else one that names it.
func joinClaim(key types.NamespacedName, facts *claimFacts, users []string, pods map[types.NamespacedName]podFacts) imex.Claim {
	claim := imex.Claim{Namespace: key.Namespace, Name: key.Name, Domain: facts.domain, Node: facts.node}
	refs := slices.Clone(facts.reserved)
	for _, r := range refs {
		claim.Pods = append(claim.Pods, key.Namespace+"/"+r.name)
	}
	if facts.madeFor.name != "" {
		refs = append(refs, facts.madeFor)
	} else {
		slices.Sort(users)
		for _, name := range users {
			refs = append(refs, podRef{name: name})
		}
	}
	for _, r := range refs {
		pod, known := pods[types.NamespacedName{Namespace: key.Namespace, Name: r.name}]
		if known && r.uid != "" && r.uid != pod.uid { // its name is another's now
			continue
		}
		if !known {
			pod.owner = imex.OwnerOther // those of holders and Slurm are known
		}
		claim.Owner = cmp.Or(claim.Owner, pod.owner)
		claim.Node = cmp.Or(claim.Node, pod.node)
		if !facts.allocated {
			claim.Waiting = cmp.Or(claim.Waiting, key.Namespace+"/"+r.name)
		}
	}
	return claim
}
