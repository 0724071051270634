package switches

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// memory is what is known from before: groups with their names, and where nodes are published.
type memory struct {
	before []Group
	nodes  []Node         // sorted by name
	names  map[string]int // tier by name, of before; none for other published names
	taken  map[string]bool
}

// newMemory returns the memory of the groups of the last time.
func newMemory(before []Group, nodes []Node) *memory {
	m := &memory{before: slices.Clone(before), nodes: nodes, names: map[string]int{}, taken: map[string]bool{}}
	slices.SortFunc(m.before, compareGroups)
	for i := range nodes {
		for _, name := range nodes[i].Published {
			m.names[name] = none // labels may have named it
		}
	}
	for _, b := range m.before {
		m.names[b.Name] = b.Tier
	}
	return m
}

func compareGroups(a, b Group) int {
	return cmp.Or(cmp.Compare(a.Tier, b.Tier), strings.Compare(a.Name, b.Name))
}

// published returns the group of a tier that a node is published below, or "". Where the published
// tree has fewer tiers, the last one counts.
func (m *memory) published(node, tier int) string {
	path := m.nodes[node].Published
	if len(path) == 0 || tier > 0 && len(path) == 1 {
		return ""
	}
	return path[min(tier, len(path)-1)]
}

// mostPublished returns the group of a tier that the most of some nodes are published below, or "".
func (m *memory) mostPublished(nodes []int32, tier int) string {
	count := map[string]int{}
	best := ""
	for _, n := range nodes {
		name := m.published(int(n), tier)
		if name == "" {
			continue
		}
		if count[name]++; count[name] > count[best] || count[name] == count[best] && name < best {
			best = name
		}
	}
	return best
}

// above returns what most of some nodes have above a tier in the published tree, or nil.
func (m *memory) above(nodes []int32, tier int) []string {
	count := map[string]int{}
	for _, n := range nodes {
		if path := m.nodes[n].Published; len(path) > tier+1 {
			names := strings.Join(path[tier+1:], "\x00")
			if count[names]++; 2*count[names] > len(nodes) {
				return path[tier+1:]
			}
		}
	}
	return nil
}

// remembers reports whether there was a group of a tier and a name.
func (m *memory) remembers(tier int, name string) bool {
	at, ok := m.names[name]
	return ok && at == tier
}

// byLLDP reports whether LLDP alone named the switches of a remembered group. Their ids are no GUIDs.
func (m *memory) byLLDP(name string) bool {
	at := slices.IndexFunc(m.before, func(b Group) bool { return b.Tier == 0 && b.Name == name })
	return at >= 0 && !slices.ContainsFunc(m.before[at].Switches, func(id string) bool {
		_, err := parseGUID(id)
		return len(id) == 16 && err == nil
	})
}

// stayed returns the path of a node that stays where it is published.
func (m *memory) stayed(node int) []string {
	path := m.nodes[node].Published
	if m.byLLDP(path[0]) {
		path = path[:1]
	}
	return slices.Clone(path)
}

// claim is a name that a group may keep, and how strongly.
type claim struct {
	name   string
	group  int
	weight int
}

// name names groups of one tier. A group keeps the name of the remembered group of which it has most
// switches, or else the name that most nodes that are published below it now have above them. A new
// name is made of the first switch's id. nodesOf are the nodes below each group.
func (m *memory) name(g *graph, groups []group, nodesOf [][]int32) {
	m.keepNames(g, groups, nodesOf)
	prefixes := []string{"leaf-", "spine-", "core-"}
	for i := range groups {
		if tier := groups[i].tier; tier < len(prefixes) {
			m.newName(g, &groups[i], prefixes[tier])
		} else {
			m.newName(g, &groups[i], fmt.Sprintf("tier%d-", tier))
		}
	}
}

// nameTops names groups that stand for whole fabrics.
func (m *memory) nameTops(g *graph, groups []group, nodesOf [][]int32) {
	m.keepNames(g, groups, nodesOf)
	for i := range groups {
		m.newName(g, &groups[i], "fabric-")
	}
}

// keepNames gives groups the names that they had.
func (m *memory) keepNames(g *graph, groups []group, nodesOf [][]int32) {
	index := map[string]int{}
	tiers := map[int]bool{}
	for i := range groups {
		tiers[groups[i].tier] = true
		for _, s := range groups[i].switches {
			index[g.ids[s]] = i
		}
	}
	var claims []claim
	for _, b := range m.before {
		if !tiers[b.Tier] {
			continue
		}
		count := map[int]int{}
		for _, id := range b.Switches {
			if at, ok := index[id]; ok && groups[at].tier == b.Tier {
				count[at]++
			}
		}
		for at, n := range count {
			if 2*n > len(b.Switches) {
				claims = append(claims, claim{b.Name, at, n})
			}
		}
	}
	m.grant(groups, claims)

	below := map[string]int{} // nodes published below a name, of all
	for tier := range tiers {
		for i := range m.nodes {
			if name := m.published(i, tier); name != "" {
				below[fmt.Sprint(tier, name)]++
			}
		}
	}
	claims = nil
	for i := range groups {
		if groups[i].name != "" {
			continue
		}
		tier, count := groups[i].tier, map[string]int{}
		for _, n := range nodesOf[i] {
			if name := m.published(int(n), tier); name != "" {
				count[name]++
			}
		}
		for name, n := range count {
			if 2*n > below[fmt.Sprint(tier, name)] {
				claims = append(claims, claim{name, i, n})
			}
		}
	}
	m.grant(groups, claims)
}

// grant gives names to groups, the strongest claims first.
func (m *memory) grant(groups []group, claims []claim) {
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.name, b.name))
	})
	for _, c := range claims {
		if groups[c.group].name == "" && !m.taken[c.name] {
			groups[c.group].name = c.name
			m.taken[c.name] = true
		}
	}
}

// newName names a group that has no name by its first switch whose name is free.
func (m *memory) newName(g *graph, gr *group, prefix string) {
	if gr.name != "" {
		return
	}
	for _, s := range gr.switches {
		id := strings.NewReplacer(":", "", ".", "").Replace(g.ids[s])
		name := topology.SlurmName(prefix + id)
		if m.free(name) {
			gr.name = name
			break
		}
	}
	for n := 2; gr.name == ""; n++ {
		if name := topology.SlurmName(fmt.Sprintf("%s%s-%d", prefix, g.ids[gr.switches[0]], n)); m.free(name) {
			gr.name = name
		}
	}
	m.taken[gr.name] = true
}

// free reports whether no group has a name, or had it before.
func (m *memory) free(name string) bool {
	_, before := m.names[name]
	return !before && !m.taken[name]
}

// groups returns what is to be remembered.
func (t *tree) groups(g *graph, m *memory) []Group {
	var all []Group
	add := func(gr *group) {
		out := Group{Name: gr.name, Tier: gr.tier}
		for _, s := range gr.switches {
			out.Switches = append(out.Switches, g.ids[s])
		}
		all = append(all, out)
	}
	names := map[string]bool{}
	for i := range t.tiers {
		for j := range t.tiers[i].groups {
			add(&t.tiers[i].groups[j])
			names[t.tiers[i].groups[j].name] = true
		}
	}
	for _, fabric := range slices.Sorted(maps.Keys(t.tops)) {
		if top := t.tops[fabric]; !top.unseen && !names[top.name] {
			add(top)
			names[top.name] = true
		}
	}
	inUse := map[string]bool{}
	for i := range m.nodes {
		for _, name := range m.nodes[i].Published {
			inUse[name] = true
		}
	}
	for _, b := range m.before {
		if inUse[b.Name] && !names[b.Name] {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, compareGroups)
	return all
}
