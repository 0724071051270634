package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// ConditionSetter is where Nodes have conditions.
type ConditionSetter interface {
	// SetConditions writes these conditions of a Node and leaves its others alone. A
	// Node that is gone is no error.
	SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error
}

const (
	// conditionsATurn is how many Nodes are written at most before the publisher looks
	// after all else.
	conditionsATurn = 200
	// conditionsSettle is how long changes are waited for before Nodes' conditions
	// are compared with them.
	conditionsSettle = 5 * time.Second
	// passesWait is how long each publication's first pass is waited for at most, for
	// a Node is to be written once.
	passesWait = time.Minute
	// firstConditionsPause and lastConditionsPause are between tries to write them.
	firstConditionsPause = 5 * time.Second
	lastConditionsPause  = 10 * time.Minute
)

// nodeConditions keeps the conditions of Nodes.
type nodeConditions struct {
	setter     ConditionSetter  // nil where none are written
	membership Membership       // nil where nodes join nothing that is ours to see
	domain     topology.Problem // the last that was logged
	unseen     once             // why membership is not known
	unplaced   map[unplacedGroup]unplacedSince
	// drift is what each publication's last pass found, by publication and node.
	drift   map[string]map[string][]topology.Problem
	due     time.Time
	started time.Time
	refused map[string]refusal // by node
	// behind is the last node of a turn that did not come to all: the next begins behind it.
	behind string
	failed once // the last error
}

// forget drops what an earlier lead has left behind.
func (c *nodeConditions) forget(now time.Time) {
	*c = nodeConditions{setter: c.setter, membership: c.membership, started: now}
	c.touch(now)
}

func (c *nodeConditions) touch(now time.Time) {
	if c.setter == nil && c.membership == nil {
		return
	}
	c.wake(now.Add(conditionsSettle))
}

// found takes what a pass found.
func (c *nodeConditions) found(publication string, drift map[string][]topology.Problem) {
	if c.drift == nil {
		c.drift = make(map[string]map[string][]topology.Problem)
	}
	c.drift[publication] = drift
	c.touch(time.Now())
}

// driftOf joins what all publications found of a node.
func (c *nodeConditions) driftOf(node string) (all []topology.Problem) {
	for _, of := range c.drift {
		all = append(all, of[node]...)
	}
	return all
}

// keepConditions judges membership and writes the conditions that Nodes lack, when
// that is due.
func (p *Publisher) keepConditions(ctx context.Context) {
	c := &p.conditions
	now := time.Now()
	if c.due.IsZero() || c.due.After(now) {
		return
	}
	c.due = time.Time{}
	snap, err := p.store.Snapshot(ctx)
	if err == nil {
		err = p.writeConditions(ctx, snap, p.judge(ctx, snap), now)
	}
	if err == nil || ctx.Err() != nil {
		c.failed.forget()
		return
	}
	if c.failed.isNew(err.Error()) {
		p.log.Warn("node conditions not written, trying again", "err", err)
	}
}

// dueConditions are a Node's that differ.
type dueConditions struct {
	node       string
	conditions []inputs.Condition
}

// refusal is since when, and how often, a Node's conditions could not be written.
type refusal struct {
	until time.Time
	times int
}

func (p *Publisher) writeConditions(ctx context.Context, snap *inputs.Snapshot, verdicts map[string]imex.Verdict, now time.Time) error {
	c := &p.conditions
	if c.setter == nil {
		return nil
	}
	sure := len(c.drift) == len(p.states) // each publication has had a pass
	if until := c.started.Add(passesWait); !sure && now.Before(until) {
		c.wake(until)
		return nil
	}
	var due []dueConditions
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		var verdict *imex.Verdict
		if v, judged := verdicts[n.Name]; judged {
			verdict = &v
		}
		var differ []inputs.Condition
		for _, want := range conditionsOf(snap.Reports[n.Name], c.driftOf(n.Name), verdict, n.Conditions) {
			if have, is := n.Conditions[want.Type]; (!is || have != want) && (sure || want.Type != ConditionDrift) {
				differ = append(differ, want)
			}
		}
		switch until := c.refused[n.Name].until; {
		case len(differ) == 0:
			delete(c.refused, n.Name)
		case now.Before(until):
			c.wake(until)
		default:
			due = append(due, dueConditions{n.Name, differ})
		}
	}
	return p.setConditions(ctx, due, now)
}

// turn is what of due has not had a turn, and how many of that have theirs now. The
// store may not show yet what an earlier turn has written: where there is more, the next
// goes on behind this one, and after the last there is another look at all.
func (c *nodeConditions) turn(due []dueConditions, now time.Time) (rest []dueConditions, n int) {
	slices.SortFunc(due, func(a, b dueConditions) int { return strings.Compare(a.node, b.node) })
	first, is := slices.BinarySearchFunc(due, c.behind, func(d dueConditions, name string) int { return strings.Compare(d.node, name) })
	if is {
		first++
	}
	rest = due[first:]
	if len(rest) > conditionsATurn {
		c.behind = rest[conditionsATurn-1].node
		c.wake(now)
		return rest, conditionsATurn
	}
	if c.behind != "" {
		c.behind = ""
		c.wake(now.Add(conditionsSettle))
	}
	return rest, len(rest)
}

// wake has the next look be no later than at a time.
func (c *nodeConditions) wake(at time.Time) {
	if c.due.IsZero() || at.Before(c.due) {
		c.due = at
	}
}

// enoughRefused is how many Nodes are tried where none can be written: it will be
// the same for all.
const enoughRefused = 2 * writers

// setConditions writes what is due, or a part of it. A Node that could not be written
// waits by itself.
func (p *Publisher) setConditions(ctx context.Context, due []dueConditions, now time.Time) error {
	c := &p.conditions
	due, n := c.turn(due, now)
	var written, refused atomic.Int64
	enough := func() bool { return written.Load() == 0 && refused.Load() >= enoughRefused }
	errs := several(ctx, n, func(i int) error {
		if enough() {
			return errNotTried
		}
		p.metrics.writes.WithLabelValues("condition").Inc()
		err := c.setter.SetConditions(ctx, due[i].node, due[i].conditions)
		if err != nil {
			refused.Add(1)
			return err
		}
		written.Add(1)
		return nil
	})
	for len(errs) < len(due) && enough() {
		errs = append(errs, errNotTried)
	}
	failed := 0
	var last error
	for i, err := range errs {
		r := c.refused[due[i].node]
		switch {
		case err == nil:
			delete(c.refused, due[i].node)
			continue
		case !errors.Is(err, errNotTried):
			last = err
		}
		failed++
		r.times++
		r.until = now.Add(pause(r.times, firstConditionsPause, lastConditionsPause))
		if c.refused == nil {
			c.refused = make(map[string]refusal)
		}
		c.refused[due[i].node] = r
		c.wake(r.until)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d nodes: %w", failed, len(errs), last)
	}
	return nil
}

// errNotTried is of a Node that was passed over, for no other could be written.
var errNotTried = errors.New("not tried")
