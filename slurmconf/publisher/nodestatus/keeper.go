// Package nodestatus says how nodes are: in the conditions of Node objects and in series.
//
// A Keeper gets snapshots of the cluster and what the passes over publications have found.
// It judges who is a member of the IMEX domain, which nodes drift, and writes the
// conditions that differ. It never cordons a node.
package nodestatus

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// Setter writes the conditions of Nodes.
type Setter interface {
	// SetConditions writes these conditions of a Node and leaves its others alone. A
	// Node that is gone is no error.
	SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error
}

const (
	// settle is the time from a pass, or from a change of membership, to the comparison of conditions.
	settle = 5 * time.Second
	// firstPassesWait is the longest wait for the first pass of each publication, so that
	// a Node is written once.
	firstPassesWait = time.Minute
	// turnPause follows a turn in which no Node could be written.
	turnPause = 30 * time.Second
	// refusedPause is between the tries of a Node that could not be written. It keeps no
	// other Node waiting.
	refusedPause = 5 * time.Minute
)

// Options are the parts that a Keeper works with.
type Options struct {
	// Setter is nil if Nodes are to be left alone.
	Setter Setter
	// Membership is nil if there is no IMEX domain to keep.
	Membership Membership
	// Publications is the number of publications whose passes are awaited.
	Publications int
	// Fabrics judges the NVLink fabrics of nodes that no pass has judged.
	Fabrics *fabric.Site
}

// Keeper keeps the conditions of Nodes. It belongs to one lead: the next begins with a new
// Keeper, which continues from the conditions that the Nodes have.
type Keeper struct {
	// Timer says when Reconcile is due.
	Timer   again.Timer
	options Options
	log     *slog.Logger
	started time.Time
	members membership
	drift   map[string]*drift // by publication, of those that had a pass
	// fabrics has by publication the verdicts of the last pass on NVLink fabrics, by Node.
	fabrics map[string]map[string]topology.FabricVerdict
	// refused says when Nodes that could not be written may be tried again.
	refused map[string]time.Time
	stuck   bool      // no Node could be written in the last turn
	retry   time.Time // when the next turn may begin
	logged  bool      // a Node could not be written in the last turn, which was logged
}

// New returns a Keeper for a lead that begins now.
func New(o Options, metrics *Metrics, now time.Time, log *slog.Logger) *Keeper {
	k := &Keeper{options: o, log: log, started: now, drift: map[string]*drift{}, fabrics: map[string]map[string]topology.FabricVerdict{}, refused: map[string]time.Time{}}
	k.members = membership{source: o.Membership, metrics: metrics, log: log}
	return k
}

// Changes gets a value when membership may have changed.
func (k *Keeper) Changes() <-chan struct{} {
	if k.options.Membership == nil {
		return nil // which never wakes
	}
	return k.options.Membership.Changes()
}

// Touch notes a change of what Reconcile is given.
func (k *Keeper) Touch(now time.Time) {
	k.Timer.At(now.Add(settle))
}

// Found takes what a pass over a publication has found, and lets conditions be compared soon. It returns the time
// of another pass, after which differences that still are there count, or zero.
func (k *Keeper) Found(publication string, pass *Pass, now time.Time) time.Time {
	k.Touch(now)
	if pass.Fabrics != nil {
		k.fabrics[publication] = pass.Fabrics
	}
	if pass.Plan == nil {
		return time.Time{}
	}
	d := k.drift[publication]
	if d == nil {
		d = &drift{}
		k.drift[publication] = d
	}
	return d.found(pass, now)
}

// Reconcile judges membership, shows fabrics and membership as series, and writes the conditions that differ.
func (k *Keeper) Reconcile(ctx context.Context, snap *inputs.Snapshot, now time.Time) {
	var judged []map[string]topology.FabricVerdict
	for _, publication := range slices.Sorted(maps.Keys(k.fabrics)) {
		judged = append(judged, k.fabrics[publication])
	}
	fabrics := Fabrics(snap, k.options.Fabrics, judged...)
	k.members.metrics.setFabrics(snap.Nodes, fabrics)
	verdicts := k.members.reconcile(ctx, snap, fabrics)
	if k.options.Setter == nil || now.Before(k.retry) {
		k.Timer.At(k.retry)
		return
	}
	allPassed := len(k.drift) == k.options.Publications
	if until := k.started.Add(firstPassesWait); !allPassed && now.Before(until) {
		k.Timer.At(until)
		return
	}
	k.write(ctx, k.compare(snap, fabrics, verdicts, allPassed, now), now)
}

// update are the conditions of a Node that differ.
type update struct {
	node       string
	conditions []inputs.Condition
}

// compare returns what is to be written. Drift is not known before each publication had a
// pass.
func (k *Keeper) compare(snap *inputs.Snapshot, fabrics []topology.FabricVerdict, verdicts map[string]imex.Verdict, driftKnown bool, now time.Time) []update {
	maps.DeleteFunc(k.refused, func(_ string, until time.Time) bool { return !now.Before(until) })
	drifting := k.drifting(now)
	var updates []update
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		var differ []inputs.Condition
		for _, want := range conditionsOf(n, snap.Reports[n.Name], &fabrics[i], drifting[n.Name], verdicts) {
			have, is := n.Conditions[want.Type]
			// Only a plan knows of drift, and since when a fabric is not ready.
			unknown := !driftKnown && (want.Type == ConditionDrift || want.Type == ConditionFabric && have.True)
			if (!is || have != want) && !unknown {
				differ = append(differ, want)
			}
		}
		if until, waits := k.refused[n.Name]; len(differ) > 0 && waits {
			k.Timer.At(until)
		} else if len(differ) > 0 {
			updates = append(updates, update{n.Name, differ})
		}
	}
	return updates
}

// drifting joins what all publications have found, by node.
func (k *Keeper) drifting(now time.Time) map[string][]topology.Finding {
	all := map[string][]topology.Finding{}
	for _, d := range k.drift {
		d.addTo(all, now)
	}
	return all
}

// write writes a turn of updates, chosen at random.
func (k *Keeper) write(ctx context.Context, updates []update, now time.Time) {
	n := min(len(updates), NodesATurn)
	if k.stuck {
		n = min(n, writers) // to see whether Nodes can be written now
	}
	rand.Shuffle(len(updates), func(i, j int) { updates[i], updates[j] = updates[j], updates[i] })
	errs := WriteEach(ctx, n, func(i int) error {
		return k.options.Setter.SetConditions(ctx, updates[i].node, updates[i].conditions)
	})
	if ctx.Err() != nil {
		return
	}
	refused := 0
	var last error
	for i, err := range errs {
		if err == nil {
			continue
		}
		refused++
		last = err
		k.refused[updates[i].node] = now.Add(refusedPause)
		k.Timer.At(now.Add(refusedPause))
	}
	k.stuck = n > 0 && refused == n
	if k.stuck {
		k.retry = now.Add(turnPause)
	}
	if len(updates) > n {
		k.Timer.At(now)
	}
	if refused > 0 && !k.logged {
		k.log.Warn("node conditions not written, trying again", "nodes", refused, "of", n, "err", last)
	}
	if n > 0 {
		k.logged = refused > 0
	}
}
