package plandoc

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// Changes are what differs between two plans.
type Changes struct {
	// Moves are the nodes with another place, sorted by name.
	Moves []Move
	// Displaced are the nodes that had a place and are elsewhere or nowhere now, sorted: those of placement.Moved.
	Displaced []string
	// Units are the blocks, switches and topologies that come or go, and the sizes and the
	// parts of the policy that change, one sentence each.
	Units []string
	// Devices are the nodes with other GPUs in the plan, sorted. Fewer are the nodes of Devices that stay,
	// with fewer devices of a Type: Gres= of slurm.conf must follow, or slurmctld drains them.
	Devices, Fewer []string
	// Redone are the nodes of Devices that had lines before. A node that detected its devices and now has them
	// listed is not among them.
	Redone []string
	// detect is AutoDetect of all nodes in the next gres.conf, which then has no lines of nodes.
	detect string
}

// Move is one node with another place or another name in Slurm.
type Move struct {
	Node string
	// Old is the name that the node had before, if that was another.
	Old      string
	From, To topology.Place
	Why      string
}

// String says the move in people's words.
func (m *Move) String() string { return sentence([]*Move{m}, hostlist.Compress) }

// Sentences says the moves in people's words. Nodes of which the same is said share a sentence. list writes their
// names: hostlist.Compress, or ShortList if a sentence must not be long.
func (c *Changes) Sentences(list func(names []string) string) []string {
	var out []string
	for _, moves := range c.alike() {
		out = append(out, sentence(moves, list))
	}
	return out
}

// ShortList writes names as a host list, and only its beginning if it is long.
func ShortList(names []string) string { return hostlist.Shorten(hostlist.Compress(names)) }

// alike puts moves together that differ in the names of their nodes only. Nodes that have a new name and
// stay where they were are all alike, whatever their places are.
func (c *Changes) alike() [][]*Move {
	type key struct {
		renamed  bool
		from, to topology.Place
		why      string
	}
	var out [][]*Move
	at := map[key]int{}
	for i := range c.Moves {
		m := &c.Moves[i]
		k := key{m.Old != "", m.From, m.To, m.Why}
		if m.onlyName() {
			k = key{renamed: true}
		}
		n, known := at[k]
		if !known {
			n = len(out)
			at[k], out = n, append(out, nil)
		}
		out[n] = append(out[n], m)
	}
	return out
}

// onlyName reports whether the node has another name in the same place.
func (m *Move) onlyName() bool { return m.Old != "" && m.From == m.To }

// sentence says moves that are alike. list writes names as a host list.
func sentence(moves []*Move, list func([]string) string) string {
	m := moves[0]
	var names, olds []string
	for _, one := range moves {
		names, olds = append(names, one.Node), append(olds, one.Old)
	}
	verb := func(one, many string) string {
		if len(moves) == 1 {
			return one
		}
		return many
	}
	nodes, from, to := list(names), placeText(m.From, m.To), placeText(m.To, m.From)
	switch {
	case m.onlyName():
		where := " in " + to
		if slices.ContainsFunc(moves, func(other *Move) bool { return other.To != m.To }) {
			where = ", each in its place"
		}
		if !inOneOrder(moves) {
			where += ", not in the order of the names"
		}
		return fmt.Sprintf("%s %s of %s%s", nodes, verb("is the new name", "are the new names"), list(olds), where)
	case m.Old != "":
		return fmt.Sprintf("%s, which %s %s, %s from %s to %s: %s", nodes, verb("was", "were"), list(olds), verb("moves", "move"), from, to, m.Why)
	case from == "":
		return fmt.Sprintf("%s %s %s: %s", nodes, verb("joins", "join"), to, m.Why)
	case to == "":
		return fmt.Sprintf("%s %s %s: %s", nodes, verb("leaves", "leave"), from, m.Why)
	}
	return fmt.Sprintf("%s %s from %s to %s: %s", nodes, verb("moves", "move"), from, to, m.Why)
}

// inOneOrder reports whether the old names of renamed nodes are in the order of the new ones, as host lists have
// them. Then the first name of one list belongs to the first of the other.
func inOneOrder(moves []*Move) bool {
	byName := slices.SortedFunc(slices.Values(moves), func(a, b *Move) int { return hostlist.Compare(a.Node, b.Node) })
	return slices.IsSortedFunc(byName, func(a, b *Move) int { return hostlist.Compare(a.Old, b.Old) })
}

// placeText names the block and the leaf of a place, as far as they differ from the other
// place.
func placeText(p, other topology.Place) string {
	var parts []string
	if p.Block != "" && p.Block != other.Block {
		parts = append(parts, p.Block)
	}
	if p.Leaf != "" && p.Leaf != other.Leaf {
		parts = append(parts, p.Leaf)
	}
	if len(parts) == 0 {
		return cmp.Or(p.Block, p.Leaf)
	}
	return strings.Join(parts, " at ")
}

// Diff returns what is different in next.
func Diff(old, next *Plan) Changes {
	c := Changes{detect: next.Detect}
	before, after := old.Places(), next.Places()
	renamed := renames(old, next, before, after)
	hasNew := make(map[string]bool, len(renamed)) // names that have become others
	for n, to := range after {
		name := renamed[n]
		hasNew[name] = true
		if from := before[cmp.Or(name, n)]; from != to || name != "" {
			c.Moves = append(c.Moves, Move{Node: n, Old: name, From: from, To: to})
		}
	}
	for n, from := range before {
		if _, stays := after[n]; !stays && !hasNew[n] {
			c.Moves = append(c.Moves, Move{Node: n, From: from})
		}
	}
	slices.SortFunc(c.Moves, func(a, b Move) int { return strings.Compare(a.Node, b.Node) })
	c.sayWhy(next)
	c.Displaced = placement.Moved(&old.Plan, &next.Plan)
	c.Units = units(old, next)
	c.compareDevices(old, next, before, after)
	return c
}

// sayWhy says of the moves what put the nodes where they are in next.
func (c *Changes) sayWhy(next *Plan) {
	if len(c.Moves) == 0 {
		return
	}
	reasons := make(map[string]*topology.Placement, len(next.Nodes))
	for i := range next.Nodes {
		reasons[next.Nodes[i].SlurmName] = &next.Nodes[i]
	}
	for i := range c.Moves {
		c.Moves[i].Why = whyPlaced(reasons[c.Moves[i].Node])
	}
}

// fewer reports whether there are fewer devices of a Type in next. Devices that a node detects are not
// known.
func fewer(old, next []gres.Line) bool {
	had, known := gres.Count(old)
	has, knows := gres.Count(next)
	return known && knows && len(gres.Fewer(had, has)) > 0
}

// renames returns, by new name, the old names of Nodes that are placed in both plans under
// different names. A name that both plans have is not renamed.
func renames(old, next *Plan, before, after map[string]topology.Place) map[string]string {
	came := func(name string) bool {
		_, placed := after[name]
		_, used := before[name]
		return placed && !used
	}
	if !slices.ContainsFunc(next.Nodes, func(n topology.Placement) bool { return came(n.SlurmName) }) {
		return nil
	}
	had := make(map[string]string) // Node -> its name in the old plan
	for i := range old.Nodes {
		n := &old.Nodes[i]
		if _, placed := before[n.SlurmName]; placed && !n.NodeUnknown {
			had[n.Node] = n.SlurmName
		}
	}
	out := make(map[string]string)
	for i := range next.Nodes {
		n := &next.Nodes[i]
		name, known := had[n.Node]
		if _, kept := after[name]; known && !kept && came(n.SlurmName) {
			out[n.SlurmName] = name
		}
	}
	return out
}

// whyPlaced says in people's words what put a node where it is.
func whyPlaced(n *topology.Placement) string {
	switch {
	case n == nil:
		return "no node has this name now"
	case n.Message != "":
		return n.Message
	case n.Reason != placement.ReasonPlaced:
		return n.Reason
	}
	switch n.Source {
	case "nvml":
		return "NVML twice since boot"
	case "label":
		return "its labels"
	case "switch":
		return "the switch above it"
	case "previous":
		return "as published before"
	}
	return "the tiers above it"
}

// units compares topologies, blocks, switches and sizes.
func units(old, next *Plan) []string {
	var out []string
	before, after := described(old), described(next)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		switch earlier, known := before[name]; {
		case !known && !strings.HasPrefix(name, policyKey):
			out = append(out, name+" is new")
		case !known && len(old.Policy) == 0: // a plan of files that were taken over has none
		case !known:
			out = append(out, fmt.Sprintf("%s is %s now", name, after[name]))
		case earlier != after[name]:
			out = append(out, fmt.Sprintf("%s: %s becomes %s", name, earlier, after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[name]; !stays {
			out = append(out, name+" goes")
		}
	}
	return out
}

// policyKey begins the name of a key of the policy.
const policyKey = "key "

// described names what a plan has, with the sizes of topologies and the policy.
func described(p *Plan) map[string]string {
	out := map[string]string{"membership": "file"}
	if p.ByAnnotation {
		out["membership"] = "annotation"
	}
	switch named := slices.Sorted(maps.Keys(p.Named())); {
	case len(named) > 0 && p.Detect != "":
		out["gres.conf"] = fmt.Sprintf("AutoDetect=%s, and lines of %s", p.Detect, ShortList(named))
	case len(named) > 0:
		out["gres.conf"] = "lines of " + ShortList(named)
	case p.Detect != "":
		out["gres.conf"] = "AutoDetect=" + p.Detect + " for all nodes"
	case p.AllNodes: // slurmd without these GPUs does not start with such a file
		out["gres.conf"] = "the same lines for all nodes"
	case len(p.Devices) > 0:
		out["gres.conf"] = "lines by node"
	}
	for key, value := range p.Policy {
		out[policyKey+key] = value
	}
	for i := range p.Topologies {
		t := &p.Topologies[i]
		out["topology "+t.Name] = strings.TrimSpace(fmt.Sprintf("%s %s", t.Kind, sizesText(t.Sizes))) + bySource(t.Source)
		for _, b := range t.Blocks {
			out["block "+b.Name] = ""
		}
		for _, s := range t.Switches {
			out["switch "+s.Name] = ""
		}
	}
	return out
}

// bySource says what switches are known from, if that is not labels.
func bySource(source string) string {
	if source == "" {
		return ""
	}
	return " by " + source
}

func sizesText(sizes []int) string {
	if len(sizes) == 0 {
		return ""
	}
	return fmt.Sprintf("with block sizes %v", sizes)
}

// compareDevices compares the lines of gres.conf of each node.
func (c *Changes) compareDevices(old, next *Plan, before, after map[string]topology.Place) {
	nameless := func(l gres.Line) bool { return l.Nodes == "" }
	if reflect.DeepEqual(old.Devices, next.Devices) && !slices.ContainsFunc(next.Devices, nameless) {
		return
	}
	lines := gres.ByNode(old.Devices, slices.Collect(maps.Keys(before)))
	nextLines := gres.ByNode(next.Devices, slices.Collect(maps.Keys(after)))
	for n := range nextLines {
		if _, known := lines[n]; !known {
			c.Devices = append(c.Devices, n)
		}
	}
	for n, had := range lines {
		has, listed := nextLines[n]
		if listed && reflect.DeepEqual(had, has) {
			continue
		}
		c.Devices = append(c.Devices, n)
		if had[0].AutoDetect == "" || !listed {
			c.Redone = append(c.Redone, n)
		}
		if _, stays := after[n]; stays && fewer(had, has) {
			c.Fewer = append(c.Fewer, n)
		}
	}
	slices.Sort(c.Devices)
	slices.Sort(c.Redone)
	slices.Sort(c.Fewer)
}

// Summary says the changes in one line, with the first sentences about nodes that move.
func (c *Changes) Summary(first int) string {
	var parts []string
	more := 0
	for i, moves := range c.alike() {
		if i < first {
			parts = append(parts, sentence(moves, ShortList))
		} else {
			more += len(moves)
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("more nodes: %d", more))
	}
	for i, unit := range c.Units {
		if i == first {
			parts = append(parts, fmt.Sprintf("more blocks and switches: %d", len(c.Units)-first))
			break
		}
		parts = append(parts, unit)
	}
	if len(c.Devices) > 0 {
		parts = append(parts, c.OfDevices())
	}
	if len(c.Fewer) > 0 {
		parts = append(parts, MustFollow(c.Fewer))
	}
	return strings.Join(parts, "; ")
}

// OfDevices names in people's words what differs in the nodes of Devices.
func (c *Changes) OfDevices() string {
	if c.detect != "" {
		return fmt.Sprintf("the GPUs of %d nodes, which slurmd detects", len(c.Devices))
	}
	return fmt.Sprintf("gres.conf: the lines of %d nodes", len(c.Devices))
}

// MustFollow says that nodes have fewer GPUs than before, in gres.conf or as slurmd detects them.
func MustFollow(nodes []string) string {
	return "fewer GPUs than before on " + ShortList(nodes) + ": slurm.conf must follow (Gres=), or slurmctld drains " + themOrIt(nodes)
}

func themOrIt(nodes []string) string {
	if len(nodes) == 1 {
		return "it"
	}
	return "them"
}

// None reports whether nothing differs.
func (c *Changes) None() bool { return len(c.Moves)+len(c.Units)+len(c.Devices) == 0 }

// OnlyMembers reports whether all that changes is which nodes known units have: nodes join,
// leave or get another name, and no node moves or gets other devices in its place.
func (c *Changes) OnlyMembers() bool {
	members := make(map[string]bool, len(c.Moves))
	for i := range c.Moves {
		m := &c.Moves[i]
		if m.From != m.To && m.From != (topology.Place{}) && m.To != (topology.Place{}) {
			return false
		}
		members[m.Node], members[m.Old] = true, true
	}
	return len(c.Units) == 0 && !slices.ContainsFunc(c.Devices, func(node string) bool { return !members[node] })
}
