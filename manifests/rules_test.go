package manifests_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

var update = flag.Bool("update", false, "write the files that are made from others")

// ruleFile is what is read of a rule file.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record      string            `json:"record,omitempty"`
	Alert       string            `json:"alert,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ruleFiles are the rules with the alerts that are on, and the other alerts.
var ruleFiles = []string{"chart/files/quoin.rules.yaml", "chart/files/quoin-more.rules.yaml"}

// readRules are the rules of all files.
func readRules(t *testing.T) (all []rule) {
	t.Helper()
	for _, name := range ruleFiles {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f ruleFile
		if err := yaml.Unmarshal(data, &f); err != nil {
			t.Fatal(err)
		}
		all = append(all, f.rules()...)
	}
	return all
}

func (f *ruleFile) rules() (all []rule) {
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestRealCheckRules(t *testing.T) {
	t.Parallel()
	promrig.NeedTest(t)
	if out, err := promrig.Promtool(t.Context(), ".", append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, ruleFiles...)...); err != nil {
		t.Error(out)
	}
}

// recordName is Prometheus' level:metric:operation.
var recordName = regexp.MustCompile(`^quoin:[a-z_]+:[a-z_]+$`)

// recorded finds the series that rules record in an expression.
var recorded = regexp.MustCompile(`quoin:\w+:\w+`)

// TestRules checks that names are unique and follow the convention, that nothing
// is read that no rule records, and that nothing is recorded that nobody reads.
func TestRules(t *testing.T) {
	var all strings.Builder
	for _, d := range readDashboards(t) {
		for _, expr := range d.queries(t) {
			all.WriteString(expr + "\n")
		}
	}
	names := map[string]bool{}
	rules := readRules(t)
	for _, r := range rules {
		all.WriteString(r.Expr + "\n")
		if name := r.Record + r.Alert; names[name] || r.Record != "" && !recordName.MatchString(name) {
			t.Errorf("%s: twice, or not level:metric:operation", name)
		}
		names[r.Record+r.Alert] = true
	}
	used := recorded.FindAllString(all.String(), -1)
	for _, name := range used {
		if !names[name] {
			t.Errorf("%s is read and no rule records it", name)
		}
	}
	for _, r := range rules {
		if r.Record != "" && !slices.Contains(used, r.Record) {
			t.Errorf("%s is recorded and nobody reads it", r.Record)
		}
	}
}

// unwatched are the series that are in no rule and in no panel, with the reason.
var unwatched = map[string]string{
	"quoin_agent_dcgm_reads_total":          "QuoinNodeProblem watches DCGMIDUnknown; if the host engine fails and the exporter answers, this alone says so",
	"quoin_agent_probe_restarts_total":      "one restart harms nothing; QuoinProbeDown watches quoin_agent_probe_up, and its runbook looks here",
	"quoin_publisher_pass_duration_seconds": "QuoinPublisherFails watches passes; how long one may take depends on the site's size",
}

// servedName finds the series in the tables of METRICS.md.
var servedName = regexp.MustCompile("(?m)^\\| `(quoin_\\w+)")

// TestUnwatched holds that each series is in a rule, in a panel, or unwatched with a reason.
func TestUnwatched(t *testing.T) {
	page, err := os.ReadFile("../cmd/quoin/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var exprs []string
	for _, r := range readRules(t) {
		exprs = append(exprs, r.Expr)
	}
	for _, d := range readDashboards(t) {
		exprs = slices.AppendSeq(exprs, maps.Values(d.queries(t)))
	}
	all := strings.Join(exprs, "\n")
	served := map[string]bool{}
	for _, m := range servedName.FindAllStringSubmatch(string(page), -1) {
		name := m[1]
		served[name] = true
		watched := regexp.MustCompile(`\b` + name + `(_bucket|_sum|_count)?\b`).MatchString(all)
		if _, listed := unwatched[name]; watched == listed {
			t.Errorf("%s: in a rule or panel: %t, in the list of others: %t; want one of them", name, watched, listed)
		}
	}
	for name, why := range unwatched {
		if !served[name] || why == "" {
			t.Errorf("%s is in the list, but nobody serves it or the reason is missing", name)
		}
	}
}

var isState = regexp.MustCompile(`== [01]|!="READY"|unless`)

// TestRunbooks checks that every alert says what is wrong, where, and what to do.
func TestRunbooks(t *testing.T) {
	data, err := os.ReadFile("RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(data), "\n## ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		if got, want := r.Annotations["runbook"], "manifests/RUNBOOKS.md#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: runbook %q, want %q", r.Alert, got, want)
		}
		if body := sections[r.Alert]; !strings.Contains(body, "Meaning:") || !strings.Contains(body, "\nLook:") || !strings.Contains(body, "\nDo:") {
			t.Errorf("RUNBOOKS.md has no section %s with its meaning, where to look and what to do", r.Alert)
		}
		delete(sections, r.Alert)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		// The value of what is so or not so says nothing.
		if text := r.Annotations["summary"] + r.Annotations["description"]; !strings.Contains(text, "$value") && !isState.MatchString(r.Expr) || !strings.Contains(text, "$labels") && !strings.Contains(r.Expr, "sum by (job)") {
			t.Errorf("%s: its text has no value, or no label", r.Alert)
		}
	}
	for title := range sections {
		t.Errorf("RUNBOOKS.md has a section %s, which no alert needs", title)
	}
}

// TestPrometheusRule checks that the operator's objects hold the rules.
func TestPrometheusRule(t *testing.T) {
	var got []rule
	for _, name := range []string{"rules/prometheusrule.yaml", "rules/more/alerts.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var object struct{ Spec ruleFile }
		if err := yaml.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		got = append(got, object.Spec.rules()...)
	}
	if diff := cmp.Diff(readRules(t), got); diff != "" {
		t.Errorf("rules differ (-file +object):\n%s", diff)
	}
}

// core are the alerts that are on, by what each is about.
var core = map[string]string{
	"the publisher is gone": "QuoinPublisherNoLeader", "files are held": "QuoinPublisherHeld", "files are not loaded": "QuoinFileNeverLoaded",
	"the hardware is no longer as published": "QuoinDomainChanged", "an agent is gone": "QuoinAgentDown", "the job mapping is not written": "QuoinMappingNotWritten",
	"a GPU is lost": "QuoinGPULost", "the fabric is not ready": "QuoinFabricDegraded", "IMEX is not ready": "QuoinIMEXNoMember", "jobs get a faulty GPU": "QuoinXid",
}

// TestCore holds that the chart turns on the core of the alerts with prometheusRule.enabled, and the others with
// prometheusRule.allAlerts, and that RUNBOOKS.md has each in its part.
func TestCore(t *testing.T) {
	page, err := os.ReadFile("RUNBOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	first, more, ok := strings.Cut(string(page), "\n# More alerts\n")
	if !ok {
		t.Error("RUNBOOKS.md has no part of more alerts")
	}
	on := slices.Sorted(maps.Values(core))
	var all []string
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		all = append(all, r.Alert)
		if part := map[bool]string{true: first, false: more}[slices.Contains(on, r.Alert)]; !strings.Contains(part, "\n## "+r.Alert+"\n") {
			t.Errorf("RUNBOOKS.md has %s in the other part", r.Alert)
		}
	}
	slices.Sort(all)
	for value, want := range map[string][]string{"false": on, "true": all} {
		var got []string
		for _, o := range objects(t, rendered(t, nil, append([]string{"--set", kuberig.Image + ",prometheusRule.allAlerts=" + value}, monitored...)...)) {
			if o.at("kind") != "PrometheusRule" {
				continue
			}
			var object struct{ Spec ruleFile }
			if err := yaml.Unmarshal([]byte(o.text), &object); err != nil {
				t.Fatal(err)
			}
			for _, r := range object.Spec.rules() {
				if r.Alert != "" {
					got = append(got, r.Alert)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("alerts with allAlerts=%s (-want +got):\n%s", value, diff)
		}
	}
}

// dcgmName is a field of DCGM, or a series that the exporter makes of one.
var dcgmName = regexp.MustCompile(`DCGM_FI_\w+`)

// TestCounters checks that the CSV of each generation has every field that the
// rules read, and no field that DCGM of that generation does not have.
func TestCounters(t *testing.T) {
	var text strings.Builder
	for _, r := range readRules(t) {
		text.WriteString(strings.ReplaceAll(r.Expr, "|", " ") + "\n")
	}
	renamed, since := readRenamed(t)
	before, after := readCounters(t, "dcgm/counters-before-4.9.csv"), readCounters(t, "dcgm/counters-4.9.csv")
	for _, name := range dcgmName.FindAllString(text.String(), -1) {
		if new, old := after[name], before[name]; new == old && !strings.HasPrefix(name, "DCGM_FI_PROF_PCIE_") && name != "DCGM_FI_DEV_CLOCKS_EVENT_REASONS" {
			t.Errorf("%s is in both CSVs or in none", name)
		}
	}
	header := dcgmHeader(t)
	for name := range before {
		if !header[name] || since[name] {
			t.Errorf("counters-before-4.9.csv: DCGM 4.6 has no field %s, or it is a name of 4.9", name)
		}
		if new, ok := renamed[name]; ok && !after[new] {
			t.Errorf("counters-4.9.csv lacks %s, which %s was before", new, name)
		}
	}
	for name := range after {
		if _, old := renamed[name]; old || !since[name] && !header[name] && name != "DCGM_FI_DEV_FB_CAPACITY_BYTES" {
			t.Errorf("counters-4.9.csv: %s is not of 4.9", name)
		}
	}
}

func readCounters(t *testing.T, path string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := exporter.ParseCounters(string(data))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range counters {
		names[c.Field] = true
	}
	return names
}

// readRenamed returns what each field is called from 4.9 on, and these names.
func readRenamed(t *testing.T) (renamed map[string]string, since map[string]bool) {
	t.Helper()
	data, err := os.ReadFile("dcgm/renamed-4.9.csv")
	if err != nil {
		t.Fatal(err)
	}
	renamed, since = map[string]string{}, map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if parts := strings.Split(strings.TrimSpace(line), ", "); len(parts) == 4 && !strings.HasPrefix(line, "#") {
			renamed[parts[0]], since[parts[1]] = parts[1], true
		}
	}
	return renamed, since
}

// dcgmHeader returns the fields of DCGM 4.6, which go-dcgm brings.
func dcgmHeader(t *testing.T) map[string]bool {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "pkg/dcgm/dcgm_fields.h"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#define (DCGM_FI_\w+)\s`).FindAllStringSubmatch(string(data), -1) {
		names[m[1]] = true
	}
	return names
}

// TestRealDashboardConfigMaps makes the ConfigMaps of the dashboards.
func TestRealDashboardConfigMaps(t *testing.T) {
	t.Parallel()
	kuberig.NeedTest(t)
	bin, err := kuberig.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl"), "kustomize", "chart/files/dashboards").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, d := range readDashboards(t) {
		if !strings.Contains(string(out), "\n  "+d.UID+".json: |") {
			t.Errorf("no ConfigMap has %s.json", d.UID)
		}
	}
	if got, want := strings.Count(string(out), `grafana_dashboard: "1"`), len(readDashboards(t)); got != want {
		t.Errorf("%d ConfigMaps have the sidecar's label, want %d", got, want)
	}
}
