package nodestatus

import (
	"cmp"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// The reasons of drift: the published files, or the Node's annotations or labels, tell another
// place than the node's facts. A node that stability rules keep in place is not drift,
// because the plan has it there too.
const (
	ReasonPublishedDiffers  = "PublishedDiffers"
	ReasonAnnotationDiffers = "AnnotationDiffers"
	ReasonLabelsDiffer      = "LabelsDiffer"
)

// planReasons are the problems of a plan by which hardware, labels and published files say
// different things of a node. What is wrong with its fabric itself is in ConditionFabric.
var planReasons = map[string]bool{
	topology.ReasonLabelDiffers: true, placement.ReasonLabelConflict: true, placement.ReasonUnconfirmed: true,
}

// driftAfter is how long a difference must last before the Node's condition names it. A
// failed pass is tried again within a minute, a change may be approved at once, and facts
// may go back and forth.
const driftAfter = 2 * time.Minute

// Pass is what a pass over one publication has found.
type Pass struct {
	// Plan is nil if no plan could be made. Then what passes before have found of places stays.
	Plan     *topology.Plan
	Problems []topology.Finding
	// Fabrics are the verdicts on the nodes' NVLink fabrics, by Node. They are nil if the pass ended before, because the
	// stored plan can't be read. Then the verdicts of the pass before stay.
	Fabrics map[string]topology.FabricVerdict
	// Differences are the nodes whose published place is not the planned one.
	Differences []Difference
}

// Difference is a place of a node that differs from another. It has both places; what lasts of
// it becomes a topology.Finding.
type Difference struct {
	Node   *inputs.Node
	Reason string // ReasonPublishedDiffers, ReasonAnnotationDiffers or ReasonLabelsDiffer
	// Is and Want are Topology= strings, empty for no place. Of labels they are KEY=VALUE, several with
	// spaces between them.
	Is, Want string
	// Cause says why they differ, in words that do not change meanwhile. Detail is the
	// text of an error.
	Cause, Detail string
	// Unjudged says that the pass has not compared the two: the annotation has time until
	// later, or the pass ended early. What the Node's condition says of it stays.
	Unjudged bool
}

// drift is what the passes over one publication have found. Its zero value is that of a
// publisher that has just started.
type drift struct {
	problems []topology.Finding
	// differences are what the last pass found, nil before the first pass.
	differences map[differing]lasting
}

// differing names a difference: a Node and a reason.
type differing struct{ node, reason string }

// lasting is what a difference means, and since when there is one.
type lasting struct {
	topology.Finding
	since time.Time
}

func (f *lasting) counts(now time.Time) bool { return !now.Before(f.since.Add(driftAfter)) }

// found takes what a pass has found. It returns when the next difference counts, if it
// lasts.
func (d *drift) found(pass *Pass, now time.Time) time.Time {
	d.problems = nil
	for _, p := range pass.Problems {
		if p.Node != "" && planReasons[p.Reason] {
			d.problems = append(d.problems, p)
		}
	}
	for i := range pass.Plan.Nodes {
		if p := &pass.Plan.Nodes[i]; planReasons[p.Reason] {
			d.problems = append(d.problems, topology.Finding{Subject: topology.Subject{Node: p.Node}, Reason: p.Reason, Message: p.Message})
		}
	}
	differences := make(map[differing]lasting, len(pass.Differences))
	for i := range pass.Differences {
		is := &pass.Differences[i]
		key := differing{is.Node.Name, is.Reason}
		old, lasts := d.differences[key]
		if d.differences == nil {
			old, lasts = saidBefore(is, now)
		}
		switch {
		case !is.Unjudged:
			differences[key] = is.lasting(old, lasts, now)
		case lasts && old.counts(now):
			differences[key] = old
		}
	}
	d.differences = differences
	var next again.Timer
	for _, f := range differences {
		if !f.counts(now) {
			next.At(f.since.Add(driftAfter))
		}
	}
	return next.Next()
}

// addTo adds the problems by node. Differences that are too young do not count.
func (d *drift) addTo(all map[string][]topology.Finding, now time.Time) {
	for _, p := range d.problems {
		all[p.Node] = append(all[p.Node], p)
	}
	for key, f := range d.differences {
		if f.counts(now) {
			all[key.node] = append(all[key.node], f.Finding)
		}
	}
}

// finding returns the finding of the difference with a message.
func (d *Difference) finding(message string) topology.Finding {
	return topology.Finding{Subject: topology.Subject{Node: d.Node.Name}, Reason: d.Reason, Message: message}
}

// lasting returns what the difference is from now on. An error that is only worded in
// another way changes nothing.
func (d *Difference) lasting(old lasting, lasts bool, now time.Time) lasting {
	says := words[d.Reason]
	text := says[0] + cmp.Or(d.Is, "no place") + says[1] + cmp.Or(d.Want, "no place") + ": " + d.Cause
	f := lasting{d.finding(text), now}
	if d.Detail != "" {
		f.Message += ": " + d.Detail
	}
	if lasts {
		f.since = old.since
	}
	if lasts && strings.HasPrefix(old.Message, text) {
		f.Message = old.Message
	}
	return f
}

// words stand before the two places that differ, by reason.
var words = map[string][2]string{
	ReasonAnnotationDiffers: {"its annotation " + plandoc.SpecAnnotation + " says ", ", the published files say "},
	ReasonLabelsDiffer:      {"its labels say ", ", the published files say "},
	ReasonPublishedDiffers:  {"the published files say ", ", its facts say "},
}

// saidBefore returns what the Node's condition says of a difference, which an earlier
// publisher has found.
func saidBefore(d *Difference, now time.Time) (f lasting, said bool) {
	c := d.Node.Conditions[ConditionDrift]
	if !c.True {
		return f, false
	}
	for part := range strings.SplitSeq(c.Message, "; ") {
		if strings.HasPrefix(part, words[d.Reason][0]) {
			return lasting{d.finding(part), now.Add(-driftAfter)}, true
		}
	}
	return f, false
}
