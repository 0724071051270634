package publisher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// versionStore has a version of each Node, as the API server has: a Snapshot keeps those
// that were when it was taken, and a condition that is written makes another.
type versionStore struct {
	*cordonStore
	conflicts int
}

func (s *versionStore) Snapshot(ctx context.Context) (*Snapshot, error) {
	snap, err := s.memory.Snapshot(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Snapshot{Nodes: slices.Clone(snap.Nodes), Reports: maps.Clone(snap.Reports)}, err
}

func (s *versionStore) SetConditions(ctx context.Context, node string, conditions []Condition) error {
	if err := s.memory.SetConditions(ctx, node, conditions); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.node(node)
	s.set(node, n.Cordon)
	return nil
}

func (s *versionStore) SetCordon(ctx context.Context, n *Node, to Cordon) error {
	s.mu.Lock()
	changed := n.Version != s.node(n.Name).Version
	if changed {
		s.conflicts++
	}
	s.mu.Unlock()
	if changed {
		return ErrNodeChanged
	}
	return s.cordonStore.SetCordon(ctx, n, to)
}

func (s *versionStore) node(name string) *Node {
	return &s.snap.Nodes[slices.IndexFunc(s.snap.Nodes, func(n Node) bool { return n.Name == name })]
}

// TestCordonsBeforeConditions has the conditions of all nodes change as some of them are
// to be cordoned.
func TestCordonsBeforeConditions(t *testing.T) {
	snap := racks(t)
	for i := range snap.Nodes {
		snap.Nodes[i].Version = "1"
	}
	store := &versionStore{cordonStore: &cordonStore{memory: newMemory(snap)}}
	m := &members{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"}, seen: imex.Seen{Join: imex.JoinHolder}}
	m.joinFirst(snap, 1)
	inBubbleWith(t, store.memory, complete(t, Publication{}), func(p *Publisher) {
		m.changes = make(chan struct{}, 1) // of the bubble
		p.store = store
		p.KeepConditions(store)
		p.KeepMembership(m)
		p.KeepCordons(store, CordonConfig{After: 10 * time.Minute, Join: imex.JoinHolder})
	}, func(*Publisher) {
		health := []topology.Health{topology.HealthUnhealthy, topology.HealthHealthy}
		for i := range 130 { // a change for each look
			store.edit(func() {
				for _, report := range snap.Reports {
					report.GPUs[0].Fabric.Health = health[i%2]
				}
			})
			store.pass(6 * time.Second)
		}
		if got := len(store.ours()); got != 7 || store.conflicts > 0 || store.conditionWrites < 72*100 {
			t.Errorf("%d cordoned, %d conflicts, %d conditions written", got, store.conflicts, store.conditionWrites)
		}
	})
}

// TestCordonConflictsStopNothing has many Nodes change as they are written, and the last
// not.
func TestCordonConflictsStopNothing(t *testing.T) {
	const all = 3 * enoughRefused
	for _, tt := range []struct {
		err  error
		most int // nodes that are tried
	}{{ErrNodeChanged, all}, {ErrCordonRefused, enoughRefused + writers}, {errors.New("not now"), enoughRefused + writers}} {
		store := &cordonStore{memory: newMemory(&Snapshot{}), unwritable: tt.err}
		p := newPublisher(store, nil)
		p.KeepCordons(store, CordonConfig{})
		p.cordons.nodes = map[string]*keptCordon{}
		var steps []cordonStep
		for i := range all {
			n := &Node{Name: fmt.Sprintf("n%02d", i), Version: strconv.Itoa(i)}
			p.cordons.nodes[n.Name] = &keptCordon{}
			steps = append(steps, cordonStep{n, cordonUndone, Cordon{}})
		}
		p.writeCordons(t.Context(), steps, noon)
		if n := store.cordonWrites; n > tt.most || n < enoughRefused || tt.most == all && n != all {
			t.Errorf("%v: %d of %d nodes are tried, want %d at most", tt.err, n, all, tt.most)
		}
	}
}
