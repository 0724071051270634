package publisher

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-hpc/quoin/imex"
)

// CordonAnnotation is the Node annotation with the reason of a cordon. Where the Node
// is unschedulable Slinky drains its Slurm node and shows "slurm-operator: REASON".
const CordonAnnotation = "nodeset.slinky.slurm.net/node-cordon-reason"

const (
	// cordonPrefix begins the reasons that are the publisher's. All others are
	// somebody else's.
	cordonPrefix = "quoin: "
	// cordonLeft is the reason on a Node that was uncordoned by hand: who cordons it
	// then is somebody else.
	cordonLeft = cordonPrefix + "uncordoned by hand, and left so until it has been ready once"
	// maxCordonReason bounds a reason, in bytes. Slinky takes 256 characters.
	maxCordonReason = 200
)

// cordonSettle is how long a node must be well before it is uncordoned, and how long a
// publisher looks at a node itself before it cordons that.
const cordonSettle = time.Minute

// CordonConfig says when Nodes are cordoned.
type CordonConfig struct {
	// After is how long a node has to be not ready without a break.
	After time.Duration
	// Join is that of the imex.Config.
	Join string
}

// Cordon is what keeps pods from a Node and, with Slinky, jobs. Reason is the
// CordonAnnotation, empty where there is none.
type Cordon struct {
	Unschedulable bool
	Reason        string
}

// cordonHolder says whose a cordon is.
type cordonHolder int

const (
	heldByNobody cordonHolder = iota
	heldByOthers              // their cordon, or their reason
	heldByUs                  // the publisher's cordon
	releasedByUs              // it is left alone, as cordonLeft says; the cordon is somebody else's, if there is one
	releasedAnew              // uncordoned by somebody else, which cordonLeft is to say
)

func (c Cordon) holder() cordonHolder {
	switch {
	case c == Cordon{}:
		return heldByNobody
	case !strings.HasPrefix(c.Reason, cordonPrefix):
		return heldByOthers
	case c.Reason == cordonLeft:
		return releasedByUs
	case c.Unschedulable:
		return heldByUs
	}
	return releasedAnew
}

// cordonReason is what Slurm is to show of a verdict, in one short line.
func cordonReason(v imex.Verdict) string {
	text := strings.Join(strings.FieldsFunc(cordonPrefix+v.Reason+": "+v.Message, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == utf8.RuneError
	}), " ")
	return cutText(text, maxCordonReason)
}

// meaning is what a verdict says of a cordon.
type meaning int

const (
	saysNothing meaning = iota
	saysBad             // the node cannot be used, for a reason of its own
	saysIdle            // nothing is wrong, and nothing runs that could be: no proof of health
	saysWell            // nothing keeps jobs from it
)

// meaning leaves out what is no fault of the node: a domain that nobody can join, and
// a second claim, for the first goes on. Where worker pods claim, one that is not there
// yet could not come to a node that is cordoned.
func (c CordonConfig) meaning(v imex.Verdict) meaning {
	switch v.Reason {
	case "", imex.ReasonNoDomain, imex.ReasonDomainDiffers, imex.ReasonDomainForbidden, imex.ReasonDomainDeleting,
		imex.ReasonClaimConflict, imex.ReasonClaimedByOther:
		return saysNothing
	case imex.ReasonNoCRD, imex.ReasonNoWorkerPod:
		return saysIdle
	case imex.ReasonClaimWaits, imex.ReasonClaimUnused, imex.ReasonNotClaimed:
		if c.Join == imex.JoinSlurmd {
			return saysIdle
		}
	}
	if v.Problem() {
		return saysBad
	}
	return saysWell
}

// cordonWatch is what is remembered of a node. All of it can be lost: the Node's cordon
// and condition say the rest.
type cordonWatch struct {
	// bad and well are since when the node has been so without a break, zero where it is
	// not. bad counts while nobody holds the node.
	bad, well time.Time
	// calm is since when it has been idle or well without a break.
	calm time.Time
	// seen is since when this publisher has seen it bad.
	seen    time.Time
	unknown bool // it is bad because its fabric is not known
	held    bool // the publisher held it at the last look
	left    bool // it was uncordoned by hand and its reason taken away: left alone until it is well
}

// look takes in how a node is now. since is how long it is known to have been bad
// before the first look, zero for not.
func (w *cordonWatch) look(is meaning, unknown bool, has Cordon, since, now time.Time) {
	holder := has.holder()
	w.left = w.left || w.held && holder == heldByNobody
	w.held = holder == heldByUs
	if is != saysWell {
		w.well = time.Time{}
	} else if w.well.IsZero() {
		w.well = now
	}
	if is != saysIdle && is != saysWell {
		w.calm = time.Time{}
	} else if w.calm.IsZero() {
		w.calm = now
	}
	if at := w.settled(); !at.IsZero() && !now.Before(at) {
		w.left = false
	}
	switch {
	case is != saysBad || holder != heldByNobody || w.left:
		w.bad, w.seen = time.Time{}, time.Time{}
	case w.bad.IsZero():
		w.bad, w.seen = now, now
		if !since.IsZero() && since.Before(now) {
			w.bad = since
		}
	case unknown && !w.unknown: // it may be booting
		w.bad = now
	}
	w.unknown = unknown
}

// idle says that there is nothing to remember of a node with this cordon.
func (w *cordonWatch) idle(has Cordon) bool {
	holder := has.holder()
	return w.bad.IsZero() && !w.left && (holder == heldByNobody || holder == heldByOthers)
}

// due is when the node is to be cordoned, zero for not at all.
func (w *cordonWatch) due(after time.Duration) time.Time {
	if w.bad.IsZero() {
		return time.Time{}
	}
	at := w.bad.Add(after)
	if least := w.seen.Add(cordonSettle); at.Before(least) {
		at = least
	}
	return at
}

// release is when a node that is cordoned is to be given back, zero for not at all. One
// that is idle may be under repair still.
func (w *cordonWatch) release(after time.Duration) time.Time {
	var at time.Time
	if !w.calm.IsZero() {
		at = w.calm.Add(max(after, cordonSettle))
	}
	return earlier(at, w.settled())
}

// settled is when it has been well for long enough, zero where it is not well.
func (w *cordonWatch) settled() time.Time {
	if w.well.IsZero() {
		return time.Time{}
	}
	return w.well.Add(cordonSettle)
}

// cordonNode is a node that may have to be written.
type cordonNode struct {
	*Node
	// has is its Cordon, or what was written and the Node does not show yet.
	has   Cordon
	watch cordonWatch
	// reason is what it would be cordoned with.
	reason string
	// tries are those to write it that came to nothing.
	tries int
	// waits says that it is not to be written now; counts, that the last write, of which
	// nothing came back, may have cordoned it.
	waits, counts bool
}

// What is done to Nodes, as it is counted.
const (
	cordonDone   = "cordon"
	cordonUndone = "uncordon"
	cordonNoted  = "leave" // it is noted that somebody has uncordoned it
	cordonForgot = "clear" // what was noted is taken away
)

// cordonStep is a Node's next cordon.
type cordonStep struct {
	node   *Node
	action string
	to     Cordon
}

// planCordons says what is to be written of nodes now, how many more would be cordoned
// if they were not too many, and when to look again without a change, zero for never.
// No more than a tenth of all that could be are cordoned at a time, one at the least:
// those that have been bad for longest.
func planCordons(nodes []cordonNode, all int, after time.Duration, now time.Time) (steps []cordonStep, heldBack int, again time.Time) {
	room := max(1, all/10)
	var due []cordonNode
	for i := range nodes {
		n := &nodes[i]
		if n.counts || n.has.holder() == heldByUs {
			room--
		}
		step, at := n.next(after, now)
		switch {
		case n.waits:
		case at.After(now):
			again = earlier(again, at)
		case step.action == cordonDone && !n.counts:
			due = append(due, *n)
		case step.action != "":
			steps = append(steps, step)
		}
	}
	slices.SortFunc(due, func(a, b cordonNode) int {
		return cmp.Or(cmp.Compare(a.tries, b.tries), a.watch.bad.Compare(b.watch.bad), strings.Compare(a.Name, b.Name))
	})
	for i := range due {
		if room--; room < 0 {
			return steps, len(due) - i, again
		}
		steps = append(steps, cordonStep{due[i].Node, cordonDone, Cordon{true, due[i].reason}})
	}
	return steps, 0, again
}

// next is what is to be written of the node, and when.
func (n *cordonNode) next(after time.Duration, now time.Time) (cordonStep, time.Time) {
	step := cordonStep{node: n.Node}
	settled := n.watch.settled()
	switch n.has.holder() {
	case heldByNobody:
		if at := n.watch.due(after); !at.IsZero() {
			step.action, step.to = cordonDone, Cordon{true, n.reason}
			return step, at
		}
	case heldByUs:
		if at := n.watch.release(after); !at.IsZero() {
			step.action = cordonUndone
			return step, at
		}
	case releasedByUs:
		if !settled.IsZero() {
			step.action, step.to.Unschedulable = cordonForgot, n.has.Unschedulable
			return step, settled
		}
	case releasedAnew:
		step.action, step.to.Reason = cordonNoted, cordonLeft
		if !settled.IsZero() {
			step.action, step.to.Reason = cordonForgot, ""
		}
		return step, now
	}
	return step, time.Time{}
}
