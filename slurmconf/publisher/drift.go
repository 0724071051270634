package publisher

import (
	"fmt"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// The reasons of drift: the published files or the Node's annotation tell Slurm another
// place than the node's facts. A node that stability rules keep in place is not drift,
// because the plan has it there too.
const (
	ReasonPublishedDiffers  = "PublishedDiffers"
	ReasonAnnotationDiffers = "AnnotationDiffers"
)

// driftAfter is how long a difference must last before the Node's condition names it. A
// failed pass is tried again within a minute, a change may be approved at once, and facts
// may go back and forth.
const driftAfter = 2 * time.Minute

// driftHistory holds the differences that the passes over one publication found. Its zero
// value is that of a publisher that has just started.
type driftHistory struct {
	// problems are the drift problems of the plan by node. It is nil before there is a
	// plan.
	problems map[string][]topology.Problem
	// found are the differences of this pass, and last those of the pass before. They are
	// nil if there was no pass.
	found, last map[differing]difference
	// annotations says that this pass got as far as the Node annotations.
	annotations bool
	// nodes are those of this pass, by Slurm name.
	nodes map[string]*inputs.Node
}

// begin records what a pass has planned.
func (h *driftHistory) begin(made *Rendered, nodes map[string]*inputs.Node) {
	h.problems, h.nodes = driftOf(made), nodes
}

// differing names a difference: a Node and a reason.
type differing struct{ node, reason string }

// difference is a place of a node that differs from another.
type difference struct {
	is, want string // Topology= strings, empty for no place
	// cause says why they differ, in words that do not change meanwhile. detail is the
	// text of the first error.
	cause, detail string
	since         time.Time
	// said is the text in the Node's condition, if nothing else is known.
	said string
}

// differs records a difference. A publisher that has just started continues from the
// Node's condition.
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

// annotationStays keeps a difference of the Node's annotation that the condition names
// already, even if an earlier publisher found it.
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

// annotationDrift returns the part of the condition about the annotation, or "". Its
// reason goes before all others, and so does its message.
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

// places names both places.
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

// take ends a pass that made a plan. It returns the problems by node, without differences
// that are too young, and when those are old enough. If the pass did not get to the
// annotations, those of the pass before count.
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

// sayDrift hands the problems of a pass to the conditions of Nodes and returns when to
// come back. After a pass without a plan the earlier problems stay.
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

// annotationsStay keeps what conditions say of annotations, for first passes that do not
// get to them.
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

// filesDiffer records the nodes whose place in the published files differs from specs.
// Without published files nothing differs.
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

// heldFor is the cause for held files. The whole reason counts nodes and has a digest, so
// each change of one node would be written to all of them.
func heldFor(p *Publication, reason string, now time.Time) difference {
	return difference{cause: fmt.Sprintf("the files of publication %s are held back for %s, see the annotation %s of %s", p.Name, reason, AnnotationHeldReason, p.key()), since: now}
}

// unwritten is the cause for files that could not be written.
func unwritten(p *Publication, err error, now time.Time) difference {
	return difference{cause: fmt.Sprintf("the files of publication %s cannot be written to %s", p.Name, p.key()), detail: err.Error(), since: now}
}

// foreignDiffer compares files of somebody else, theirs, with a plan that continues from
// prev. It returns when to come back.
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

// annotationDiffers records a node whose annotation is not as wanted because of err.
func (s *state) annotationDiffers(n *inputs.Node, is, want string, err error, now time.Time) {
	s.nodes.drift.differs(n, ReasonAnnotationDiffers, difference{is: is, want: want, cause: "it cannot be written", detail: err.Error(), since: now})
}
