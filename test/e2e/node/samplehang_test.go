//go:build cgo

package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/test/rig/await"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/series"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

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
			cmd := command(t, programs.QuoinTest(t), 580, m, "probe", "--times", "read: 50ms")
			reg := prometheus.NewRegistry()
			store := reportdir.New(t.TempDir(), "n1")
			wanted, samples := make(chan []string, 1), make(chan topology.Sample)
			wanted <- []string{firstH100, secondH100}
			// A probe on a busy machine takes seconds to start: shorter silence is no hang.
			const silence = 15 * time.Second
			config := nodeagent.Config{Node: "n1", Probe: probe.Supervisor{Node: "n1",
				Child: probe.Child{Command: append([]string{"env", m.Environment()}, cmd.Args...), Silence: silence, Log: slog.New(slog.DiscardHandler)},
				Pause: 50 * time.Millisecond, Samples: samples, Wanted: wanted, SampleEvery: 120 * time.Millisecond}}
			agent := nodeagent.New(config, store, nil, nodeagent.NewMetrics(reg), slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { _ = agent.Run(ctx); close(done) }()
			defer func() { cancel(); <-done }()
			stored := func() string {
				data, err := store.Get(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			sampled := func(what string) {
				t.Helper()
				for range 3 {
					select {
					case <-samples:
					case <-time.After(await.Limit):
						t.Fatalf("no %s within %s", what, await.Limit)
					}
				}
			}
			sampled("samples")
			await.Until(t, "report", func() bool { return stored() != "" })
			before, ends := stored(), fmt.Sprintf(`quoin_agent_probe_restarts_total{reason=%q}`, tt.reason)
			m.Change("gpu 1", tt.fault)
			await.Until(t, "end of the probe", func() bool { return series.Values(t, reg)[ends] >= 2 })
			if now := stored(); now != before {
				t.Errorf("report\n%s\nbefore\n%s", now, before)
			}
			m.Change()
			sampled("samples again")
		})
	}
}
