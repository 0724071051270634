package publisher

import (
	"fmt"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// kept is what is made while decisions wait for people.
type kept struct {
	// made has the published answer of each decision that waits.
	made *Rendered
	// unapproved has the published answer of the approved decision too. If more waits than decisions,
	// people approve that by the digest of unapproved, which an approval of a decision does not change.
	// Both are the same if no decision is approved, or if the published answer gives no files.
	unapproved *Rendered
	// held are the decisions that wait.
	held []plandoc.Held
	// approved is the decision that people have approved, or nil.
	approved *plandoc.Held
	// wanted makes what would be published if no decision waited, for people to look at.
	wanted func() *Rendered
}

// keep returns what is made with the published answer of each decision that waits for people. unapproved has the
// published answer of all decisions. approve is what people approve. An approved decision needs a second plan: remake
// makes the plan and its files with the published answers of the decisions that wait.
func keep(in *gathered, unapproved *Rendered, approve string, remake func(waits func(placement.Decision) bool) *Rendered) kept {
	waiting := unapproved.waiting()
	k := kept{made: unapproved, unapproved: unapproved, held: unapproved.held(waiting, in, approve), wanted: func() *Rendered { return unapproved }}
	if len(k.held) > 0 {
		k.wanted = func() *Rendered { return remake(nil) }
	}
	at := slices.IndexFunc(waiting, func(c placement.Choice) bool { return c.Digest() == approve })
	if at < 0 {
		return k
	}
	made := remake(func(d placement.Decision) bool { return d.Digest() != approve })
	held := made.held(made.waiting(), in, approve)
	lost := slices.IndexFunc(held, func(h plandoc.Held) bool { return !h.Alone })
	switch {
	case made.Refused != "":
		k.held[at].Message += fmt.Sprintf("; it is approved, and cannot be published: %s: %s", made.Refused, made.Message)
	case lost >= 0:
		k.held[at].Message += "; it is approved, and cannot be published alone: " + held[lost].Message
	case waiting[at].Kind == placement.TopologiesChange && !made.loses(waiting[at].Decision, in):
		k.held[at].Message += "; it is approved, and changes nothing before another decision is approved"
	default:
		approved := k.held[at]
		k.approved = &approved
		k.made, k.held = made, held
		if unapproved.Refused != "" {
			k.unapproved = made
		}
	}
	return k
}

// held says of each choice that waits for people what is held. approve is what people approve.
func (m *Rendered) held(waiting []placement.Choice, in *gathered, approve string) (out []plandoc.Held) {
	for _, d := range waiting {
		out = append(out, plandoc.Held{Reason: d.Kind, Message: d.Message + howToApprove(d.Digest(), approve), Digest: d.Digest(), Waits: true,
			Alone: !m.loses(d.Decision, in)})
	}
	return out
}

// loses reports whether the plan lacks the published topology that a decision is about. No plan can keep a topology
// without racks, nor the one block topology of a file if the site has named it. Two topologies that no plan can keep
// would wait for each other: an approval of one is refused, because the other would go too. No site of the tests has
// two. Then people take back the key that asks for other topologies.
func (m *Rendered) loses(d placement.Decision, in *gathered) bool {
	return m.Plan != nil && d.Kind == placement.TopologiesChange && slices.Contains(m.Plan.LostTopologies(in.prev.Plan), d.Subject)
}

// howToApprove says how people approve what has the digest. approve is what they approve now.
func howToApprove(digest, approve string) string {
	text := fmt.Sprintf("; to publish it anyway, set the annotation %s=%s", plandoc.AnnotationApprove, digest)
	if approve != "" && approve != digest {
		text += fmt.Sprintf("; its value %q is another digest", approve)
	}
	return text
}

// holdAll says why all that was made waits for an approval, or returns nil. next is when fewer nodes
// count, or zero.
func holdAll(p *publication.Cluster, s *stored, c *change, made *Rendered, now time.Time) (held *plandoc.Held, next time.Time) {
	approve := s.request(plandoc.AnnotationApprove)
	if approve == made.Digest {
		return nil, next
	}
	held = &plandoc.Held{Digest: made.Digest, Waits: true}
	big := c.tooBig(p, s.doc, now)
	switch n := s.doc.RolledBack; {
	case n > 0 && made.Digest != s.doc.Current.Digest:
		held.Reason, held.Message = reasonRolledBack, fmt.Sprintf("%s went back to revision %d, and since then every change waits", s.doc.Current.Author, n)
	case big != "":
		held.Reason, held.Message = reasonBigChange, big
		next = s.doc.Until(now)
	default:
		return nil, next
	}
	held.Message += howToApprove(made.Digest, approve)
	return held, next
}
