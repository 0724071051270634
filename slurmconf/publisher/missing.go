package publisher

import (
	"cmp"
	"fmt"
	"maps"
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

// fate is what becomes of a published Slurm name that no Node has now. A name that leaves counts against
// MaxChange. It is free if its node is really gone: nobody brings the node back by waiting.
type fate int

const (
	stays           fate = iota // until more is known
	leavesNowFree               // leaves in this pass
	leavesNow                   // leaves in this pass, and counts
	leavesLaterFree             // leaves when it was missed for RemoveAfter
	leavesLater                 // leaves when it was missed for RemoveAfter, and counts
)

// later reports whether the name stays for a while.
func (f fate) later() bool { return f == leavesLaterFree || f == leavesLater }

// free reports whether the name leaves and does not count.
func (f fate) free() bool { return f == leavesNowFree || f == leavesLaterFree }

// absence is the fate of a missing name, and why.
type absence struct {
	fate
	// why comes after "is" or "are".
	why string
	// bySettings says that changed settings took the name away, as far as can be told. Then the name counts
	// at once, although it leaves later.
	bySettings bool
}

// ReasonStoreEmpty says that a store shows no node, while nodes are published.
const ReasonStoreEmpty = "StoreEmpty"

// leavers are the published names that leave now, each with the reason.
type leavers map[string]absence

// gone reports whether the name leaves because its node is really gone.
func (l leavers) gone(name string) bool {
	return l[name].free()
}

// why says for those of the nodes that leave why they do, the most frequent reason first. It
// returns "" if none of them leaves.
func (l leavers) why(nodes []string) string {
	count, rest := map[string]int{}, 0
	for _, node := range nodes {
		if absent, leaves := l[node]; leaves {
			count[absent.why]++
		} else {
			rest++
		}
	}
	if len(count) == 0 {
		return ""
	}
	var parts []string
	for _, why := range slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) }) {
		verb := "are"
		if count[why] == 1 {
			verb = "is"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", count[why], verb, why))
	}
	switch {
	case rest == 1:
		parts = append(parts, "1 moves or loses its place")
	case rest > 1:
		parts = append(parts, fmt.Sprintf("%d move or lose their place", rest))
	}
	return strings.Join(parts, ", ")
}

// presentNodes are the nodes that are there, and published names that nobody has and that stay.
type presentNodes struct {
	inputs.Inputs
	// gone are the names that leave now. lost are the names that leave later, because settings were changed.
	gone, lost leavers
	// outside are the Nodes of missing names that the publication does not take.
	outside []outsideNode
	// since says since when names are missing that leave later, as far as the stored plan is to know it. leaves is
	// when the next name leaves, and next is when since has more names. Both may be zero.
	since        map[string]time.Time
	leaves, next time.Time
}

// outsideNode is a Node that the publication does not take. The name is its published Slurm name, or
// empty. leaves says that the name leaves now or later.
type outsideNode struct {
	*inputs.Node
	name   string
	leaves bool
}

// present decides what becomes of the published names that no Node has, and remembers since when they are
// missing. A name is stored after missedPause, or when it leaves: the next publisher must know of a change that
// people approve.
func (h *nodeHistory) present(n *namedNodes, snap *inputs.Snapshot, now time.Time) presentNodes {
	l := h.look(n, snap, now)
	out := presentNodes{Inputs: n.Inputs, gone: leavers{}, lost: leavers{}, since: map[string]time.Time{}}
	var leaves, stored again.Timer
	since, nameless := map[string]time.Time{}, map[string]string{}
	for _, name := range l.names {
		absent := l.absence(name)
		if node := l.outside[name]; node != nil {
			out.outside = append(out.outside, outsideNode{node, name, absent.fate != stays})
		}
		leavesNow := absent.fate == leavesNow || absent.fate == leavesNowFree
		if absent.later() {
			since[name] = l.since[name]
			until := since[name].Add(h.pub.RemoveAfter.Duration)
			if leavesNow = !now.Before(until); !leavesNow {
				leaves.At(until)
			}
			if at := since[name].Add(min(missedPause, h.pub.RemoveAfter.Duration)); now.Before(at) {
				stored.At(at)
			} else {
				out.since[name] = since[name]
			}
		}
		switch {
		case leavesNow:
			out.gone[name] = absent
			continue
		case absent.bySettings:
			out.lost[name] = absent
		}
		if l.nameless(name) {
			nameless[h.owners[name]] = name
		} else {
			out.Facts = append(out.Facts, l.facts(name, absent))
		}
	}
	if len(snap.Nodes) == 0 && len(l.names) > 0 {
		out.Problems = append(out.Problems, topology.Finding{Reason: ReasonStoreEmpty, Severity: topology.Unknown,
			Message: fmt.Sprintf("there is no node and no report at all; published nodes that stay: %d", len(l.names)),
			Remedy:  "see that the publisher reads the right store, and that the agents write to it"})
	}
	out.keepNames(nameless)
	h.missed, out.leaves, out.next = since, leaves.Next(), stored.Next()
	return out
}

// keepNames lets nodes without a Slurm name stay published under the names that they had.
func (p *presentNodes) keepNames(names map[string]string) {
	if len(names) == 0 {
		return
	}
	p.Nodes = maps.Clone(p.Nodes)
	p.Unnamed = slices.DeleteFunc(slices.Clone(p.Unnamed), func(problem topology.Finding) bool {
		name, stays := names[problem.Node]
		if stays {
			p.Facts = append(p.Facts, topology.Facts{Name: problem.Node, SlurmName: name, Stays: problem.Message})
			p.Nodes[name] = p.Nameless[problem.Node]
			problem.Message += "; it stays published as " + name
			p.Problems = append(p.Problems, problem)
		}
		return stays
	})
}

// look is what one pass sees of the published names that no Node has.
type look struct {
	*nodeHistory
	*namedNodes
	snap *inputs.Snapshot
	// names are the missing names, and since says since when: the names that were missed last come first.
	names []string
	since map[string]time.Time
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
func (h *nodeHistory) look(n *namedNodes, snap *inputs.Snapshot, now time.Time) *look {
	l := &look{nodeHistory: h, namedNodes: n, snap: snap, since: map[string]time.Time{}}
	for _, name := range n.prev.nodes() {
		if n.Nodes[name] == nil {
			l.names = append(l.names, name)
			l.since[name] = sinceOf(h.missed, name, now.UTC().Round(0))
		}
	}
	h.noteSets(n.Nodes, l.names)
	if len(l.names) == 0 {
		return l
	}
	slices.SortFunc(l.names, func(a, b string) int { return cmp.Or(l.since[b].Compare(l.since[a]), cmp.Compare(a, b)) })
	l.last = h.lastNames(&n.Inputs)
	l.nodes, l.outside = make(map[string]*inputs.Node, len(snap.Nodes)), h.pub.Rules.Unselected(snap)
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

// absence says what becomes of a missing name, and why: the first case that applies.
func (l *look) absence(name string) absence {
	owner, pod, bySlinky := l.owners[name], l.pods[name], l.pub.Rules.BySlinky()
	n, outside := l.nodes[owner], l.outside[name] != nil
	switch {
	case len(l.snap.Nodes) == 0:
		return absence{fate: stays, why: "not shown: there is no node and no report at all"}
	case l.Claimed[name] != "": // by several Nodes
		return absence{fate: stays, why: "claimed more than once: " + l.Claimed[name]}
	case n != nil && l.taken(n) && pod == inputs.PodGivenUp:
		return absence{fate: leavesNowFree, why: "without a worker pod, and another publication has one there"}
	case n != nil && l.taken(n): // a pod that the name had is there, or is made again
		return absence{fate: leavesNow, why: "taken by another publication"}
	case !bySlinky && l.nameless(name):
		return absence{fate: stays, why: "without a Slurm name"}
	case owner != "" && n == nil && !outside && l.snap.Whole:
		return absence{fate: leavesLaterFree, why: "gone"}
	case owner != "" && n == nil && !outside: // the store cannot tell whether the node is gone
		return absence{fate: leavesLater, why: "without a report"}
	case pod != inputs.PodThere && l.namesChanged(name):
		return l.settings.absence()
	case pod == inputs.PodGivenUp:
		return absence{fate: leavesLaterFree, why: "without a worker pod, and no NodeSet is known to make it again"}
	case pod == inputs.PodWanted:
		return absence{fate: leavesLater, why: "without a worker pod, and the NodeSet has not made it again"}
	case outside && l.settings.nodes(): // there is nothing to wait for
		return absence{fate: leavesNow, why: l.notSelected()}
	case outside:
		return absence{fate: leavesLater, why: l.notSelected()}
	case pod == inputs.PodThere:
		return absence{fate: leavesLater, why: "without a Node: the worker pod waits for one"}
	case !bySlinky && n != nil:
		return absence{fate: leavesLater, why: "under another Slurm name now", bySettings: l.settings.names()}
	case owner == "" && l.perhaps != "":
		return absence{fate: stays, why: "perhaps node " + l.perhaps + ", which has no Slurm name now"}
	}
	return absence{fate: leavesLater, why: "on no Node that is known", bySettings: l.settings.names()}
}

// notSelected says by which keys a Node is not taken.
func (l *look) notSelected() string {
	var keys []string
	for _, key := range []struct{ key, value string }{{keySelector, l.pub.Nodes.Selector}, {keySlinky, l.pub.Nodes.Slinky}} {
		switch {
		case l.settings.nodes() && l.settings.differ(key.key):
			keys = append(keys, l.settings.text(key.key))
		case key.value != "":
			keys = append(keys, key.key)
		}
	}
	return fmt.Sprintf("not selected any more (%s)", strings.Join(keys, ", "))
}

// nameless reports whether the publication takes the Node that had the name last, and the Node
// has no Slurm name now.
func (l *look) nameless(name string) bool {
	owner := l.owners[name]
	return l.Nameless[owner] != nil && l.last[owner] == name
}

// taken reports whether another publication takes the Node, and this one does not.
func (l *look) taken(n *inputs.Node) bool {
	return !l.pub.Rules.Takes(n) && slices.ContainsFunc(l.others, func(other *publication.Cluster) bool { return other.Rules.Wants(n) })
}

// namesChanged reports whether pods say the names and the name is of a plan that was made by
// another slurmNames: this publisher has seen no pod of the name.
func (l *look) namesChanged(name string) bool {
	_, seen := l.sets[name]
	return l.pub.Rules.BySlinky() && !seen && l.settings.names()
}

// facts are those of a name that stays without a Node.
func (l *look) facts(name string, absent absence) topology.Facts {
	f := topology.Facts{Name: name, SlurmName: name, Gone: absent.later()}
	switch owner := l.owners[name]; {
	case owner != "" && l.last[owner] == name && l.All[owner] == nil:
		f.Name = owner
	default:
		f.NodeUnknown = owner != name
	}
	if !absent.free() {
		f.Stays = "it is " + absent.why
	}
	return f
}

// perhapsPublished names a Node without a Slurm name that may have one of the missing names, or
// "". It counts only if nobody knows which name the Node had.
func (l *look) perhapsPublished() string {
	if l.pub.Rules.ByPods() { // a node without a worker pod is no Slurm node
		return ""
	}
	for _, problem := range l.Unnamed {
		if n := l.Nameless[problem.Node]; l.last[n.Name] == "" && mayHaveGPUs(l.pub, n, l.snap) {
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
