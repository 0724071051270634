package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
)

// moment is what Slurm said at one moment, by node.
type moment struct {
	state *slurmctld.State
	nodes map[string]*node
	// partitions are the lists of partitions that nodes have. A node has the index of its list.
	partitions []string
	units      map[*part][]unit
}

// unit is what is known of the nodes of a block or leaf switch.
type unit struct {
	nodes []*node
	// closing are jobs that let no other job in.
	closing []*slurmctld.Job
}

// node is what is known of a node's time, in seconds since 1970.
type node struct {
	// The node was free after one time and before another. Without a job there is no other time.
	// If nothing is known, from is never.
	from, until int64
	// like says what the node has: nodes that are alike can take each other's jobs.
	like, partitions int
	jobs             []*slurmctld.Job
	// holder is the job that is being judged, if it has the node.
	holder *slurmctld.Job
}

const never = math.MaxInt64

// newMoment finds out since when each node is free, or was before its job. Slurm notes when a
// node last became idle, and does not change that when a job starts.
func newMoment(state *slurmctld.State) *moment {
	m := &moment{state: state, nodes: make(map[string]*node, len(state.Nodes)), units: map[*part][]unit{}}
	kinds, lists := map[string]int{}, map[string]int{}
	for name, n := range state.Nodes {
		if _, known := lists[n.Partitions]; !known {
			m.partitions = append(m.partitions, n.Partitions)
		}
		m.nodes[name] = &node{like: index(kinds, fmt.Sprintf("%d %d %s", n.CPUs, n.Memory, n.Gres)), partitions: index(lists, n.Partitions), from: never}
	}
	for i := range state.Jobs {
		for _, n := range m.of(&state.Jobs[i]) {
			n.jobs = append(n.jobs, &state.Jobs[i])
		}
	}
	uses := map[string]Use{} // a site has few words
	for name, n := range state.Nodes {
		use, known := uses[n.State]
		if !known {
			use = StateOf(n.State).Use
			uses[n.State] = use
		}
		if !n.LastBusy.IsZero() {
			m.nodes[name].since(use, n.State, n.LastBusy.Unix())
		}
	}
	return m
}

// index numbers texts.
func index(known map[string]int, text string) int {
	i, is := known[text]
	if !is {
		i = len(known)
		known[text] = i
	}
	return i
}

// of returns the nodes of a job that Slurm tells of.
func (m *moment) of(j *slurmctld.Job) []*node {
	var nodes []*node
	_ = hostlist.Walk(j.Nodes, func(name []byte) { // Slurm's own list
		if n := m.nodes[string(name)]; n != nil {
			nodes = append(nodes, n)
		}
	})
	return nodes
}

// since notes since when the node was free, if that is certain. A job may have shared the node
// with one that has ended, unless it has the node whole, or has all of its CPUs.
func (n *node) since(use Use, state string, lastBusy int64) {
	switch {
	case use == Free && len(n.jobs) == 0:
		n.from, n.until = lastBusy, never
	case use == Busy && len(n.jobs) == 1 && (n.jobs[0].Whole || !n.jobs[0].Shares && strings.HasPrefix(state, "ALLOCATED")):
		n.from, n.until = lastBusy, n.jobs[0].Start.Unix()
	}
}

// unitsOf returns the nodes of a topology's units.
func (m *moment) unitsOf(p *part) []unit {
	if all, known := m.units[p]; known {
		return all
	}
	all := make([]unit, len(p.nodes))
	for i, names := range p.nodes {
		u := &all[i]
		for _, name := range names {
			n := m.nodes[name]
			if n == nil {
				n = &node{from: never, like: -1} // Slurm does not have it
			}
			u.nodes = append(u.nodes, n)
			for _, j := range n.jobs {
				if j.Topo && !slices.Contains(u.closing, j) {
					u.closing = append(u.closing, j)
				}
			}
		}
	}
	m.units[p] = all
	return all
}

// free counts the nodes of each unit that the job could have had at its start: its own, and
// others that were free, are in its partition, and are like one of its own. Slurm's times are
// whole seconds, so that what was in the same second is not certain.
func (m *moment) free(p *part, j *slurmctld.Job, own []int) []int {
	var kinds []int
	for _, n := range m.of(j) {
		n.holder = j
		if !slices.Contains(kinds, n.like) {
			kinds = append(kinds, n.like)
		}
	}
	units := m.unitsOf(p)
	alone := p.unit == UnitBlock && mayBeAlone(units, j, own)
	in := make([]bool, len(m.partitions))
	for i, list := range m.partitions {
		in[i] = slices.Contains(strings.Split(list, ","), j.Partition)
	}
	count, start := slices.Clone(own), j.Start.Unix()
	for i := range units {
		if slices.ContainsFunc(units[i].closing, func(other *slurmctld.Job) bool { return other != j }) {
			continue
		}
		free, others := 0, false // others: some node may have had another job
		for _, n := range units[i].nodes {
			switch {
			case n.holder == j:
			case n.from >= start || n.until <= start:
				others = true
			case slices.Contains(kinds, n.like) && in[n.partitions]:
				free++
			}
		}
		if !others || !alone {
			count[i] += free
		}
	}
	return count
}

// mayBeAlone says whether the job may be one that lets no other job into its blocks. Not every
// Slurm tells.
func mayBeAlone(units []unit, j *slurmctld.Job, own []int) bool {
	if j.Topo || j.Shares {
		return j.Topo
	}
	for i, nodes := range own {
		if nodes == 0 {
			continue
		}
		for _, n := range units[i].nodes {
			if slices.ContainsFunc(n.jobs, func(other *slurmctld.Job) bool { return other != j }) {
				return false
			}
		}
	}
	return true
}
