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

// compare orders sections by fabric, and in a fabric the largest class first.
func (s section) compare(other section) int {
	return cmp.Or(strings.Compare(s.fabric, other.fabric), cmp.Compare(other.class, s.class))
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
func divideRacks(racks []*domain, published []topology.Topology, policy *Policy) []*part {
	known := assignTopologies(racks, published, nil, policy)
	if len(racks) == 0 || len(known) == 0 && len(partsOf(racks, published)) == 1 {
		return nil
	}
	free := racks
	for before := -1; before != len(free); { // a topology would go too if all racks of its section stay in another one
		before = len(free)
		keepRacks(racks, published, policy)
		free = slices.DeleteFunc(slices.Clone(racks), func(d *domain) bool { return d.keptIn != "" || d.waits != nil })
		nameTopologies(free, known, policy.kind())
		policy.replaceTopologies(free, published)
	}
	return partsOf(racks, published)
}

// partsOf returns the topologies of racks. Published ones go first, in their order, and then new ones by their
// sections. A rack that waits has none.
func partsOf(racks []*domain, published []topology.Topology) (parts []*part) {
	for _, d := range racks {
		if d.waits != nil {
			continue
		}
		name := cmp.Or(d.keptIn, d.wanted)
		at := indexOrAdd(&parts, func(p *part) bool { return p.name == name }, &part{name: name})
		if d.keptIn == "" {
			parts[at].section = d.section
		}
		parts[at].domains = append(parts[at].domains, d)
	}
	rank := func(name string) int {
		if i := slices.IndexFunc(published, func(t topology.Topology) bool { return t.Name == name }); i >= 0 {
			return i
		}
		return len(published)
	}
	slices.SortFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(rank(a.name), rank(b.name)), a.compare(b.section))
	})
	return parts
}

// assignTopologies finds the section and the topology of each rack, and decides about the published topologies that
// would go. joined has the fabrics that count as another one. It returns the sections of the published topologies.
func assignTopologies(racks []*domain, published []topology.Topology, joined map[string]string, policy *Policy) map[string]section {
	for _, d := range racks {
		d.section = section{fabric: cmp.Or(joined[d.fabric], d.fabric)}
	}
	known := sectionsOf(racks, published, policy)
	assignRacks(racks, known, policy)
	nameTopologies(racks, known, policy.kind())
	if len(racks) > 0 {
		policy.replaceTopologies(racks, published)
	}
	return known
}

// askFirst decides about published topologies as they would be if everything was approved: the roots that stay apart
// now are joined, and no rack is there that leaves. So people see all decisions together. It leaves out the racks that
// leave. A rack that leaves stays as long as a decision about its topology waits.
func askFirst(racks []*domain, published []topology.Topology, t tree, policy *Policy) []*domain {
	others := slices.DeleteFunc(slices.Clone(racks), func(d *domain) bool { return d.leaves })
	assignTopologies(others, published, t.joined, policy)
	return slices.DeleteFunc(racks, func(d *domain) bool { return d.leaves && policy.keeps(TopologiesChange, d.topology()) == nil })
}

// replaceTopologies decides about each published topology that no rack belongs to. See [TopologiesChange] for what
// replaces it.
func (p *Policy) replaceTopologies(racks []*domain, published []topology.Topology) {
	if p.OneTopology || p.TreeOnly {
		return
	}
	parts := partsOf(racks, published)
	for _, t := range published {
		if slices.ContainsFunc(parts, func(p *part) bool { return p.name == t.Name }) {
			continue
		}
		var to []string
		for _, d := range racks {
			if t.Name == topology.BlockFamily(t.Name) || slices.ContainsFunc(t.Blocks, func(b topology.Block) bool { return b.Name == d.name }) {
				to = append(to, d.wanted)
			}
		}
		slices.Sort(to)
		c := Choice{Decision: Decision{TopologiesChange, t.Name, t.Name, strings.Join(slices.Compact(to), ", ")}}
		for _, p := range parts {
			c.Becomes = append(c.Becomes, topology.Topology{Name: p.name, Kind: topology.KindBlock, Fabric: p.fabric, Blocks: p.write(p.domains, 0)})
		}
		p.follow(c)
	}
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
		if name := d.topology(); name != "" && d.section.fabric != "" {
			if votes[name] == nil {
				votes[name] = make(map[string]int)
			}
			votes[name][d.section.fabric] += len(d.nodes)
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

// assignRacks finds the section of each rack of a fabric. A rack of no known fabric stays in that of its published
// topology.
func assignRacks(racks []*domain, known map[string]section, policy *Policy) {
	for _, d := range racks {
		old, ok := known[d.topology()]
		fabric := cmp.Or(d.section.fabric, old.fabric)
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

// nameTopologies names the topology that each rack belongs to by its section: as it was published, else by the
// fabric if there are several, and by the class if the fabric has several.
func nameTopologies(racks []*domain, known map[string]section, kind string) {
	sections, called, taken := make(map[section]bool), make(map[section]string), make(map[string]bool)
	classes := make(map[string]int) // by fabric
	for _, d := range racks {
		if !sections[d.section] {
			sections[d.section] = true
			classes[d.section.fabric]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		called[known[name]] = cmp.Or(called[known[name]], name)
		taken[name] = true
	}
	for _, sec := range slices.SortedFunc(maps.Keys(sections), section.compare) {
		if called[sec] != "" {
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
		called[sec], taken[name] = name, true
	}
	for _, d := range racks {
		d.wanted = called[d.section]
	}
}
