package publisher

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quoin-hpc/quoin/imex"
)

// CordonSetter is where Nodes are cordoned.
type CordonSetter interface {
	// SetCordon gives a Node this cordon, with its reason in the same write, and writes
	// over nothing: ErrNodeChanged is of a Node that is not as it was read, and
	// ErrCordonRefused of a site that does not let the publisher. A Node that is gone is no
	// error.
	SetCordon(ctx context.Context, n *Node, to Cordon) error
}

// Why a Node was not given a cordon.
var (
	ErrNodeChanged   = errors.New("the Node has changed since it was read")
	ErrCordonRefused = errors.New("the publisher may not cordon Nodes")
)

const (
	// firstCordonPause and lastCordonPause are between tries to write a Node's cordon.
	firstCordonPause = 5 * time.Second
	lastCordonPause  = 10 * time.Minute
)

// nodeCordons cordons nodes that stay not ready.
type nodeCordons struct {
	setter CordonSetter // nil where no Node is cordoned
	config CordonConfig
	nodes  map[string]*keptCordon
	looked bool // verdicts have been known once
	held   int  // the last number of nodes held back that was logged
	failed bool // the last write came to nothing, and that was logged
}

// keptCordon is what is remembered of a node, and of the last write to it.
type keptCordon struct {
	cordonWatch
	// wrote is the Node's next cordon after version from, which the store may still
	// show.
	wrote Cordon
	from  string
	// until is when a write that came to nothing is tried again, after so many tries; lost,
	// that it may have come to something all the same.
	until time.Time
	tries int
	lost  bool
	// unjudged is of a node that the publisher holds and has said to have no verdict.
	unjudged bool
}

// KeepCordons has the publisher cordon nodes that IMEX does not work on, and uncordon
// them. It is called before Run.
func (p *Publisher) KeepCordons(setter CordonSetter, config CordonConfig) {
	p.cordons.setter, p.cordons.config = setter, config
}

// keepCordons cordons and uncordons what is due. While verdicts are not known all stays.
func (p *Publisher) keepCordons(ctx context.Context, snap *Snapshot, verdicts map[string]imex.Verdict, now time.Time) {
	k := &p.cordons
	if k.setter == nil || verdicts == nil {
		return
	}
	nodes, again := k.look(snap, verdicts, now)
	p.sayUnjudged(nodes, verdicts)
	all := candidates(verdicts)
	steps, heldBack, at := planCordons(nodes, all, k.config.After, now)
	p.sayHeldBack(heldBack, all)
	again = earlier(again, p.writeCordons(ctx, steps, now))
	cordoned := 0
	for _, kept := range k.nodes {
		if kept.held {
			cordoned++
		}
	}
	p.metrics.cordoned.Set(float64(cordoned))
	if again = earlier(again, at); !again.IsZero() {
		p.conditions.wake(again)
	}
}

// candidates is how many nodes could be cordoned: not those that are to join no domain.
func candidates(verdicts map[string]imex.Verdict) int {
	n := 0
	for _, v := range verdicts {
		if v.Reason != imex.ReasonNoMultiNodeNVLink && v.Reason != imex.ReasonNotWanted {
			n++
		}
	}
	return n
}

// look takes in how all nodes are, and returns those that may have to be written and
// when one that waits is tried again.
func (k *nodeCordons) look(snap *Snapshot, verdicts map[string]imex.Verdict, now time.Time) (nodes []cordonNode, again time.Time) {
	before := k.nodes
	k.nodes = make(map[string]*keptCordon, len(before))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		v := verdicts[n.Name]
		is := k.config.meaning(v)
		kept := before[n.Name]
		if kept == nil && is != saysBad && n.Cordon == (Cordon{}) {
			continue
		}
		if kept == nil {
			kept = &keptCordon{}
		}
		var since time.Time
		if !k.looked {
			since = k.config.badSince(n, v)
		}
		node := kept.look(n, is, v, since, now)
		if node.waits {
			again = earlier(again, kept.until)
		}
		if node.waits || kept.unseen(n) || !kept.idle(node.has) {
			k.nodes[n.Name] = kept
			nodes = append(nodes, node)
		}
	}
	k.looked = true
	return nodes, again
}

// unseen says that the store does not show the last write yet.
func (kept *keptCordon) unseen(n *Node) bool { return kept.from != "" && kept.from == n.Version }

// look takes in how a node is.
func (kept *keptCordon) look(n *Node, is meaning, v imex.Verdict, since, now time.Time) cordonNode {
	has := n.Cordon
	waits := now.Before(kept.until)
	if kept.unseen(n) && kept.until.IsZero() {
		has = kept.wrote
	}
	kept.cordonWatch.look(is, v.Reason == imex.ReasonFabricUnknown, has, since, now)
	node := cordonNode{Node: n, has: has, watch: kept.cordonWatch, tries: kept.tries, waits: waits,
		counts: kept.lost && kept.unseen(n) && kept.wrote.holder() == heldByUs}
	if is == saysBad {
		node.reason = cordonReason(v)
	}
	return node
}

// badSince is since when a node has been as bad as it is by its condition, for a
// publisher that has just started: the condition was last written then. It has been
// true for longer, maybe, but for another reason.
func (c CordonConfig) badSince(n *Node, v imex.Verdict) time.Time {
	said := n.Conditions[ConditionIMEX]
	if !said.True || c.meaning(imex.Verdict{Reason: said.Reason}) != saysBad || (said.Reason == imex.ReasonFabricUnknown) != (v.Reason == imex.ReasonFabricUnknown) {
		return time.Time{}
	}
	return n.NotReadySince
}

// writeCordons writes what is due, and returns when to try again what came to nothing.
func (p *Publisher) writeCordons(ctx context.Context, steps []cordonStep, now time.Time) (again time.Time) {
	k := &p.cordons
	var written, refused atomic.Int64
	errs := several(ctx, len(steps), func(i int) error {
		if written.Load() == 0 && refused.Load() >= enoughRefused {
			return errNotTried
		}
		p.metrics.writes.WithLabelValues("cordon").Inc()
		err := k.setter.SetCordon(ctx, steps[i].node, steps[i].to)
		switch {
		case err == nil:
			written.Add(1)
		case !errors.Is(err, ErrNodeChanged): // which says nothing of the others
			refused.Add(1)
		}
		return err
	})
	for i, err := range errs {
		step, kept := &steps[i], k.nodes[steps[i].node.Name]
		kept.lost = err != nil && (kept.lost && kept.unseen(step.node) || !errors.Is(err, ErrNodeChanged) && !errors.Is(err, ErrCordonRefused) && !errors.Is(err, errNotTried))
		kept.wrote, kept.from = step.to, step.node.Version
		if err == nil {
			kept.until, kept.tries, kept.held = time.Time{}, 0, step.to.holder() == heldByUs
			p.sayCordon(step)
			continue
		}
		pause := firstCordonPause
		if !errors.Is(err, ErrNodeChanged) { // which is soon seen
			pause = min(firstCordonPause<<min(kept.tries, 10), lastCordonPause)
			kept.tries++
			p.sayFailed(ctx, err)
		}
		kept.until = now.Add(pause)
		again = earlier(again, kept.until)
	}
	return again
}

// sayCordon counts and logs what was done to a Node.
func (p *Publisher) sayCordon(s *cordonStep) {
	p.cordons.failed = false
	p.metrics.cordons.WithLabelValues(s.action).Inc()
	switch s.action {
	case cordonDone:
		p.log.Warn("node cordoned", "node", s.node.Name, "reason", s.to.Reason)
	case cordonUndone:
		p.log.Info("node uncordoned, nothing is wrong with it any more", "node", s.node.Name)
	case cordonNoted:
		p.log.Info("node was uncordoned by somebody, and is left so until it has been well", "node", s.node.Name)
	}
}

// sayUnjudged logs once of each node that stays cordoned because it has no verdict: its
// GPUs may be out for repair, or for good.
func (p *Publisher) sayUnjudged(nodes []cordonNode, verdicts map[string]imex.Verdict) {
	for i := range nodes {
		n := &nodes[i]
		kept := p.cordons.nodes[n.Name]
		_, judged := verdicts[n.Name]
		was := kept.unjudged
		kept.unjudged = !judged && n.has.holder() == heldByUs
		if kept.unjudged && !was {
			p.log.Warn("node stays cordoned, for nothing says any more what GPUs it has: uncordon it by hand if it is to have none", "node", n.Name, "reason", n.has.Reason)
		}
	}
}

// sayFailed logs once that cordons cannot be written.
func (p *Publisher) sayFailed(ctx context.Context, err error) {
	if p.cordons.failed || ctx.Err() != nil || errors.Is(err, errNotTried) {
		return
	}
	p.cordons.failed = true
	p.log.Warn("cordon of a node not written, trying again", "err", err)
}

// sayHeldBack counts the nodes that would be cordoned if they were not too many, and
// logs when there come to be some.
func (p *Publisher) sayHeldBack(n, all int) {
	k := &p.cordons
	p.metrics.heldBack.Set(float64(n))
	switch {
	case n > 0 && k.held == 0:
		p.log.Warn("nodes are not cordoned, for no more than a tenth of those that are to join a domain may be at a time", "heldBack", n, "most", max(1, all/10), "nodes", all)
	case n == 0 && k.held > 0:
		p.log.Info("no node is held back from being cordoned any more")
	}
	k.held = n
}
