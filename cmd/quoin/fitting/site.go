// Package fitting is what quoin fit says: whether a job fits, and how many segments do. It brings
// a topology and the states of its nodes together. Package fit has the rules.
package fitting

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Plan is what is known of a Slurm cluster.
type Plan struct {
	Topologies []topology.Topology
	// Owners are the Kubernetes nodes by Slurm name.
	Owners map[string]string
	// States are the nodes' states, and Said is who said them. Without any all nodes count as
	// free.
	States map[string]fit.State
	Said   string
	// Asked is when Slurm was asked, or zero.
	Asked time.Time
	// Reservations may begin later. There are none if Slurm was not asked.
	Reservations []slurmctld.Reservation
}

// Stored is a plan that the publisher has stored.
func Stored(plan *topology.Plan) *Plan {
	p := &Plan{Topologies: plan.Topologies, Owners: make(map[string]string, len(plan.Nodes))}
	for i := range plan.Nodes {
		p.Owners[plan.Nodes[i].SlurmName] = plan.Nodes[i].Node
	}
	return p
}

// Made is a plan that was made just now.
func Made(topologies []topology.Topology, placed []topology.Placement) *Plan {
	p := &Plan{Topologies: topologies, Owners: make(map[string]string, len(placed))}
	for i := range placed {
		p.Owners[placed[i].SlurmName] = placed[i].Node
	}
	return p
}

// Topology returns the topology of the name, or the one of partitions that name none.
func (p *Plan) Topology(name string) (*topology.Topology, error) {
	var names []string
	for i := range p.Topologies {
		t := &p.Topologies[i]
		if t.Name == name || name == "" && (t.Default || len(p.Topologies) == 1) {
			return t, nil
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("the plan has no topology")
	}
	if name == "" {
		return nil, fmt.Errorf("no topology is the default one: choose one by --topology: %s", strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("--topology %s: want one of %s", name, strings.Join(names, ", "))
}

// site returns the topology with the states of its nodes.
func (p *Plan) site(t *topology.Topology) (*fit.Site, error) {
	s := &fit.Site{State: p.state}
	placed := map[string]bool{}
	for _, u := range topology.UnitsOf(p.Topologies) {
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
		for _, b := range t.Blocks {
			s.Blocks = append(s.Blocks, fit.Block{Name: b.Name, Nodes: b.Nodes})
		}
	}
	for _, node := range slices.Sorted(maps.Keys(p.States)) {
		if !placed[node] {
			s.Apart = append(s.Apart, node)
		}
	}
	return s, nil
}

func (p *Plan) state(node string) fit.State {
	if p.States == nil {
		return fit.State{}
	}
	if s, known := p.States[node]; known {
		return s
	}
	return fit.State{Use: fit.Unavailable, Why: "not in Slurm"}
}

// Live takes what the running Slurm says, or a file with the time zero.
func (p *Plan) Live(state *slurmctld.State, said string, asked time.Time) {
	p.Asked = asked
	p.States, p.Said, p.Reservations = make(map[string]fit.State, len(state.Nodes)), said, state.Reservations
	for name, n := range state.Nodes {
		s := fit.StateOf(n.State)
		s.GPUs = fit.GPUs(n.Gres)
		if n.Reservation != "" && s.Use != fit.Free {
			s.Why += ", reservation " + n.Reservation
		}
		p.States[name] = s
	}
}

// Sinfo takes the states of a file: the output of sinfo -N, or of scontrol --json show nodes.
func (p *Plan) Sinfo(name string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if strings.HasPrefix(strings.TrimSpace(string(text[:min(len(text), 100)])), "{") {
		nodes, err := slurmctld.ReadNodes(strings.NewReader(string(text)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.Live(&slurmctld.State{Nodes: nodes}, name, time.Time{})
		return nil
	}
	p.States, err = fit.ReadSinfo(name, strings.NewReader(string(text)))
	p.Said = name
	return err
}

// maxFile bounds a file with the states of nodes, in bytes.
const maxFile = 256 << 20

// Pods takes the states that Slinky's operator wrote into the conditions of worker pods. Without
// any such condition nothing is known.
func (p *Plan) Pods(snap *inputs.Snapshot) {
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
	for name, node := range p.Owners { // another pod is of another Slurm cluster, or not where the plan has it
		if w := cmp.Or(workers[name+" "+node], workers[" "+node]); w != nil {
			states[name] = fit.StateOf(w.State)
		}
	}
	if len(states) > 0 {
		p.States, p.Said = states, "the conditions of Slinky's pods"
	}
}
