package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// ConditionSetter is where Nodes have conditions.
type ConditionSetter interface {
	// SetConditions writes these conditions of a Node and leaves its others alone. A
	// Node that is gone is no error.
	SetConditions(ctx context.Context, node string, conditions []Condition) error
}

const (
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
	unseen     string           // why membership was last not known
	// drift is what each publication's last pass found, by publication and node.
	drift    map[string]map[string][]topology.Problem
	due      time.Time
	started  time.Time
	failures int
	failed   string // the last error that was logged
}

// KeepConditions has the publisher keep conditions of Nodes. It is called before
// Run.
func (p *Publisher) KeepConditions(setter ConditionSetter) { p.conditions.setter = setter }

func (c *nodeConditions) touch(now time.Time) {
	if c.setter == nil && c.membership == nil {
		return
	}
	if soon := now.Add(conditionsSettle); c.due.IsZero() || c.failures == 0 && soon.Before(c.due) {
		c.due = soon
	}
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

// keepConditions writes the conditions that Nodes lack, when that is due.
func (p *Publisher) keepConditions(ctx context.Context) {
	c := &p.conditions
	if c.due.IsZero() || c.due.After(time.Now()) {
		return
	}
	c.due = time.Time{}
	err := p.writeConditions(ctx)
	if err == nil || ctx.Err() != nil {
		c.failures, c.failed = 0, ""
		return
	}
	c.failures++
	c.due = time.Now().Add(min(firstConditionsPause<<min(c.failures-1, 10), lastConditionsPause))
	if c.failed != err.Error() {
		c.failed = err.Error()
		p.log.Warn("conditions of nodes are not as they should be, trying again", "err", err)
	}
}

// dueConditions are a Node's that differ.
type dueConditions struct {
	node       string
	conditions []Condition
}

func (p *Publisher) writeConditions(ctx context.Context) error {
	snap, err := p.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	verdicts := p.judge(ctx, snap)
	if p.conditions.setter == nil {
		return nil
	}
	sure := len(p.conditions.drift) == len(p.states) // each publication has had a pass
	if until := p.conditions.started.Add(passesWait); !sure && time.Now().Before(until) {
		p.conditions.due = until
		return nil
	}
	var due []dueConditions
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		var differ []Condition
		var verdict *imex.Verdict
		if v, judged := verdicts[n.Name]; judged {
			verdict = &v
		}
		for _, want := range conditionsOf(snap.Reports[n.Name], p.conditions.driftOf(n.Name), verdict) {
			if have, is := n.Conditions[want.Type]; (!is || have != want) && (sure || want.Type != ConditionDrift) {
				differ = append(differ, want)
			}
		}
		if len(differ) > 0 {
			due = append(due, dueConditions{n.Name, differ})
		}
	}
	return p.setConditions(ctx, due)
}

func (p *Publisher) setConditions(ctx context.Context, due []dueConditions) error {
	failed := 0
	var last error
	for _, err := range several(ctx, len(due), func(i int) error {
		p.metrics.writes.WithLabelValues("condition").Inc()
		return p.conditions.setter.SetConditions(ctx, due[i].node, due[i].conditions)
	}) {
		if err != nil {
			failed++
			last = err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d nodes: %w", failed, len(due), last)
	}
	return nil
}
