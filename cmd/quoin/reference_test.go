package main

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/test/rig/golden"
)

//go:generate go test -run ^TestReference . -update

const generated = "<!-- Made by go generate from the code. Do not edit. -->\n"

// TestReferenceOfMetrics holds that the reference of all series is as the code says.
func TestReferenceOfMetrics(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	log := slog.New(slog.DiscardHandler)
	agent, pub := seriesRecorder{t: t}, seriesRecorder{t: t}
	nodeagent.NewMetrics(&agent)
	nodeagent.NewGate("n", "", rundir.Dir(t.TempDir()), nil, nil, nil, &agent, log)
	agent.MustRegister(jobs.New(jobsConfig(&config.Default().Agent, ""), log).Collector())
	publisher.NewMetrics(&pub)
	golden.Check(t, "METRICS.md", generated+`# Metrics reference

Both processes also serve `+"`quoin_build_info{component,version,revision,goversion}`"+`, which is 1, and the series of Go and of
the process itself (`+"`go_*`, `process_*`"+`). A name that ends in `+"`_total`"+` is a counter's, one in `+"`_duration_seconds`"+` a histogram's. All others are gauges.

## quoin agent, one on each GPU node

`+agent.table()+`
## quoin publisher

`+pub.table())
}

// seriesRecorder is a registry that notes what is registered.
type seriesRecorder struct {
	t    *testing.T
	rows []string
}

// MustRegister implements prometheus.Registerer.
func (r *seriesRecorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = r.Register(c)
	}
}

// Unregister implements prometheus.Registerer.
func (*seriesRecorder) Unregister(prometheus.Collector) bool { return false }

var (
	descForm  = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	labelForm = regexp.MustCompile(`(\w+)="`)
)

// Register implements prometheus.Registerer.
func (r *seriesRecorder) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 1000)
	c.Describe(descs)
	close(descs)
	for d := range descs {
		m := descForm.FindStringSubmatch(d.String())
		if m == nil {
			r.t.Fatalf("a description of another form: %s", d)
		}
		name, err := strconv.Unquote(m[1])
		if err != nil {
			r.t.Fatal(err)
		}
		help, err := strconv.Unquote(m[2])
		if err != nil {
			r.t.Fatal(err)
		}
		var labels []string
		for _, l := range labelForm.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		labels = append(labels, strings.FieldsFunc(m[4], func(r rune) bool { return r == ',' || r == ' ' })...)
		kind := kindByName(name)
		if known := kindOfCollector(c); known != "" && known != kind {
			r.t.Errorf("%s is a %s, and its name is that of a %s", name, known, kind)
		}
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		r.rows = append(r.rows, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(help, "|", `\|`)))
	}
	return nil
}

// table returns the rows in the order of the names.
func (r *seriesRecorder) table() string {
	slices.Sort(r.rows)
	return "| series | meaning |\n|---|---|\n" + strings.Join(r.rows, "")
}

func kindByName(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_duration_seconds"):
		return "histogram"
	}
	return "gauge"
}

// kindOfCollector is empty for a collector of our own.
func kindOfCollector(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge:
		return "gauge"
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	return ""
}

// TestUsageLinesFit holds that each line of usage fits a terminal.
func TestUsageLinesFit(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if line := cmd.UseLine(); len(line) > 80 {
			t.Errorf("%d columns, more than 80: %s", len(line), line)
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(newRootCommand())
}
