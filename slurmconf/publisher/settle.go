package publisher

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// reading is the part of a node's facts that decides its place, and since when the facts
// say so.
type reading struct {
	text  string
	since time.Time
}

// maxDamped bounds how often the wait of a node that flaps is doubled.
const maxDamped = 9

// moves remembers the nodes that wait to be moved.
type moves struct {
	readings map[string]reading   // by Node, of those whose facts name another place
	unsited  map[string]time.Time // Slurm names in new blocks of which no parent domain is known -> since when
}

// reconcile plans, and renders the plan. A published node that the plan would move stays
// until its facts have said so for Settle, and twice as long for each time that it moved
// within the hour, which times counts. Facts that are seen for the first time count from
// touched, the last change to anything. The facts in g get the reasons of nodes that wait:
// then the plan is made again with these nodes in their places. next is when a node has
// waited for long enough.
func (m *moves) reconcile(pub *publication.Cluster, g *gathered, times map[string]int, touched, now time.Time) (made *Rendered, next time.Time, err error) {
	g.Facts = slices.Clone(g.Facts)
	w := waiting{pub: pub, prev: g.prev.Topology, facts: g.Facts, now: now}
	readings, unsited := make(map[string]reading), make(map[string]time.Time)
	for retry := true; retry; {
		in := g.Inputs
		if made, err = planned(pub, &in, g.prev); err != nil {
			return nil, next, err
		}
		retry = w.prev != nil && (m.waitForParents(&w, made.Plan, unsited) || m.waitForFacts(&w, made.Plan, times, touched, readings))
		if !retry {
			err = made.complete(pub, &in, &g.prev)
		}
	}
	m.readings, m.unsited = readings, unsited
	return made, w.Next(), err
}

// waiting is what decides in a pass which nodes wait.
type waiting struct {
	pub   *publication.Cluster
	prev  *placement.Previous
	facts []topology.Facts
	now   time.Time
	again.Timer
}

// until lets the node of the facts stay where it is, if the time has not come. It reports
// whether the node stays.
func (w *waiting) until(at time.Time, f *topology.Facts, why string) bool {
	if f.Gone || f.Stays != "" || !w.now.Before(at) {
		return false
	}
	f.Stays = why
	w.At(at)
	return true
}

// waitForFacts lets nodes that the plan moves wait until their facts have stayed the same
// for long enough. It reports whether any node waits.
func (m *moves) waitForFacts(w *waiting, plan *placement.Plan, times map[string]int, touched time.Time, readings map[string]reading) (waits bool) {
	nodes, _ := placement.Moved(w.prev, plan)
	if len(nodes) == 0 {
		return false
	}
	moved := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		moved[n] = true
	}
	for i := range w.facts {
		f := &w.facts[i]
		if !moved[f.SlurmName] || f.Gone || f.Stays != "" {
			continue
		}
		r := reading{inputs.Reading(f), touched}
		if old, ok := m.readings[f.Name]; ok && old.text == r.text {
			r = old
		}
		readings[f.Name] = r
		if w.until(r.since.Add(w.pub.Settle.Duration<<min(times[f.SlurmName], maxDamped)), f, "its facts name another place, but not for long enough yet") {
			waits = true
		}
	}
	return waits
}

// waitForParents lets the nodes of a new block wait for the labels of the switches above
// them, if ParentBlocks is set, because a block keeps its first place. They wait
// FirstWait at most. It reports whether any node waits.
func (m *moves) waitForParents(w *waiting, plan *placement.Plan, unsited map[string]time.Time) (waits bool) {
	if w.pub.ParentBlocks == 0 || w.prev.BaseBlockSize == 0 {
		return false
	}
	blocks, others := plan.WithoutParent(w.prev)
	if !others {
		return false
	}
	ends := make(map[string]time.Time)
	for i := range blocks {
		since := w.now // or since the first of its nodes
		for _, n := range blocks[i].Nodes {
			if was, ok := m.unsited[n]; ok && was.Before(since) {
				since = was
			}
		}
		for _, n := range blocks[i].Nodes {
			ends[n], unsited[n] = since.Add(w.pub.FirstWait.Duration), since
		}
	}
	for i := range w.facts {
		f := &w.facts[i]
		if w.until(ends[f.SlurmName], f, "its block is new, and no switch above its leaf is known yet") {
			waits = true
		}
	}
	return waits
}

// reread reads the facts of nodes that wait to be moved.
func (m *moves) reread(rules *inputs.Rules, snap *inputs.Snapshot, now time.Time) {
	texts := make(map[string]string, len(m.readings))
	unreadable := snap.Unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if _, ok := m.readings[n.Name]; ok {
			f := rules.Read(n, snap, unreadable)
			texts[n.Name] = inputs.Reading(&f)
		}
	}
	for node, old := range m.readings {
		if texts[node] != old.text {
			m.readings[node] = reading{texts[node], now}
		}
	}
}
