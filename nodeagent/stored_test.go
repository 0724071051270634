package nodeagent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// busy is a store during whose first Put something happens. Then it is broken.
type busy struct {
	memory
	during func()
}

func (b *busy) Put(ctx context.Context, report []byte) error {
	if _, puts := b.now(); puts > 0 {
		return b.memory.Put(ctx, report)
	}
	b.during()
	err := b.memory.Put(ctx, report)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = errors.New("connection refused")
	return err
}

// TestStoredOfBefore: that a report is stored is not said of the one before it,
// which was on its way to the store when it came.
func TestStoredOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, says := &busy{}, make(fed)
		a := New(Config{Node: "n1", Probe: says}, store, nil, NewMetrics(prometheus.NewRegistry()), discard())
		first, second := domainLine(t, "b", "A"), domainLine(t, "b", "-")
		store.during = func() { says <- event(t, second) }
		defer start(t, a)()
		check := func(when, report string, stored float64) {
			t.Helper()
			synctest.Wait()
			if got, _ := store.now(); got != report {
				t.Errorf("%s: stored %s", when, got)
			}
			if got := testutil.ToFloat64(a.metrics.stored); got != stored {
				t.Errorf("%s: report_stored %v, want %v", when, got, stored)
			}
		}
		check("no report yet, and none is stored", "", 0)
		says <- event(t, first)
		check("the store holds the one before", first, 0)
		time.Sleep(time.Minute)
		check("the store is broken", first, 0)
		store.mu.Lock()
		store.broken = nil
		store.mu.Unlock()
		time.Sleep(time.Minute)
		check("the store holds it", second, 1)
	})
}
