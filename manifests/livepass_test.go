package manifests_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// TestRealPrometheus lets a real Prometheus with all rules scrape real agents,
// whose jobs a real hook starts and ends, and exporters of both generations that
// read the mapping.
func TestRealPrometheus(t *testing.T) {
	t.Parallel()
	l := startLive(t)
	n1, n2, m1 := l.nodes[0], l.nodes[1], l.nodes[2]
	for _, n := range l.nodes { // the hook resolves GPUs by the agent's inventory
		l.eventually("inventory of "+n.name, "there", func() any {
			if _, err := os.Stat(filepath.Join(n.Run(), "inventory.json")); err != nil {
				return err.Error()
			}
			return "there"
		})
	}
	mig := m1.report.GPUs[0].MIG
	n1.hook("prolog", "1", "alice", "physics", "0", "", "n1") // two jobs share a GPU
	n1.hook("prolog", "2", "bob", "biology", "0", "", "n1")
	n1.hook("prolog", "3", "carol", "physics", "1", "", "n1") // idle
	n2.hook("prolog", "4", "dave", "biology", "0", "", "n[1-2]")
	n2.hook("prolog", "5", "erin", "physics", "1", "", "n[1-2]") // over both racks
	n1.hook("prolog", "5", "erin", "physics", "1", "", "n[1-2]")
	m1.hook("prolog", "6", "alice", "physics", "", mig[0].UUID, "m1")
	m1.hook("prolog", "7", "bob", "biology", "", mig[1].UUID, "m1")
	l.wantTable(map[string][]string{
		`quoin:gpu_job:info`:                           {"1 n1 0 = 1", "2 n1 0 = 1", "3 n1 1 = 1", "4 n2 0 = 1", "5 n1 1 = 1", "5 n2 1 = 1", "6 m1 0.1 = 1", "7 m1 0.2 = 1"},
		`quoin:gpu_job_utilization:ratio`:              {"1 n1 0 = 0.5", "2 n1 0 = 0.5", "3 n1 1 = 0", "4 n2 0 = 0.5", "5 n1 1 = 0", "5 n2 1 = 0.5", "6 m1 0.1 = 0.25", "7 m1 0.2 = 0.25"},
		`quoin:gpu_job_memory_used:bytes / 1073741824`: {"1 n1 0 = 1", "2 n1 0 = 1", "3 n1 1 = 0", "4 n2 0 = 1", "5 n1 1 = 0", "5 n2 1 = 1", "6 m1 0.1 = 1", "7 m1 0.2 = 1"},
		`quoin:gpu_job_power:watts`:                    {"1 n1 0 = 300", "2 n1 0 = 300", "3 n1 1 = 35", "4 n2 0 = 600", "5 n1 1 = 35", "5 n2 1 = 600"},
		`quoin:gpu_job:info{user="erin"} * on (cluster, job_id) group_left () quoin:job_blocks:count`:  {"5 n1 1 = 2", "5 n2 1 = 2"},
		`quoin:gpu_job:info{user="erin"} * on (cluster, job_id) group_left () quoin:job_cliques:count`: {}, // of one node each
		`quoin:gpu:info * on (UUID, GPU_I_ID) group_left () quoin:gpu_exporter_jobs:count`:             {" n1 0 = 2", " n1 1 = 2", " n2 0 = 1", " n2 1 = 1", " m1 0.1 = 1", " m1 0.2 = 1"},
		`quoin:gpu_job_idle:seconds > bool 0`:                                                          {"1 n1 0 = 0", "2 n1 0 = 0", "3 n1 1 = 1", "4 n2 0 = 0", "5 n1 1 = 1", "5 n2 1 = 0", "6 m1 0.1 = 0", "7 m1 0.2 = 0"},
		`sum by (state) (quoin_gpus)`:                                                                  {"   = 0", "   = 0", "   = 6"},
		`sum(quoin_agent_gpus{health="unhealthy"})`:                                                    {"   = 1"},
		`sum(quoin_hook_duration_seconds_count{hook="prolog"})`:                                        {"   = 8"},
		`sum(quoin_hook_errors_total{hook="prolog"})`:                                                  {"   = 0"},
	})
	n1.hook("epilog", "3", "carol", "physics", "1", "", "n1")
	m1.hook("epilog", "6", "alice", "physics", "", mig[0].UUID, "m1")
	l.wantTable(map[string][]string{
		`quoin:gpu_job:info`: {"1 n1 0 = 1", "2 n1 0 = 1", "4 n2 0 = 1", "5 n1 1 = 1", "5 n2 1 = 1", "7 m1 0.2 = 1"},
		`quoin:gpu:info * on (UUID, GPU_I_ID) group_left () quoin:gpu_exporter_jobs:count`: {" n1 0 = 2", " n1 1 = 1", " n2 0 = 1", " n2 1 = 1", " m1 0.2 = 1"},
	})
	l.healthy()
	l.sameSeries(n1)
}

// row is a series as "job node device = value".
func row(r promrig.Row) string {
	device := r.Labels["gpu"]
	if i := r.Labels["GPU_I_ID"]; i != "" {
		device += "." + i
	}
	return fmt.Sprintf("%s %s %s = %v", r.Labels["job_id"], r.Labels["node"], device, r.Value)
}

// wantTable waits until all expressions have exactly these rows.
func (l *live) wantTable(want map[string][]string) {
	l.t.Helper()
	for _, rows := range want {
		slices.Sort(rows)
	}
	l.eventually("rows", want, func() any {
		got := map[string][]string{}
		for expr := range want {
			rows, err := l.Query(l.t.Context(), expr)
			if err != nil {
				l.t.Fatal(err)
			}
			got[expr] = []string{}
			for _, r := range rows {
				got[expr] = append(got[expr], row(r))
			}
			slices.Sort(got[expr])
		}
		return got
	})
}

// eventually waits until get returns what is wanted.
func (l *live) eventually(what string, want any, get func() any) {
	l.t.Helper()
	var diff string
	await.Until(l.t, what, func() bool {
		diff = cmp.Diff(want, get())
		return diff == ""
	}, func() string { return "(-want +got):\n" + diff })
}

// healthy checks that all targets are scraped, all rules evaluate, and every
// dashboard's expressions are answered.
func (l *live) healthy() {
	l.t.Helper()
	targets, err := l.Targets(l.t.Context())
	if err != nil || len(targets) != 7 {
		l.t.Errorf("%d targets, want 7: %v", len(targets), err)
	}
	for _, x := range targets {
		if x.Health != "up" {
			l.t.Errorf("%s is %s: %s", x.URL, x.Health, x.Error)
		}
	}
	want := len(readRules(l.t))
	rules, err := l.Rules(l.t.Context())
	if err != nil || len(rules) != want {
		l.t.Errorf("%d rules, want %d: %v", len(rules), want, err)
	}
	for _, r := range rules {
		if r.Health != "ok" {
			l.t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.Error)
		}
	}
	for _, d := range readDashboards(l.t) {
		for key, expr := range d.queries(l.t) {
			if _, err := l.Query(l.t.Context(), substitute(expr, map[string]string{"__range": "1m", "__rate_interval": "10s", "size": "16"})); err != nil {
				l.t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// sameSeries checks that what the agents of site.series print has the names and labels that a real one
// prints.
func (l *live) sameSeries(n *liveNode) {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://"+n.agent+"/metrics", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	printed := shapes(string(body))
	for name, want := range siteShapes(l.t, "quoin-agent") {
		// No IMEX, no gate and no problem on a simulated machine without trouble
		// and Kubernetes.
		absent := []string{"quoin_agent_imex_info", "quoin_agent_imex_ready", "quoin_agent_problems"}
		if got, ok := printed[name]; !slices.Contains(absent, name) && (!ok || got != want) {
			l.t.Errorf("%s has labels %q at a real agent, and %q in site.series", name, got, want)
		}
	}
}

var labelName = regexp.MustCompile(`(\w+)="`)

// shapes returns the label names of each series, all that any of them has.
func shapes(text string) map[string]string {
	sets := map[string][]string{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, "{")
		if !ok {
			name, rest, _ = strings.Cut(line, " ")
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if sets[name] == nil {
			sets[name] = []string{}
		}
		for _, m := range labelName.FindAllStringSubmatch(rest, -1) {
			if !slices.Contains(sets[name], m[1]) {
				sets[name] = append(sets[name], m[1])
			}
		}
	}
	out := map[string]string{}
	for name, set := range sets {
		slices.Sort(set)
		out[name] = strings.Join(set, " ")
	}
	return out
}
