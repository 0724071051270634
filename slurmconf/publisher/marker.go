package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// marker keeps the annotations and labels on the Nodes of one publication as its files say. It
// writes them, by one patch for each Node, when slurmctld knows the units that the Node's
// Topology= string names. It never writes one that belongs to another writer.
type marker struct {
	outlets
	pub   *publication.Cluster
	timer *again.Timer // of the next pass
	// others are the other publications. What one of them writes on a Node that it takes too stays as
	// it is.
	others []*publication.Cluster
	// said has by Node the keys of other writers that were logged.
	said map[string]string
	// waiting are the wanted Topology= strings, by Node, until the store shows that all is written.
	waiting map[string]specSince
}

// specSince is a wanted Topology= string, and since when the files have its units.
type specSince struct {
	spec string
	time time.Time
}

// dueNode is a Node to be written.
type dueNode struct {
	node  *inputs.Node
	marks []mark
}

// marked is what became of the annotations and labels.
type marked struct {
	// differences are the nodes whose marks are not as wanted.
	differences []nodestatus.Difference
	// waits are nodes whose Topology= string names a unit that Slurm may not have loaded yet.
	waits plandoc.Wait
}

// differs records a node whose marks are not as wanted. detail may be nil.
func (r *marked) differs(n *inputs.Node, marks []mark, cause string, detail error) {
	for _, kind := range markKinds {
		of := ofKind(marks, kind)
		if len(of) == 0 {
			continue
		}
		d := nodestatus.Difference{Node: n, Reason: kind.reason(), Cause: cause}
		d.Is, d.Want = said(of, kind)
		if detail != nil {
			d.Detail = detail.Error()
		}
		r.differences = append(r.differences, d)
	}
}

// notJudged records a node whose marks may still be written in time.
func (r *marked) notJudged(n *inputs.Node, marks []mark) {
	for _, kind := range markKinds {
		if len(ofKind(marks, kind)) > 0 {
			r.differences = append(r.differences, notJudged(n, kind))
		}
	}
}

func notJudged(n *inputs.Node, kind markKind) nodestatus.Difference {
	return nodestatus.Difference{Node: n, Reason: kind.reason(), Unjudged: true}
}

// ofKind returns the marks of one kind.
func ofKind(marks []mark, kind markKind) (of []mark) {
	for _, m := range marks {
		if m.kind == kind {
			of = append(of, m)
		}
	}
	return of
}

// cannotBeWritten is why marks stay as they are.
const cannotBeWritten = "it cannot be written"

// changedAgain is the time to the next try after somebody else wrote a Node at the same time.
const changedAgain = time.Second

// lastKnown returns how far the places of nodes have come in Slurm, as Slurm said last. If Slurm has yet
// to say anything, no Node is annotated with what Slurm may lack.
func (l *loop) lastKnown(out outcome, in *gathered, made *Rendered, now time.Time) loaded.Known {
	at := &loaded.Input{Doc: out.doc, Planned: out.specs, Published: out.specs, Nodes: in.Nodes, LoadTimeout: l.pub.LoadTimeout.Duration, Now: now}
	if made.Plan != nil {
		at.Planned = made.Specs
	}
	if renamed := in.prev.renamed; len(renamed) > 0 && !made.isRevision(&out.doc.Current) { // Slurm still has the old names
		to := oldNames(renamed)
		at.Planned, at.Published, at.Nodes = translate(to, at.Planned), translate(to, at.Published), translate(to, at.Nodes)
	}
	return l.watch.Reconcile(at)
}

// wants returns what the Nodes are to have, by Slurm name.
func (a *marker) wants(files outcome) func(name string) wanted {
	if !a.pub.Labels {
		return func(name string) wanted { return wanted{spec: files.specs[name]} }
	}
	places := placesOfPlan(&files.doc.Current.Plan.Plan)
	return func(name string) wanted {
		spec := files.specs[name]
		return wanted{spec: spec, labels: places.of(spec)}
	}
}

// write writes marks once slurmctld knows the units that the Node's Topology= string names. If seen
// cannot tell, it is once slurmctld had the time to load files with the units.
func (a *marker) write(ctx context.Context, files outcome, in *gathered, seen *loaded.View, now time.Time) (out marked, err error) {
	ages := files.doc.Ages(files.written(now))
	out.waits = plandoc.Wait{Key: loadTimeout, For: "nodes get annotations and labels with new blocks or switches"}
	var due []dueNode
	waiting, foreign := make(map[string]specSince), make(map[string][]mark)
	wants := a.wants(files)
	for slurm, n := range in.toMark() {
		want := wants(slurm)
		marks := a.judge(n, &want)
		if len(marks) == 0 {
			continue
		}
		since, ok := a.waiting[n.Name]
		if !ok || since.spec != want.spec { // other changes to the files do not put it off
			since = specSince{want.spec, ages.Since(want.spec)}
			if since.time.After(now) { // the clock was ahead then
				since.time = now
			}
		}
		waiting[n.Name] = since // until it is seen to be right
		known := seen.Knows(want.spec)
		if known == loaded.No { // the pass that asks Slurm again comes back to it
			out.differs(n, marks, seen.WhyNot(want.spec), nil)
			continue
		}
		if at := since.time.Add(a.pub.LoadTimeout.Duration); known == loaded.Unknown && now.Before(at) {
			out.waits.Add(at)
			out.notJudged(n, marks)
			continue
		}
		own, others := split(n, marks)
		for _, kind := range markKinds {
			if of := ofKind(others, kind); len(of) > 0 {
				out.differs(n, of, cannotBeWritten, ownedBy(n, &of[0]))
				foreign[n.Name] = others
			}
		}
		if len(own) > 0 {
			due = append(due, dueNode{n, own})
		} else {
			delete(waiting, n.Name)
		}
	}
	a.waiting = waiting
	a.say(foreign)
	if len(due) > nodestatus.NodesATurn {
		for _, d := range due[nodestatus.NodesATurn:] {
			out.notJudged(d.node, d.marks)
		}
		due = due[:nodestatus.NodesATurn]
		a.timer.At(now) // to write further Nodes
	}
	return out, a.writeEach(ctx, &out, due, now)
}

// judge returns the marks of the Node that differ, without those that another publication writes. What
// another writer has under a key that the publication does not write is as it should be.
func (a *marker) judge(n *inputs.Node, want *wanted) []mark {
	return slices.DeleteFunc(want.differing(a.pub, n), func(m mark) bool {
		return a.elsewhere(n, m.kind) || !m.kind.on(a.pub) && n.Foreign[m.key] != ""
	})
}

// split divides marks into those that are to be written and those that belong to other writers.
func split(n *inputs.Node, marks []mark) (own, others []mark) {
	for _, m := range marks {
		if n.Foreign[m.key] == "" {
			own = append(own, m)
		} else {
			others = append(others, m)
		}
	}
	return own, others
}

// writeEach writes Nodes. An error is worth another try.
func (a *marker) writeEach(ctx context.Context, out *marked, due []dueNode, now time.Time) error {
	errs := nodestatus.WriteEach(ctx, len(due), func(i int) error {
		return a.store.Mark(ctx, due[i].node, toWrite(due[i].marks))
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	var retry error
	done := 0
	for i, err := range errs {
		switch d := due[i]; {
		case errors.Is(err, plandoc.ErrNodeChanged):
			out.notJudged(d.node, d.marks)
			a.timer.At(now.Add(changedAgain))
		case err != nil:
			out.differs(d.node, d.marks, cannotBeWritten, err)
			retry = err
		default:
			done++
		}
	}
	if done > 0 {
		a.log.Info("wrote annotations and labels of nodes", "publication", a.pub.Name, "nodes", done)
	}
	return retry
}

// ownedBy says that another writer owns the mark.
func ownedBy(n *inputs.Node, m *mark) error {
	what := "annotation"
	if m.kind == markLabels {
		what = "label"
	}
	return fmt.Errorf("another writer owns the %s %s: conflict with %q", what, m.key, n.Foreign[m.key])
}

// say logs the marks that belong to other writers, by Node, each once.
func (a *marker) say(foreign map[string][]mark) {
	said, fresh := make(map[string]string, len(foreign)), map[string][]string{}
	for node, marks := range foreign {
		var keys []string
		for _, m := range marks {
			keys = append(keys, m.key)
		}
		said[node] = strings.Join(keys, " ")
		if said[node] == a.said[node] {
			continue
		}
		for _, key := range keys {
			fresh[key] = append(fresh[key], node)
		}
	}
	a.said = said
	for _, key := range slices.Sorted(maps.Keys(fresh)) {
		nodes := plandoc.ShortList(fresh[key])
		a.log.Warn("annotation or label of nodes belongs to another writer, not changed", "publication", a.pub.Name, "key", key, "nodes", nodes)
		a.record(a.pub, true, reasonAnnotationConflict, fmt.Sprintf("%s of %s belongs to another writer and is not changed", key, nodes))
	}
}

// elsewhere reports whether another publication takes the node and writes marks of the kind.
func (a *marker) elsewhere(n *inputs.Node, kind markKind) bool {
	return slices.ContainsFunc(a.others, func(c *publication.Cluster) bool { return kind.on(c) && c.Rules.Wants(n) })
}

// unjudged are the nodes that drift. Until a pass comes to the annotations and labels, what the nodes'
// conditions say of them stays.
func (a *marker) unjudged(in *gathered) []nodestatus.Difference {
	var out []nodestatus.Difference
	for _, n := range in.toMark() {
		if !n.Conditions[nodestatus.ConditionDrift].True {
			continue
		}
		for _, kind := range markKinds {
			if kind.on(a.pub) && !a.elsewhere(n, kind) {
				out = append(out, notJudged(n, kind))
			}
		}
	}
	return out
}

// leaving returns the Nodes that the publication no longer takes, and that keep its marks until their Slurm
// name has left the files. Other Nodes were leaving before: they wait to be written, or the stored plan
// names them.
func (a *marker) leaving(missing []*seat, snap *inputs.Snapshot, stored []string) (leaving []*seat) {
	before := make(map[string]bool, len(stored))
	for _, node := range stored {
		before[node] = true
	}
	for node := range a.waiting {
		before[node] = true
	}
	add := func(s *seat) {
		if a.hasOwn(s.outside) || !a.elsewhere(s.outside, markSpec) {
			delete(before, s.outside.Name)
			leaving = append(leaving, s)
		}
	}
	for _, s := range missing {
		if s.outside != nil && (s.fate != stays || before[s.outside.Name]) {
			add(s)
		}
	}
	if len(before) == 0 {
		return leaving
	}
	for i := range snap.Nodes {
		if n := &snap.Nodes[i]; before[n.Name] && !a.pub.Rules.Takes(n) {
			add(&seat{outside: n})
		}
	}
	return leaving
}

// hasOwn reports whether a Node has marks of the publication.
func (a *marker) hasOwn(n *inputs.Node) bool {
	own, _ := split(n, a.judge(n, &wanted{}))
	return len(own) > 0
}

// toTakeBack lists the leaving Nodes with marks to take back, so that the next publisher knows them.
func (a *marker) toTakeBack(leaving []*seat, specs map[string]string) []string {
	var nodes []string
	for _, s := range leaving {
		if specs[s.name] == "" && a.hasOwn(s.outside) {
			nodes = append(nodes, s.outside.Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
