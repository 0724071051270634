package publisher

import "github.com/quoin-hpc/quoin/slurmconf"

// keepNamed notes which blocks and leaf switches the Nodes' annotations name. A
// slurmd that registers with one that slurmctld does not know is drained, so
// they stay in the files until no annotation names them; the pass that follows
// the last Node's change takes them out.
func (s *state) keepNamed(prev Previous, nodes map[string]*Node) {
	if prev.Topology == nil || !s.pub.release.DynamicTopology() {
		return
	}
	named, read := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		spec := n.Annotations[SpecAnnotation]
		if read[spec] {
			continue
		}
		read[spec] = true
		for _, unit := range slurmconf.Units(spec) {
			named[unit] = true
		}
	}
	prev.Topology.InUse = named
}
