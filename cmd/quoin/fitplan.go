package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// fitPlan is what quoin fit knows of a Slurm cluster: topologies and the states of their nodes.
type fitPlan struct {
	topologies []topology.Topology
	// owners are the Kubernetes nodes by Slurm name.
	owners map[string]string
	// states are the nodes' states. Without any all nodes count as free.
	states map[string]fit.State
	source show.FitSource
}

// newFitPlan returns topologies with their nodes. The states of the nodes are not known yet.
func newFitPlan(topologies []topology.Topology, placed []topology.Placement) *fitPlan {
	p := &fitPlan{topologies: topologies, owners: make(map[string]string, len(placed))}
	for i := range placed {
		p.owners[placed[i].SlurmName] = placed[i].Node
	}
	return p
}

// ask answers a request. Without nodes it only counts the segments.
func (p *fitPlan) ask(r *fit.Request, name string) (*show.Fit, error) {
	t, err := p.topology(name)
	if err != nil {
		return nil, err
	}
	if r.Nodes > 0 {
		if err := r.Check(); err != nil {
			return nil, err
		}
	} else if r.Segment > 0 || r.Exclusive || r.Spread || r.Consolidate {
		return nil, errors.New("want -N NODES beside flags of a job")
	}
	if t.Kind != topology.KindBlock && (r.Segment > 0 || r.Exclusive) {
		return nil, fmt.Errorf("topology %s has no blocks: --segment and --exclusive=topo count only in block topologies", cmp.Or(t.Name, "default"))
	}
	site, err := p.site(t)
	if err != nil {
		return nil, err
	}
	return show.NewFit(t, site, &p.source, r)
}

// topology returns the topology of the name, or the one of partitions that name none.
func (p *fitPlan) topology(name string) (*topology.Topology, error) {
	var names []string
	for i := range p.topologies {
		t := &p.topologies[i]
		if t.Name == name || name == "" && (t.Default || len(p.topologies) == 1) {
			return t, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 && name == "" { // Slurm takes the nodes as equally near
		return &topology.Topology{Kind: topology.KindFlat}, nil
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--topology %s: the plan has no topology", name)
	}
	if name == "" {
		return nil, fmt.Errorf("no topology is the default one: choose one by --topology: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("--topology %s: want one of %s", name, strings.Join(names, ", "))
}

// site returns the topology with the states of its nodes.
func (p *fitPlan) site(t *topology.Topology) (*fit.Site, error) {
	s := &fit.Site{State: p.state}
	placed := map[string]bool{}
	for _, u := range topology.UnitsOf(p.topologies) {
		for _, node := range u.Nodes {
			placed[node] = true
		}
	}
	if t.Kind != topology.KindBlock {
		for _, u := range topology.UnitsOf([]topology.Topology{*t}) {
			s.Apart = append(s.Apart, u.Nodes...)
		}
		slices.Sort(s.Apart)
		s.Apart = slices.Compact(s.Apart)
	} else {
		if s.Sizes = t.Sizes; len(s.Sizes) == 0 {
			return nil, fmt.Errorf("topology %s has no BlockSizes", t.Name)
		}
		s.Blocks = t.Blocks
	}
	for _, node := range slices.Sorted(maps.Keys(p.states)) {
		if !placed[node] {
			s.Apart = append(s.Apart, node)
		}
	}
	return s, nil
}

func (p *fitPlan) state(node string) fit.State {
	if p.states == nil {
		return fit.State{}
	}
	if s, known := p.states[node]; known {
		return s
	}
	return fit.State{Use: fit.Unavailable, Why: "not in Slurm"}
}

// live takes what the running Slurm says, or a file with the time zero.
func (p *fitPlan) live(state *slurmctld.State, said string, asked time.Time) {
	p.source.Asked = asked
	p.states, p.source.Said, p.source.Reservations = make(map[string]fit.State, len(state.Nodes)), said, state.Reservations
	for name, n := range state.Nodes {
		s := fit.StateOf(n.State)
		s.GPUs = fit.GPUs(n.Gres)
		if n.Reservation != "" && s.Use != fit.Free {
			s.Why += ", reservation " + n.Reservation
		}
		p.states[name] = s
	}
}

// sinfo takes the states of a file: the output of sinfo -N, or of scontrol --json show nodes.
func (p *fitPlan) sinfo(name string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxStates))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 100)])), "{") {
		nodes, err := slurmctld.ReadNodes(strings.NewReader(string(text)))
		if err != nil {
			return fmt.Errorf("%s: %w: want the output of scontrol --json show nodes, or of sinfo -N", name, err)
		}
		p.live(&slurmctld.State{Nodes: nodes}, name, time.Time{})
		return nil
	}
	p.states, err = fit.ReadSinfo(name, strings.NewReader(string(text)))
	p.source.Said = name
	return err
}

// maxStates bounds a file with the states of nodes, in bytes.
const maxStates = 256 << 20

// pods takes the states that Slinky's operator wrote into the conditions of worker pods. Without
// any such condition nothing is known.
func (p *fitPlan) pods(snap *inputs.Snapshot) {
	workers := map[string]*inputs.Worker{}
	add := func(all []inputs.Worker) {
		for i := range all {
			if w := &all[i]; w.State != "" && !w.Ending {
				workers[w.Hostname+" "+w.Node] = w
			}
		}
	}
	add(snap.Unplaced)
	for i := range snap.Nodes {
		add(snap.Nodes[i].Workers)
	}
	states := map[string]fit.State{}
	for name, node := range p.owners { // another pod is of another Slurm cluster, or not where the plan has it
		if w := cmp.Or(workers[name+" "+node], workers[" "+node]); w != nil {
			states[name] = fit.StateOf(w.State)
		}
	}
	if len(states) > 0 {
		p.states, p.source.Said = states, "the conditions of Slinky's pods"
	}
}
