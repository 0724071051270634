package manifests_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// sample is one series of an answer.
type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
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

// allRules are the files of all rules.
func allRules(t *testing.T) (paths []string) {
	t.Helper()
	for _, name := range ruleFiles {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}
