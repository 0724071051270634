package switches

import (
	"cmp"
	"maps"
	"slices"
)

// group is a group of switches of one tier.
type group struct {
	tier     int
	switches []int32
	at       int32 // where it is in its tier
	fabric   int32 // a fabric by its first plane
	name     string
	// above are the published names above a group that has no cable upwards.
	above []string
	// unseen: the group is known by its published name alone.
	unseen bool
}

// byLLDP reports whether LLDP alone names the group's switches.
func (gr *group) byLLDP(g *graph) bool {
	return !slices.ContainsFunc(gr.switches, func(s int32) bool { return !g.lldp[s] })
}

// tier is the groups of one tier. Members are nodes in the first tier, and groups of the tier below
// in others.
type tier struct {
	groups []group
	parent []int32 // beside members: a group, or none
}

// tree is all tiers.
type tree struct {
	tiers []tier
	// tops are by fabric the groups that stand for it.
	tops map[int32]*group
	// named are all groups that are seen, by name.
	named map[string]*group
	// stays are the nodes that stay at their published place, because it is not seen now.
	stays []bool
}

// vote is how many cables of a member are in a group.
type vote struct{ group, cables int32 }

// tiers finds the groups: the leaves by nodes, then those above by the groups below.
func (g *graph) tiers(m *memory) *tree {
	fabrics := g.fabrics()
	t := &tree{tops: map[int32]*group{}, stays: make([]bool, len(g.on))}
	below := make([][]int32, len(g.on)) // beside the members of a tier: the nodes below
	for i := range below {
		below[i] = []int32{int32(i)}
	}
	levels := g.levels()
	for next, ok := t.placeNodes(g, m, below), true; ok; {
		setFabrics(g, next.groups, fabrics)
		t.tiers, below = append(t.tiers, next), nodesBelow(len(next.groups), next.parent, below)
		t.findTops(g, m, levels, next.groups, below)
		next, ok = g.above(t, m, levels, next.groups, below)
	}
	t.makeTops(g, m)
	t.named = map[string]*group{}
	for _, top := range t.tops {
		if !top.unseen {
			t.named[top.name] = top
		}
	}
	for i := range t.tiers {
		for j := range t.tiers[i].groups {
			t.named[t.tiers[i].groups[j].name] = &t.tiers[i].groups[j]
		}
	}
	return t
}

// gather finds the groups of a tier. links are the cables of each member to switches of the tier.
// It returns the groups, and each member's votes for them, the most first. Switches of one of the
// remembered groups are reunited.
func (g *graph) gather(number int, links [][]link, remembered []Group) ([]group, [][]vote) {
	sets := make([][]int32, len(g.ids))
	for i := range links {
		for _, l := range links[i] {
			sets[l.to] = append(sets[l.to], int32(i))
		}
	}
	var groups []group
	of := together(sets, len(links))
	for _, r := range remembered {
		if r.Tier == number {
			g.reunite(r, sets, of)
		}
	}
	index := make([]int32, len(of))
	for s := range of {
		if len(sets[s]) == 0 {
			continue
		}
		if of[s] == int32(s) {
			index[s] = int32(len(groups))
			groups = append(groups, group{tier: number})
		}
		at := &groups[index[of[s]]]
		at.switches = append(at.switches, int32(s))
	}
	votes := make([][]vote, len(links))
	for i := range links {
		// on is on how many switches of the group the member is.
		type tally struct{ vote, on int32 }
		count := map[int32]tally{}
		for _, l := range links[i] {
			at := index[of[l.to]]
			count[at] = tally{count[at].vote + l.cables, count[at].on + 1}
		}
		for at, c := range count {
			votes[i] = append(votes[i], vote{at, c.vote})
		}
		share := func(v vote) float64 {
			return float64(count[v.group].on) / float64(len(groups[v.group].switches))
		}
		slices.SortFunc(votes[i], func(a, b vote) int {
			return cmp.Or(cmp.Compare(b.cables, a.cables), cmp.Compare(share(b), share(a)), cmp.Compare(a.group, b.group))
		})
	}
	return groups, votes
}

// reunite joins what is left of a remembered group: its largest part, and parts that still have a
// member with that in common. They are apart because cables are missing. A part that has got other
// switches, or has no member in common, is a change of the fabric. of is what together returned.
func (g *graph) reunite(r Group, sets [][]int32, of []int32) {
	parts := map[int32][]int32{}
	for _, id := range r.Switches {
		if s, ok := slices.BinarySearch(g.ids, id); ok && len(sets[s]) > 0 {
			parts[of[s]] = append(parts[of[s]], int32(s))
		}
	}
	if len(parts) < 2 {
		return
	}
	var first []int32 // the largest part
	for _, at := range slices.Sorted(maps.Keys(parts)) {
		if len(parts[at]) > len(first) {
			first = parts[at]
		}
	}
	members := map[int32]bool{}
	for _, s := range first {
		for _, m := range sets[s] {
			members[m] = true
		}
	}
	size := map[int32]int{}
	for s, at := range of {
		if len(sets[s]) > 0 {
			size[at]++
		}
	}
	joined := map[int32]bool{of[first[0]]: true}
	lowest := of[first[0]]
	for at, part := range parts {
		common := slices.ContainsFunc(part, func(s int32) bool {
			return slices.ContainsFunc(sets[s], func(m int32) bool { return members[m] })
		})
		if common && len(part) == size[at] {
			joined[at], lowest = true, min(lowest, at)
		}
	}
	for s, at := range of {
		if joined[at] {
			of[s] = lowest
		}
	}
}

// nodesBelow returns the nodes below each group. parent has the group of each member, and below its nodes.
func nodesBelow(groups int, parent []int32, below [][]int32) [][]int32 {
	nodes := make([][]int32, groups)
	for i, p := range parent {
		if p != none {
			nodes[p] = append(nodes[p], below[i]...)
		}
	}
	return nodes
}

// follow gives each member the group that it has most votes for, and names the groups by the nodes below
// them. It returns the groups by name too.
func (m *memory) follow(g *graph, groups []group, votes [][]vote, below [][]int32) (parent []int32, named map[string]int32) {
	parent = make([]int32, len(votes))
	for i, v := range votes {
		parent[i] = none
		if len(v) > 0 {
			parent[i] = v[0].group
		}
	}
	m.name(g, groups, nodesBelow(len(groups), parent, below))
	named = map[string]int32{}
	for i := range groups {
		named[groups[i].name] = int32(i)
	}
	return parent, named
}

// placeNodes makes the first tier. A node is in the group that more than half of its adapters are
// on. Else it keeps its published place, because missing cables are no reason to move. Else it is in
// the group that most of its adapters are on. If several groups have as many, the node is in the one
// whose switches it uses most fully.
func (t *tree) placeNodes(g *graph, m *memory, each [][]int32) tier {
	groups, votes := g.gather(0, g.on, nil)
	parent, named := m.follow(g, groups, votes, each)
	for i, v := range votes {
		if len(v) == 0 || 2*int(v[0].cables) > len(m.nodes[i].Adapters) {
			continue
		}
		published := m.published(i, 0)
		if at, seen := named[published]; seen {
			parent[i] = at
		} else if m.remembers(0, published) {
			parent[i], t.stays[i] = none, true
		}
	}
	return keep(groups, parent)
}

// keep returns a tier of the groups that have members.
func keep(groups []group, parent []int32) tier {
	used := make([]bool, len(groups))
	for _, p := range parent {
		if p != none {
			used[p] = true
		}
	}
	index := make([]int32, len(groups))
	var kept []group
	for i := range groups {
		if used[i] {
			index[i] = int32(len(kept))
			groups[i].at = index[i]
			kept = append(kept, groups[i])
		}
	}
	for i, p := range parent {
		if p != none {
			parent[i] = index[p]
		}
	}
	return tier{kept, parent}
}

// fabrics returns for each switch its fabric. Parts of the network that no cable joins are one
// fabric if most nodes of the smaller one are on both: rails are often apart.
func (g *graph) fabrics() []int32 {
	nodes := make([][]int32, len(g.ids)) // by plane
	for i := range g.on {
		for _, l := range g.on[i] {
			if at := &nodes[g.plane[l.to]]; len(*at) == 0 || (*at)[len(*at)-1] != int32(i) {
				*at = append(*at, int32(i))
			}
		}
	}
	of := together(nodes, len(g.on))
	fabrics := make([]int32, len(g.ids))
	for s := range fabrics {
		fabrics[s] = of[g.plane[s]]
	}
	return fabrics
}

// setFabrics says which fabric each group is in: the one that most of its switches are in.
func setFabrics(g *graph, groups []group, fabrics []int32) {
	for i := range groups {
		count := map[int32]int{}
		best := fabrics[groups[i].switches[0]]
		for _, s := range groups[i].switches {
			f := fabrics[s]
			if count[f]++; count[f] > count[best] || count[f] == count[best] && f < best {
				best = f
			}
		}
		groups[i].fabric = best
	}
}

// levels says how many cables each switch is away from a leaf. A switch is a leaf if it has adapters
// of nodes or of other hosts. A spine with a few nodes or hosts is none: it is beside several switches,
// and all have far more.
func (g *graph) levels() []int {
	levels := make([]int, len(g.ids))
	for i := range levels {
		levels[i] = none
	}
	nodes := make([]int32, len(g.ids))
	for i := range g.on {
		for _, l := range g.on[i] {
			nodes[l.to]++
		}
	}
	var queue []int32
	add := func(s int32, count []int32) {
		if count[s] > 0 && !g.isSpine(s, count) {
			levels[s] = 0
			queue = append(queue, s)
		}
	}
	for s := range g.ids {
		if nodes[s] > 0 {
			add(int32(s), nodes)
		} else {
			add(int32(s), g.hosts)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, l := range g.links[queue[0]] {
			if levels[l.to] == none {
				levels[l.to] = levels[queue[0]] + 1
				queue = append(queue, l.to)
			}
		}
	}
	return levels
}

// isSpine reports whether a switch is beside several others, and each of these has more than twice as
// many nodes or hosts.
func (g *graph) isSpine(s int32, count []int32) bool {
	return len(g.links[s]) > 1 && !slices.ContainsFunc(g.links[s], func(l link) bool { return count[l.to] <= 2*count[s] })
}

// reaches reports whether a cable leads from a group to another switch of a level or above.
func (g *graph) reaches(gr *group, levels []int, level int) bool {
	return slices.ContainsFunc(gr.switches, func(s int32) bool {
		return slices.ContainsFunc(g.links[s], func(l link) bool { return levels[l.to] >= level && !slices.Contains(gr.switches, l.to) })
	})
}

// above makes the tier above the groups that have no top yet. A group is below the one that most of
// its cables go to. If these are several, it is below its published one. It returns false if no cable
// leads up.
func (g *graph) above(t *tree, m *memory, levels []int, groups []group, below [][]int32) (next tier, ok bool) {
	number := len(t.tiers)
	links := make([][]link, len(groups))
	for i := range groups {
		if t.tops[groups[i].fabric] != nil {
			continue
		}
		count := map[int32]int32{}
		for _, s := range groups[i].switches {
			for _, l := range g.links[s] {
				if levels[l.to] == number {
					count[l.to] += l.cables
				}
			}
		}
		for s, n := range count {
			links[i] = append(links[i], link{s, n})
		}
	}
	upper, votes := g.gather(number, links, m.before)
	if len(upper) == 0 {
		return tier{}, false
	}
	parent, named := m.follow(g, upper, votes, below)
	for i, v := range votes {
		published, known := named[m.mostPublished(below[i], number)]
		if known && len(v) > 0 && slices.Contains(v, vote{published, v[0].cables}) {
			parent[i] = published
		}
	}
	return keep(upper, parent), true
}

// findTops finds the fabrics that one group of a tier above the leaves stands for. A group that has no
// cable upwards stays below what is published above it, because cables may be missing. So does one that
// is alone and has cables upwards.
func (t *tree) findTops(g *graph, m *memory, levels []int, groups []group, below [][]int32) {
	only := map[int32]int{}
	several := map[int32]bool{}
	for i := range groups {
		gr := &groups[i]
		if _, another := only[gr.fabric]; another || gr.tier == 0 {
			several[gr.fabric] = true
		}
		only[gr.fabric] = i
		if !gr.byLLDP(g) && !g.reaches(gr, levels, gr.tier) {
			gr.above = m.above(below[i], gr.tier)
		}
	}
	for fabric, i := range only {
		gr := &groups[i]
		if !several[fabric] && (m.above(below[i], gr.tier) == nil || !g.reaches(gr, levels, gr.tier+1)) {
			t.tops[fabric] = gr
		}
	}
}

// makeTops gives a top to each fabric that has none: its only group, or a group of its own above the
// highest that it has.
func (t *tree) makeTops(g *graph, m *memory) {
	highest := map[int32][]*group{}
	for i := range t.tiers {
		tier := map[int32][]*group{}
		for j := range t.tiers[i].groups {
			gr := &t.tiers[i].groups[j]
			tier[gr.fabric] = append(tier[gr.fabric], gr)
		}
		maps.Copy(highest, tier)
	}
	var made []group
	for fabric, groups := range highest {
		switch {
		case t.tops[fabric] != nil, groups[0].byLLDP(g):
		case !slices.ContainsFunc(groups, func(gr *group) bool { return gr.above == nil }):
			above := groups[0].above // all are cut off from it
			t.tops[fabric] = &group{tier: groups[0].tier + len(above), fabric: fabric, name: above[len(above)-1], unseen: true}
		case len(groups) == 1:
			t.tops[fabric] = groups[0]
		default:
			top := group{tier: groups[0].tier + 1, fabric: fabric}
			for _, gr := range groups {
				top.switches = append(top.switches, gr.switches...)
			}
			slices.Sort(top.switches)
			made = append(made, top)
		}
	}
	slices.SortFunc(made, func(a, b group) int { return cmp.Compare(a.fabric, b.fabric) })
	nodesOf := make([][]int32, len(made))
	for i, p := range t.tiers[0].parent {
		if p != none {
			at, ok := slices.BinarySearchFunc(made, t.tiers[0].groups[p].fabric, func(gr group, f int32) int { return cmp.Compare(gr.fabric, f) })
			if ok {
				nodesOf[at] = append(nodesOf[at], int32(i))
			}
		}
	}
	m.nameTops(g, made, nodesOf)
	for i := range made {
		t.tops[made[i].fabric] = &made[i]
	}
}

// path returns the names above a node, nearest first, or none.
func (t *tree) path(m *memory, node int) (names []string) {
	var gr *group
	var published []string // what is above names, if no cable says it
	switch at := t.tiers[0].parent[node]; {
	case t.stays[node]:
		published = m.stayed(node)
	case at == none:
		return nil
	default:
		gr = &t.tiers[0].groups[at]
	}
	for gr != nil || len(published) > 0 {
		if gr == nil {
			name := published[0]
			published = published[1:]
			if gr = t.named[name]; gr == nil && !slices.Contains(names, name) {
				names = append(names, name)
			}
			continue
		}
		if slices.Contains(names, gr.name) {
			break
		}
		names = append(names, gr.name)
		if published = gr.above; published != nil {
			gr = nil
			continue
		}
		var skipped int
		if gr, skipped = t.next(gr); gr != nil {
			names = append(names, make([]string, skipped)...)
		}
	}
	return names
}

// next returns the group above a group, or nil, and how many tiers between both say nothing.
func (t *tree) next(gr *group) (*group, int) {
	top := t.tops[gr.fabric]
	if top == nil || gr.tier >= top.tier {
		return nil, 0
	}
	if number := gr.tier + 1; number < top.tier && number < len(t.tiers) {
		if p := t.tiers[number].parent[gr.at]; p != none {
			return &t.tiers[number].groups[p], 0
		}
	}
	return top, top.tier - gr.tier - 1
}

// byLLDP reports whether a node's place is known by LLDP alone.
func (t *tree) byLLDP(g *graph, m *memory, node int) bool {
	if t.stays[node] {
		return m.byLLDP(m.published(node, 0))
	}
	return t.tiers[0].groups[t.tiers[0].parent[node]].byLLDP(g)
}

// cut returns the names of the groups without a cable upwards that stay below what is published.
func (t *tree) cut() (names []string) {
	for i := range t.tiers {
		for j := range t.tiers[i].groups {
			if gr := &t.tiers[i].groups[j]; gr.above != nil {
				names = append(names, gr.name)
			}
		}
	}
	slices.Sort(names)
	return names
}
