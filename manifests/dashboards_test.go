package manifests_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// dashboard is what is read of a Grafana dashboard.
type dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	SchemaVersion int      `json:"schemaVersion"`
	ID            *int     `json:"id"`
	Tags          []string `json:"tags"`
	Templating    struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels      []panel `json:"panels"`
	Annotations struct {
		List []annotation `json:"list"`
	} `json:"annotations"`
}

// annotation marks events in all panels.
type annotation struct {
	Name, Expr, Step, TitleFormat string
	Datasource                    struct {
		Type, UID string
	}
}

type variable struct {
	Name, Type string
	IncludeAll bool   `json:"includeAll"`
	AllValue   string `json:"allValue"`
	Query      any    `json:"query"`
	Definition string `json:"definition"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct{ X, Y, W, H int }
	Targets     []target `json:"targets"`
	// FieldConfig has the links of cells.
	FieldConfig json.RawMessage `json:"fieldConfig"`
}

type target struct {
	RefID      string `json:"refId"`
	Expr       string `json:"expr"`
	Datasource struct {
		Type, UID string
	} `json:"datasource"`
	Instant bool `json:"instant"`
}

func readDashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob("chart/files/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	var all []dashboard
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(data, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".json"); d.UID != want {
			t.Errorf("%s: uid %q, want %q", path, d.UID, want)
		}
		all = append(all, d)
	}
	return all
}

// corePanels are part of every Grafana.
var corePanels = []string{"stat", "table", "timeseries", "bargauge"}

// variableUse finds Grafana's variables, and not the $1 of label_replace.
var variableUse = regexp.MustCompile(`\$(?:\{(\w+)\}|([A-Za-z_]\w*))`)

// titleLabel finds the labels in the title of an annotation.
var titleLabel = regexp.MustCompile(`{{(\w+)}}`)

// rackSize finds numbers of nodes or GPUs that only some racks have.
var rackSize = regexp.MustCompile(`\b(16|18|36|72|144)\b`)

// TestDashboards checks what Grafana would take without a word and show wrong.
func TestDashboards(t *testing.T) {
	for _, d := range readDashboards(t) {
		if d.ID != nil || d.SchemaVersion < 39 || !slices.Contains(d.Tags, "quoin") {
			t.Errorf("%s: id %v, schema version %d, tags %v", d.UID, d.ID, d.SchemaVersion, d.Tags)
		}
		known := map[string]bool{"__rate_interval": true, "__range": true}
		for _, v := range d.Templating.List {
			known[v.Name] = true
			if v.Type == "query" && v.Name != "size" && v.AllValue != ".*" {
				t.Errorf("%s: variable %s: All would list every value there is", d.UID, v.Name)
			}
		}
		for _, a := range d.Annotations.List {
			if a.Datasource.UID != "${datasource}" || a.Datasource.Type != "prometheus" || a.Step == "" {
				t.Errorf("%s: annotation %s: datasource %v, step %q", d.UID, a.Name, a.Datasource, a.Step)
			}
			by, _, _ := strings.Cut(a.Expr, ") ")
			for _, m := range titleLabel.FindAllStringSubmatch(a.TitleFormat, -1) {
				if !strings.HasPrefix(by, "group by (") || !strings.Contains(by, m[1]) {
					t.Errorf("%s: the title of annotation %s has %s, its rows have not", d.UID, a.Name, m[1])
				}
			}
		}
		titles, taken := map[string]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if titles[p.Title] || !slices.Contains(corePanels, p.Type) || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q: twice, of type %s, or without a query", d.UID, p.Title, p.Type)
			}
			titles[p.Title] = true
			if p.Type == "table" && len(p.Targets) > 1 {
				for _, q := range p.Targets { // Grafana joins rows by all their labels, the name too
					if strings.HasPrefix(q.Expr, "quoin") && !strings.ContainsAny(q.Expr, "*/") {
						t.Errorf("%s: panel %q: rows of %s keep a name, and are not joined with others", d.UID, p.Title, q.Expr)
					}
				}
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: panel %q lies on %q or off the page", d.UID, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, q := range p.Targets {
				if size := rackSize.FindString(p.Title + " " + p.Description + " " + q.Expr); size != "" {
					t.Errorf("%s: panel %q has a number of some racks, %s", d.UID, p.Title, size)
				}
				if q.Datasource.UID != "${datasource}" || q.Datasource.Type != "prometheus" {
					t.Errorf("%s: panel %q asks %v, want the variable", d.UID, p.Title, q.Datasource)
				}
				for _, m := range variableUse.FindAllStringSubmatch(q.Expr, -1) {
					if !known[m[1]+m[2]] {
						t.Errorf("%s: panel %q: no variable %s", d.UID, p.Title, m[0])
					}
				}
			}
		}
	}
}

// linked finds the links of a panel to a dashboard, and the variables that they set.
var (
	linked  = regexp.MustCompile(`"/d/([^/?]+)/\?([^"]*)"`)
	linkSet = regexp.MustCompile(`var-(\w+)=`)
)

// okVerdicts finds the verdicts that the panel of nodes that are not ready leaves out.
var okVerdicts = regexp.MustCompile(`quoin_publisher_imex_nodes\{reason!~"([\w|]+)"\}`)

// TestPanelOfNotReady compares the verdicts that the panel leaves out with the verdicts that ask people for nothing.
func TestPanelOfNotReady(t *testing.T) {
	var expr string
	for _, d := range readDashboards(t) {
		if d.UID == "quoin-imex" {
			expr = d.queries(t)["quoin-imex/Not ready/A"]
		}
	}
	found := okVerdicts.FindStringSubmatch(expr)
	if found == nil {
		t.Fatalf("the panel reads %q", expr)
	}
	ok := strings.Split(found[1], "|")
	for _, c := range topology.Reasons {
		for _, w := range c.Words {
			if out := slices.Contains(ok, w.Reason); out == (imex.Verdict{Finding: topology.Finding{Reason: w.Reason}}).Problem() {
				t.Errorf("%s: the panel leaves it out: %t", w.Reason, out)
			}
		}
	}
}

// TestDashboardLinks follows the links of cells: every table that names jobs leads
// to their GPUs, a job's devices to their blocks and nodes, and a block to its nodes.
func TestDashboardLinks(t *testing.T) {
	variables := map[string]map[string]bool{}
	for _, d := range readDashboards(t) {
		variables[d.UID] = map[string]bool{}
		for _, v := range d.Templating.List {
			variables[d.UID][v.Name] = true
			if d.UID == "quoin-job" && v.Name == "job" && v.IncludeAll {
				t.Error("quoin-job: All jobs of a large site are more lines than a browser draws")
			}
		}
	}
	leads := map[string][]string{
		"quoin-users/Jobs": {"quoin-job"}, "quoin-idle/Idle for longest": {"quoin-job"},
		"quoin-blocks/Jobs over several blocks or cliques": {"quoin-job"}, "quoin-blocks/Devices of each job in each block": {"quoin-job"},
		"quoin-blocks/Segments that are split": {"quoin-job"}, "quoin-blocks/More blocks or switches than needed": {"quoin-job"},
		"quoin-job/Devices": {"quoin-blocks", "quoin-fabric"}, "quoin-blocks/Nodes by block and clique": {"quoin-fabric"}}
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			links := linked.FindAllStringSubmatch(string(p.FieldConfig), -1)
			var to []string
			for _, l := range links {
				to = append(to, l[1])
				for _, set := range linkSet.FindAllStringSubmatch(l[2], -1) {
					if !variables[l[1]][set[1]] {
						t.Errorf("%s: panel %q sets %s, which dashboard %q has not", d.UID, p.Title, set[1], l[1])
					}
				}
			}
			if diff := cmp.Diff(leads[d.UID+"/"+p.Title], to); diff != "" {
				t.Errorf("%s: panel %q leads to (-want +got):\n%s", d.UID, p.Title, diff)
			}
		}
	}
}

// substitute puts values for Grafana's variables; those without one are All.
func substitute(expr string, values map[string]string) string {
	return variableUse.ReplaceAllStringFunc(expr, func(use string) string {
		name := strings.Trim(use, "${}")
		if v, ok := values[name]; ok {
			return v
		}
		return ".*"
	})
}

// labelValues and queryResult are how Grafana fills a variable.
var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	queryResult = regexp.MustCompile(`^query_result\((.+)\)$`)
)

// queries returns all expressions of a dashboard by "uid/panel/ref" and
// "uid/$variable".
func (d *dashboard) queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all[d.UID+"/"+p.Title+"/"+q.RefID] = q.Expr
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		if m := labelValues.FindStringSubmatch(v.Definition); m != nil {
			all[d.UID+"/$"+v.Name] = fmt.Sprintf("group by (%s) (%s)", m[2], m[1])
		} else if m := queryResult.FindStringSubmatch(v.Definition); m != nil {
			all[d.UID+"/$"+v.Name] = m[1]
		} else {
			t.Fatalf("%s: variable %s: %s is neither label_values nor query_result", d.UID, v.Name, v.Definition)
		}
	}
	return all
}
