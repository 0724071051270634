package publisher

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/guard"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// change is what the guard judges.
func (s *stored) change(made *Rendered) *guard.Change {
	return &guard.Change{Old: s.prev.Topology, New: made.Plan, OldGres: s.prev.Gres, NewGres: made.gres, SameGres: s.set.Own()["gres.conf"] == made.Files["gres.conf"],
		Renamed: s.prev.renamed, InUse: s.prev.changesKind(made), Gone: s.gone}
}

// treeAlone returns the tree without the first blocks, if only the blocks wait for an
// approval, or nil. Two nodes that name one NVLink domain hold up nobody on a site of
// switches.
func (l *loop) treeAlone(s *stored, g *gathered, held *plandoc.Held, now time.Time) *Rendered {
	if held.Reason != guard.ReasonKindChange && held.Reason != guard.ReasonTopologyInUse || l.pub.Topology != string(slurmconf.KindAuto) ||
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
