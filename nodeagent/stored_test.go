package nodeagent

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// busy is a store during whose Put something happens.
type busy struct {
	memory
	during func()
}

func (b *busy) Put(ctx context.Context, report []byte) error {
	if b.during != nil {
		b.during()
	}
	return b.memory.Put(ctx, report)
}

// TestStoredOfBefore: that a report is stored is not said of the one before it,
// which was on its way to the store when it came.
func TestStoredOfBefore(t *testing.T) {
	store := &busy{}
	a := newAgent(t, store)
	take := func(line string) {
		t.Helper()
		a.hear(event(t, line))
	}
	take(domainLine(t, "b", "A"))
	store.during = func() { take(domainLine(t, "b", "-")) }
	if err := a.syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(a.metrics.stored); got != 0 {
		t.Errorf("report_stored %v while the store holds the one before, want 0", got)
	}
	store.during, store.broken = nil, errors.New("connection refused")
	if err := a.syncStore(t.Context()); err == nil {
		t.Fatal("stored in a broken store")
	}
	if got := testutil.ToFloat64(a.metrics.stored); got != 0 {
		t.Errorf("report_stored %v and the store is broken, want 0", got)
	}
	store.broken = nil
	if err := a.syncStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(a.metrics.stored); got != 1 {
		t.Errorf("report_stored %v, want 1", got)
	}
}
