package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// change returns what would be published, beside what is published.
func (p *pass) change(made *Rendered) *change {
	prev := &p.in.prev
	return &change{old: prev.Plan, new: made.Plan, oldGres: prev.Gres, newGres: made.gres, sameGres: p.stored.set.Own()["gres.conf"] == made.Files["gres.conf"],
		renamed: prev.renamed, inUse: prev.changesKind(p.in.inUse, made), gone: p.in.gone}
}

// approval holds changes that wait for people.
type approval struct {
	pub *publication.Cluster
	sizeLimit
}

// Reconcile holds a change that waits for an approval, all of it or all but the tree.
func (a *approval) Reconcile(_ context.Context, p *pass) (r result, err error) {
	r.held, r.next = p.waits(a.pub, p.made)
	if r.held != nil {
		r.write = a.treeAlone(p, r.held)
	}
	return r, nil
}

// treeAlone returns the tree of the plan without the first blocks, if only the blocks wait
// for an approval, or nil. Two nodes that name one NVLink domain hold up nobody on a site
// of switches.
func (a *approval) treeAlone(p *pass, held *plandoc.Held) *Rendered {
	prev := &p.in.prev
	if held.Reason != reasonKindChange && held.Reason != reasonTopologyInUse || a.pub.Topology != string(slurmconf.KindAuto) ||
		len(prev.Plan.Blocks()) > 0 || len(prev.Plan.Switches()) == 0 {
		return nil
	}
	pub := *a.pub
	pub.Topology = string(slurmconf.KindTree)
	made := &Rendered{Plan: p.made.Plan}
	if err := made.renderPlan(&pub, p.in); err != nil || made.Refused != "" {
		return nil
	}
	if made.limitSize(a.pub, p.stored.set, a.bytes); made.Refused != "" {
		return nil
	}
	if waits, _ := p.waits(&pub, made); waits != nil {
		return nil
	}
	return made
}

// waits says why the change waits for an approval, or returns nil. next is when fewer nodes
// count, or zero.
func (p *pass) waits(pub *publication.Cluster, made *Rendered) (held *plandoc.Held, next time.Time) {
	s := p.stored
	approve := s.asks(plandoc.AnnotationApprove)
	if approve == made.Digest {
		return nil, next
	}
	reason, what := p.change(made).waits(pub, s.doc, p.now)
	if reason != "" { // fewer count later
		next = s.doc.Until(p.now)
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
