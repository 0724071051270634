package publisher

import (
	"context"
	"fmt"
	"strings"
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

// make plans and renders. A published node that the plan would move stays until its facts
// have said so for Settle. Facts that are seen for the first time count from the last
// change to anything. make returns when to come back for such nodes.
func (s *state) make(g gathered, prev Previous, now time.Time) (made *Rendered, wake time.Time, err error) {
	readings, unsited := make(map[string]reading), make(map[string]time.Time)
	for again := true; again; {
		if made, err = Make(s.pub, g.Inputs, prev); err != nil || prev.Topology == nil {
			break
		}
		if until := s.waitForParents(&g, prev.Topology, made.Plan, unsited, now); !until.IsZero() {
			wake = earlier(wake, until)
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
		for i := range g.Facts {
			f := &g.Facts[i]
			if !moved[f.SlurmName] || f.Gone || f.Stays != "" {
				continue
			}
			r := reading{readingOf(f), s.touched}
			if was, ok := s.readings[f.Name]; ok && was.text == r.text {
				r = was
			}
			readings[f.Name] = r
			if until := r.since.Add(s.pub.Settle.Duration); now.Before(until) {
				f.Stays, again = "its facts name another place, but not for long enough yet", true
				wake = earlier(wake, until)
			}
		}
	}
	s.readings, s.unsited = readings, unsited
	return made, wake, err
}

// waitForParents lets the nodes of a new block wait for the labels of the switches above
// them, if ParentBlocks is set, because a block keeps its first place. They wait
// FirstWait at most. It returns when to come back, or zero.
func (s *state) waitForParents(g *gathered, prev *placement.Previous, plan *placement.Plan, unsited map[string]time.Time, now time.Time) (wake time.Time) {
	if s.pub.ParentBlocks == 0 || prev.BaseBlockSize == 0 {
		return wake
	}
	blocks, others := plan.WithoutParent(prev)
	if !others {
		return wake
	}
	waits := make(map[string]time.Time)
	for i := range blocks {
		since := now // or since the first of its nodes
		for _, n := range blocks[i].Nodes {
			if was, ok := s.unsited[n]; ok && was.Before(since) {
				since = was
			}
		}
		for _, n := range blocks[i].Nodes {
			waits[n], unsited[n] = since.Add(s.pub.FirstWait.Duration), since
		}
	}
	for i := range g.Facts {
		f := &g.Facts[i]
		if until := waits[f.SlurmName]; now.Before(until) && !f.Gone && f.Stays == "" {
			f.Stays = "its block is new, and no switch above its leaf is known yet"
			wake = earlier(wake, until)
		}
	}
	return wake
}

// readingOf returns the same text for as long as the facts name the same place.
func readingOf(f *topology.Facts) string {
	var b strings.Builder
	fmt.Fprintln(&b, f.Labels.Clique, f.Labels.Domains, f.Tiers(), f.Labels.MoreTiers, f.Report != nil, f.ReportUnreadable, f.GPUCount() > 0)
	if f.Report != nil {
		fmt.Fprintln(&b, f.Report.Domain)
		var last topology.Fabric
		for i := range f.Report.GPUs {
			fabric := f.Report.GPUs[i].Fabric
			fabric.Health = ""
			if i == 0 || fabric != last {
				fmt.Fprintln(&b, fabric.ClusterUUID, fabric.CliqueID, fabric.State, fabric.Status)
			}
			last = fabric
		}
	}
	return b.String()
}

// reread looks at nodes that wait to be moved after every change. A fact that changed
// between two passes restarts the settle timer, even if it changed back.
func (p *Publisher) reread(ctx context.Context, now time.Time) {
	var snap *inputs.Snapshot
	for _, s := range p.states {
		if len(s.readings) == 0 {
			continue
		}
		if snap == nil {
			var err error
			if snap, err = p.store.Snapshot(ctx); err != nil {
				snap = &inputs.Snapshot{} // nobody knows what they say now
			}
		}
		texts := make(map[string]string, len(s.readings))
		unreadable := snap.Unreadable()
		for i := range snap.Nodes {
			n := &snap.Nodes[i]
			if _, ok := s.readings[n.Name]; ok {
				f := s.pub.Rules.Read(n, snap, unreadable)
				texts[n.Name] = readingOf(&f)
			}
		}
		for node, was := range s.readings {
			if texts[node] != was.text {
				s.readings[node] = reading{texts[node], now}
			}
		}
	}
}
