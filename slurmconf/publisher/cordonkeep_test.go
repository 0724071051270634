package publisher

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// cordonStore is a memory of which Nodes can be cordoned.
type cordonStore struct {
	*memory
	cordonWrites int
	unwritable   error
}

// SetCordon implements CordonSetter.
func (s *cordonStore) SetCordon(_ context.Context, n *Node, to Cordon) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cordonWrites++
	if s.unwritable != nil {
		return s.unwritable
	}
	s.set(n.Name, to)
	return nil
}

// set gives a Node a cordon, as anybody may.
func (s *cordonStore) set(name string, to Cordon) {
	for i := range s.snap.Nodes {
		if n := &s.snap.Nodes[i]; n.Name == name {
			version, _ := strconv.Atoi(n.Version)
			n.Cordon, n.Version = to, strconv.Itoa(version+1)
		}
	}
	notify(s.changes)
}

// ours are the nodes that the publisher has cordoned.
func (s *cordonStore) ours() (names []string) {
	for i := range s.snap.Nodes {
		if n := &s.snap.Nodes[i]; n.Cordon.holder() == heldByUs {
			names = append(names, n.Name)
		}
	}
	return names
}

// TestCordons has 71 of 72 nodes not be claimed, and then all.
func TestCordons(t *testing.T) {
	snap := racks(t)
	store := &cordonStore{memory: newMemory(snap)}
	for i := range snap.Nodes {
		snap.Nodes[i].Version = "1"
	}
	m := &members{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"}, seen: imex.Seen{Join: imex.JoinHolder}}
	join := func(upTo int) func() {
		return func() { m.joinFirst(snap, upTo) }
	}
	join(1)()
	inBubbleWith(t, store.memory, complete(t, Publication{}), func(p *Publisher) {
		m.changes = make(chan struct{}, 1) // of the bubble
		p.KeepMembership(m)
		p.KeepCordons(store, CordonConfig{After: 10 * time.Minute, Join: imex.JoinHolder})
	}, func(p *Publisher) {
		are := func(what string, cordoned, heldBack int) {
			t.Helper()
			if got := store.ours(); len(got) != cordoned || testutil.ToFloat64(p.metrics.cordoned) != float64(cordoned) || testutil.ToFloat64(p.metrics.heldBack) != float64(heldBack) {
				t.Errorf("%s: %d are cordoned (%v counted), %v held back; want %d and %d", what, len(got), testutil.ToFloat64(p.metrics.cordoned), testutil.ToFloat64(p.metrics.heldBack), cordoned, heldBack)
			}
		}
		store.pass(9 * time.Minute)
		are("too early", 0, 0)
		store.unwritable = errors.New("not now")
		store.pass(2 * time.Minute)
		are("refused", 0, 64)
		if store.cordonWrites < 7 || store.cordonWrites > 7*5 {
			t.Errorf("tried %d times in a minute, want some for each of 7 nodes", store.cordonWrites)
		}
		store.unwritable = nil
		store.pass(time.Minute)
		are("a tenth", 7, 64)
		if c := snap.Nodes[1].Cordon; !c.Unschedulable || !strings.HasPrefix(c.Reason, "quoin: NotClaimed: nothing on the node claims its channel") {
			t.Errorf("a node has %+v", c)
		}
		byHand := store.ours()[0]
		store.edit(func() { store.set(byHand, Cordon{false, snap.Nodes[1].Cordon.Reason}) })
		store.pass(time.Minute)
		are("another in its place", 7, 63)
		writes := store.cordonWrites
		store.pass(24 * time.Hour)
		are("a day later", 7, 63)
		if store.cordonWrites != writes {
			t.Errorf("%d writes in a day at rest", store.cordonWrites-writes)
		}
		m.edit(join(72))
		store.pass(50 * time.Second)
		are("well for a moment", 7, 0)
		store.pass(20 * time.Second)
		are("well", 0, 0)
		store.pass(time.Minute)
		for i := range snap.Nodes {
			if c := snap.Nodes[i].Cordon; c != (Cordon{}) {
				t.Errorf("node %s is left with %+v", snap.Nodes[i].Name, c)
			}
		}
		for action, want := range map[string]float64{cordonDone: 8, cordonUndone: 7, cordonNoted: 1, cordonForgot: 1} {
			if got := testutil.ToFloat64(p.metrics.cordons.WithLabelValues(action)); got != want {
				t.Errorf("%s was counted %v times, want %v", action, got, want)
			}
		}
	})
}

// joinFirst has the first nodes of a Snapshot be members, and the others not.
func (m *members) joinFirst(snap *Snapshot, upTo int) {
	cliques := map[string]*imex.Clique{}
	m.seen.Claims, m.seen.Cliques = nil, nil
	for i := range upTo {
		n := &snap.Nodes[i]
		report := snap.Reports[n.Name]
		id := report.Domain.Clique.String()
		if cliques[id] == nil {
			cliques[id] = &imex.Clique{Domain: "u1", ID: id}
		}
		c := cliques[id]
		c.Daemons = append(c.Daemons, imex.Member{Node: n.Name, Address: "10.0.0." + strconv.Itoa(i), Clique: id, Index: len(c.Daemons), Ready: true})
		m.seen.Claims = append(m.seen.Claims, imex.Claim{Namespace: "quoin-system", Name: "c" + strconv.Itoa(i), Domain: "u1", Node: n.Name, Owner: imex.OwnerHolder, Pods: []string{"quoin-system/p" + strconv.Itoa(i)}})
		n.Labels = map[string]string{domainLabel: "u1"}
		major := 235
		report.IMEX = &topology.IMEX{ChannelMajor: &major, Channels: 2048, DaemonState: "READY"}
	}
	for _, c := range cliques {
		m.seen.Cliques = append(m.seen.Cliques, *c)
	}
}
