package publisher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// seat is a Slurm name that is published or that a Node has, and all that the passes know of the name.
type seat struct {
	name string
	// node is the Node that had the name when the files were written last, or "" if nobody knows.
	node string
	// set is the NodeSet of the last worker pod of the name. Nobody knows the NodeSet if no pass has seen the name on a Node.
	set  inputs.Owner
	seen bool
	// since is when a pass missed the name first. It is zero if the name is not missing, or does not leave later.
	since time.Time

	// published says that a pass finds the name in the files, or in place of another name that its Node had.
	published bool

	// The rest is what a pass sees of a missing name. at is node, or nil if the Node is gone. outside is a Node that has or
	// had the name and that the publication does not take. nameless says that node had this name last, and has none now.
	at, outside *inputs.Node
	nameless    bool
	pod         inputs.PodFate
	absence
}

// seats are what the passes remember of Slurm names. A publisher that has just started takes the seats from the stored
// plan, as far as the plan has them.
type seats struct {
	pub *publication.Cluster
	// others are the other publications.
	others []*publication.Cluster
	// byName is nil before the first pass.
	byName map[string]*seat
}

// of returns the seat of the name.
func (all *seats) of(name string) *seat {
	if all.byName[name] == nil {
		all.byName[name] = &seat{name: name}
	}
	return all.byName[name]
}

// recall takes from the stored plan which Node had which name, and since when names are missing. If the plan has no Node
// for a name, the Node is the one that has the name now.
func (all *seats) recall(in *inputs.Inputs, mem *stored) {
	all.byName = make(map[string]*seat, len(in.Facts))
	known := make(map[string]bool, len(in.Facts))
	if mem.prev.Plan != nil {
		for i := range mem.prev.Plan.Nodes {
			if n := &mem.prev.Plan.Nodes[i]; n.Node != "" && !n.NodeUnknown {
				all.of(n.SlurmName).node, known[n.Node] = n.Node, true
			}
		}
	}
	for i := range in.Facts {
		f := &in.Facts[i]
		if s := all.of(f.SlurmName); s.node == "" && !known[f.Name] {
			s.node = f.Name
		}
	}
	for name, since := range mem.doc.MissingSince {
		all.of(name).since = since
	}
}

// wrote notes that the files now have the names that the Nodes have. A name that stays without a Node keeps the
// Node that it had.
func (all *seats) wrote(in *inputs.Inputs) {
	nodes := make(map[string]string, len(in.Facts))
	for i := range in.Facts {
		f := &in.Facts[i]
		nodes[f.SlurmName] = all.of(f.SlurmName).node
		if hasName(in, f.Name, f.SlurmName) {
			nodes[f.SlurmName] = f.Name
		}
	}
	for name, s := range all.byName {
		s.node = nodes[name]
	}
}

// hasName reports whether the node has the Slurm name.
func hasName(in *inputs.Inputs, node, name string) bool {
	n := in.Nodes[name]
	return n != nil && n.Name == node
}

// sinceOf returns the time that is known, or now. A later time than now counts as now: the clock was ahead then.
func sinceOf(known, now time.Time) time.Time {
	if known.IsZero() || known.After(now) {
		return now
	}
	return known
}

// look is what one pass sees of the Slurm names.
type look struct {
	*seats
	inputs.Inputs
	snap *inputs.Snapshot
	// prev is what is published, with the names that the nodes have now.
	prev Previous
	// settings are the keys of the configuration that the published plan was not made by.
	settings settings
	// last has the seat of the name that each Node had last.
	last map[string]*seat
	// missing are the published names that no Node has. The name that was missed last comes first.
	missing []*seat
	// perhaps is a Node without a Slurm name that may be a missing one whose Node is not known, or "".
	perhaps string
}

// look compares the names of now with the published ones.
func (all *seats) look(in inputs.Inputs, snap *inputs.Snapshot, mem *stored, now time.Time) *look {
	if all.byName == nil {
		all.recall(&in, mem)
	}
	l := &look{seats: all, Inputs: in, snap: snap, settings: settingsOf(all.pub, &mem.prev)}
	l.last = all.lastSeats(&in)
	l.prev = all.rename(&in, l.last, mem.prev)
	l.see(now.UTC().Round(0))
	if len(l.missing) == 0 {
		return l
	}
	slices.SortFunc(l.missing, func(a, b *seat) int { return cmp.Or(b.since.Compare(a.since), cmp.Compare(a.name, b.name)) })
	l.perhaps = l.perhapsPublished()
	nodes, nameless := make(map[string]*inputs.Node, len(snap.Nodes)), make(map[string]bool, len(in.Unnamed))
	for i := range snap.Nodes {
		nodes[snap.Nodes[i].Name] = &snap.Nodes[i]
	}
	for i := range in.Unnamed {
		nameless[in.Unnamed[i].Node] = true
	}
	outside, podFate := all.pub.Rules.Unselected(snap), all.pub.Rules.PodFates(snap)
	for _, s := range l.missing {
		s.at, s.outside, s.pod = nodes[s.node], outside[s.name], podFate(s.name, s.set, s.seen)
		if s.at != nil && !all.pub.Rules.Takes(s.at) {
			s.outside = s.at
		}
		s.nameless = nameless[s.node] && l.last[s.node] == s
		if s.absence = l.absenceOf(s); !s.later() {
			s.since = time.Time{}
		}
	}
	return l
}

// see notes which names are published, there and missing.
func (l *look) see(now time.Time) {
	for name := range l.Nodes {
		l.of(name)
	}
	for _, s := range l.byName {
		s.published = false
	}
	for _, name := range l.prev.nodes() {
		l.of(name).published = true
	}
	for name, s := range l.byName {
		next := seat{name: name, node: s.node, published: s.published}
		switch n := l.Nodes[name]; {
		case n != nil:
			next.set, next.seen = l.pub.Rules.OwnerOf(n, name), true
		case next.published:
			next.set, next.seen, next.since = s.set, s.seen, sinceOf(s.since, now)
			l.missing = append(l.missing, s)
		case s.node == "":
			delete(l.byName, name)
		}
		*s = next
	}
}

// lastSeats has by Node the seat that the Node had last. Of several seats it is one whose name the Node has now, else
// the one that was missed last.
func (all *seats) lastSeats(in *inputs.Inputs) map[string]*seat {
	last := make(map[string]*seat, len(all.byName))
	for _, s := range all.byName {
		if other := last[s.node]; s.node != "" && (other == nil || s.hadLater(other, in)) {
			last[s.node] = s
		}
	}
	return last
}

// hadLater reports whether the Node of both seats had a later than b.
func (a *seat) hadLater(b *seat, in *inputs.Inputs) bool {
	has := hasName(in, a.node, a.name)
	switch {
	case has != hasName(in, b.node, b.name):
		return has
	case a.since.IsZero() != b.since.IsZero(): // the other was there until now
		return a.since.IsZero()
	}
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(b.name, a.name)) > 0
}

// renamed is a Node whose name differs from the published files.
type renamed struct{ node, old, new string }

// newNames has the names that stand for a name, if they are others.
type newNames map[string][]string

// rename returns prev with the names that published nodes have now.
func (all *seats) rename(in *inputs.Inputs, last map[string]*seat, prev Previous) Previous {
	to, changed := all.assign(in, last, prev.nodes())
	if len(to) > 0 {
		prev.Plan, prev.Gres, prev.renamed = to.plan(prev.Plan), translate(to, prev.Gres), changed
		prev.stored.Devices = gres.ByName(prev.Gres)
	}
	return prev
}

// assign gives each published place the name that its Node has now. A Node with another name is the same machine in
// the same place. published are the names in the files. No name stands for one that a pod took to another Node. A name
// whose pod waits for a Node stays beside the new one. Further worker pods of the Node have their names there.
func (all *seats) assign(in *inputs.Inputs, last map[string]*seat, published []string) (to newNames, changed []renamed) {
	byPods, files, now := all.pub.Rules.ByPods(), make(map[string]bool, len(published)), map[string]string{}
	for _, name := range published {
		files[name] = true
	}
	to, further := newNames{}, newNames{}
	for i := range in.Facts {
		f := &in.Facts[i]
		s, old := all.of(f.SlurmName), last[f.Name]
		switch {
		case s.node == f.Name: // it had the name
			continue
		case old == nil || !files[old.name]:
		case now[old.name] == "" && !hasName(in, f.Name, old.name):
			now[old.name] = s.name
		default:
			further[old.name] = append(further[old.name], s.name)
		}
		if byPods && files[f.SlurmName] {
			to[f.SlurmName] = nil
		}
	}
	for old, name := range now {
		end := name
		for end != old && now[end] != "" { // Nodes may hand on their names in a row
			end = now[end]
		}
		if !byPods && end != old && files[end] { // the last one keeps its name, so all others in the row do
			continue
		}
		if to[old] = []string{name}; in.Pending[old] {
			to[old] = append(to[old], old)
		}
		changed = append(changed, renamed{all.of(old).node, old, name})
	}
	for old, names := range further {
		to[old] = append(to.of(old), names...)
	}
	slices.SortFunc(changed, func(a, b renamed) int { return cmp.Compare(a.new, b.new) })
	return to, changed
}

// oldNames has the published names for the new names of Nodes.
func oldNames(changed []renamed) newNames {
	to := newNames{}
	for _, r := range changed {
		to[r.old] = nil
	}
	for _, r := range changed {
		to[r.new] = []string{r.old}
	}
	return to
}

// of returns the names that stand for one.
func (n newNames) of(old string) []string {
	if names, changed := n[old]; changed {
		return names
	}
	return []string{old}
}

// translate returns what is known by name under the names that stand for each name.
func translate[V any](to newNames, by map[string]V) map[string]V {
	out := make(map[string]V, len(by))
	for old, v := range by {
		for _, name := range to.of(old) {
			out[name] = v
		}
	}
	return out
}

// plan returns a published plan with its nodes in the topologies under the names of now.
func (n newNames) plan(old *topology.Plan) *topology.Plan {
	out := *old
	out.Topologies = slices.Clone(old.Topologies)
	for i := range out.Topologies {
		out.Topologies[i] = out.Topologies[i].WithNodes(func(names topology.Names) (to topology.Names) {
			for _, name := range names {
				to = append(to, n.of(name)...)
			}
			return to
		})
	}
	return &out
}

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

// leavers are the published names that leave now, each with the reason.
type leavers map[string]absence

// gone reports whether the name leaves because its node is really gone.
func (l leavers) gone(name string) bool {
	return l[name].free()
}

// why says why nodes leave, the most frequent reason first. Some of the nodes may stay. It returns "" if none
// leaves.
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
	// since says since when names are missing that leave later, as far as the stored plan is to know it. leaves is
	// when the next name leaves, and next is when since has more names. Both may be zero.
	since        map[string]time.Time
	leaves, next time.Time
}

// present decides what becomes of the published names that no Node has. A name is stored after missedPause, or when
// it leaves: the next publisher must know of a change that people approve.
func (l *look) present(now time.Time) presentNodes {
	out := presentNodes{Inputs: l.Inputs, gone: leavers{}, lost: leavers{}, since: map[string]time.Time{}}
	var leaves, stored again.Timer
	kept := map[string]string{}
	for _, s := range l.missing {
		leavesNow := s.fate == leavesNow || s.fate == leavesNowFree
		if s.later() {
			until := s.since.Add(l.pub.RemoveAfter.Duration)
			if leavesNow = !now.Before(until); !leavesNow {
				leaves.At(until)
			}
			if at := s.since.Add(min(missedPause, l.pub.RemoveAfter.Duration)); now.Before(at) {
				stored.At(at)
			} else {
				out.since[s.name] = s.since
			}
		}
		switch {
		case leavesNow:
			out.gone[s.name] = s.absence
			continue
		case s.bySettings:
			out.lost[s.name] = s.absence
		}
		if s.nameless {
			kept[s.node] = s.name
		} else {
			out.Facts = append(out.Facts, l.facts(s))
		}
	}
	if len(l.snap.Nodes) == 0 && len(l.missing) > 0 {
		out.Problems = append(out.Problems, topology.Finding{Reason: ReasonStoreEmpty, Severity: topology.Unknown,
			Message: fmt.Sprintf("there is no node and no report at all; published nodes that stay: %d", len(l.missing)),
			Remedy:  "see that the publisher reads the right store, and that the agents write to it"})
	}
	out.keepNames(kept)
	out.leaves, out.next = leaves.Next(), stored.Next()
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
			p.Nodes[name] = p.All[problem.Node]
			problem.Message += "; it stays published as " + name
			p.Problems = append(p.Problems, problem)
		}
		return stays
	})
}

// absenceOf says what becomes of a missing name, and why: the first case that applies.
func (l *look) absenceOf(s *seat) absence {
	n, outside, bySlinky := s.at, s.outside != nil, l.pub.Rules.BySlinky()
	taken := n != nil && n == s.outside && l.elsewhere(n)
	switch {
	case len(l.snap.Nodes) == 0:
		return absence{fate: stays, why: "not shown: there is no node and no report at all"}
	case l.Claimed[s.name] != "": // by several Nodes
		return absence{fate: stays, why: "claimed more than once: " + l.Claimed[s.name]}
	case taken && s.pod == inputs.PodGivenUp:
		return absence{fate: leavesNowFree, why: "without a worker pod, and another publication has one there"}
	case taken: // a pod that the name had is there, or is made again
		return absence{fate: leavesNow, why: "taken by another publication"}
	case !bySlinky && s.nameless:
		return absence{fate: stays, why: "without a Slurm name"}
	case s.node != "" && n == nil && !outside && l.snap.Whole:
		return absence{fate: leavesLaterFree, why: "gone"}
	case s.node != "" && n == nil && !outside: // the store cannot tell whether the node is gone
		return absence{fate: leavesLater, why: "without a report"}
	case s.pod != inputs.PodThere && bySlinky && !s.seen && l.settings.names(): // another slurmNames gave the name
		return l.settings.absence()
	case s.pod == inputs.PodGivenUp:
		return absence{fate: leavesLaterFree, why: "without a worker pod, and no NodeSet is known to make it again"}
	case s.pod == inputs.PodWanted:
		return absence{fate: leavesLater, why: "without a worker pod, and the NodeSet has not made it again"}
	case outside && l.settings.nodes(): // there is nothing to wait for
		return absence{fate: leavesNow, why: l.notSelected()}
	case outside:
		return absence{fate: leavesLater, why: l.notSelected()}
	case s.pod == inputs.PodThere:
		return absence{fate: leavesLater, why: "without a Node: the worker pod waits for one"}
	case !bySlinky && n != nil:
		return absence{fate: leavesLater, why: "under another Slurm name now", bySettings: l.settings.names()}
	case s.node == "" && l.perhaps != "":
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

// elsewhere reports whether another publication takes the Node.
func (all *seats) elsewhere(n *inputs.Node) bool {
	return slices.ContainsFunc(all.others, func(other *publication.Cluster) bool { return other.Rules.Wants(n) })
}

// facts returns the facts of a name that stays without a Node.
func (l *look) facts(s *seat) topology.Facts {
	f := topology.Facts{Name: s.name, SlurmName: s.name, NodeUnknown: s.node != s.name, Gone: s.later()}
	if l.last[s.node] == s && l.All[s.node] == nil {
		f.Name, f.NodeUnknown = s.node, false
	}
	if !s.free() {
		f.Stays = "it is " + s.why
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
		if n := l.All[problem.Node]; l.last[n.Name] == nil && mayHaveGPUs(l.pub, n, l.snap) {
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
