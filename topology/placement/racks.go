package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// section is what a topology is for: one size class in one fabric. A class is a size of SizeClasses,
// or allSizes. On a site that was divided by size, it is the size of the largest published rack.
type section struct {
	fabric string
	class  int
}

// allSizes is the class of racks whatever their sizes.
const allSizes = 0

// divideRacks divides the racks of a site into block topologies: one for each fabric, and in each
// fabric one for each of SizeClasses. Slurm joins any blocks of one topology in a job, so no
// topology has racks of two fabrics. And Slurm gives a job of N nodes N/base blocks, so people may
// want a base of its own for racks of another size.
//
// published are the block topologies with sizes that there were, if there were several: they
// keep their racks, their names and their order. It returns no part if all racks belong into
// one topology and there were not several.
func divideRacks(racks []*domain, published []topology.Topology, policy *Policy) (parts []*part) {
	known := assignTopologies(racks, published, policy)
	if len(racks) == 0 || len(sectionsIn(racks)) == 1 && len(known) == 0 {
		return nil
	}
	var free []*domain
	for met := -1; met < len(policy.met); { // a topology would go too if all racks of its section stay in another one
		met = len(policy.met)
		keepRacks(racks, published, policy)
		free = slices.DeleteFunc(slices.Clone(racks), func(d *domain) bool { return d.keptIn != "" || d.waits != nil })
		policy.replaceTopologies(free, published, known)
	}
	sections := sectionsIn(free)
	byName, called := make(map[string]*part), nameSections(policy.kind(), sections, known)
	for i, sec := range sections {
		byName[called[i]] = &part{name: called[i], fabric: sec.fabric, class: sec.class}
		parts = append(parts, byName[called[i]])
	}
	for _, t := range published {
		if !slices.ContainsFunc(racks, func(d *domain) bool { return d.keptIn == t.Name }) {
			continue
		}
		if byName[t.Name] == nil {
			byName[t.Name] = &part{name: t.Name}
			parts = append(parts, byName[t.Name])
		}
		byName[t.Name].class, byName[t.Name].set = t.Sizes[0], t.Sizes[0]
	}
	for _, d := range racks {
		if d.waits != nil {
			continue
		}
		name := d.keptIn
		if name == "" {
			name = called[slices.Index(sections, d.section)]
		}
		byName[name].domains = append(byName[name].domains, d)
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return comparePlaces(published, a.name, b.name) })
	return parts
}

// comparePlaces orders topologies as they are published, and new ones after them.
func comparePlaces(published []topology.Topology, a, b string) int {
	place := func(name string) int {
		if i := slices.IndexFunc(published, func(t topology.Topology) bool { return t.Name == name }); i >= 0 {
			return i
		}
		return len(published)
	}
	return cmp.Compare(place(a), place(b))
}

// assignTopologies finds the section of each rack, and decides about the published topologies that would go. It
// returns the sections of the published ones.
func assignTopologies(racks []*domain, published []topology.Topology, policy *Policy) map[string]section {
	known := sectionsOf(racks, published, policy)
	assignRacks(racks, known, policy)
	if len(racks) > 0 {
		policy.replaceTopologies(racks, published, known)
	}
	return known
}

// askFirst decides about published topologies as they would be if the roots were joined that stay apart now, so that
// people see both decisions together. It leaves out the racks that leave. A rack that leaves stays as long
// as a decision about its topology waits.
func askFirst(racks []*domain, published []topology.Topology, t tree, policy *Policy) []*domain {
	others := slices.DeleteFunc(slices.Clone(racks), func(d *domain) bool { return d.leaves })
	if len(t.joined) > 0 || len(others) < len(racks) {
		apart := make([]string, len(others))
		for i, d := range others {
			apart[i], d.fabric = d.fabric, cmp.Or(t.joined[d.fabric], d.fabric)
		}
		assignTopologies(others, published, policy)
		for i, d := range others {
			d.fabric = apart[i]
		}
	}
	return slices.DeleteFunc(racks, func(d *domain) bool { return d.leaves && policy.keeps(TopologiesChange, d.topology()) == nil })
}

// sectionsIn returns the sections of racks, by fabric. In a fabric the largest class is first.
func sectionsIn(racks []*domain) (sections []section) {
	for _, d := range racks {
		if !slices.Contains(sections, d.section) {
			sections = append(sections, d.section)
		}
	}
	slices.SortFunc(sections, func(a, b section) int {
		return cmp.Or(strings.Compare(a.fabric, b.fabric), cmp.Compare(b.class, a.class))
	})
	return sections
}

// replaceTopologies decides about each published topology that no section of a rack is named after. A whole topology,
// such as nvl, gives way to all others, and any other topology to those that have its blocks.
func (p *Policy) replaceTopologies(racks []*domain, published []topology.Topology, known map[string]section) {
	if p.OneTopology || p.TreeOnly {
		return
	}
	sections := sectionsIn(racks)
	called := nameSections(p.kind(), sections, known)
	for _, t := range published {
		if slices.Contains(called, t.Name) {
			continue
		}
		var to []string
		for _, d := range racks {
			if t.Name == topology.BlockFamily(t.Name) || slices.ContainsFunc(t.Blocks, func(b topology.Block) bool { return b.Name == d.name }) {
				to = append(to, called[slices.Index(sections, d.section)])
			}
		}
		slices.Sort(to)
		p.follow(Choice{Decision: Decision{TopologiesChange, t.Name, t.Name, strings.Join(slices.Compact(to), ", ")}, Becomes: topologiesOf(racks, sections, called, published)})
	}
}

// topologiesOf returns the topologies that racks make by their sections.
func topologiesOf(racks []*domain, sections []section, called []string, published []topology.Topology) []topology.Topology {
	out := make([]topology.Topology, len(sections))
	for i, sec := range sections {
		out[i] = topology.Topology{Name: called[i], Kind: topology.KindBlock, Fabric: sec.fabric}
	}
	for _, d := range racks {
		t := &out[slices.Index(sections, d.section)]
		t.Blocks = append(t.Blocks, topology.Block{Name: d.name, Nodes: slurmNames(d.nodes)})
	}
	slices.SortStableFunc(out, func(a, b topology.Topology) int { return comparePlaces(published, a.Name, b.Name) })
	return out
}

// keepRacks keeps racks in their published topology while a decision about that topology waits. A new rack
// joins the topology that has most racks of its section. If there is none beside a whole topology, such as
// nvl, the rack waits: a part of nvl cannot stand beside the whole.
func keepRacks(racks []*domain, published []topology.Topology, policy *Policy) {
	known := make(map[section]map[string]int) // racks by topology
	for _, d := range racks {
		name := d.topology()
		if name == "" {
			continue
		}
		if known[d.section] == nil {
			known[d.section] = make(map[string]int)
		}
		known[d.section][name]++
		if policy.keeps(TopologiesChange, name) != nil {
			d.keptIn = name
		}
	}
	whole := policy.keeps(TopologiesChange, policy.kind())
	for _, d := range racks {
		if d.old != nil {
			continue
		}
		most := ""
		for _, t := range published {
			if n := known[d.section][t.Name]; n > known[d.section][most] {
				most = t.Name
			}
		}
		switch {
		case most == "" && whole != nil:
			d.waits = whole
		case policy.keeps(TopologiesChange, most) != nil:
			d.keptIn = most
		}
	}
}

// sectionsOf returns the sections of published topologies by name, if there are several, or if the
// only one is a part, such as nvl-18. The fabric is that of most nodes of its racks, else the
// published one, else that of a rack without nodes.
func sectionsOf(racks []*domain, published []topology.Topology, policy *Policy) map[string]section {
	if len(published) == 0 || len(published) == 1 && published[0].Name == topology.BlockFamily(published[0].Name) {
		return nil
	}
	votes := make(map[string]map[string]int)
	for _, d := range racks {
		if name := d.topology(); name != "" && d.fabric != "" {
			if votes[name] == nil {
				votes[name] = make(map[string]int)
			}
			votes[name][d.fabric] += len(d.nodes)
		}
	}
	known := make(map[string]section)
	for _, t := range published {
		fabric := t.Fabric
		for _, f := range slices.Sorted(maps.Keys(votes[t.Name])) {
			if fabric == "" || votes[t.Name][f] > votes[t.Name][fabric] {
				fabric = f
			}
		}
		known[t.Name] = section{fabric, t.Sizes[0]}
	}
	if len(policy.SizeClasses) > 0 || policy.BaseBlockSize > 0 { // a class is its base
		return known
	}
	for _, d := range racks { // a base may be below the largest rack of its class
		if sec, ok := known[d.topology()]; ok && d.old.Size > sec.class {
			known[d.old.topology] = section{sec.fabric, d.old.Size}
		}
	}
	return known
}

// assignRacks finds the section of each rack. A rack of no known fabric stays in that of its published
// topology.
func assignRacks(racks []*domain, known map[string]section, policy *Policy) {
	for _, d := range racks {
		old, ok := known[d.topology()]
		fabric := cmp.Or(d.fabric, old.fabric)
		classes := classesOf(fabric, known, policy)
		d.section = section{fabric, classOf(classes, d.size)}
		// A rack that has lost nodes stays with the racks of its size.
		if ok && old.fabric == fabric && slices.Contains(classes, old.class) && d.size <= old.class {
			d.section = old
		}
	}
}

// classesOf returns the size classes of a fabric, the largest first: the configured ones, else the
// published ones, else one for racks of all sizes.
func classesOf(fabric string, known map[string]section, policy *Policy) []int {
	switch {
	case len(policy.SizeClasses) > 0:
		return policy.SizeClasses
	case policy.BaseBlockSize > 0:
		return []int{policy.BaseBlockSize}
	}
	var classes []int
	for _, sec := range known {
		if sec.fabric == fabric && !slices.Contains(classes, sec.class) {
			classes = append(classes, sec.class)
		}
	}
	if len(classes) == 0 {
		return []int{allSizes}
	}
	slices.Sort(classes)
	slices.Reverse(classes)
	return classes
}

// nameSections names the topology of each section: as it was published, else by the
// fabric if there are several, and by the class if the fabric has several.
func nameSections(kind string, sections []section, known map[string]section) []string {
	classes, taken := make(map[string]int), make(map[string]bool)
	for _, sec := range sections {
		classes[sec.fabric]++
	}
	called := make([]string, len(sections))
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if i := slices.Index(sections, known[name]); i >= 0 && called[i] == "" {
			called[i] = name
		}
		taken[name] = true
	}
	for i, sec := range sections {
		if called[i] != "" {
			continue
		}
		name := kind
		if len(classes) > 1 {
			name += "-" + cmp.Or(sec.fabric, "rest")
		}
		if classes[sec.fabric] > 1 {
			name += "-" + strconv.Itoa(sec.class)
		}
		for name = topology.SlurmName(name); taken[name]; name = topology.SlurmName(name + "-x") {
		}
		called[i], taken[name] = name, true
	}
	return called
}
