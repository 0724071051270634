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
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// fitPlan is what quoin fit knows of a Slurm cluster: topologies and the states of their nodes.
type fitPlan struct {
	pub        *publication.Cluster
	topologies []topology.Topology
	// gpus is how many GPUs nodes have by Slurm name, as far as reports, labels or the kubelet say.
	gpus map[string]int
	// owners are the Kubernetes nodes by Slurm name.
	owners map[string]string
	// future are nodes that slurm.conf has as FUTURE.
	future map[string]bool
	// workers returns what may have worker pods.
	workers func() (*inputs.Snapshot, error)
	// states are the nodes' states, nil if nobody said any. all says that every node of Slurm has
	// one. A list of sinfo may lack some nodes.
	states map[string]fit.State
	all    bool
	source show.FitSource
}

// newFitPlan returns topologies with their nodes. The states of the nodes are not known yet.
func newFitPlan(pub *publication.Cluster, topologies []topology.Topology, placed []topology.Placement) *fitPlan {
	p := &fitPlan{pub: pub, topologies: topologies, gpus: map[string]int{}, owners: make(map[string]string, len(placed))}
	for i := range placed {
		p.owners[placed[i].SlurmName] = placed[i].Node
	}
	return p
}

// facts takes how many GPUs nodes have.
func (p *fitPlan) facts(all []topology.Facts) {
	for i := range all {
		if f := &all[i]; !f.Shared { // else nobody knows which of the node's GPUs a name has
			p.gpus[f.SlurmName] = f.Devices()
		}
	}
}

// devices takes how many GPUs nodes have by the lines of a published gres.conf.
func (p *fitPlan) devices(plan *plandoc.Plan) {
	for node, lines := range gres.ByNode(plan.Devices, slices.Collect(maps.Keys(p.owners))) {
		counted, _ := gres.Count(lines)
		p.gpus[node] = int(gres.Total(counted)) //nolint:gosec // as many as files
	}
}

// ask answers for a job. Without nodes it only counts the segments.
func (p *fitPlan) ask(j *fit.Job, name string) (*show.Fit, error) {
	t, err := p.topology(name)
	if err != nil {
		return nil, err
	}
	if j.Nodes > 0 {
		if err := j.Check(); err != nil {
			return nil, err
		}
	} else if *j != (fit.Job{}) {
		return nil, errors.New("want -N NODES beside flags of a job")
	}
	site, err := p.site(t)
	if err != nil {
		return nil, err
	}
	answer, err := show.NewFit(t, site, &p.source, j)
	if err == nil && answer.Verdict == fit.Never {
		answer.Why += p.across(t, j.Nodes)
	}
	return answer, err
}

// across says that no job runs across topologies, if a job is too large for one of several.
func (p *fitPlan) across(t *topology.Topology, nodes int) string {
	in, all := 0, 0
	for i := range p.topologies {
		for _, b := range p.topologies[i].Blocks {
			all += len(b.Nodes)
			if p.topologies[i].Name == t.Name {
				in += len(b.Nodes)
			}
		}
	}
	apart := topology.Apart(p.topologies)
	if t.Kind != topology.KindBlock || apart == "" || nodes <= in || nodes > all {
		return ""
	}
	return "; " + apart
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

// site returns the topology with the states of its nodes. Nodes that are in no topology may have
// the job too. In a flat topology all nodes may.
func (p *fitPlan) site(t *topology.Topology) (*fit.Site, error) {
	s := fit.NewSite(t, p.pub.Release, p.state)
	if t.Kind == topology.KindBlock && !s.HasBlocks() {
		return nil, fmt.Errorf("topology %s has no block with nodes", cmp.Or(t.Name, topology.ConfTopology))
	}
	placed := map[string]bool{}
	for _, u := range topology.UnitsOf(p.topologies) {
		for _, node := range u.Nodes {
			placed[node] = true
		}
	}
	apart := map[string]bool{}
	if t.Kind == topology.KindFlat {
		maps.Copy(apart, placed)
		for node := range p.owners {
			apart[node] = true
		}
	}
	ours := placed
	if len(ours) == 0 {
		ours = maps.Clone(apart)
	}
	known := p.states == nil || len(ours) == 0
	for node := range p.states {
		known = known || ours[node]
		if !placed[node] {
			apart[node] = true
		}
	}
	if !known {
		return nil, fmt.Errorf("%s names no node of the plan: it names %s, and the plan %s", p.source.Said, someOf(p.states), someOf(ours))
	}
	s.Apart = slices.Sorted(maps.Keys(apart))
	return s, nil
}

// someOf is the host list of some names.
func someOf[V any](names map[string]V) string {
	return hostlist.Shorten(hostlist.Compress(slices.Sorted(maps.Keys(names))))
}

func (p *fitPlan) state(node string) fit.State {
	s, said := p.states[node]
	switch {
	case said:
	case p.future[node]:
		s = fit.State{Use: fit.Absent, Why: "future"}
	case p.all:
		s = fit.State{Use: fit.Absent, Why: "not in " + p.source.Said}
	default:
		s = fit.State{Use: fit.Unsaid, Why: "not known"}
	}
	s.GPUs = cmp.Or(s.GPUs, p.gpus[node])
	return s
}

// live takes what the running Slurm says of all its nodes, or a file with the time zero.
func (p *fitPlan) live(state *slurmctld.State, said string, asked time.Time) {
	p.source.Asked, p.all = asked, !asked.IsZero()
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
