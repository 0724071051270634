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
	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// ConditionSetter writes the conditions of Nodes.
type ConditionSetter interface {
	// SetConditions writes these conditions of a Node and leaves its others alone. A
	// Node that is gone is no error.
	SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error
}

const (
	// conditionsATurn is the most Nodes that are written before the publisher turns to
	// other work.
	conditionsATurn = 200
	// conditionsSettle is the quiet time after a change before conditions are compared.
	conditionsSettle = 5 * time.Second
	// passesWait is the longest wait for the first pass of each publication, so that a
	// Node is written once.
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
	unseen     again.Once       // why membership is not known
	unplaced   map[unplacedGroup]unplacedSince
	// drift is what each publication's last pass found, by publication and node.
	drift   map[string]map[string][]topology.Problem
	due     time.Time
	started time.Time
	refused map[string]refusal // by node
	// behind is the last node of a turn that was cut short. The next turn begins after
	// it.
	behind string
	failed again.Once // the last error
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

// found records the drift that a pass found.
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

// keepConditions judges membership and writes conditions that differ, when that is due.
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
		c.failed.Forget()
		return
	}
	if c.failed.IsNew(err.Error()) {
		p.log.Warn("node conditions not written, trying again", "err", err)
	}
}

// dueConditions are the conditions of a Node that differ.
type dueConditions struct {
	node       string
	conditions []inputs.Condition
}

// refusal says how often a Node's conditions could not be written, and when to try again.
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

// turn returns what is left of due, and how many Nodes are written now. The store may not
// show earlier writes yet, so the next turn begins after this one. After the last turn
// all Nodes are compared again.
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

// wake makes the next comparison happen at that time at the latest.
func (c *nodeConditions) wake(at time.Time) {
	if c.due.IsZero() || at.Before(c.due) {
		c.due = at
	}
}

// enoughRefused is the number of refused writes after which no further Node is tried,
// because all would be refused.
const enoughRefused = 2 * writers

// setConditions writes what is due, or a part of it. Each Node that could not be written
// waits on its own.
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
		r.until = now.Add(again.Pause(r.times, firstConditionsPause, lastConditionsPause))
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

// errNotTried marks a Node that was passed over because no Node could be written.
var errNotTried = errors.New("not tried")
