package nodestatus

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// site is a cluster with a Keeper, in a time that the test moves.
type site struct {
	mu         sync.Mutex
	snap       *inputs.Snapshot
	conditions map[string]map[string]inputs.Condition // by node and type
	writes     int
	refuses    error  // of writes
	refused    string // the only Node that refuses, if not all do
	keeper     *Keeper
	metrics    *Metrics
	log        bytes.Buffer
	now        time.Time
}

// newSite returns a site of so many nodes in one clique, and with the domain m if it is
// not nil.
func newSite(nodes int, m *domain) *site {
	s := &site{snap: &inputs.Snapshot{Reports: map[string]*topology.Node{}}, conditions: map[string]map[string]inputs.Condition{},
		metrics: NewMetrics(prometheus.NewRegistry()), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range nodes {
		name := fmt.Sprintf("n%05d", i)
		s.snap.Nodes = append(s.snap.Nodes, inputs.Node{Name: name})
		s.snap.Reports[name] = &topology.Node{Name: name, GPUs: []topology.GPU{fabricGPU(0, nil), fabricGPU(1, nil)}, Domain: topology.NVLinkDomain{Clique: topology.Clique{ClusterUUID: topology.UUID{1}}}}
	}
	o := Options{Setter: s, Publications: 1, Fabrics: new(fabric.Site)}
	if m != nil {
		o.Membership = m
	}
	s.keeper = New(o, s.metrics, s.now, slog.New(slog.NewTextHandler(&s.log, nil)))
	s.found()
	return s
}

// SetConditions implements Setter.
func (s *site) SetConditions(_ context.Context, node string, conditions []inputs.Condition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.refuses != nil && (s.refused == "" || s.refused == node) {
		return s.refuses
	}
	next := map[string]inputs.Condition{}
	maps.Copy(next, s.conditions[node])
	for _, c := range conditions {
		next[c.Type] = c
	}
	s.conditions[node] = next
	return nil
}

// found hands the Keeper what a pass has found.
func (s *site) found(problems ...topology.Finding) {
	s.keeper.Found("default", passOf(problems...), s.now)
}

// passOf is a pass that has judged no node.
func passOf(problems ...topology.Finding) *Pass {
	return &Pass{Plan: &topology.Plan{}, Problems: problems}
}

// pass lets everything happen that is due within a time. It returns the most writes
// between two looks at the site.
func (s *site) pass(ctx context.Context, d time.Duration) (most int) {
	end := s.now.Add(d)
	for {
		next := s.keeper.Timer.Next()
		if next.IsZero() || next.After(end) {
			s.now = end
			return most
		}
		if next.After(s.now) {
			s.now = next
		}
		s.keeper.Timer.Take(s.now)
		for i := range s.snap.Nodes {
			n := &s.snap.Nodes[i]
			n.Conditions = s.conditions[n.Name]
		}
		before := s.writes
		s.keeper.Reconcile(ctx, s.snap, s.now)
		most = max(most, s.writes-before)
		s.now = s.now.Add(time.Second) // that writing takes
	}
}

// change notes a change, and lets an hour pass.
func (s *site) change(ctx context.Context, change func()) {
	change()
	s.keeper.Touch(s.now)
	s.pass(ctx, time.Hour)
}

func (s *site) logged(text string) int { return strings.Count(s.log.String(), text) }

// domain is a Membership that a test changes by hand.
type domain struct {
	domain  imex.Domain
	seen    imex.Observation
	broken  error
	ensured int
	events  []string
}

func (d *domain) Changes() <-chan struct{} { return nil }

func (d *domain) Ensure(context.Context) (*imex.Observation, error) {
	d.ensured++
	seen := d.seen
	seen.Domain = d.domain
	return &seen, d.broken
}

func (d *domain) Record(_ *imex.Domain, warning bool, reason, _ string) {
	d.events = append(d.events, fmt.Sprintf("%s %t", reason, warning))
}

// fabricGPU is a GPU that has joined a clique, changed.
func fabricGPU(index int, change func(*topology.Fabric)) topology.GPU {
	g := topology.GPU{Index: index, UUID: "GPU-" + string(rune('a'+index)), Fabric: topology.Fabric{ClusterUUID: topology.UUID{1}, State: topology.FabricCompleted, Health: topology.HealthHealthy}}
	if change != nil {
		change(&g.Fabric)
	}
	return g
}
