// Package service is what agent and publisher have in common as programs that run on: the
// log, the series of the program itself, and the servers of metrics and probes.
//
// Slow or many clients cannot overload the servers, because the time of each client and the number
// of scrapes at a time are bounded. The probes have a server of their own, which no scraper
// reaches, and are answered from a cache.
package service

import (
	"context"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/version"
)

// Logger returns the logger of agent or publisher.
func Logger(w io.Writer, c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		panic(err) // the configuration has been checked
	}
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// LogStart writes the first line of the log: which program runs, and where it works. store
// is a directory, or empty for Kubernetes.
func LogStart(log *slog.Logger, component, store string, args ...any) {
	v := version.Get()
	if store == "" {
		store = "Kubernetes"
	}
	log.Info("starts", append([]any{"component", component, "version", v.Version, "revision", v.Revision, "store", store}, args...)...)
}

// Registry returns the registry of a component, agent or publisher, with the series of
// the build, of Go and of the process.
func Registry(component string) *prometheus.Registry {
	reg, v := prometheus.NewRegistry(), version.Get()
	promauto.With(reg).NewGauge(prometheus.GaugeOpts{Name: "quoin_build_info", Help: "1, with what the program knows of its build as labels.",
		ConstLabels: prometheus.Labels{"component": component, "version": v.Version, "revision": v.Revision, "goversion": v.Go}}).Set(1)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Together runs all functions until the first returns, ends the others, and returns the
// first error.
func Together(ctx context.Context, run ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(run))
	for _, f := range run {
		go func() {
			results <- f(ctx)
			cancel()
		}()
	}
	var first error
	for range run {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}
