package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/nodeagent"
	"github.com/quoin-hpc/quoin/nodeagent/jobs"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/test/rig/golden"
)

//go:generate go test -run ^TestReference . -update

const generated = "<!-- Made by go generate from the code. Do not edit. -->\n"

// TestReferenceOfCommands holds that the reference of all commands is as the code says.
func TestReferenceOfCommands(t *testing.T) {
	var b strings.Builder
	b.WriteString(generated + "# Command reference\n")
	for _, group := range newRootCommand().Groups() {
		fmt.Fprintf(&b, "\n%s\n\n", group.Title)
		for _, cmd := range newRootCommand().Commands() {
			if cmd.GroupID == group.ID {
				fmt.Fprintf(&b, "* [quoin %s](#quoin-%s): %s\n", cmd.Name(), cmd.Name(), cmd.Short)
			}
		}
	}
	fmt.Fprintf(&b, "\n    %s\n", strings.ReplaceAll(show.ExitCodes, "\n", "\n    "))
	shared := sharedFlags(newRootCommand())
	b.WriteString("\n## Flags of several commands\n\nEach command lists the flags of this table that it has, and explains its own.\n")
	flagTable(&b, shared)
	for _, cmd := range newRootCommand().Commands() {
		if cmd.GroupID != "" {
			describeCommand(&b, "##", cmd, shared)
			for _, below := range cmd.Commands() {
				describeCommand(&b, "###", below, shared)
			}
		}
	}
	golden.Check(t, "COMMANDS.md", b.String())
}

// sharedFlags returns the rows of the flags that several commands have with the same meaning and default: of
// each name the row that most commands have.
func sharedFlags(root *cobra.Command) []string {
	count, most := map[string]int{}, map[string]string{}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			row := flagRow(f)
			if f.Hidden {
				return
			}
			if count[row]++; count[row] > max(1, count[most[f.Name]]) {
				most[f.Name] = row
			}
		})
		for _, below := range cmd.Commands() {
			look(below)
		}
	}
	for _, cmd := range root.Commands() {
		if cmd.GroupID != "" {
			look(cmd)
		}
	}
	return slices.Sorted(maps.Values(most))
}

func flagTable(b *strings.Builder, rows []string) {
	b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
	for _, row := range rows {
		b.WriteString(row)
	}
}

// flagRow is the row of a flag in a table.
func flagRow(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	shown := ""
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
		shown = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, shown, strings.ReplaceAll(usage, "|", `\|`))
}

func describeCommand(b *strings.Builder, heading string, cmd *cobra.Command, shared []string) {
	fmt.Fprintf(b, "\n%s %s\n\n%s\n\n    %s\n", heading, cmd.CommandPath(), cmp.Or(cmd.Long, cmd.Short+"."), cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n    %s\n", strings.ReplaceAll(strings.TrimSpace(cmd.Example), "\n  ", "\n    "))
	}
	var own, others []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if row := flagRow(f); f.Hidden {
			return
		} else if slices.Contains(shared, row) {
			others = append(others, "`--"+f.Name+"`")
		} else {
			own = append(own, row)
		}
	})
	if len(own) > 0 {
		flagTable(b, own)
	}
	if len(others) > 0 {
		fmt.Fprintf(b, "\nAlso %s.\n", strings.Join(others, ", "))
	}
}

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
