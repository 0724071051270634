package manifests_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/hour"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// ofUse are the recording rules that read the exporter alone: what each gives of a
// device, by how the device is used.
var ofUse = map[string]func(exporter.Use) float64{
	"quoin:gpu_engine_active:ratio":        func(u exporter.Use) float64 { return u.Engine },
	"quoin:gpu_sm_active:ratio":            func(u exporter.Use) float64 { return u.SM },
	"quoin:gpu_tensor_active:ratio":        func(u exporter.Use) float64 { return u.Tensor },
	"quoin:gpu_dram_active:ratio":          func(u exporter.Use) float64 { return u.DRAM },
	"quoin:gpu_memory_used:bytes":          func(u exporter.Use) float64 { return u.Used },
	"quoin:gpu_memory_size:bytes":          func(u exporter.Use) float64 { return u.Size },
	"quoin:gpu_power:watts":                func(u exporter.Use) float64 { return u.Watts },
	"quoin:gpu_energy:joules_total":        func(u exporter.Use) float64 { return u.Joules },
	"quoin:gpu_temperature:celsius":        func(u exporter.Use) float64 { return u.Celsius },
	"quoin:gpu_memory_temperature:celsius": func(u exporter.Use) float64 { return u.MemoryCelsius },
	"quoin:gpu_sm_clock:hertz":             func(u exporter.Use) float64 { return u.Hertz },
	"quoin:gpu_xid:code":                   func(u exporter.Use) float64 { return float64(u.Xid) },
	"quoin:gpu_pcie:bytes_per_second":      func(u exporter.Use) float64 { return u.PCIeTX + u.PCIeRX },
	"quoin:gpu_nvlink_recoveries:total":    func(u exporter.Use) float64 { return 8 * u.LinkErrors },
	"quoin:gpu_nvlink_replays:total":       func(u exporter.Use) float64 { return 4 * u.LinkErrors },
	"quoin:gpu_nvlink_crc_errors:total":    func(u exporter.Use) float64 { return 3 * u.LinkErrors },
	"quoin:gpu_pcie_replays:total":         func(u exporter.Use) float64 { return u.Replays },
	"quoin:gpu_clock_events:mask":          func(u exporter.Use) float64 { return float64(u.ClockEvents) },
	"quoin:gpu_row_remap_failed:bool": func(u exporter.Use) float64 {
		return map[bool]float64{true: 1}[u.RowRemapFailed]
	},
}

// TestRealScrapedHour lets a real Prometheus scrape the hour of all exporters,
// agents and publishers as fast as it can, each scrape a minute later, and asks it
// for what the rules record of the exporters of both generations.
func TestRealScrapedHour(t *testing.T) {
	t.Parallel()
	s, begin := scrapeHour(t)
	for _, minute := range lookedAt {
		at := begin.Add(time.Duration(minute)*time.Minute + 30*time.Second)
		for _, r := range readRules(t) {
			value, ok := ofUse[r.Record]
			if !ok {
				continue
			}
			want := map[string]float64{}
			for n := range hour.Nodes {
				for i := range hour.Nodes[n].Devices {
					d := &hour.Nodes[n].Devices[i]
					key := d.UUID
					if !d.Whole() && strings.Contains(r.Expr, "(UUID, GPU_I_ID)") {
						key += " " + strconv.Itoa(d.Instance)
					}
					use := d.At(hour.Place{Node: n, Device: i}, minute)
					if r.Record == "quoin:gpu_xid:code" && use.Xid == 0 && hour.Nodes[n].Since49 {
						continue // newer exporters have no series before the first Xid
					}
					if r.Record == "quoin:gpu_nvlink_replays:total" && strings.Contains(d.Model, "GB200") {
						continue // NVLink 5 counts none
					}
					want[key] = value(use)
				}
			}
			rows, err := s.QueryAt(t.Context(), r.Expr, at)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, row := range rows {
				got[strings.TrimSpace(row.Labels["UUID"]+" "+row.Labels["GPU_I_ID"])] = row.Value
			}
			if diff := cmp.Diff(want, got); diff != "" || len(rows) != len(got) {
				t.Errorf("%s at minute %d, %d rows (-want +got):\n%s", r.Record, minute, len(rows), diff)
			}
		}
	}
}

// lookedAt are the minutes at which the rules are asked for.
var lookedAt = []int{20, 60}

// repeats is how often a minute is served. A scrape may time out on a machine that
// has other things to do; no matter but in the minutes that are looked at.
func repeats(minute int) int {
	if slices.Contains(lookedAt, minute) {
		return 5
	}
	return 1
}

// scrapeHour plays the hour to a Prometheus; it returns when minute 0 was.
func scrapeHour(t *testing.T) (s *promrig.Server, begin time.Time) {
	t.Helper()
	promrig.NeedTest(t)
	// Not so old that a new database refuses it, nor too far ahead.
	begin = time.Now().Add(-55 * time.Minute).Truncate(time.Minute)
	bodies, player := map[string][]string{}, newPlayer(t)
	for minute := range 61 {
		stamp := fmt.Sprintf(" %d\n", begin.Add(time.Duration(minute)*time.Minute).UnixMilli())
		for _, x := range player.at(t, minute) {
			var body strings.Builder
			for line := range strings.Lines(x.body) {
				if !strings.HasPrefix(line, "#") {
					line = strings.TrimSuffix(line, "\n") + stamp
				}
				body.WriteString(line)
			}
			for range repeats(minute) {
				bodies[x.labels] = append(bodies[x.labels], body.String())
			}
		}
	}
	var config strings.Builder
	config.WriteString("global: {scrape_interval: 100ms, scrape_timeout: 100ms}\nscrape_configs:\n")
	var done atomic.Int32
	for i, labels := range slices.Sorted(maps.Keys(bodies)) {
		var mu sync.Mutex
		next, connection := 0, ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			all := bodies[labels]
			// A scrape that takes too long on a busy machine ends with its connection, and its
			// body comes again.
			if connection != "" && connection != r.RemoteAddr {
				next--
			}
			connection = r.RemoteAddr
			switch {
			case next < len(all):
				_, _ = w.Write([]byte(all[next]))
			case next == len(all): // what came before it is stored
				done.Add(1)
			}
			next++
		}))
		t.Cleanup(server.Close)
		fmt.Fprintf(&config, "- {job_name: target-%d, static_configs: [{targets: ['%s'], labels: {%s}}]}\n", i,
			strings.TrimPrefix(server.URL, "http://"), strings.NewReplacer(`="`, `: "`, `",`, `", `).Replace(labels))
	}
	s = promrig.StartTest(t, config.String())
	await.Until(t, "all targets are scraped to the end", func() bool { return int(done.Load()) >= len(bodies) })
	return s, begin
}
