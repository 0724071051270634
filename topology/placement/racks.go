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
// one topology and there were not several. waiting are the new racks that have no
// place while a decision of policy.Keep is held.
func divideRacks(racks []*domain, published []topology.Topology, policy *Policy) (parts []*part, waiting map[*domain]*Decision) {
	known := sectionsOf(racks, published, policy)
	of := assignRacks(racks, known, policy)
	counts := make(map[section]int)
	for _, sec := range of {
		counts[sec]++
	}
	policy.replaceTopologies(racks, of, published, known)
	if len(counts) <= 1 && len(known) == 0 {
		return nil, nil
	}
	kept, waiting := keepRacks(racks, of, published, policy)
	for r, sec := range of {
		if kept[r] != "" || waiting[racks[r]] != nil {
			counts[sec]--
		}
	}
	maps.DeleteFunc(counts, func(_ section, racks int) bool { return racks == 0 })
	sections := sortSections(counts)
	byName, called := make(map[string]*part), nameSections(policy.kind(), sections, known)
	for i, sec := range sections {
		byName[called[i]] = &part{name: called[i], fabric: sec.fabric, class: sec.class}
		parts = append(parts, byName[called[i]])
	}
	for _, t := range published {
		if !slices.Contains(kept, t.Name) {
			continue
		}
		if byName[t.Name] == nil {
			byName[t.Name] = &part{name: t.Name}
			parts = append(parts, byName[t.Name])
		}
		byName[t.Name].class, byName[t.Name].set = t.Sizes[0], t.Sizes[0]
	}
	for r, d := range racks {
		name := kept[r]
		if waiting[d] != nil {
			continue
		}
		if name == "" {
			name = called[slices.Index(sections, of[r])]
		}
		byName[name].domains = append(byName[name].domains, d)
	}
	place := func(p *part) int {
		if i := slices.IndexFunc(published, func(t topology.Topology) bool { return t.Name == p.name }); i >= 0 {
			return i
		}
		return len(published)
	}
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(place(a), place(b)) })
	return parts, waiting
}

// sortSections returns sections, those of a fabric together and its largest class first.
func sortSections(racks map[section]int) []section {
	return slices.SortedFunc(maps.Keys(racks), func(a, b section) int {
		return cmp.Or(strings.Compare(a.fabric, b.fabric), cmp.Compare(b.class, a.class))
	})
}

// replaceTopologies decides about each published topology that no section of a rack is named after. A whole topology,
// such as nvl, gives way to all others, and any other topology to those that have its blocks.
func (p *Policy) replaceTopologies(racks []*domain, of []section, published []topology.Topology, known map[string]section) {
	if p.OneTopology || p.TreeOnly || len(racks) == 0 {
		return
	}
	counts := make(map[section]int)
	for _, sec := range of {
		counts[sec]++
	}
	sections := sortSections(counts)
	called := nameSections(p.kind(), sections, known)
	for _, t := range published {
		if slices.Contains(called, t.Name) {
			continue
		}
		var to []string
		for r, d := range racks {
			if t.Name == topology.BlockFamily(t.Name) || slices.ContainsFunc(t.Blocks, func(b topology.Block) bool { return b.Name == d.name }) {
				to = append(to, called[slices.Index(sections, of[r])])
			}
		}
		slices.Sort(to)
		p.follow(Choice{Decision: Decision{TopologiesChange, t.Name, t.Name, strings.Join(slices.Compact(to), ", ")}})
	}
}

// keepRacks returns, beside the racks, the published topology that keeps the rack while a decision
// about it is held, or "". A new rack joins the topology that has most racks of its section. If
// there is none beside a whole topology, such as nvl, the rack waits: a part of it cannot stand
// beside the whole.
func keepRacks(racks []*domain, of []section, published []topology.Topology, policy *Policy) (kept []string, waiting map[*domain]*Decision) {
	kept, waiting = make([]string, len(racks)), make(map[*domain]*Decision)
	if len(policy.Keep) == 0 {
		return kept, waiting
	}
	known := make(map[section]map[string]int) // racks by topology
	for i, d := range racks {
		name := d.topology()
		if name == "" {
			continue
		}
		if known[of[i]] == nil {
			known[of[i]] = make(map[string]int)
		}
		known[of[i]][name]++
		if policy.keeps(TopologiesChange, name) != nil {
			kept[i] = name
		}
	}
	whole := policy.keeps(TopologiesChange, policy.kind())
	for i, d := range racks {
		if d.old != nil {
			continue
		}
		most := ""
		for _, t := range published {
			if n := known[of[i]][t.Name]; n > known[of[i]][most] {
				most = t.Name
			}
		}
		switch {
		case most == "" && whole != nil:
			waiting[d] = whole
		case policy.keeps(TopologiesChange, most) != nil:
			kept[i] = most
		}
	}
	return kept, waiting
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

// assignRacks returns, beside the racks, the section of each. A rack of no known fabric stays
// in that of its published topology.
func assignRacks(racks []*domain, known map[string]section, policy *Policy) []section {
	of := make([]section, len(racks))
	for i, d := range racks {
		old, ok := known[d.topology()]
		fabric := cmp.Or(d.fabric, old.fabric)
		classes := classesOf(fabric, known, policy)
		of[i] = section{fabric, classOf(classes, d.size)}
		// A rack that has lost nodes stays with the racks of its size.
		if ok && old.fabric == fabric && slices.Contains(classes, old.class) && d.size <= old.class {
			of[i] = old
		}
	}
	return of
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
