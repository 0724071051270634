package publisher

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// exceedsMaxChange says why people should look at a change first. It returns "" if nobody
// needs to. Nodes that changed within the hour count too.
func exceedsMaxChange(p *publication.Cluster, prev Previous, oldGres string, made *Rendered, places, devices map[string]bool) (reason, what string) {
	if prev.Topology == nil {
		return "", ""
	}
	if name := prev.changesKind(made); name != "" && p.Annotates {
		return ReasonTopologyInUse, fmt.Sprintf("topology %s would change between switches and blocks while Node annotations still name its units, and topology.conf holds one topology; "+
			"configure format: yaml, which holds both, and format: conf again when no annotation names the old units; if approved now, slurmctld does not start while nodes are registered with the old units", name)
	}
	if what := slurmconf.TopologiesChange(p.Choice(), prev.Topology, made.Plan); what != "" {
		return "TopologiesChange", what
	}
	nodes, of := placement.Moved(prev.Topology, made.Plan)
	if n, and := together(nodes, places); !allowed(p, n, of) {
		return "BigChange", fmt.Sprintf("%d of %d nodes would move or leave%s, more than %.0f %%", n, of, and, 100**p.MaxChange)
	}
	// Pods come and go with their names; a label is somebody's to write, and to mistake.
	if of := len(prev.Topology.Places()); !p.Rules.BySlinky() && !allowed(p, prev.renamed, of) {
		return "BigChange", fmt.Sprintf("%d of %d nodes would get another Slurm name, more than %.0f %%", prev.renamed, of, 100**p.MaxChange)
	}
	if oldGres != made.Files["gres.conf"] {
		changed, of := gresChanges(prev.Gres, made.gres)
		if n, and := together(changed, devices); !allowed(p, n, of) {
			return "BigChange", fmt.Sprintf("the lines of %d of %d nodes in gres.conf would change or be removed%s, more than %.0f %%", n, of, and, 100**p.MaxChange)
		}
	}
	followsBlocks := p.DefaultTopology != slurmconf.FabricTopology && p.DefaultTopology != slurmconf.FlatTopology
	blocks := len(made.Plan.Blocks) > 0 && p.Topology == string(slurmconf.KindAuto) && followsBlocks
	if blocks && len(prev.Topology.Blocks) == 0 && len(prev.Topology.Switches) > 0 {
		return reasonKindChange, "the first NVLink domains are known: the default topology would change from tree to block, and slurm.conf's TopologyPlugin and the partitions must follow; configure topology: tree to keep the tree"
	}
	return "", ""
}

// reasonKindChange is why the first blocks wait where a tree is published.
const reasonKindChange = "KindChange"

// treeAlone returns the tree without the first blocks, if only the blocks wait for an
// approval, or nil. Two nodes that name one NVLink domain hold up nobody on a site of
// switches.
func (l *loop) treeAlone(s *stored, g *gathered, held *plandoc.Held, now time.Time) *Rendered {
	if held.Reason != reasonKindChange && held.Reason != ReasonTopologyInUse || l.pub.Topology != string(slurmconf.KindAuto) ||
		len(s.prev.Topology.Blocks) > 0 || len(s.prev.Topology.Switches) == 0 {
		return nil
	}
	pub := *l.pub
	pub.Topology = string(slurmconf.KindTree)
	made, err := Make(&pub, g.Inputs, s.prev)
	if err != nil || made.Refused != "" {
		return nil
	}
	if made.fit(l.pub, s.set, l.maxBytes); made.Refused != "" || l.waits(&pub, s, made, now) != nil {
		return nil
	}
	return made
}

// together counts the nodes that change now or changed before. If none changes now, none
// counts.
func together(now []string, before map[string]bool) (n int, and string) {
	if len(now) == 0 {
		return 0, ""
	}
	n = len(now)
	for _, node := range now {
		if before[node] {
			n--
		}
	}
	if n += len(before); n > len(now) {
		and = fmt.Sprintf(", with %d that did within the hour", n-len(now))
	}
	return n, and
}

// remember notes which nodes change, for the guard. Nodes that are gone are forgotten, and
// an approval ends what was counted.
func (s *stored) remember(made *Rendered, approved bool, now time.Time) {
	if s.doc.Moves = slices.Clone(s.doc.Moves); approved || s.prev.Topology == nil {
		s.doc.Moves = nil
		return
	}
	there := make(map[string]bool, len(made.Plan.Placements))
	for i := range made.Plan.Placements {
		there[made.Plan.Placements[i].SlurmName] = true
	}
	gone := func(node string) bool { return !there[node] }
	places, _ := placement.Moved(s.prev.Topology, made.Plan)
	devices, _ := gresChanges(s.prev.Gres, made.gres)
	s.doc.Remember(now.UTC().Truncate(time.Second), slices.DeleteFunc(places, gone), slices.DeleteFunc(devices, gone))
}

// allowed reports whether so many moves may be published at once. One node may always
// move.
func allowed(p *publication.Cluster, moved, of int) bool {
	return moved <= 1 || float64(moved) <= *p.MaxChange*float64(of)
}

// gresChanges returns the nodes whose lines in gres.conf change or are removed. A node
// that detected its devices itself and now has them listed does not count.
func gresChanges(was map[string][]gres.Line, lines []gres.Line) (changed []string, of int) {
	is, err := gres.ByNode(lines, nil)
	if err != nil {
		return nil, 0 // lines that were made have passed Lint
	}
	for node, before := range was {
		now := is[node]
		if detects := before[0].AutoDetect != "" && len(now) > 0; !detects && !reflect.DeepEqual(before, now) {
			changed = append(changed, node)
		}
	}
	return changed, len(was)
}
