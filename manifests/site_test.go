package manifests_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
)

// look is a moment at which the site's dashboards are looked at.
type look struct {
	name            string
	minute, minutes int               // how many minutes are shown
	chosen          map[string]string // values of variables; the others are All
	marks           bool              // annotations and alerts alone
}

var looks = []look{
	{"minute 60", 60, 40, nil, false},
	{"minute 60, of a user", 60, 60, map[string]string{"user": "bob"}, false},
	{"minute 60, of a job, or of an agent", 60, 60, map[string]string{"job": "107", "instance": "10.0.0.2:9835"}, false},
	{"minute 13", 13, 10, nil, true},
	{"minute 13, of a job", 13, 10, map[string]string{"job": "106"}, true},
}

// TestRealDashboards asks all queries of the dashboards, their annotations, and which alerts fire, in promtool, of
// the small site of site.series. dashboards.txt has the answers: -update writes it. Read what has changed there
// before you commit it.
func TestRealDashboards(t *testing.T) {
	t.Parallel()
	given := append(siteSeries(t), exporterSeries(t)...)
	var exprs []exprTest
	var titles []string
	for _, l := range looks {
		values := map[string]string{"__range": fmt.Sprintf("%dm", l.minutes), "__rate_interval": "5m", "size": "16"}
		maps.Copy(values, l.chosen)
		ask := func(title, expr string) {
			isChosen := func(use []string) bool { return l.chosen[use[1]+use[2]] != "" }
			if len(l.chosen) == 0 || slices.ContainsFunc(variableUse.FindAllStringSubmatch(expr, -1), isChosen) {
				// Half a minute past the last scrape, so that no sample lies on the edge of a range.
				exprs = append(exprs, exprTest{substitute(expr, values), fmt.Sprintf("%dm30s", l.minute), nil})
				titles = append(titles, l.name+": "+title)
			}
		}
		for _, d := range readDashboards(t) {
			if !l.marks {
				queries := d.queries(t)
				for _, key := range slices.Sorted(maps.Keys(queries)) {
					ask(key, queries[key])
				}
			}
			for _, a := range d.Annotations.List {
				ask(d.UID+"/annotation "+a.Name, a.Expr)
			}
		}
		ask("alerts that fire", `ALERTS{alertstate="firing"}`)
	}
	var got strings.Builder
	for i, rows := range answers(t, given, exprs) {
		fmt.Fprintf(&got, "%s\n", titles[i])
		for _, row := range rows {
			fmt.Fprintf(&got, "  %s\n", row)
		}
	}
	const path = "testdata/dashboards.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// answerLine and answerRow find promtool's answers.
var (
	answerLine = regexp.MustCompile(`(?m)^ +(?:got: ?(.*)|expr: ".*", time: [^,]+, (err: .*))$`)
	answerRow  = regexp.MustCompile(`(\{.*?\}) ([^ ,]+)(?:, |$)`)
)

// answers are the rows of each expression, sorted. promtool says them of expectations that do not hold.
func answers(t *testing.T, given []series, exprs []exprTest) (all [][]string) {
	t.Helper()
	for i := range exprs {
		exprs[i].Samples = []sample{{"{nobody=\"expects\"}", 0}}
	}
	out, err := runUnits(t, unitFile{allRules(t), "1m", []unitTest{{Interval: "1m", Series: given, Exprs: exprs}}})
	lines := answerLine.FindAllStringSubmatch(out, -1)
	if len(lines) != len(exprs) {
		t.Fatalf("%d answers to %d expressions: %v\n%s", len(lines), len(exprs), err, out)
	}
	for _, line := range lines {
		var rows []string
		for _, m := range answerRow.FindAllStringSubmatch(line[1], -1) {
			value, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			// Prometheus adds in any order.
			rows = append(rows, m[1]+" "+strconv.FormatFloat(value, 'g', 9, 64))
		}
		if rest := answerRow.ReplaceAllString(line[1], "") + line[2]; rest != "" && rest != "nil" {
			rows = append(rows, rest) // an error
		}
		slices.Sort(rows)
		all = append(all, rows)
	}
	return all
}

// siteSeries are the series of the file site.series, with the labels of the scrape. A label that both have is called as Prometheus
// calls it.
func siteSeries(t *testing.T) (all []series) {
	t.Helper()
	data, err := os.ReadFile("testdata/site.series")
	if err != nil {
		t.Fatal(err)
	}
	scrape := ""
	for line := range strings.Lines(string(data)) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			scrape = strings.Trim(line, "[]")
		default:
			name, values, ok := strings.Cut(line, "} ")
			if !ok {
				name, values, _ = strings.Cut(line, " ")
				name += "{"
			} else if scrape != "" {
				name += ", "
			}
			if strings.Contains(scrape, ` node="`) {
				name = strings.Replace(name, ` node="`, ` exported_node="`, 1)
			}
			all = append(all, series{name + scrape + "}", values})
		}
	}
	return all
}

// siteShapes are the label names of the site's series of one scrape job, without the scrape's own labels.
func siteShapes(t *testing.T, job string) map[string]string {
	t.Helper()
	var text strings.Builder
	for _, s := range siteSeries(t) {
		if own, scrape, _ := strings.Cut(s.Series, `instance="`); strings.Contains(scrape, `job="`+job+`"`) {
			text.WriteString(strings.Replace(own, "exported_node", "node", 1) + "} 1\n")
		}
	}
	return shapes(text.String())
}

// countersOf is the CSV of a generation of exporters.
func countersOf(t testing.TB, since49 bool) string {
	t.Helper()
	data, err := os.ReadFile(map[bool]string{false: "dcgm/counters-before-4.9.csv", true: "dcgm/counters-4.9.csv"}[since49])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// siteExporter is DCGM Exporter on a node of the site.
type siteExporter struct {
	node         string
	since49      bool
	oldNamespace int // the minute from which it runs with --use-old-namespace
	devices      []siteDevice
}

// siteDevice is a device, how it is used, and the jobs that hold it.
type siteDevice struct {
	exporter.Device
	jobs string // lines of the job mapping
	// errors is how many errors come each minute from minute 12 on, when it has an Xid and slows down.
	errors float64
}

const (
	never = 100
	gib   = 1 << 30
)

var siteExporters = []siteExporter{
	{"n1", false, 50, []siteDevice{h100(10, 0.5, "101\n102\n", 0), h100(11, 0.5, "107\n", 0), h100(12, 0.75, "106\n", 1)}},
	{"n2", true, 40, []siteDevice{h100(20, 1, "106\n109\n", 2), h100(21, 0, "103\n", 0), h100(22, 0.25, "107\n", 3)}},
	{"n3", true, never, []siteDevice{mig(1, 0.25, "108\n"), mig(2, 0.5, "102\n")}},
	{"n4", true, 0, []siteDevice{{exporter.Device{UUID: "GPU-40", Model: "NVIDIA GB200", Use: exporter.Use{Size: 186 * gib, Watts: 150, Xid: 48, RowRemapFailed: true}}, "", 0}}},
}

// h100 is a GPU. Its number is the node's, and its own.
func h100(number int, utilization float64, jobs string, errors float64) siteDevice {
	u := utilization
	use := exporter.Use{Utilization: u, Engine: u * 7 / 8, SM: u / 2, Tensor: u / 4, DRAM: u / 8, Used: u * 64 * gib, Size: 80 * gib, Reserved: gib / 2, Watts: 70 + u*600, Limit: 650,
		Celsius: 30 + u*40, MemoryCelsius: 35 + u*40, Hertz: 345e6 + u*16e8, NVLink: u * 1e9, PCIeTX: u * 2e9, PCIeRX: u * 4e9, ClockEvents: []int{32, 1, 4 + 8}[number%10]}
	if number == 20 {
		use.ClockEvents = 128
	}
	return siteDevice{exporter.Device{GPU: number % 10, UUID: fmt.Sprintf("GPU-%d", number), Model: "NVIDIA H100 80GB HBM3", Use: use}, jobs, errors}
}

// mig is an instance of n3's only GPU, which draws 200 W in all.
func mig(instance int, engine float64, jobs string) siteDevice {
	use := exporter.Use{Engine: engine, SM: engine / 2, Used: 5 * gib, Size: 20 * gib, Watts: 200, Limit: 400, Celsius: 40, MemoryCelsius: 45, Hertz: 1410e6}
	return siteDevice{exporter.Device{UUID: "GPU-30", Model: "NVIDIA A100-SXM4-40GB", Profile: "3g.20gb", Instance: instance, Use: use}, jobs, 0}
}

// exporterSeries are what the site's exporters print in the hour. n3's prints nothing at minute 13.
func exporterSeries(t *testing.T) (all []series) {
	t.Helper()
	values := map[string][]string{}
	for i := range siteExporters {
		n, mapping := &siteExporters[i], t.TempDir()
		for minute := range 61 {
			for line := range strings.Lines(n.at(t, minute, mapping)) {
				if n.node == "n3" && minute == 13 || strings.HasPrefix(line, "#") {
					continue
				}
				name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
				name += fmt.Sprintf(`,instance="10.0.0.%d:9400",job="dcgm-exporter"}`, i+1)
				if values[name] == nil {
					values[name] = slices.Repeat([]string{"_"}, 61)
				}
				values[name][minute] = value
			}
		}
	}
	for name, v := range values {
		for minute := 1; minute < len(v); minute++ {
			if v[minute] == "_" && v[minute-1] != "_" && v[minute-1] != "stale" {
				v[minute] = "stale" // as a scrape marks a series that has gone
			}
		}
		all = append(all, series{name, strings.Join(v, " ")})
	}
	return all
}

// at is what the exporter prints at a minute. Job 107 ends at minute 33.
func (n *siteExporter) at(t *testing.T, minute int, mapping string) string {
	t.Helper()
	x := exporter.Exporter{Since49: n.since49, OldNamespace: minute >= n.oldNamespace, Hostname: n.node, Driver: "580.95.05", Mapping: mapping, Counters: countersOf(t, n.since49)}
	var devices []exporter.Device
	for _, d := range n.devices {
		file, jobs := strconv.Itoa(d.GPU), d.jobs
		if d.Profile != "" {
			file += "." + strconv.Itoa(d.Instance)
		}
		if jobs == "107\n" && minute > 32 {
			jobs = ""
		}
		if err := os.WriteFile(filepath.Join(mapping, file), []byte(jobs), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Joules = 1e6 + 60*d.Watts*float64(minute)
		if since := float64(minute - 11); d.errors > 0 && since > 0 {
			d.Xid, d.RowRemapFailed, d.LinkErrors, d.Replays = 31, d.GPU == 2, d.errors*since, 2*d.errors*since
			d.Utilization, d.Watts = d.Utilization/2, d.Watts/2
		}
		devices = append(devices, d.Device)
	}
	var out bytes.Buffer
	if err := x.Write(&out, devices); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
