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
	// asked are all decisions that people are asked about, and held those of them that wait.
	asked decided
	held  []plandoc.Held
	// approved is the decision that people have approved, or nil.
	approved *plandoc.Held
}

// keep returns what is made with the published answer of each decision that waits for people. wanted
// has none of these answers. approve is what people approve.
func keep(p *publication.Cluster, in *gathered, wanted *Rendered, approve string, again func([]placement.Decision) *Rendered) kept {
	var asked decided
	allKept := wanted
	for { // an answer that is kept may show a further decision
		fresh := asked.without(decisions(p, in, allKept))
		if len(fresh) == 0 {
			break
		}
		asked = append(asked, fresh...)
		allKept = again(asked.answers())
	}
	k := kept{made: allKept, unapproved: allKept, asked: asked, held: asked.held(approve)}
	for _, d := range decisions(p, in, allKept) { // nothing keeps its answer
		for i := range asked {
			k.held[i].Alone = k.held[i].Alone && !asked[i].same(d)
		}
	}
	at := slices.IndexFunc(asked, func(d decision) bool { return d.Digest() == approve })
	if at < 0 {
		return k
	}
	made := again(slices.Delete(asked.answers(), at, at+1))
	switch further := asked.without(decisions(p, in, made)); {
	case made.Refused != "":
		k.held[at].Message += fmt.Sprintf("; it is approved, and cannot be published: %s: %s", made.Refused, made.Message)
	case len(further) > 0:
		k.held[at].Message += "; it is approved, and cannot be published alone: " + further[0].message
	default:
		approved := k.held[at]
		k.made, k.held, k.approved = made, slices.Delete(k.held, at, at+1), &approved
		if allKept.Refused != "" {
			k.unapproved = made
		}
	}
	return k
}

// decided are decisions that are asked about.
type decided []decision

// without returns the others that are not about the same as one of the decisions.
func (all decided) without(others []decision) []decision {
	return slices.DeleteFunc(others, func(d decision) bool { return slices.ContainsFunc(all, d.same) })
}

// answers returns the decisions as a plan takes them that keeps the published answers.
func (all decided) answers() []placement.Decision {
	out := make([]placement.Decision, len(all))
	for i := range all {
		out[i] = all[i].Decision
	}
	return out
}

// held says why the decisions wait.
func (all decided) held(approve string) []plandoc.Held {
	out := make([]plandoc.Held, len(all))
	for i := range all {
		d := &all[i]
		out[i] = plandoc.Held{Reason: d.Kind, Message: d.message + howToApprove(d.Digest(), approve), Digest: d.Digest(), Waits: true, Alone: true}
	}
	return out
}

// howToApprove says how people approve what has the digest. approve is what they approve now.
func howToApprove(digest, approve string) string {
	text := fmt.Sprintf("; to publish it anyway, set the annotation %s=%s", plandoc.AnnotationApprove, digest)
	if approve != "" && approve != digest {
		text += fmt.Sprintf("; its value %q is another digest", approve)
	}
	return text
}

// waitsForAll says why all that was made waits for an approval, or returns nil. next is when fewer nodes
// count, or zero.
func waitsForAll(p *publication.Cluster, s *stored, c *change, made *Rendered, now time.Time) (held *plandoc.Held, next time.Time) {
	approve := s.request(plandoc.AnnotationApprove)
	if approve == made.Digest {
		return nil, next
	}
	held = &plandoc.Held{Digest: made.Digest, Waits: true}
	big := c.tooBig(p, s.doc, now)
	switch n := s.doc.RolledBack; {
	case n > 0 && made.Digest != s.doc.Current.Digest:
		held.Reason, held.Message = "RolledBack", fmt.Sprintf("%s went back to revision %d, and since then every change waits", s.doc.Current.Author, n)
	case big != "":
		held.Reason, held.Message = "BigChange", big
		next = s.doc.Until(now, p.HoldWindow.Duration)
	default:
		return nil, next
	}
	held.Message += howToApprove(made.Digest, approve)
	return held, next
}
