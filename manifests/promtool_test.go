package manifests_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// sample is one series of an answer.
type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// labels renders a label set as Prometheus does; empty ones are none.
func labels(name string, set map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if set[k] != "" {
			parts = append(parts, k+"="+strconv.Quote(set[k]))
		}
	}
	return name + "{" + strings.Join(parts, ", ") + "}"
}

// The unit tests of promtool, as far as they are used here.
type (
	unitFile struct {
		RuleFiles []string   `json:"rule_files"`
		Interval  string     `json:"evaluation_interval"`
		Tests     []unitTest `json:"tests"`
	}
	unitTest struct {
		Name     string      `json:"name,omitempty"`
		Interval string      `json:"interval"`
		Series   []series    `json:"input_series"`
		Exprs    []exprTest  `json:"promql_expr_test,omitempty"`
		Alerts   []alertTest `json:"alert_rule_test,omitempty"`
	}
	series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	exprTest struct {
		Expr    string   `json:"expr"`
		At      string   `json:"eval_time"`
		Samples []sample `json:"exp_samples"`
	}
	alertTest struct {
		At     string     `json:"eval_time"`
		Name   string     `json:"alertname"`
		Alerts []expAlert `json:"exp_alerts"`
	}
	expAlert struct {
		Labels      map[string]string `json:"exp_labels"`
		Annotations map[string]string `json:"exp_annotations"`
	}
)

// runUnits runs files of unit tests.
func runUnits(t *testing.T, files ...unitFile) (string, error) {
	t.Helper()
	promrig.NeedTest(t)
	dir := t.TempDir()
	args := []string{"test", "rules"}
	for i, f := range files {
		args = append(args, fmt.Sprintf("%d.test.yaml", i))
		writeJSON(t, filepath.Join(dir, args[len(args)-1]), f)
	}
	return promrig.Promtool(t.Context(), dir, args...)
}

// writeJSON writes a file, which is YAML too.
func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// allRules is the file of all rules.
func allRules(t *testing.T) []string {
	t.Helper()
	path, err := filepath.Abs("chart/files/quoin.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

var exposedNode = regexp.MustCompile(`,node="`)

// timeline collects what targets print, minute by minute, as promtool's series.
type timeline struct {
	minutes int
	values  map[string][]string
}

// add adds a minute: of each series its value, and of one that has gone a stale
// mark, as a scrape does.
func (l *timeline) add(t *testing.T, texts []text) {
	t.Helper()
	if l.values == nil {
		l.values = map[string][]string{}
	}
	for _, x := range texts {
		for line := range strings.Lines(x.body) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			space := strings.LastIndexByte(line, ' ')
			name, rest, ok := strings.Cut(line[:space], "{")
			if !ok {
				name, rest = line[:space], "}"
			}
			key := name + "{" + x.labels
			if rest != "}" {
				key += ","
			}
			if strings.Contains(x.labels, `,node="`) { // as Prometheus does with a label that the target has too
				rest = exposedNode.ReplaceAllString(","+rest, `,exported_node="`)[1:]
			}
			key += rest
			if len(l.values[key]) > l.minutes {
				t.Fatalf("minute %d: %s is there twice", l.minutes, key)
			}
			for len(l.values[key]) < l.minutes {
				l.values[key] = append(l.values[key], "_")
			}
			l.values[key] = append(l.values[key], line[space+1:])
		}
	}
	l.minutes++
	for key, v := range l.values {
		if len(v) == l.minutes-1 {
			mark := "_"
			if last := v[len(v)-1]; last != "_" && last != "stale" {
				mark = "stale"
			}
			l.values[key] = append(v, mark)
		}
	}
}

func (l *timeline) series() []series {
	all := make([]series, 0, len(l.values))
	for _, key := range slices.Sorted(maps.Keys(l.values)) {
		all = append(all, series{key, strings.Join(l.values[key], " ")})
	}
	return all
}

// scriptedHour plays the whole script.
func scriptedHour(t *testing.T) []series {
	t.Helper()
	h, l := newPlayer(t), &timeline{}
	for minute := range 61 {
		l.add(t, h.at(t, minute))
	}
	return l.series()
}

// halfPast is the moment at which expressions are evaluated: half a minute after
// the last scrape, so that no sample lies on the edge of a range.
func halfPast(minute int) string { return fmt.Sprintf("%dm30s", minute) }
