package publisher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// members is a Membership that a test changes by hand.
type members struct {
	mu      sync.Mutex
	changes chan struct{}
	domain  imex.Domain
	seen    imex.Observation
	broken  error
	ensured int
}

func (m *members) Changes() <-chan struct{} { return m.changes }

func (m *members) Ensure(context.Context) (imex.Domain, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ensured++
	return m.domain, nil
}

func (m *members) Snapshot() (*imex.Observation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := m.seen
	seen.Domain = m.domain
	return &seen, m.broken
}

func (m *members) edit(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	notify(m.changes)
}

// TestMembershipConditions brings the verdicts on membership onto the Nodes.
func TestMembershipConditions(t *testing.T) {
	snap := racks(t)
	store := newMemory(snap)
	m := &members{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", Problem: topology.Problem{Reason: imex.ReasonNoCRD, Message: "no definition of ComputeDomains"}}, seen: imex.Observation{Join: imex.JoinHolder}}
	inBubbleWith(t, store, complete(t, Publication{}), func(p *Publisher) {
		m.changes = make(chan struct{}, 1) // of the bubble
		p.conditions.membership = m
	}, func(p *Publisher) {
		n := &snap.Nodes[0]
		has := func(what, reason string, is bool) {
			t.Helper()
			store.pass(time.Minute)
			if c := store.conditions[n.Name][ConditionIMEX]; c.Reason != reason || c.True != is {
				t.Errorf("%s: %+v, want %s, %t", what, c, reason, is)
			}
		}
		has("without the driver", imex.ReasonNoCRD, false)
		m.edit(func() { m.domain.Problem.Reason = imex.ReasonDomainDiffers })
		has("another spec", imex.ReasonDomainDiffers, true)
		if got := testutil.ToFloat64(p.metrics.unready); got != 72 {
			t.Errorf("%v nodes are not ready, want 72", got)
		}
		m.edit(func() {
			m.domain.UID, m.domain.Problem = "u1", topology.Problem{}
			clique := snap.Reports[n.Name].Domain.Clique.String()
			m.seen.Cliques = []imex.Clique{{Domain: "u1", ID: clique, Daemons: []imex.Member{{Node: n.Name, Address: "10.0.0.1", Clique: clique, Ready: true}}}}
			m.seen.Claims = []imex.Claim{{Namespace: "quoin-system", Name: "c", Domain: "u1", Node: n.Name, Owner: imex.OwnerHolder, Pods: []string{"quoin-system/p"}}}
			n.Labels = map[string]string{domainLabel: "u1"}
			major := 235
			snap.Reports[n.Name].IMEX = &topology.IMEX{ChannelMajor: &major, Channels: 2048, DaemonState: "READY"}
		})
		has("a member", imex.ReasonReady, false)
		if other := store.conditions[snap.Nodes[1].Name][ConditionIMEX]; !other.True || other.Reason != imex.ReasonNotClaimed || !strings.Contains(other.Message, ". ") {
			t.Errorf("another node: %+v, want NotClaimed with a remedy", other)
		}
		if got := testutil.ToFloat64(p.metrics.members.WithLabelValues(imex.ReasonNotClaimed)); got != 71 {
			t.Errorf("%v nodes are not claimed, want 71", got)
		}
		writes := store.conditionWrites
		m.edit(func() { m.broken = errors.New("not listed yet") })
		has("when nothing is known it stays", imex.ReasonReady, false)
		store.pass(time.Hour)
		if store.conditionWrites != writes {
			t.Errorf("%d writes while nothing was known", store.conditionWrites-writes)
		}
		m.edit(func() {
			clique := m.seen.Cliques[0]
			clique.Daemons = slices.Clone(clique.Daemons)
			clique.Daemons[0].Ready = false
			m.broken, m.seen.Cliques = nil, []imex.Clique{clique}
		})
		has("its daemon is not ready", imex.ReasonEntryBehind, true)
		ensured := m.ensured
		store.pass(24 * time.Hour)
		if m.ensured != ensured {
			t.Errorf("asked for the domain %d times in a day at rest", m.ensured-ensured)
		}
	})
}
