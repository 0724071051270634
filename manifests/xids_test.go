package manifests_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// xidMachines are what the agents of a site report, by the alerts that fire for each.
func xidMachines() map[string]map[string]*topology.Node {
	of := func(recovery string, codes ...int) *topology.Node {
		n := &topology.Node{GPUs: []topology.GPU{{UUID: "GPU-a", Recovery: recovery, Xids: codes}, {UUID: "GPU-b"}}}
		var xids fabric.Xids
		xids.Take(n)
		xids.Show(n)
		return n
	}
	const critical, look = "QuoinXid critical", "QuoinXidLook warning"
	all := map[string]map[string]*topology.Node{
		"": {
			"fine": of("none"), "ignore": of("", 14, 63, 92, 121, 137, 162), "application": of("", 13, 31, 43, 94), "cleanup of a job": of("", 13, 45), "recovery action was set back": of("none", 154),
		},
		look: {
			"look": of("", 74), "cleanup alone": of("none", 45), "unknown number": of("", 999), "peer-to-peer is to end": of("drainP2P", 154),
		},
		critical: {
			"reset": of("", 109, 31), "off the bus": of("", 79), "NVML asks for a reset": of("resetGPU", 154),
		},
		critical + ", " + look: {"reset, and an NVLink error": of("none", 119, 149)},
	}
	// After one job of an NVL72 site crashed, 77 nodes of 11 racks had Xids such as these, as a
	// public report says.
	for i := range 77 {
		all[look][fmt.Sprintf("peer %d of rack %d", i, i/7)] = of("none", 137, 108, 145)
	}
	return all
}

// problemsText is what an agent prints of the problems in its report.
func problemsText(n *topology.Node) string {
	count := map[string]int{}
	for _, p := range n.Problems {
		count[p.Reason]++
	}
	var b strings.Builder
	b.WriteString("quoin_agent_probe_up 1\n")
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&b, "quoin_agent_problems{reason=%q} %d\n", reason, count[reason])
	}
	return b.String()
}

// TestRealXidAlerts lets a real Prometheus scrape agents that report each class of Xid. The
// alerts are as those of the site, but do not wait.
func TestRealXidAlerts(t *testing.T) {
	t.Parallel()
	promrig.NeedTest(t)
	texts := map[string]string{}
	var targets []string
	want := map[string]string{}
	for alerts, machines := range xidMachines() {
		for name, n := range machines {
			path := fmt.Sprintf("/%d", len(texts))
			texts[path] = problemsText(n)
			targets = append(targets, fmt.Sprintf("{targets: [SERVER], labels: {instance: %q, job: quoin-agent, __metrics_path__: %q}}", name, path))
			if alerts != "" {
				want[name] = alerts
			}
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(texts[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	var rules []map[string]any
	for _, r := range readRules(t) {
		if strings.HasPrefix(r.Alert, "Quoin") && strings.Contains(r.Expr, "quoin_agent_problems") {
			rules = append(rules, map[string]any{"alert": r.Alert, "expr": r.Expr, "labels": r.Labels})
		}
	}
	path := t.TempDir() + "/rules.yaml"
	writeJSON(t, path, map[string]any{"groups": []any{map[string]any{"name": "xids", "interval": "1s", "rules": rules}}})
	s := promrig.StartTest(t, "global: {scrape_interval: 1s, scrape_timeout: 1s}\nrule_files: ["+path+"]\nscrape_configs:\n- {job_name: agents, static_configs: ["+
		strings.ReplaceAll(strings.Join(targets, ", "), "SERVER", "'"+strings.TrimPrefix(server.URL, "http://")+"'")+"]}\n")
	firing := func() map[string]string {
		rows, err := s.Query(t.Context(), `ALERTS{alertstate="firing"}`)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(rows, func(a, b promrig.Row) int { return strings.Compare(a.Labels["alertname"], b.Labels["alertname"]) })
		got := map[string]string{}
		for _, row := range rows {
			name := row.Labels["instance"]
			got[name] = strings.TrimPrefix(got[name]+", "+row.Labels["alertname"]+" "+row.Labels["severity"], ", ")
		}
		return got
	}
	await.Until(t, "all agents are scraped", func() bool {
		rows, err := s.Query(t.Context(), `count(quoin_agent_probe_up)`)
		return err == nil && len(rows) == 1 && rows[0].Value == float64(len(texts))
	})
	await.Until(t, "the alerts fire", func() bool { return len(firing()) >= len(want) })
	if diff := cmp.Diff(want, firing()); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

// TestRealXidAlertsInTime: the alert of a critical Xid stands until it is repaired, and that of
// an Xid to look at for a day after the last new one.
func TestRealXidAlertsInTime(t *testing.T) {
	t.Parallel()
	problems := func(reason, values string) series {
		return agent("quoin_agent_problems", `reason="`+reason+`"`, values)
	}
	firing := func(alert, severity string) []sample {
		return []sample{{fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing", severity=%q, instance="i", job="quoin-agent"}`, alert, severity), 1}}
	}
	none := []sample{}
	at := func(minute int, want []sample) exprTest {
		return exprTest{Expr: `ALERTS{alertstate="firing", alertname=~"QuoinXid.*"}`, At: fmt.Sprintf("%dm", minute), Samples: want}
	}
	const day = 24 * 60
	look, critical := firing("QuoinXidLook", "warning"), firing("QuoinXid", "critical")
	all := readRules(t)
	out, err := runUnits(t, unitFile{append(rulesFor(t, all, "QuoinXid"), rulesFor(t, all, "QuoinXidLook")...), "1m", []unitTest{
		{Name: "look", Interval: "1m", Series: []series{problems("XidLook", "_x10 1x4000")}, Exprs: []exprTest{at(10, none), at(17, look), at(9+day, look), at(12+day, none), at(2*day, none)}},
		{Name: "a second Xid", Interval: "1m", Series: []series{problems("XidLook", "1x1000 2x4000")}, Exprs: []exprTest{at(20, look), at(day, look), at(1000+day-1, look), at(1003+day, none)}},
		{Name: "another agent process", Interval: "1m", Series: []series{problems("XidLook", "1x2000 _x3 1x2000")}, Exprs: []exprTest{at(day+5, none), at(2010, none)}},
		{Name: "critical until it is reset", Interval: "1m", Series: []series{problems("XidCritical", "_x10 1x3000 stale")}, Exprs: []exprTest{at(9, none), at(11, critical), at(3000, critical), at(3015, none)}},
	}})
	if err != nil {
		t.Error(out)
	}
}
