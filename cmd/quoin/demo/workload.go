package demo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// ask is what a simulated user asks for, again and again.
type ask struct {
	name, user, account string
	nodes, segment      int
	gpus                string // on each node
}

var asks = []ask{
	{"pretrain", "ada", "nlp", 16, 16, "0-3"}, {"finetune", "grace", "vision", 4, 0, "0-3"}, {"eval", "alan", "nlp", 2, 0, "0-1"}, {"weather", "mary", "climate", 12, 4, "0-3"},
	{"fold", "rosalind", "bio", 8, 8, "0-3"}, {"notebook", "alan", "nlp", 1, 0, "2"}, {"reinforce", "grace", "vision", 6, 0, "0-3"},
}

// workload are the simulated jobs. They keep their nodes until they end.
type workload struct {
	begun   int
	running []picture.Job
}

// idleShare is the part of the nodes that stays free.
const idleShare = 4

// next ends jobs with a node that is no longer healthy, and the oldest one, and starts others on
// what is free.
func (w *workload) next(plan *topology.Plan, healthy map[string]bool) []picture.Job {
	w.running = slices.DeleteFunc(w.running, func(j picture.Job) bool {
		return slices.ContainsFunc(j.Nodes, func(n string) bool { return !healthy[n] })
	})
	if len(w.running) > len(asks)/2 {
		w.running = w.running[1:]
	}
	taken := map[string]bool{}
	for i := range w.running {
		for _, n := range w.running[i].Nodes {
			taken[n] = true
		}
	}
	for misses := 0; misses < len(asks) && len(healthy)-len(taken) > len(healthy)/idleShare; w.begun++ {
		j, fits := w.start(&asks[w.begun%len(asks)], plan, func(n string) bool { return healthy[n] && !taken[n] })
		if !fits {
			misses++
			continue
		}
		w.running = append(w.running, j)
		for _, n := range j.Nodes {
			taken[n] = true
		}
	}
	return slices.Clone(w.running)
}

// start places a job: each segment in one block, and nodes without segments where they are free.
func (w *workload) start(a *ask, plan *topology.Plan, free func(string) bool) (picture.Job, bool) {
	j := picture.Job{ID: fmt.Sprint(4200 + w.begun), Name: a.name, User: a.user, Account: a.account, Partition: "gpu", Segment: a.segment, GPUs: map[string]string{}}
	base := 1
	for _, t := range plan.BlockTopologies() {
		if len(t.Sizes) > 0 {
			base = max(base, t.Sizes[0])
		}
	}
	for _, b := range plan.Blocks() {
		var there []string
		for _, n := range b.Nodes {
			if free(n) {
				there = append(there, n)
			}
		}
		part := min(len(there), a.nodes-len(j.Nodes))
		part -= part % max(a.segment, 1)
		if part > 0 {
			j.Blocks++
			j.Nodes = append(j.Nodes, there[:part]...)
		}
	}
	for _, n := range j.Nodes {
		j.GPUs[n] = a.gpus
	}
	j.Fewest = (a.nodes + base - 1) / base
	if j.Blocks > j.Fewest {
		j.Note = fmt.Sprintf("%d blocks, %d would be large enough", j.Blocks, j.Fewest)
	}
	return j, len(j.Nodes) == cmp.Or(a.nodes, 1)
}
