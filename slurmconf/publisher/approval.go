package publisher

import (
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// change returns what would be published, beside what is published.
func changeOf(mem *stored, in *gathered, made *Rendered) *change {
	prev := &in.prev
	return &change{old: prev.Plan, new: made.Plan, oldGres: prev.Gres, newGres: made.gres, sameGres: mem.set.Own()["gres.conf"] == made.Files["gres.conf"],
		renamed: prev.renamed, inUse: prev.changesKind(in.inUse, made), gone: in.gone}
}

// treeAlone returns the tree of the plan without the first blocks, if only the blocks wait
// for an approval, or nil. Two nodes that name one NVLink domain hold up nobody on a site
// of switches.
func treeAlone(p *publication.Cluster, mem *stored, in *gathered, all *Rendered, held *plandoc.Held, room int, now time.Time) *Rendered {
	prev := &in.prev
	if held.Reason != reasonKindChange && held.Reason != reasonTopologyInUse || p.Topology != string(slurmconf.KindAuto) ||
		len(prev.Plan.Blocks()) > 0 || len(prev.Plan.Switches()) == 0 {
		return nil
	}
	pub := *p
	pub.Topology = string(slurmconf.KindTree)
	made := lint(&pub, render(&pub, in, placed{plan: all.Plan}, room))
	if made.Refused != "" {
		return nil
	}
	if waits, _ := waits(&pub, mem, in, made, now); waits != nil {
		return nil
	}
	return made
}

// waits says why the change waits for an approval, or returns nil. next is when fewer nodes
// count, or zero.
func waits(p *publication.Cluster, s *stored, in *gathered, made *Rendered, now time.Time) (held *plandoc.Held, next time.Time) {
	approve := s.asks(plandoc.AnnotationApprove)
	if approve == made.Digest {
		return nil, next
	}
	reason, what := changeOf(s, in, made).waits(p, s.doc, now)
	if reason != "" { // fewer count later
		next = s.doc.Until(now, p.HoldWindow.Duration)
	}
	if n := s.doc.RolledBack; n > 0 && made.Digest != s.doc.Current.Digest {
		reason, what = "RolledBack", fmt.Sprintf("%s went back to revision %d, and since then every change waits", s.doc.Current.Author, n)
	}
	if reason == "" {
		return nil, next
	}
	what += fmt.Sprintf("; to publish it anyway, set the annotation %s=%s", plandoc.AnnotationApprove, made.Digest)
	if approve != "" {
		what += fmt.Sprintf("; it is %q now, which is another digest", approve)
	}
	return &plandoc.Held{Reason: reason, Message: what, Digest: made.Digest, Waits: true}, next
}
