package publisher

import (
	"fmt"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// The reasons for which Slurm is told another place of a node than its facts name: by
// the published files, or by the Node's annotation. What the rules of stability keep in
// its place is neither, for the plan has it there too.
const (
	ReasonPublishedDiffers  = "PublishedDiffers"
	ReasonAnnotationDiffers = "AnnotationDiffers"
)

// driftAfter is how long Slurm has been told so before the Node's condition says it. A
// pass that fails is tried again within a minute, a change may be approved at once, and
// facts that go back and forth while files are held would have the condition do the same.
const driftAfter = 2 * time.Minute

// driftHistory is what the passes over one publication found of nodes whose place is
// not sure, or of which Slurm is told another. The zero value is that of a publisher
// that has just started.
type driftHistory struct {
	// problems are those of the facts in this pass, by node, nil before there is a plan.
	problems map[string][]topology.Problem
	// found are the differences of this pass, last those of the one before: nil where
	// there was none.
	found, last map[differing]difference
	// annotations says that this pass has come as far as the Nodes' annotations.
	annotations bool
	// nodes are those of this pass, by Slurm name.
	nodes map[string]*inputs.Node
}

// begin takes what a pass has planned.
func (h *driftHistory) begin(made *Rendered, nodes map[string]*inputs.Node) {
	h.problems, h.nodes = driftOf(made), nodes
}

// differing names a difference: a Node and a reason.
type differing struct{ node, reason string }

// difference is one place of a node that is not the other.
type difference struct {
	is, want string // Topology= strings, empty for no place
	// cause is why they differ, in words that stay as long as it does; detail is what
	// an error said of it first.
	cause, detail string
	since         time.Time
	// said is all of this as the Node's condition has it, where nothing else is known.
	said string
}

// differs notes what Slurm is told of a node. A publisher that has just started goes on
// from what the Node's condition says.
func (h *driftHistory) differs(n *inputs.Node, reason string, d difference) {
	key := differing{n.Name, reason}
	was, stood := h.last[key]
	switch {
	case stood:
		d.since = was.since
		if was.is == d.is && was.want == d.want && was.cause == d.cause {
			d.detail = was.detail // errors are seldom worded twice alike
		}
	case h.last == nil:
		if said := n.Conditions[ConditionDrift]; said.True && strings.Contains(said.Message, d.places(reason)) {
			d.since = d.since.Add(-driftAfter)
		}
	}
	h.note(key, d)
}

// annotationStays notes again that the annotation of a Node differs, which its condition
// says by now: also where it was the publisher before that found it.
func (h *driftHistory) annotationStays(n *inputs.Node, now time.Time) {
	key := differing{n.Name, ReasonAnnotationDiffers}
	d := h.last[key]
	if h.last == nil {
		d = difference{said: annotationDrift(n.Conditions[ConditionDrift]), since: now.Add(-driftAfter)}
		if d.said == "" {
			return
		}
	}
	if !d.since.IsZero() && !now.Before(d.since.Add(driftAfter)) {
		h.note(key, d)
	}
}

// saysAnnotation begins the message of each annotation that differs.
const saysAnnotation = "its annotation " + SpecAnnotation + " says "

// annotationDrift is what the condition says of an annotation that differs, empty for
// nothing. The reason of it is before all others, and so is the message.
func annotationDrift(c inputs.Condition) string {
	if !c.True || !strings.HasPrefix(c.Message, saysAnnotation) {
		return ""
	}
	said, _, _ := strings.Cut(c.Message, "; ")
	return said
}

func (h *driftHistory) note(key differing, d difference) {
	if h.found == nil {
		h.found = make(map[differing]difference, len(h.last))
	}
	h.found[key] = d
}

// places says both.
func (d *difference) places(reason string) string {
	is, want := d.is, d.want
	if is == "" {
		is = "no place"
	}
	if want == "" {
		want = "no place"
	}
	if reason == ReasonAnnotationDiffers {
		return fmt.Sprintf("%s%s, the published files say %s", saysAnnotation, is, want)
	}
	return fmt.Sprintf("the published files say %s, its facts say %s", is, want)
}

func (d *difference) message(reason string) string {
	if d.said != "" {
		return d.said
	}
	m := d.places(reason) + ": " + d.cause
	if d.detail != "" {
		m += ": " + d.detail
	}
	return m
}

// take ends a pass that has made a plan: it returns all that was found in it, by node, but
// for differences that have not stood for long enough, and when these will have. Where it
// has not come to the annotations, those of the pass before count.
func (h *driftHistory) take(now time.Time) (all map[string][]topology.Problem, wake time.Time) {
	all = h.problems
	for key, d := range h.last {
		if key.reason == ReasonAnnotationDiffers && !h.annotations {
			h.note(key, d)
		}
	}
	for key, d := range h.found {
		if until := d.since.Add(driftAfter); now.Before(until) {
			wake = earlier(wake, until)
			continue
		}
		all[key.node] = append(all[key.node], topology.Problem{Node: key.node, Reason: key.reason, Message: d.message(key.reason)})
	}
	if h.found == nil {
		h.found = map[differing]difference{}
	}
	h.problems, h.nodes, h.found, h.last, h.annotations = nil, nil, nil, h.found, false
	return all, wake
}

// sayDrift hands what a pass found on to the conditions of Nodes, and returns when to
// come back. A pass that has made no plan found nothing, and what was found before stays.
func (p *Publisher) sayDrift(s *state) (wake time.Time) {
	h := &s.nodes.drift
	if h.problems == nil {
		h.found, h.annotations = nil, false
		return wake
	}
	now := time.Now()
	if h.last == nil && !h.annotations {
		p.annotationsStay(s, now)
	}
	all, wake := h.take(now)
	p.conditions.found(s.pub.Name, all)
	return wake
}

// annotationsStay is for the first passes, where they do not come to the annotations: of
// those that the publication writes, what the conditions say stays.
func (p *Publisher) annotationsStay(s *state, now time.Time) {
	if !s.annotates() {
		return
	}
	for _, n := range s.nodes.drift.nodes {
		if p.otherAnnotates(s, n) == "" {
			s.nodes.drift.annotationStays(n, now)
		}
	}
}

// filesDiffer notes which nodes the published files have elsewhere than specs. Where
// nothing is published Slurm is told nothing.
func (s *state) filesDiffer(prev *Previous, specs map[string]string, nodes map[string]*inputs.Node, why difference) {
	if prev.Topology == nil {
		return
	}
	published := prev.specs(s.pub)
	for name, n := range nodes {
		if why.is, why.want = published[name], specs[name]; why.is != why.want {
			s.nodes.drift.differs(n, ReasonPublishedDiffers, why)
		}
	}
}

// heldFor is why files that are held differ. Their whole reason counts nodes and has a
// digest: each change of one node would be written to all that differ.
func heldFor(p *Publication, reason string, now time.Time) difference {
	return difference{cause: fmt.Sprintf("the files of publication %s are held back for %s, see the annotation %s of %s", p.Name, reason, AnnotationHeldReason, p.key()), since: now}
}

// unwritten is why files that could not be written differ.
func unwritten(p *Publication, err error, now time.Time) difference {
	return difference{cause: fmt.Sprintf("the files of publication %s cannot be written to %s", p.Name, p.key()), detail: err.Error(), since: now}
}

// foreignDiffer compares files that somebody else wrote, theirs, from which nothing is
// made, with a plan that goes on from prev: it may be the same. It returns when to come
// back for what waits.
func (p *Publisher) foreignDiffer(s *state, snap *inputs.Snapshot, prev, theirs *Previous, why difference) time.Time {
	g, made, wake, err := p.plan(s, snap, prev, why.since)
	if err != nil {
		return wake
	}
	if theirs != prev {
		s.nodes.rename(&g, theirs)
	}
	s.nodes.drift.begin(made, g.Nodes)
	s.filesDiffer(theirs, made.Specs, g.Nodes, why)
	return wake
}

// annotationDiffers notes a node whose annotation is not as it is to be, for err.
func (s *state) annotationDiffers(n *inputs.Node, is, want string, err error, now time.Time) {
	s.nodes.drift.differs(n, ReasonAnnotationDiffers, difference{is: is, want: want, cause: "it cannot be written", detail: err.Error(), since: now})
}
