package publisher

import (
	"slices"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
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

// make plans and renders. A published node that the plan would move stays until its facts
// have said so for Settle, and twice as long for each time that it moved within the hour.
// Facts that are seen for the first time count from the last change to anything. make
// changes no facts, and returns them with the reasons of nodes that wait.
func (m *moves) make(l *loop, g *gathered, now time.Time) (made *Rendered, facts []topology.Facts, err error) {
	in, prev := g.Inputs, g.prev
	in.Facts = slices.Clone(in.Facts)
	times := l.archive.known.Times(now)
	readings, unsited := make(map[string]reading), make(map[string]time.Time)
	for again := true; again; {
		if made, err = Make(l.pub, in, prev); err != nil || prev.Topology == nil {
			break
		}
		if m.waitForParents(l, in.Facts, made.Plan, prev.Topology, unsited, now) {
			continue
		}
		again = false
		nodes, _ := placement.Moved(prev.Topology, made.Plan)
		if len(nodes) == 0 {
			break
		}
		moved := make(map[string]bool, len(nodes))
		for _, n := range nodes {
			moved[n] = true
		}
		for i := range in.Facts {
			f := &in.Facts[i]
			if !moved[f.SlurmName] || f.Gone || f.Stays != "" {
				continue
			}
			r := reading{inputs.Reading(f), l.touched}
			if was, ok := m.readings[f.Name]; ok && was.text == r.text {
				r = was
			}
			readings[f.Name] = r
			if until := r.since.Add(l.pub.Settle.Duration << min(times[f.SlurmName], maxDamped)); now.Before(until) {
				f.Stays, again = "its facts name another place, but not for long enough yet", true
				l.At(until)
			}
		}
	}
	m.readings, m.unsited = readings, unsited
	return made, in.Facts, err
}

// waitForParents lets the nodes of a new block wait for the labels of the switches above
// them, if ParentBlocks is set, because a block keeps its first place. They wait
// FirstWait at most. It reports whether any node waits.
func (m *moves) waitForParents(l *loop, facts []topology.Facts, plan *placement.Plan, prev *placement.Previous, unsited map[string]time.Time, now time.Time) (wait bool) {
	if l.pub.ParentBlocks == 0 || prev.BaseBlockSize == 0 {
		return wait
	}
	blocks, others := plan.WithoutParent(prev)
	if !others {
		return wait
	}
	waits := make(map[string]time.Time)
	for i := range blocks {
		since := now // or since the first of its nodes
		for _, n := range blocks[i].Nodes {
			if was, ok := m.unsited[n]; ok && was.Before(since) {
				since = was
			}
		}
		for _, n := range blocks[i].Nodes {
			waits[n], unsited[n] = since.Add(l.pub.FirstWait.Duration), since
		}
	}
	for i := range facts {
		f := &facts[i]
		if until := waits[f.SlurmName]; now.Before(until) && !f.Gone && f.Stays == "" {
			f.Stays = "its block is new, and no switch above its leaf is known yet"
			l.At(until)
			wait = true
		}
	}
	return wait
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
