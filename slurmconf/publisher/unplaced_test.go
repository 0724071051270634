package publisher

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/imex"
)

// TestUnplacedClaims speaks of claims that no node has when they have waited for a
// while, once, and says when that is over.
func TestUnplacedClaims(t *testing.T) {
	store := newMemory(racks(t))
	m := &members{domain: imex.Domain{Namespace: "quoin-system", Name: "quoin", UID: "u1"}, seen: imex.Observation{Join: imex.JoinHolder}}
	var text logText
	inBubbleWith(t, store, complete(t, Publication{}), func(p *Publisher) {
		m.changes = make(chan struct{}, 1) // of the bubble
		p.log = text.logger()
		p.conditions.membership = m
	}, func(p *Publisher) {
		wait := func(claims int) {
			m.edit(func() {
				m.seen.Claims = nil
				for i := range claims {
					name := fmt.Sprintf("w-%d", i)
					m.seen.Claims = append(m.seen.Claims, imex.Claim{Namespace: "slurm", Name: name, Domain: "u1", Owner: imex.OwnerSlurmd, Waiting: "slurm/" + name})
				}
			})
		}
		is := func(what, reason string, begun, over int, counted float64) {
			t.Helper()
			begins, ends := text.count(`msg="claims wait for a node" `), text.count(`msg="claims no longer wait for a node" `)
			got := testutil.ToFloat64(p.metrics.unplaced.WithLabelValues(imex.OwnerSlurmd, reason))
			if begins != begun || ends != over || got != counted {
				t.Errorf("%s: said %d times that it begins and %d that it is over, and counted %v, want %d, %d and %v", what, begins, ends, got, begun, over, counted)
			}
		}
		wait(1)
		store.pass(30 * time.Second)
		is("a moment ago", imex.ReasonClaimConflict, 0, 0, 0)
		wait(0)
		store.pass(30 * time.Second)
		is("it has a node", imex.ReasonClaimConflict, 0, 0, 0)
		wait(2)
		store.pass(50 * time.Second)
		is("others", imex.ReasonClaimConflict, 0, 0, 0)
		store.pass(30 * time.Second) // in which nothing changes
		is("they wait", imex.ReasonClaimConflict, 1, 0, 2)
		wait(3)
		store.pass(time.Hour)
		is("one more", imex.ReasonClaimConflict, 1, 0, 3)
		wait(0)
		store.pass(time.Minute)
		is("all over", imex.ReasonClaimConflict, 1, 1, 0)
		m.edit(func() { m.seen.Join = imex.JoinSlurmd })
		wait(1)
		store.pass(2 * time.Minute)
		is("it waits by right", imex.ReasonClaimWaits, 2, 1, 1)
		for _, line := range []string{"level=WARN msg=\"claims wait for a node\" reason=ClaimConflict namespace=slurm owner=slurmd claims=2", "level=INFO msg=\"claims wait for a node\" reason=ClaimWaits"} {
			if text.count(line) != 1 {
				t.Errorf("the log has %d lines with %s, want one", text.count(line), line)
			}
		}
	})
}

// TestUnplacedOfNamespaces counts claims of several namespaces as one where all else is
// the same, and forgets those of before.
func TestUnplacedOfNamespaces(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	conflict := func(namespace string) unplacedGroup {
		return unplacedGroup{namespace, imex.OwnerSlurmd, imex.ReasonClaimConflict}
	}
	waits := unplacedGroup{"a", imex.OwnerSlurmd, imex.ReasonClaimWaits}
	for range 2 {
		m.setUnplaced(map[unplacedGroup]int{conflict("a"): 2, conflict("b"): 3, waits: 7})
		for reason, want := range map[string]float64{imex.ReasonClaimConflict: 5, imex.ReasonClaimWaits: 7} {
			if got := testutil.ToFloat64(m.unplaced.WithLabelValues(imex.OwnerSlurmd, reason)); got != want {
				t.Errorf("%s: %v, want %v", reason, got, want)
			}
		}
	}
}
