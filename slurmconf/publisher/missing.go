package publisher

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// absence is the reason why no Node has a published Slurm name. There is one for each name: the
// first that applies, in this order.
type absence int

const (
	_ absence = iota
	// noNodes: the store shows no node at all.
	noNodes
	// claimedByTwo: several Nodes, or several pods of a Node, claim the name.
	claimedByTwo
	// podReplaced: the pod of the name is given up. Another publication took the Node.
	podReplaced
	// nodeTaken: another publication took the Node. The pod of the name, if it had one, is there
	// or is made again.
	nodeTaken
	// noSlurmName: the Node has lost its label, or has no valid name.
	noSlurmName
	// nodeGone: the Node is gone.
	nodeGone
	// reportDeleted: the report is gone, in a store that cannot tell whether the node is.
	reportDeleted
	// namesChanged: the published plan was made by another slurmNames, and no pod has the name.
	namesChanged
	// podGivenUp: the pod is gone, and no NodeSet is known to make it again.
	podGivenUp
	// podWanted: the pod is gone, and its NodeSet wants another.
	podWanted
	// notSelected: the publication does not take the Node any more.
	notSelected
	// podWaits: the pod is there, and on no Node.
	podWaits
	// namedOtherwise: the Node has another name.
	namedOtherwise
	// perhapsNameless: nobody knows the Node, and a Node without a name may be it.
	perhapsNameless
	// notKnown: nothing else is known.
	notKnown
)

// fate is what becomes of a missing name.
type fate int

const (
	// stays keeps the name until more is known.
	stays fate = iota
	leavesNow
	// leavesLater keeps the name RemoveAfter from when it was first missed.
	leavesLater
)

// rule is what follows from an absence.
type rule struct {
	fate fate
	// counts says that a name which leaves counts against MaxChange. It is false if the node
	// is really gone: nobody brings it back by waiting.
	counts bool
	// words come after "is" or "are".
	words string
}

// rules has what follows from each absence.
var rules = [...]rule{
	noNodes:         {stays, false, "not shown: there is no node and no report at all"},
	claimedByTwo:    {stays, false, "claimed by several nodes"},
	podReplaced:     {leavesNow, false, "without a worker pod, and another publication has one there"},
	nodeTaken:       {leavesNow, true, "taken by another publication"},
	noSlurmName:     {stays, false, "without a Slurm name"},
	nodeGone:        {leavesLater, false, "gone"},
	reportDeleted:   {leavesLater, true, "without a report"},
	namesChanged:    {leavesLater, true, "without a worker pod"},
	podGivenUp:      {leavesLater, false, "without a worker pod, and no NodeSet is known to make it again"},
	podWanted:       {leavesLater, true, "without a worker pod, and the NodeSet has not made it again"},
	notSelected:     {leavesLater, true, "not selected any more"},
	podWaits:        {leavesLater, true, "without a Node: the worker pod waits for one"},
	namedOtherwise:  {leavesLater, true, "under another Slurm name now"},
	perhapsNameless: {stays, false, "perhaps a node without a Slurm name"},
	notKnown:        {leavesLater, true, "on no Node that is known"},
}

// words says what a node with the absence is, after "is" or "are".
func (a absence) words(p *publication.Cluster, s *settings) string {
	switch a {
	case namesChanged:
		text := s.say(keyNames)
		if s.now[keyNames] == s.old[keyNames] {
			text = s.say(keyNamespace)
		}
		return rules[a].words + " by " + text
	case notSelected:
		var keys []string
		for _, key := range []struct{ key, value string }{{keySelector, p.Nodes.Selector}, {keySlinky, p.Nodes.Slinky}} {
			switch {
			case s.nodes() && s.differ(key.key):
				keys = append(keys, s.say(key.key))
			case key.value != "":
				keys = append(keys, key.key)
			}
		}
		return fmt.Sprintf("%s (%s)", rules[a].words, strings.Join(keys, ", "))
	}
	return rules[a].words
}

// fateBy is what becomes of a missing name. If changed keys took it away, there is nothing to wait
// for. But a pod may be made again.
func (a absence) fateBy(s *settings) fate {
	if a == notSelected && s.nodes() || a == namesChanged && !s.byPods() {
		return leavesNow
	}
	return rules[a].fate
}

// lostBy reports whether the name is missing because of changed settings, as far as can be told. It
// counts at once, although it leaves later.
func (a absence) lostBy(s *settings) bool {
	switch a {
	case namesChanged:
		return true
	case namedOtherwise, notKnown:
		return s.names()
	}
	return false
}

// ReasonStoreEmpty says that a store shows no node, while nodes are published.
const ReasonStoreEmpty = "StoreEmpty"

// leavers are the published names that leave now, each with the reason.
type leavers map[string]absence

// gone reports whether the name leaves because its node is really gone.
func (l leavers) gone(name string) bool {
	why, leaves := l[name]
	return leaves && !rules[why].counts
}

// why says for those of the nodes that leave why they do, the most frequent reason first. It
// returns "" if none of them leaves.
func (l leavers) why(p *publication.Cluster, s *settings, nodes []string) string {
	count, rest := make([]int, len(rules)), 0
	for _, node := range nodes {
		if why, leaves := l[node]; leaves {
			count[why]++
		} else {
			rest++
		}
	}
	var all []absence
	for a, n := range count {
		if n > 0 {
			all = append(all, absence(a))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b absence) int { return cmp.Compare(count[b], count[a]) })
	var parts []string
	for _, a := range all {
		verb := "are"
		if count[a] == 1 {
			verb = "is"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", count[a], verb, a.words(p, s)))
	}
	switch {
	case rest == 1:
		parts = append(parts, "1 moves or loses its place")
	case rest > 1:
		parts = append(parts, fmt.Sprintf("%d move or lose their place", rest))
	}
	return strings.Join(parts, ", ")
}

// missing is what becomes of the published names that no Node has.
type missing struct {
	// stay are the facts of names that stay published without a Node. nameless are Nodes
	// without a Slurm name that stay published under the name that they had.
	stay     []topology.Facts
	nameless map[string]string
	// gone are the names that leave now. lost are those that leave later, because settings were
	// changed.
	gone, lost leavers
	// outside are the Nodes that the publication does not take, by the Slurm name that they
	// have or had. leaving are those of them whose name leaves now or later.
	outside, leaving map[string]*inputs.Node
	problems         []topology.Finding
	// next is when the next name leaves, or zero. again says that some of the names were missing when this
	// publisher began: the one before may have waited for them to the end.
	next  time.Time
	again bool
}

// missing decides what becomes of those of the published names that no Node has, and remembers
// since when they are missing.
func (h *nodeHistory) missing(g *gathered, published []string, snap *inputs.Snapshot, now time.Time) missing {
	l := h.look(g, published, snap)
	out := missing{nameless: map[string]string{}, gone: leavers{}, lost: leavers{}, outside: l.outside, leaving: map[string]*inputs.Node{}}
	var timer again.Timer
	since := make(map[string]time.Time)
	if h.began.IsZero() {
		h.began = now
	}
	for _, name := range l.names {
		why := l.whyAbsent(name)
		becomes := why.fateBy(&g.settings)
		if n := out.outside[name]; n != nil && becomes != stays {
			out.leaving[name] = n
		}
		if becomes == leavesLater {
			since[name] = sinceOf(h.since, name, now)
			until := since[name].Add(h.pub.RemoveAfter.Duration)
			if now.Before(until) {
				timer.At(until)
				out.again = out.again || since[name].Equal(h.began)
			} else {
				becomes = leavesNow
			}
		}
		owner := h.owners[name]
		if becomes == leavesLater && why.lostBy(&g.settings) {
			out.lost[name] = why
		}
		switch {
		case becomes == leavesNow:
			out.gone[name] = why
		case l.nameless(name):
			out.nameless[owner] = name
		default:
			out.stay = append(out.stay, l.facts(name, why))
		}
	}
	if len(snap.Nodes) == 0 && len(l.names) > 0 {
		out.problems = append(out.problems, topology.Finding{Reason: ReasonStoreEmpty, Severity: topology.Unknown,
			Message: fmt.Sprintf("there is no node and no report at all; published nodes that stay: %d", len(l.names)),
			Remedy:  "see that the publisher reads the right store, and that the agents write to it"})
	}
	h.since, out.next = since, timer.Next()
	return out
}

// look is what one pass sees of the published names that no Node has.
type look struct {
	*nodeHistory
	g    *gathered
	snap *inputs.Snapshot
	// names are the missing names: those that were missed last come first.
	names []string
	// last has the name that each Node had last.
	last map[string]string
	// nodes are all Nodes by their own name. outside are those that the publication does not
	// take, by the Slurm name that they have or had.
	nodes, outside map[string]*inputs.Node
	pods           map[string]inputs.PodFate
	// perhaps is a Node without a Slurm name that may be a missing one whose Node is not
	// known, or "".
	perhaps string
}

// look looks for the published names.
func (h *nodeHistory) look(g *gathered, published []string, snap *inputs.Snapshot) *look {
	l := &look{nodeHistory: h, g: g, snap: snap, outside: h.pub.Rules.Unselected(snap)}
	for _, name := range published {
		if g.Nodes[name] == nil {
			l.names = append(l.names, name)
		}
	}
	h.noteSets(g.Nodes, l.names)
	if len(l.names) == 0 {
		return l
	}
	slices.SortFunc(l.names, func(a, b string) int { return cmp.Or(h.missedLater(b, a), cmp.Compare(a, b)) })
	l.last = h.lastNames(g)
	l.nodes = make(map[string]*inputs.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		l.nodes[snap.Nodes[i].Name] = &snap.Nodes[i]
	}
	for _, name := range l.names {
		if n := l.nodes[h.owners[name]]; n != nil && !h.pub.Rules.Takes(n) {
			l.outside[name] = n
		}
	}
	l.pods = h.pub.Rules.PodFates(snap, h.sets, l.names)
	l.perhaps = l.perhapsPublished()
	return l
}

// whyAbsent says why no Node has the name: the first reason that applies.
func (l *look) whyAbsent(name string) absence {
	owner, pod, bySlinky := l.owners[name], l.pods[name], l.pub.Rules.BySlinky()
	n, outside := l.nodes[owner], l.outside[name] != nil
	switch {
	case len(l.snap.Nodes) == 0:
		return noNodes
	case l.g.Claimed[name] != "":
		return claimedByTwo
	case n != nil && l.taken(n) && pod == inputs.PodGivenUp:
		return podReplaced
	case n != nil && l.taken(n):
		return nodeTaken
	case !bySlinky && l.nameless(name):
		return noSlurmName
	case owner != "" && n == nil && !outside && l.snap.Whole:
		return nodeGone
	case owner != "" && n == nil && !outside:
		return reportDeleted
	case pod != inputs.PodThere && l.namesChanged(name):
		return namesChanged
	case pod == inputs.PodGivenUp:
		return podGivenUp
	case pod == inputs.PodWanted:
		return podWanted
	case outside:
		return notSelected
	case pod == inputs.PodThere:
		return podWaits
	case !bySlinky && n != nil:
		return namedOtherwise
	case owner == "" && l.perhaps != "":
		return perhapsNameless
	}
	return notKnown
}

// nameless reports whether the publication takes the Node that had the name last, and the Node
// has no Slurm name now.
func (l *look) nameless(name string) bool {
	owner := l.owners[name]
	return l.g.Nameless[owner] != nil && l.last[owner] == name
}

// taken reports whether another publication takes the Node, and this one does not.
func (l *look) taken(n *inputs.Node) bool {
	return !l.pub.Rules.Takes(n) && slices.ContainsFunc(l.others, func(other *publication.Cluster) bool { return other.Rules.Wants(n) })
}

// namesChanged reports whether pods say the names and the name is of a plan that was made by
// another slurmNames: this publisher has seen no pod of the name.
func (l *look) namesChanged(name string) bool {
	_, seen := l.sets[name]
	return l.pub.Rules.BySlinky() && !seen && l.g.settings.names()
}

// facts are those of a name that stays without a Node.
func (l *look) facts(name string, why absence) topology.Facts {
	f := topology.Facts{Name: name, SlurmName: name, Gone: why.fateBy(&l.g.settings) == leavesLater}
	switch owner := l.owners[name]; {
	case owner != "" && l.last[owner] == name && l.g.All[owner] == nil:
		f.Name = owner
	default:
		f.NodeUnknown = owner != name
	}
	switch {
	case why == claimedByTwo:
		f.Stays = l.g.Claimed[name]
	case why == perhapsNameless:
		f.Stays = "it may be node " + l.perhaps + ", which has no Slurm name now"
	case !f.Gone || rules[why].counts:
		f.Stays = "it is " + why.words(l.pub, &l.g.settings)
	}
	return f
}

// perhapsPublished names a Node without a Slurm name that may have one of the missing names, or
// "". It counts only if nobody knows which name the Node had.
func (l *look) perhapsPublished() string {
	if l.pub.Rules.ByPods() { // a node without a worker pod is no Slurm node
		return ""
	}
	for _, problem := range l.g.Unnamed {
		if n := l.g.Nameless[problem.Node]; l.last[n.Name] == "" && mayHaveGPUs(l.pub, n, l.snap) {
			return n.Name
		}
	}
	return ""
}

// mayHaveGPUs reports whether anything says that the node could be in a file.
func mayHaveGPUs(p *publication.Cluster, n *inputs.Node, snap *inputs.Snapshot) bool {
	l := nodelabels.Read(n.Labels, p.LabelKeys())
	return snap.Reports[n.Name] != nil || l.GPUs > 0 || n.GPUs > 0 || l.Product != "" || l.NamesDomain() || len(l.Problems) > 0 || n.Annotations[plandoc.SpecAnnotation] != ""
}
