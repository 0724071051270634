package computedomain

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-hpc/quoin/imex"
)

// allClaims returns the channel claims of all domains, and whose they are.
func (c *Cluster) allClaims() ([]imex.Claim, error) {
	for _, mu := range []*sync.Mutex{&c.claims.mu, &c.joining.mu, &c.waiting.mu} {
		mu.Lock()
		defer mu.Unlock()
	}
	switch {
	case !c.claims.synced:
		return nil, c.unread(whatClaims)
	case !c.joining.synced:
		return nil, c.unread(whatPods)
	case !c.waiting.synced:
		return nil, c.unread(whatWaiting)
	}
	c.keptClaims = c.joinChanges()
	return c.keptClaims, nil
}

// joinChanges returns the claims as they are now. Only those are joined anew that have
// changed since, or whose pods may have.
func (c *Cluster) joinChanges() []imex.Claim {
	changed, joining, waiting := c.claims.take(), c.joining.take(), c.waiting.take()
	pods := podMaps{c.joining.facts, c.waiting.facts}
	if changed == nil || joining == nil || waiting == nil {
		return joinInOrder(c.claims.inOrder(), c.claims.facts, pods)
	}
	if maps.Copy(joining, waiting); len(joining) > 0 {
		c.addClaimsOf(changed, joining)
	}
	if len(changed) == 0 {
		return c.keptClaims
	}
	keys := slices.SortedFunc(maps.Keys(changed), compareKeys)
	users := usersOf(keys, c.claims.facts, pods)
	was, out := c.keptClaims, make([]imex.Claim, 0, len(c.claims.facts))
	for _, key := range keys {
		i, had := slices.BinarySearchFunc(was, key, func(a imex.Claim, b types.NamespacedName) int {
			return compareKeys(types.NamespacedName{Namespace: a.Namespace, Name: a.Name}, b)
		})
		out = append(out, was[:i]...)
		if facts, is := c.claims.facts[key]; is {
			out = append(out, joinClaim(key, &facts, users[key], pods))
		}
		if had {
			i++
		}
		was = was[i:]
	}
	return append(out, was...)
}

// addClaimsOf adds the claims that may be for one of these pods.
func (c *Cluster) addClaimsOf(claims, pods map[types.NamespacedName]bool) {
	for key, facts := range c.claims.facts {
		of := func(r podRef) bool { return pods[types.NamespacedName{Namespace: key.Namespace, Name: r.name}] }
		if facts.madeFor.name == "" || of(facts.madeFor) || slices.ContainsFunc(facts.reserved, of) {
			claims[key] = true
		}
	}
}

// allWorkers returns the nodes on which worker pods of Slurm are, nil where that is
// not known, or does not matter.
func (c *Cluster) allWorkers() map[string]bool {
	c.joining.mu.Lock()
	defer c.joining.mu.Unlock()
	if c.config.Join != imex.JoinSlurmd || !c.joining.synced {
		return nil
	}
	return c.keptWorkers.get(c.joining.version, func() map[string]bool { return workersOn(c.joining.facts) })
}

// podMaps are pods by several sources. Of a pod that more than one has, the first
// counts.
type podMaps []map[types.NamespacedName]podFacts

func (p podMaps) of(key types.NamespacedName) (podFacts, bool) {
	for _, pods := range p {
		if pod, known := pods[key]; known {
			return pod, true
		}
	}
	return podFacts{}, false
}

// joinClaims says of each claim for which pod it is.
func joinClaims(claims map[types.NamespacedName]claimFacts, pods map[types.NamespacedName]podFacts) []imex.Claim {
	return joinInOrder(slices.SortedFunc(maps.Keys(claims), compareKeys), claims, podMaps{pods})
}

func joinInOrder(keys []types.NamespacedName, claims map[types.NamespacedName]claimFacts, pods podMaps) []imex.Claim {
	users := usersOf(keys, claims, pods)
	out := make([]imex.Claim, len(keys))
	for i, key := range keys {
		facts := claims[key]
		out[i] = joinClaim(key, &facts, users[key], pods)
	}
	return out
}

// usersOf returns, in order, the names of the pods that name one of these claims, if
// it was made for none: by hand.
func usersOf(keys []types.NamespacedName, claims map[types.NamespacedName]claimFacts, pods podMaps) map[types.NamespacedName][]string {
	users := map[types.NamespacedName][]string{}
	for _, key := range keys {
		if claims[key].madeFor.name == "" {
			users[key] = nil
		}
	}
	if len(users) == 0 {
		return nil
	}
	for i, some := range pods {
		for key, pod := range some {
			if _, counted := pods[:i].of(key); counted {
				continue
			}
			for _, name := range pod.claims {
				claim := types.NamespacedName{Namespace: key.Namespace, Name: name}
				if names, byHand := users[claim]; byHand {
					users[claim] = append(names, key.Name)
				}
			}
		}
	}
	for _, names := range users {
		slices.Sort(names)
	}
	return users
}

// joinClaim finds the pod of a claim: the one it is reserved for, else the one it
// was made for, else one that names it.
func joinClaim(key types.NamespacedName, facts *claimFacts, users []string, pods podMaps) imex.Claim {
	claim := imex.Claim{Namespace: key.Namespace, Name: key.Name, Domain: facts.domain, Node: facts.node}
	find := func(r podRef) {
		pod, known := pods.of(types.NamespacedName{Namespace: key.Namespace, Name: r.name})
		if known && r.uid != "" && r.uid != pod.uid { // its name is another's now
			return
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
