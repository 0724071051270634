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
	asked []placement.Choice
	held  []plandoc.Held
	// approved is the decision that people have approved, or nil.
	approved *plandoc.Held
}

// answers say which decisions keep the published answer. The zero value is none.
type answers struct {
	keep []placement.Decision
	hold bool // and all others that a plan meets, too
}

// kind returns the publication with the published kind of its topology, if a decision about that is kept. It
// comes before the plan, which says less of blocks that are not published.
func (a *answers) kind(p *publication.Cluster) *publication.Cluster {
	for _, d := range a.keep {
		if d.Kind == reasonKindChange || d.Kind == reasonTopologyInUse {
			as := *p
			as.Topology = d.From
			return &as
		}
	}
	return p
}

// keep returns what is made with the published answer of each decision that waits for people.
// wanted was made without these answers. approve is what people approve. Nothing more is made if nothing waits.
func keep(p *publication.Cluster, in *gathered, wanted *Rendered, approve string, planWith func(answers) *Rendered) kept {
	asked := choices(p, in, wanted)
	if len(asked) == 0 {
		return kept{made: wanted, unapproved: wanted}
	}
	allKept := planWith(answers{keep: decisionsOf(asked), hold: true})
	asked = append(asked, further(choices(p, in, allKept), asked)...)
	k := kept{made: allKept, unapproved: allKept, asked: asked}
	var lost []string // no plan can keep a topology without racks
	if allKept.Plan != nil {
		lost = allKept.Plan.LostTopologies(in.prev.Plan)
	}
	at := -1
	for i := range asked {
		d := &asked[i]
		if d.Digest() == approve {
			at = i
		}
		k.held = append(k.held, plandoc.Held{Reason: d.Kind, Message: d.Message + howToApprove(d.Digest(), approve), Digest: d.Digest(), Waits: true,
			Alone: d.Kind != placement.TopologiesChange || !slices.Contains(lost, d.Subject)})
	}
	if at < 0 {
		return k
	}
	made := planWith(answers{keep: slices.Delete(decisionsOf(asked), at, at+1)})
	switch others := further(choices(p, in, made), asked); {
	case made.Refused != "":
		k.held[at].Message += fmt.Sprintf("; it is approved, and cannot be published: %s: %s", made.Refused, made.Message)
	case len(others) > 0:
		k.held[at].Message += "; it is approved, and cannot be published alone: " + others[0].Message
	default:
		approved := k.held[at]
		k.made, k.held, k.approved = made, slices.Delete(k.held, at, at+1), &approved
		if allKept.Refused != "" {
			k.unapproved = made
		}
	}
	return k
}

// further returns the choices that people are not asked about yet: no choice in asked is about the same.
func further(choices, asked []placement.Choice) []placement.Choice {
	return slices.DeleteFunc(choices, func(c placement.Choice) bool {
		return slices.ContainsFunc(asked, func(a placement.Choice) bool { return a.About(&c.Decision) })
	})
}

func decisionsOf(choices []placement.Choice) []placement.Decision {
	out := make([]placement.Decision, len(choices))
	for i := range choices {
		out[i] = choices[i].Decision
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
