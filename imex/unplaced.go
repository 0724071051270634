package imex

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Unplaced is about claims of one owner in one namespace that wait while no known node
// has them, so that no Verdict names them. Their pods may run on any node with a free
// channel, as the pods of Slinky's NodeSets, or only on a node that is not there.
type Unplaced struct {
	Owner, Namespace string
	// Reason is ReasonWrongClaim if the claims can never be met, and ReasonNotClaimed if
	// they may be met later.
	Reason string
	// Message says what is seen, and Remedy what to do.
	Message string
	Remedy  string
	// Claims is the number of claims that wait.
	Claims int
	why    why
}

// why is why claims have no node.
type why int

const (
	waitsForFree why = iota
	waitsForNode     // the pod can run on one node only, which is not known
	ofOtherDomain
	ofOtherPod
	ofBothKinds // holder and worker pods claim
)

// JudgeUnplaced groups the claims that have no known node, by namespace, owner and
// reason. The scheduler needs a moment for each claim, and an observation does not say
// how long a claim has waited. Only a caller that sees the same claims twice, some time
// apart, knows that they wait for more than the scheduler.
func JudgeUnplaced(s *Observation) []Unplaced {
	var unplaced []*Claim
	for i := range s.Claims {
		c := &s.Claims[i]
		if _, known := s.Nodes[c.Node]; c.Waiting != "" && !known {
			unplaced = append(unplaced, c)
		}
	}
	if len(unplaced) == 0 || s.Join != JoinHolder && s.Join != JoinSlurmd {
		return nil
	}
	channels := s.channels()
	groups := make(map[Unplaced][]*Claim)
	for _, c := range unplaced {
		group := Unplaced{Owner: c.Owner, Namespace: c.Namespace, Reason: ReasonWrongClaim, why: s.whyUnplaced(c, &channels)}
		if group.why == waitsForFree {
			group.Reason = ReasonNotClaimed
		}
		groups[group] = append(groups[group], c)
	}
	out := make([]Unplaced, 0, len(groups))
	for u, claims := range groups {
		u.Claims = len(claims)
		u.Message = u.text(claims, &channels) + "; imex.join is " + s.Join
		u.Remedy = s.unplacedRemedy(&u, claims, &channels)
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Unplaced) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner), cmp.Compare(a.why, b.why))
	})
	return out
}

// channels counts the channels of nodes with GPUs, one each.
type channels struct {
	nodes, taken int
	// by counts the taken channels by the owner of the claim.
	by map[string]int
}

func (c *channels) free() int { return c.nodes - c.taken }

// channels counts who has the nodes' channels. A channel that a pod waits for on a
// certain node counts as taken.
func (s *Observation) channels() channels {
	first := make(map[string]*Claim, len(s.Claims)) // by node
	for i := range s.Claims {
		c := &s.Claims[i]
		if c.Node == "" {
			continue
		}
		if had := first[c.Node]; had == nil || compareClaims(c, had) < 0 {
			first[c.Node] = c
		}
	}
	out := channels{by: map[string]int{}}
	for name, n := range s.Nodes {
		if !n.GPUs {
			continue
		}
		out.nodes++
		if c := first[name]; c != nil {
			out.taken++
			out.by[c.Owner]++
		}
	}
	return out
}

// whyUnplaced says why a claim has no node.
func (s *Observation) whyUnplaced(c *Claim, channels *channels) why {
	switch {
	case c.Node != "":
		return waitsForNode
	case s.Domain.UID != "" && c.Domain != "" && c.Domain != s.Domain.UID:
		return ofOtherDomain
	case c.Owner == OwnerOther:
		return ofOtherPod
	case c.Owner != "" && c.Owner != s.Join, channels.free() == 0 && channels.by[s.rival()] > 0:
		return ofBothKinds
	}
	return waitsForFree
}

// rival returns the owner whose pods are not to claim, but may claim by mistake.
func (s *Observation) rival() string {
	if s.Join == JoinSlurmd {
		return OwnerHolder
	}
	return OwnerSlurmd
}

func (s *Observation) unplacedRemedy(u *Unplaced, claims []*Claim, channels *channels) string {
	switch {
	case u.why == waitsForNode:
		return "let the node join the cluster, or delete these pods if the node is gone for good: their node selector or affinity allows no other node"
	case u.why == ofBothKinds:
		return s.rivalsRemedy([]*Claim{{Owner: s.rival()}})
	case u.why == ofOtherDomain && u.Owner == s.Join:
		return "delete these pods: their claims are of domain " + domainsOf(claims) + ", and the cluster's domain is " + s.Domain.UID + " (" + s.Domain.Namespace + "/" + s.Domain.Name + "); if the pods that replace them claim the same, let them claim by the template of the cluster's domain"
	case u.why != waitsForFree:
		return s.rivalsRemedy([]*Claim{{Owner: u.Owner}})
	case channels.nodes == 0:
		return "let nodes with GPUs join the cluster; if there are some, find out why neither Quoin's agent nor a label nor the node's capacity names their GPUs and clique"
	case channels.free() == 0:
		return "wait until a pod that has a channel ends, or run at most as many claiming pods as there are nodes with GPUs"
	}
	return "wait, because the scheduler needs a moment; if that takes long, kubectl describe pod says why: its node selector, tolerations and other resources must allow a node with a free channel"
}

// text counts and names the claims, and says what they wait for.
func (u *Unplaced) text(claims []*Claim, channels *channels) string {
	text, wait := "1 claim", "waits"
	if len(claims) > 1 {
		text, wait = strconv.Itoa(len(claims))+" claims", "wait"
	}
	if u.why == ofOtherDomain {
		text += " of domain " + domainsOf(claims)
	}
	text += " for " + ownerPods[u.Owner] + " in namespace " + u.Namespace + " (" + named(claims, func(c *Claim) string { return c.Waiting }) + ") " + wait
	if u.why == waitsForNode {
		return text + " for a node that is not known: " + named(claims, func(c *Claim) string { return c.Node })
	}
	return text + " for a node with a free channel; " + channels.text()
}

// domainsOf names the domains of the claims.
func domainsOf(claims []*Claim) string {
	return named(claims, func(c *Claim) string { return c.Domain })
}

// named lists the first few values of the claims.
func named(claims []*Claim, what func(*Claim) string) string {
	const examples = 3
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = what(c)
	}
	slices.Sort(names)
	return listUpTo(examples, slices.Compact(names))
}

// ownerPods says whose pods claim.
var ownerPods = map[string]string{OwnerHolder: "the holder's pods", OwnerSlurmd: "worker pods", OwnerOther: "other pods", "": "other pods"}

// text says who has the nodes' channels.
func (c *channels) text() string {
	if c.nodes == 0 {
		return "no node with GPUs is known"
	}
	var by []string
	for _, owner := range []string{OwnerHolder, OwnerSlurmd, OwnerOther} {
		if n := c.by[owner]; n > 0 {
			by = append(by, ownerPods[owner]+" have "+strconv.Itoa(n))
		}
	}
	text := strconv.Itoa(c.free()) + " of " + strconv.Itoa(c.nodes) + " nodes with GPUs have one"
	if len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	return text
}
