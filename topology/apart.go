package topology

import (
	"fmt"
	"slices"
	"strings"
)

// maxApart is how many topologies Apart names.
const maxApart = 6

// Apart says that no job runs across block topologies, how many nodes each has, and which keys of a
// publication join them. It returns "" if fewer than two have nodes.
func Apart(topologies []Topology) string {
	var names, fabrics []string
	smallest, sizes := 0, false // whether racks of one fabric are apart by their sizes
	for i := range topologies {
		t := &topologies[i]
		nodes := 0
		for k := range t.Blocks {
			nodes += len(t.Blocks[k].Nodes)
		}
		if nodes == 0 {
			continue
		}
		names = append(names, fmt.Sprintf("%s (%d nodes)", t.Name, nodes))
		if len(t.Sizes) > 0 && (smallest == 0 || t.Sizes[0] < smallest) {
			smallest = t.Sizes[0]
		}
		if slices.Contains(fabrics, t.Fabric) {
			sizes = true
		} else {
			fabrics = append(fabrics, t.Fabric)
		}
	}
	if len(names) < 2 {
		return ""
	}
	var keys []string
	if sizes {
		keys = append(keys, fmt.Sprintf("baseBlockSize: %d, without sizeClasses, puts racks of all sizes into one topology", smallest))
	}
	if len(fabrics) > 1 {
		keys = append(keys, "rootSwitch joins fabrics, if one switch is above them")
	}
	if more := len(names) - maxApart; more > 1 {
		names = append(names[:maxApart], fmt.Sprintf("%d more", more))
	}
	last := len(names) - 1
	return fmt.Sprintf("no job that Slurm places by blocks runs across %s and %s: %s", strings.Join(names[:last], ", "), names[last], strings.Join(keys, "; "))
}
