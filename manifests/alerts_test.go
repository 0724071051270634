package manifests_test

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
)

// alertCase is what makes one alert fire, and what looks alike and must not.
type alertCase struct {
	alert string
	fire  []series
	// at is the minute at which it fires with the labels and the value; a minute
	// earlier it doesn't.
	at     int
	labels map[string]string
	value  float64
	// silent are series for which it does not fire up to a while after that.
	silent [][]series
}

// TestRealAlerts lets promtool fire every alert when it should, at the minute, with
// the labels and the text, and checks that it is silent when not.
func TestRealAlerts(t *testing.T) {
	t.Parallel()
	rules, shown, all := map[string]rule{}, map[string]bool{}, readRules(t)
	for _, r := range all {
		if r.Alert != "" {
			rules[r.Alert] = r
		}
	}
	var files []unitFile
	for _, c := range alertCases() {
		r, ok := rules[c.alert]
		if !ok {
			t.Errorf("there is no alert %s", c.alert)
			continue
		}
		shown[c.alert] = true
		want := maps.Clone(c.labels)
		want["severity"] = r.Labels["severity"]
		test := unitTest{Name: c.alert, Interval: "1m", Series: c.fire, Alerts: []alertTest{
			{At: fmt.Sprintf("%dm", c.at), Name: c.alert, Alerts: []expAlert{{want, annotations(t, r, c)}}},
		}}
		if c.at > 0 {
			test.Alerts = append(test.Alerts, alertTest{At: fmt.Sprintf("%dm", c.at-1), Name: c.alert})
		}
		tests := []unitTest{test}
		if len(c.silent) == 0 {
			t.Errorf("%s: nothing shows that it can be silent", c.alert)
		}
		for i, s := range c.silent {
			// Never so far, well after it would have fired.
			tests = append(tests, unitTest{Name: fmt.Sprintf("%s silent %d", c.alert, i), Interval: "1m", Series: s, Exprs: []exprTest{
				{Expr: `max_over_time(ALERTS{alertname="` + c.alert + `", alertstate="firing"}[2h])`, At: fmt.Sprintf("%dm", c.at+c.at/4+10), Samples: []sample{}}}})
		}
		files = append(files, unitFile{rulesFor(t, all, r.Alert), "1m", tests})
	}
	for name := range rules {
		if !shown[name] {
			t.Errorf("%s: nothing shows that it fires", name)
		}
	}
	if out, err := runUnits(t, files...); err != nil {
		t.Error(out)
	}
}

// rulesFor writes a file of the rules that alerts and expressions need, in their order:
// all rules for each case would take a minute.
func rulesFor(t *testing.T, all []rule, needs ...string) []string {
	t.Helper()
	needed := map[string]bool{}
	for _, need := range needs {
		needed[need] = true
		for _, name := range recorded.FindAllString(need, -1) {
			needed[name] = true
		}
	}
	var rules []rule
	for _, r := range slices.Backward(all) {
		if !needed[r.Record] && !needed[r.Alert] {
			continue
		}
		rules = append([]rule{r}, rules...)
		for _, name := range recorded.FindAllString(r.Expr, -1) {
			needed[name] = true
		}
	}
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeJSON(t, path, map[string]any{"groups": []any{map[string]any{"name": "quoin", "interval": "1m", "rules": rules}}})
	return []string{path}
}

// annotations renders an alert's text, and fails on a label that it has not.
func annotations(t *testing.T, r rule, c alertCase) map[string]string {
	t.Helper()
	all := map[string]string{}
	for key, text := range r.Annotations {
		tmpl, err := template.New(key).Option("missingkey=error").Funcs(template.FuncMap{"humanizeDuration": humanizeDuration}).
			Parse("{{ $labels := .Labels }}{{ $value := .Value }}" + text)
		if err != nil {
			t.Fatalf("%s: %s: %v", r.Alert, key, err)
		}
		set := map[string]string{"GPU_I_ID": ""} // the one that may be missing
		maps.Copy(set, c.labels)
		var out strings.Builder
		if err := tmpl.Execute(&out, map[string]any{"Labels": set, "Value": c.value}); err != nil {
			t.Fatalf("%s: %s: %v", r.Alert, key, err)
		}
		all[key] = out.String()
	}
	return all
}

// humanizeDuration is Prometheus' for times from a second to a day.
func humanizeDuration(seconds float64) string {
	if seconds < 60 && seconds != math.Trunc(seconds) {
		return fmt.Sprintf("%.4gs", seconds)
	}
	s := int(seconds)
	if s >= 3600 {
		return fmt.Sprintf("%dh %dm %ds", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%dm %ds", s/60, s%60)
}

// The series of one agent, exporter and publisher.
const (
	onAgent    = `instance="i", job="quoin-agent"`
	gpu1       = `UUID="GPU-1", gpu="0"`
	ofJob7     = `quoin_gpu_job_info{` + gpu1 + `, job_id="7", user="u", account="a", partition="p", cluster="c", clique="k.1", ` + onAgent + `}`
	ofGPU1     = `quoin_gpu_info{` + gpu1 + `, modelName="M", clique="k.1", node="n", ` + onAgent + `}`
	inBlockB1  = `quoin_node_info{node="n", block="b1", clique="k.1", job="quoin-publisher"}`
	always     = "1x200"
	exporterOf = `DCGM_FI_DEV_FB_USED{gpu="0", UUID="GPU-1", Hostname="n", job="dcgm-exporter"`
)

// agent returns a series of the agent.
func agent(name, labels, values string) series {
	if labels != "" {
		labels += ", "
	}
	return series{name + "{" + labels + onAgent + "}", values}
}

// job7 holds GPU-1 of node n; more series come with it.
func job7(more ...series) []series {
	return append([]series{{ofJob7, always}, {ofGPU1, always}, {inBlockB1, always}}, more...)
}

// job7Labels are those of the job's device.
func job7Labels() map[string]string {
	return map[string]string{"UUID": "GPU-1", "gpu": "0", "job_id": "7", "user": "u", "account": "a", "partition": "p", "cluster": "c",
		"clique": "k.1", "block": "b1", "node": "n", "modelName": "M"}
}

// fromAgent are the labels of an agent's series, with more.
func fromAgent(more ...string) map[string]string {
	set := map[string]string{"instance": "i", "job": "quoin-agent"}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	return set
}
