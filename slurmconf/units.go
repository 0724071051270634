package slurmconf

import "strings"

// Units returns the blocks and leaf switches that a Topology= string names of
// the topologies that FromPlan makes: of a path from a root the leaf.
func Units(spec string) []string {
	var units []string
	for part := range strings.SplitSeq(spec, ",") {
		name, unit, ok := strings.Cut(part, ":")
		switch {
		case !ok:
		case name == NVLinkTopology, name == LeafTopology, name == FabricTopology, name == ConfTopology:
			units = append(units, unit[strings.LastIndexByte(unit, ':')+1:])
		}
	}
	return units
}

// TopologyNames returns the names of the topologies that a Topology= string has
// units of.
func TopologyNames(spec string) []string {
	var names []string
	for part := range strings.SplitSeq(spec, ",") {
		if name, _, ok := strings.Cut(part, ":"); ok {
			names = append(names, name)
		}
	}
	return names
}
