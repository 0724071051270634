package publisher

import (
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
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

// placed says where the nodes are to be.
type placed struct {
	plan  *topology.Plan
	found placement.Waiting
	err   error // why no plan can be made
	// settling says which nodes may not move yet. It is nil if all may.
	settling *placement.Settling
	// moving are published nodes whose new place is not confirmed yet. unsited are nodes of new
	// blocks that wait for the switches above the block.
	moving, unsited plandoc.Wait
}

// settle remembers the nodes that wait to be moved.
type settle struct {
	pub      *publication.Cluster
	readings map[string]reading   // by Node, of those whose facts name another place
	unsited  map[string]time.Time // Slurm names in new blocks of which no parent domain is known -> since when
}

// place makes the plan. A published node that the plan would move stays until its facts have said so
// for Times.Confirm, and twice as long for each time that it moved in the last hour. New facts count as
// unchanged since touched, the last change to anything.
func (m *settle) place(g *gathered, touched, now time.Time) placed {
	pub := m.pub
	if g.prev.Plan == nil {
		m.readings, m.unsited = nil, nil
		return makePlan(pub, g, nil, everyDecision)
	}
	since := m.unchangedSince(g.Facts, touched)
	end := func(i int) time.Time {
		return since[i].Add(pub.Times.Confirm << min(g.recent[g.Facts[i].SlurmName], maxDamped))
	}
	settling := &placement.Settling{Unsettled: make(map[string]bool), Waited: make(map[string]bool)}
	for i := range g.Facts {
		if now.Before(end(i)) {
			settling.Unsettled[g.Facts[i].SlurmName] = true
		}
	}
	for name, first := range m.unsited {
		settling.Waited[name] = !now.Before(first.Add(pub.FirstMost()))
	}
	out := makePlan(pub, g, settling, everyDecision)
	if out.err != nil {
		return out
	}
	found := &out.found
	out.moving = plandoc.Wait{Key: confirming, For: "nodes move"}
	out.unsited = plandoc.Wait{Key: settleTime, For: "new blocks wait for the switches above them"}
	m.readings = make(map[string]reading)
	for i := range g.Facts {
		f := &g.Facts[i]
		if !found.Moving[f.SlurmName] || f.Gone || f.Stays != "" {
			continue
		}
		m.readings[f.Name] = reading{inputs.Reading(f), since[i]}
		if at := end(i); found.Stay[f.SlurmName] && now.Before(at) { // else it waits for another node
			out.moving.Add(at)
		}
	}
	m.unsited = m.unsitedSince(found, now)
	for name, first := range m.unsited {
		if found.Stay[name] {
			out.unsited.Add(first.Add(pub.FirstMost()))
		}
	}
	return out
}

// unchangedSince returns, beside the facts, since when they have been as they are.
func (m *settle) unchangedSince(facts []topology.Facts, touched time.Time) []time.Time {
	since := make([]time.Time, len(facts))
	for i := range facts {
		since[i] = touched
		if old, ok := m.readings[facts[i].Name]; ok && old.text == inputs.Reading(&facts[i]) {
			since[i] = old.since
		}
	}
	return since
}

// unsitedSince returns since when the nodes of new blocks have been without a known switch
// above them: as long as the first node of the block.
func (m *settle) unsitedSince(found *placement.Waiting, now time.Time) map[string]time.Time {
	unsited := make(map[string]time.Time)
	for _, nodes := range found.Unsited {
		first := now
		for _, n := range nodes {
			if since, ok := m.unsited[n]; ok && since.Before(first) {
				first = since
			}
		}
		for _, n := range nodes {
			unsited[n] = first
		}
	}
	return unsited
}

// reread reads the facts of nodes that wait to be moved.
func (m *settle) reread(rules *inputs.Rules, placer *cables.Placer, snap *inputs.Snapshot, now time.Time) {
	texts, fabrics := make(map[string]string, len(m.readings)), rules.FabricsOf(snap)
	unreadable := snap.Unreadable()
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if _, ok := m.readings[n.Name]; ok {
			f := rules.Read(n, snap, unreadable)
			f.Cables = placer.Last(fabrics, n.Name)
			texts[n.Name] = inputs.Reading(&f)
		}
	}
	for node, old := range m.readings {
		if texts[node] != old.text {
			m.readings[node] = reading{texts[node], now}
		}
	}
}
