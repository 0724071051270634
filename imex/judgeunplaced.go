package imex

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Unplaced is what is to be said of the claims of one owner in one namespace that
// wait while no node is known for them, so that no Verdict names them: their pods
// may run on any node whose channel is free, as those of Slinky's NodeSets may, or
// only on one that is not there.
type Unplaced struct {
	Owner, Namespace string
	// Reason is ReasonClaimConflict, where the configuration has two kinds of pods
	// claim, ReasonClaimedByOther, ReasonOtherDomain, ReasonClaimWaits or
	// ReasonNoNode.
	Reason string
	// Message is what is seen, for people, and Remedy what to do.
	Message string
	Remedy  string
	// Claims is how many wait.
	Claims int
}

// JudgeUnplaced says what is to be said of claims without a node that is known, by
// namespace and owner. Nothing that is seen says how long a claim has waited, and the
// scheduler needs a moment for each: only a caller that finds the same at two looks
// some time apart knows that they wait for more than that.
func JudgeUnplaced(s *Seen) []Unplaced {
	var unplaced []*Claim
	for i := range s.Claims {
		if c := &s.Claims[i]; c.Waiting != "" && !s.knows(c.Node) {
			unplaced = append(unplaced, c)
		}
	}
	if len(unplaced) == 0 || s.Join == JoinNone {
		return nil
	}
	channels := s.channels()
	groups := make(map[Unplaced][]*Claim)
	for _, c := range unplaced {
		group := Unplaced{Owner: c.Owner, Namespace: c.Namespace, Reason: s.unplacedReason(c, &channels)}
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
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

func (s *Seen) knows(node string) bool {
	_, known := s.Nodes[node]
	return known
}

// channels counts the channels of nodes with GPUs, one each.
type channels struct {
	nodes, taken int
	// by are those that are taken, by whose pods' claims.
	by map[string]int
}

func (c *channels) free() int { return c.nodes - c.taken }

// channels counts who has the nodes' channels. One that a pod waits for on a certain
// node counts as taken.
func (s *Seen) channels() channels {
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

// unplacedReason is why a claim without a node is worth a word.
func (s *Seen) unplacedReason(c *Claim, channels *channels) string {
	switch {
	case c.Node != "":
		return ReasonNoNode
	case s.Domain.UID != "" && c.Domain != "" && c.Domain != s.Domain.UID:
		return ReasonOtherDomain
	case c.Owner == OwnerOther:
		return ReasonClaimedByOther
	case c.Owner != "" && c.Owner != s.Join, channels.free() == 0 && channels.by[s.rival()] > 0:
		return ReasonClaimConflict
	}
	return ReasonClaimWaits
}

// rival returns whose pods are not to claim, but may by mistake.
func (s *Seen) rival() string {
	if s.Join == JoinSlurmd {
		return OwnerHolder
	}
	return OwnerSlurmd
}

func (s *Seen) unplacedRemedy(u *Unplaced, claims []*Claim, channels *channels) string {
	switch {
	case u.Reason == ReasonNoNode:
		return "let the node join the cluster, or delete these pods if it has gone for good: their node selector or affinity leaves them no other"
	case u.Reason == ReasonClaimConflict:
		return s.remedyOfTwo([]*Claim{{Owner: s.rival()}})
	case u.Reason == ReasonOtherDomain && u.Owner == s.Join:
		return "delete these pods: their claims are of domain " + domainsOf(claims) + ", which is not the one that is there, " + s.Domain.UID + " (" + s.Domain.Namespace + "/" + s.Domain.Name + "); if those made anew have the same, let them claim by the template of that one"
	case u.Reason != ReasonClaimWaits:
		return s.remedyOfTwo([]*Claim{{Owner: u.Owner}})
	case channels.nodes == 0:
		return "let nodes with GPUs join the cluster; where there are some, see why neither Quoin's agent nor a label nor the node's capacity says what GPUs they have, or which clique they are in"
	case channels.free() == 0:
		return "wait for the end of a pod that has a channel, or run no more pods that claim one than there are nodes with GPUs"
	}
	return "wait, for the scheduler needs a moment; if that lasts, see why with kubectl describe pod: its node selector, tolerations and other resources must let it run where a channel is free"
}

// text counts and names the claims, and says what they wait for.
func (u *Unplaced) text(claims []*Claim, channels *channels) string {
	text, wait := "1 claim", "waits"
	if len(claims) > 1 {
		text, wait = strconv.Itoa(len(claims))+" claims", "wait"
	}
	if u.Reason == ReasonOtherDomain {
		text += " of domain " + domainsOf(claims)
	}
	text += " for " + podsOf(u.Owner) + " in namespace " + u.Namespace + " (" + named(claims, func(c *Claim) string { return c.Waiting }) + ") " + wait
	if u.Reason == ReasonNoNode {
		return text + " for a node that is not known: " + named(claims, func(c *Claim) string { return c.Node })
	}
	return text + " for a node whose channel is free; " + channels.text()
}

func domainsOf(claims []*Claim) string {
	return named(claims, func(c *Claim) string { return c.Domain })
}

// named lists what is said of the claims, the first of it.
func named(claims []*Claim, what func(*Claim) string) string {
	const examples = 3
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = what(c)
	}
	slices.Sort(names)
	return listUpTo(examples, slices.Compact(names))
}

// podsOf says whose pods claim.
func podsOf(owner string) string {
	switch owner {
	case OwnerHolder:
		return "the holder's pods"
	case OwnerSlurmd:
		return "worker pods"
	}
	return "other pods"
}

// text says whose the nodes' channels are.
func (c *channels) text() string {
	if c.nodes == 0 {
		return "no node with GPUs is known"
	}
	var by []string
	for _, owner := range []string{OwnerHolder, OwnerSlurmd, OwnerOther} {
		if n := c.by[owner]; n > 0 {
			by = append(by, podsOf(owner)+" have "+strconv.Itoa(n))
		}
	}
	text := strconv.Itoa(c.free()) + " of " + strconv.Itoa(c.nodes) + " nodes with GPUs are such"
	if len(by) > 0 {
		text += " (" + strings.Join(by, ", ") + ")"
	}
	return text
}
