package publisher

import (
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/guard"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// change is what the guard judges.
func (s *stored) change(made *Rendered) *guard.Change {
	return &guard.Change{Old: s.prev.Topology, New: made.Plan, OldGres: s.prev.Gres, NewGres: made.gres, SameGres: s.set.Own()["gres.conf"] == made.Files["gres.conf"],
		Renamed: s.prev.renamed, InUse: s.prev.changesKind(made), Gone: s.gone}
}

// treeAlone returns the tree of the plan without the first blocks, if only the blocks wait
// for an approval, or nil. Two nodes that name one NVLink domain hold up nobody on a site
// of switches.
func (l *loop) treeAlone(s *stored, g *gathered, whole *Rendered, held *plandoc.Held, now time.Time) *Rendered {
	if held.Reason != guard.ReasonKindChange && held.Reason != guard.ReasonTopologyInUse || l.pub.Topology != string(slurmconf.KindAuto) ||
		len(s.prev.Topology.Blocks) > 0 || len(s.prev.Topology.Switches) == 0 {
		return nil
	}
	pub := *l.pub
	pub.Topology = string(slurmconf.KindTree)
	made := &Rendered{Plan: whole.Plan}
	if err := made.renderPlan(&pub, &g.Inputs, &s.prev); err != nil || made.Refused != "" {
		return nil
	}
	if made.fit(l.pub, s.set, l.maxBytes); made.Refused != "" {
		return nil
	}
	waits, next := s.waits(&pub, made, now)
	l.At(next)
	if waits != nil {
		return nil
	}
	return made
}

// waits says why the change waits for an approval, or returns nil. next is when fewer nodes
// count, or zero.
func (s *stored) waits(pub *publication.Cluster, made *Rendered, now time.Time) (held *plandoc.Held, next time.Time) {
	approve := s.asks(published.AnnotationApprove)
	if approve == made.Digest {
		return nil, next
	}
	reason, what := s.change(made).Waits(pub, s.doc, now)
	if reason != "" { // fewer count later
		next = s.doc.Until(now)
	}
	if n := s.doc.RolledBack; n > 0 && made.Digest != s.doc.Current.Digest {
		reason, what = "RolledBack", fmt.Sprintf("%s went back to revision %d, and since then every change waits", s.doc.Current.Author, n)
	}
	if reason == "" {
		return nil, next
	}
	what += fmt.Sprintf("; to publish it anyway, set the annotation %s=%s", published.AnnotationApprove, made.Digest)
	if approve != "" {
		what += fmt.Sprintf("; it is %q now, which is another digest", approve)
	}
	return &plandoc.Held{Reason: reason, Message: what, Digest: made.Digest, Waits: true}, next
}
