package nodeagent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/fakeprobe"
	"github.com/quoin-hpc/quoin/test/rig/series"
	"github.com/quoin-hpc/quoin/topology"
)

// TestMain is also the probe of the tests.
func TestMain(m *testing.M) {
	if fakeprobe.Played() {
		return
	}
	os.Exit(m.Run())
}

const goodLine = fakeprobe.Report

// memory is a Store in memory.
type memory struct {
	mu     sync.Mutex
	report []byte
	puts   int
	broken error
}

func (m *memory) Get(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report, m.broken
}

func (m *memory) Put(_ context.Context, report []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report, m.puts = report, m.puts+1
	return m.broken
}

// now returns what is stored, and how often it was written.
func (m *memory) now() (report string, puts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.report), m.puts
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// newAgent returns an agent with a fake probe, whose supervisor change may change.
func newAgent(t testing.TB, store Store, change ...func(*probe.Supervisor)) *Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := probe.Supervisor{Node: "n1", Child: probe.Child{Command: []string{self}, Start: time.Minute, Silence: 2 * time.Second, Log: discard()}}
	for _, f := range change {
		f(&child)
	}
	return New(Config{Node: "n1", Probe: child}, store, nil, NewMetrics(prometheus.NewRegistry()), discard())
}

// fed is a probe that says what a test has it say.
type fed chan probe.Event

// Run implements Probe.
func (f fed) Run(ctx context.Context, events chan<- probe.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f:
			send(ctx, events, e)
		}
	}
}

// start runs an agent until stop is called.
func start(t testing.TB, a *Agent) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = a.Run(ctx); close(done) }()
	return func() { cancel(); <-done }
}

// hear does by hand what the loop does with an event.
func (a *Agent) hear(e probe.Event) {
	a.onEvent(e)
	a.publish()
}

// syncNow does by hand what the loop and the goroutine of the store do, until the store holds the report.
func (a *Agent) syncNow(ctx context.Context) error {
	for first := !a.recalled; ; first = false {
		var n *topology.Node
		select {
		case n = <-a.toStore:
		default:
			if !first {
				return nil
			}
		}
		held, err := a.syncStore(ctx, n)
		if err != nil {
			if n != nil && len(a.toStore) == 0 {
				a.toStore <- n // it is tried again
			}
			return err
		}
		a.onStored(held)
		a.publish()
	}
}

// TestWritesOnChangeOnly feeds reports by hand in fake time.
func TestWritesOnChangeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		says := make(fed)
		defer start(t, New(Config{Node: "n1", Probe: says, Stale: 1000 * time.Hour}, store, nil, NewMetrics(prometheus.NewRegistry()), discard()))()
		take := func(line string) {
			says <- event(t, line)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for range 10 {
			take(goodLine)
		}
		time.Sleep(24 * time.Hour)
		if store.puts != 1 {
			t.Errorf("%d writes of one report over a day, want 1", store.puts)
		}
		store.mu.Lock()
		store.broken = errors.New("connection refused")
		store.mu.Unlock()
		changed := strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","bootID":"b"`, 1)
		take(changed)
		time.Sleep(10 * time.Minute)
		store.mu.Lock()
		store.broken, store.report = nil, nil
		store.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		store.mu.Lock()
		if string(store.report) != changed {
			t.Errorf("after the store came back it holds %q", store.report)
		}
		store.report = []byte("somebody else's")
		store.mu.Unlock()
		time.Sleep(time.Hour)
		store.mu.Lock()
		if string(store.report) != changed {
			t.Error("a foreign change was not repaired")
		}
		store.mu.Unlock()
	})
}

// TestMetrics follows the series through a report, a hang and a write.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	store := &memory{}
	// There is one hang: no second one comes between two looks.
	a := newAgent(t, store, func(s *probe.Supervisor) {
		s.Silence, s.Pause, s.Start = 500*time.Millisecond, time.Hour, time.Hour
	})
	a.metrics = NewMetrics(reg)
	a.config.Stale = time.Hour
	t.Setenv(fakeprobe.Variable, "report hang")
	defer start(t, a)()
	want := map[string]float64{
		"quoin_agent_probe_up": 0, "quoin_agent_report_stored": 1,
		`quoin_agent_probe_restarts_total{reason="hang"}`: 1, `quoin_agent_problems{reason="FabricSlow"}`: 1,
		`quoin_agent_gpus{fabric="inProgress",health=""}`: 1,
	}
	diff := func() string {
		got := series.Values(t, reg)
		maps.DeleteFunc(got, func(name string, _ float64) bool { _, wanted := want[name]; return !wanted })
		return cmp.Diff(want, got)
	}
	await.Until(t, "the series (-want +got)", func() bool { return diff() == "" }, diff)
	if _, puts := store.now(); puts != 1 {
		t.Errorf("%d writes, want 1", puts)
	}
}

// event is what a probe says with one line that is no repetition.
func event(t testing.TB, line string) probe.Event {
	t.Helper()
	e, err := (&probe.Decoder{Node: "n1"}).Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
