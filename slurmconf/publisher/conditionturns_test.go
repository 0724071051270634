package publisher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
)

// lateStore takes a while for each write of a condition, and shows it later still.
type lateStore struct {
	*memory
	shows map[string]time.Time // node -> when its last write is shown
	run   int                  // writes since the last Snapshot
	most  int                  // the largest run
	order []string             // of the nodes that were written
}

func (s *lateStore) Snapshot(ctx context.Context) (*inputs.Snapshot, error) {
	snap, err := s.memory.Snapshot(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = 0
	late := &inputs.Snapshot{Nodes: slices.Clone(snap.Nodes), Reports: snap.Reports}
	slices.Reverse(late.Nodes) // the API server's are in no order
	for i := range late.Nodes {
		if n := &late.Nodes[i]; time.Now().Before(s.shows[n.Name]) {
			n.Conditions = nil
		}
	}
	return late, err
}

func (s *lateStore) SetConditions(ctx context.Context, node string, conditions []inputs.Condition) error {
	time.Sleep(80 * time.Millisecond)
	err := s.memory.SetConditions(ctx, node, conditions)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run++
	s.most = max(s.most, s.run)
	s.order = append(s.order, node)
	s.shows[node] = time.Now().Add(3 * time.Second)
	return err
}

// crowd is racks with so many more nodes that conditions take some turns.
func crowd(t *testing.T) *inputs.Snapshot {
	t.Helper()
	snap := racks(t)
	report := snap.Reports[snap.Nodes[0].Name]
	for i := range 4 * conditionsATurn {
		name := fmt.Sprintf("x%04d", i)
		snap.Nodes = append(snap.Nodes, inputs.Node{Name: name})
		snap.Reports[name] = &topology.Node{Name: name, GPUs: report.GPUs, Domain: report.Domain}
	}
	return snap
}

// TestConditionTurns writes many Nodes in turns, in order, and each once, though the store
// shows late what was written; and all else goes on between them.
func TestConditionTurns(t *testing.T) {
	snap := crowd(t)
	store := &lateStore{memory: newMemory(snap), shows: map[string]time.Time{}}
	inBubbleWith(t, store.memory, complete(t, Publication{}), func(p *Publisher) {
		p.store = store
		p.conditions.setter = store
	}, func(*Publisher) {
		store.pass(time.Hour)
		if len(store.order) != len(snap.Nodes) || len(store.conditions) != len(snap.Nodes) || store.most > conditionsATurn {
			t.Errorf("%d nodes are written by %d writes, %d at most between two looks", len(store.conditions), len(store.order), store.most)
		}
		for i := 0; i+writers < len(store.order); i++ {
			if store.order[i] > store.order[i+writers] {
				t.Fatalf("node %s is written before %s", store.order[i], store.order[i+writers])
			}
		}
		before := store.conditionWrites
		store.pass(24 * time.Hour)
		if store.conditionWrites != before {
			t.Errorf("%d writes in a day at rest", store.conditionWrites-before)
		}
	})
}

// TestConditionTurnsRefused tries few of many Nodes where none can be written.
func TestConditionTurnsRefused(t *testing.T) {
	snap := crowd(t)
	store := newMemory(snap)
	store.refuses = errors.New("forbidden")
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(2 * time.Hour)
		if n := store.conditionWrites; n < 8*enoughRefused || n > 40*enoughRefused {
			t.Errorf("%d tries in two hours, want some for all nodes together", n)
		}
		store.edit(func() { store.refuses = nil })
		store.pass(time.Hour)
		if len(store.conditions) != len(snap.Nodes) {
			t.Errorf("%d of %d nodes are written when they may be", len(store.conditions), len(snap.Nodes))
		}
	})
}
