//go:build cgo

package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent"
	fake "github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/topology"
)

// wantAlways wants the same devices all the time.
type wantAlways struct {
	uuids []string
	mu    sync.Mutex
	taken int
}

func (w *wantAlways) Wanted() []string         { return w.uuids }
func (w *wantAlways) Changed() <-chan struct{} { return nil }
func (w *wantAlways) Take(topology.Sample) {
	w.mu.Lock()
	w.taken++
	w.mu.Unlock()
}

func (w *wantAlways) samples() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken
}

// TestSampleHangs has a call of a sample hang under an agent: the probe is ended as
// one whose reading hangs, the report stays, and sampling goes on when the call
// answers again. So has one that takes the process with it.
func TestSampleHangs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fault, reason string }{
		{"call nvmlDeviceGetPowerUsage hang", "hang"}, {"call nvmlDeviceGetComputeRunningProcesses_v3 crash", "exit"}, {"call nvmlGpmMetricsGet exit 127", "exit"},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			m := fake.New(t, "h100")
			cmd := command(t, linkQuoin(t), 580, m, "probe", "--set", "agent.interval=50ms")
			wanted := &wantAlways{uuids: []string{firstH100, secondH100}}
			reg := prometheus.NewRegistry()
			store := nodeagent.NewDirStore(t.TempDir(), "n1")
			config := nodeagent.Config{Node: "n1", Probe: append([]string{"env", m.Environment()}, cmd.Args...), Silence: 500 * time.Millisecond, Pause: 50 * time.Millisecond,
				Sampled: wanted, SampleEvery: 120 * time.Millisecond}
			agent := nodeagent.New(config, store, nil, nodeagent.NewMetrics(reg), slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { _ = agent.Run(ctx); close(done) }()
			defer func() { cancel(); <-done }()
			until := func(what string, ok func() bool) {
				t.Helper()
				for end := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("no %s in 5 minutes", what)
					}
				}
			}
			stored := func() string {
				data, err := store.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			until("samples and report", func() bool { return wanted.samples() > 2 && stored() != "" })
			before, ends := stored(), fmt.Sprintf(`quoin_agent_probe_restarts_total{reason=%q}`, tt.reason)
			m.Change("gpu 1", tt.fault)
			until("end of the probe", func() bool { return counterOf(t, reg, ends) >= 2 })
			if now := stored(); now != before {
				t.Errorf("report\n%s\nbefore\n%s", now, before)
			}
			m.Change()
			had := wanted.samples()
			until("samples again", func() bool { return wanted.samples() > had+2 })
		})
	}
}

// counterOf returns the value of one series.
func counterOf(t *testing.T, reg *prometheus.Registry, series string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if f.GetName()+"{"+strings.Join(labels, ",")+"}" == series {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
