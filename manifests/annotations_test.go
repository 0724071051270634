package manifests_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/hour"
)

// noteCase is what an annotation of quoin-job marks at a minute, for one job or, with an
// empty one, for all.
type noteCase struct {
	name   string
	minute int
	job    string
	want   []map[string]string
}

func noteCases() []noteCase {
	type set = map[string]string
	gate := func(node, result string) set { return set{"node": node, "result": result} }
	agentAlert := func(name string, instance int) set {
		return set{"alertname": name, "severity": "warning", "instance": fmt.Sprintf("10.0.0.%d:9835", instance)}
	}
	xid := []set{{"node": "n2", "gpu": "2", "xid": fmt.Sprint(hour.FaultXid)}}
	early := []set{agentAlert("QuoinIMEXNoMember", 1), agentAlert("QuoinGateShut", 1)}
	straddles := set{"alertname": "QuoinJobStraddles", "severity": "info"}
	split := set{"alertname": "QuoinSegmentSplit", "severity": "warning"}
	idle := set{"alertname": "QuoinGPUIdleButHeld", "severity": "warning", "node": "n1"}
	return []noteCase{
		{"Xid", 10, "", nil},
		{"Xid", 12, "", xid},
		{"Xid", 12, ended107, xid},
		{"Xid", 12, "106", nil}, // on the same node
		{"Xid", 30, "", nil},    // the same Xid as before
		{"Gate shut", 20, "", []set{gate("n1", "warn"), gate("n2", "warn")}}, // nobody holds n4
		{"Gate shut", 20, "101", []set{gate("n1", "warn")}},
		{"Gate shut", 42, "106", []set{gate("n2", "hold")}},
		{"Gate shut", 60, "", nil},
		{"IMEX not ready", 20, "", []set{{"node": "n1", "reason": "NotRegistered"}, {"node": "n2", "reason": "NotRegistered"}}},
		{"IMEX not ready", 20, "101", nil}, // on one node
		{"IMEX not ready", 40, "106", nil},
		{"Exporter silent", 50, "", []set{{"node": "n1"}}},
		{"Exporter silent", 50, "109", nil},
		{"Exporter silent", 51, "", nil},
		{"Alerts", 20, "101", early},
		{"Alerts", 20, "106", append([]set{straddles, agentAlert("QuoinIMEXNoMember", 2), agentAlert("QuoinGateShut", 2)}, early...)},
		{"Alerts", 20, ended107, []set{{"alertname": "QuoinRowRemapFailed", "severity": "critical"}, agentAlert("QuoinIMEXNoMember", 2), agentAlert("QuoinGateShut", 2)}},
		{"Alerts", 60, "", []set{straddles, split, idle, othersAlert}}, // of nodes without jobs, and of the publisher, none
		{"Alerts", 60, "401", []set{split}},
		{"Alerts", 60, "108", []set{othersAlert}},
		{"Alerts", 60, "103", []set{idle}},
		{"Alerts", 60, "101", nil}, // on the same node
	}
}

// othersAlert is an alert about a node that is not Quoin's.
var othersAlert = map[string]string{"alertname": "KubeNodeUnreachable", "severity": "warning", "node": "n3"}

var titleLabel = regexp.MustCompile(`{{(\w+)}}`)

// annotationTests has the annotations of quoin-job at minutes at which they mark something,
// and at others.
func annotationTests(t *testing.T) []exprTest {
	t.Helper()
	exprs := map[string]string{}
	for _, d := range readDashboards(t) {
		for _, a := range d.Annotations.List {
			exprs[a.Name] = a.Expr
			for _, m := range titleLabel.FindAllStringSubmatch(a.TitleFormat, -1) {
				if by, _, _ := strings.Cut(a.Expr, ") "); !strings.Contains(by, m[1]) || !strings.HasPrefix(by, "group by (") {
					t.Errorf("%s: its title has %s, its rows have not", a.Name, m[1])
				}
			}
			if d.UID != "quoin-job" || a.Datasource.UID != "${datasource}" || a.Datasource.Type != "prometheus" || a.Step == "" {
				t.Errorf("%s: annotation %s: datasource %v, step %q, or on another dashboard than the cases are for", d.UID, a.Name, a.Datasource, a.Step)
			}
		}
	}
	var tests []exprTest
	marks := map[string]bool{}
	for _, c := range noteCases() {
		values := map[string]string{}
		if c.job != "" {
			values["job"] = c.job
		}
		var rows []sample
		for _, set := range c.want {
			rows = append(rows, sample{labels("", set), 1})
			marks[c.name] = true
		}
		if exprs[c.name] == "" {
			t.Errorf("no annotation %s", c.name)
		}
		tests = append(tests, exprTest{substitute(exprs[c.name], values), halfPast(c.minute), rows})
	}
	for name := range exprs {
		if !marks[name] {
			t.Errorf("nothing shows that annotation %s marks anything", name)
		}
	}
	return tests
}
