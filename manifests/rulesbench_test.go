package manifests_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// BenchmarkRules has a real Prometheus scrape 1,250 nodes of eight GPUs, each held
// by a job, and evaluate all rules. It gives the seconds that one evaluation of each
// group takes on one core, and counts the recorded series.
func BenchmarkRules(b *testing.B) {
	const nodes = 1250
	promrig.NeedTest(b)
	node := textsOfNode(b)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		var kind string
		if _, err := fmt.Sscanf(r.URL.Path, "/%d/%s", &n, &kind); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		own := strings.NewReplacer("n0000", fmt.Sprintf("n%04d", n), "700000", fmt.Sprint(700000+n), "b0000", fmt.Sprintf("b%04d", n/18))
		_, _ = own.WriteString(w, node[kind])
		if kind != "publisher" {
			return
		}
		for n := range nodes {
			_, _ = fmt.Fprintf(w, "quoin_node_info{publication=\"slurm\",node=\"n%04d\",block=\"b%04d\",switch=\"\",clique=\"\"} 1\n", n, n/18)
		}
	}))
	b.Cleanup(server.Close)

	dir := b.TempDir()
	for _, name := range ruleFiles {
		rules, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(strings.ReplaceAll(string(rules), "interval: 1m", "interval: 30s")), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	address := strings.TrimPrefix(server.URL, "http://")
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: 15s, scrape_timeout: 15s}\nrule_files: ['%s/*.yaml']\nscrape_configs:\n", dir)
	for _, job := range []struct {
		name, kind string
		targets    int
	}{{"dcgm-exporter", "exporter", nodes}, {"quoin-agent", "agent", nodes}, {"quoin-publisher", "publisher", 1}} {
		fmt.Fprintf(&config, "- job_name: %s\n  relabel_configs: [{source_labels: [__n], target_label: __metrics_path__, replacement: '/$1/%s'}]\n  static_configs:\n", job.name, job.kind)
		for n := range job.targets {
			fmt.Fprintf(&config, "  - {targets: ['%s'], labels: {__n: '%d', instance: 'n%04d'}}\n", address, n, n)
		}
	}
	s := promrig.StartTest(b, config.String())
	series := func(at time.Time) float64 {
		rows, err := s.QueryAt(b.Context(), `count({__name__=~"quoin:.+"})`, at)
		if err != nil || len(rows) != 1 {
			return 0
		}
		return rows[0].Value
	}
	// The first evaluation finds some of the targets, or rates without a second sample.
	last := 0.0
	await.Until(b, "an evaluation records as many series as the one before", func() bool {
		last = series(time.Now())
		return last > 0 && last == series(time.Now().Add(-40*time.Second))
	})
	rulesOf, err := s.Rules(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	seconds := map[string]float64{}
	for _, r := range rulesOf {
		if r.Health != "ok" {
			b.Errorf("%s: %s: %s", r.Name, r.Health, r.Error)
		}
		seconds[r.Type] += r.Seconds
	}
	b.ReportMetric(seconds["recording"], "s-recording")
	b.ReportMetric(seconds["alerting"], "s-alerts")
	b.ReportMetric(last, "series")
}

// textsOfNode returns what the exporter, the agent and the publisher of one node
// n0000 say, whose GPUs the job 700000 holds.
func textsOfNode(b *testing.B) map[string]string {
	b.Helper()
	mapping := b.TempDir()
	var devices []exporter.Device
	var agent, text strings.Builder
	for gpu := range 8 {
		d := h100(10, 0.5, "", 0).Device
		d.GPU, d.UUID = gpu, fmt.Sprintf("GPU-n0000-1111-4222-8333-44445555666%d", gpu)
		devices = append(devices, d)
		if err := os.WriteFile(filepath.Join(mapping, fmt.Sprint(gpu)), []byte("700000\n"), 0o644); err != nil {
			b.Fatal(err)
		}
		of := fmt.Sprintf(`UUID=%q,gpu="%d",GPU_I_ID=""`, d.UUID, gpu)
		fmt.Fprintf(&agent, "quoin_gpu_info{%s,modelName=%q,clique=\"k.1\",node=\"n0000\"} 1\n", of, d.Model)
		fmt.Fprintf(&agent, "quoin_gpu_job_info{%s,job_id=\"700000\",user=\"alice\",account=\"physics\",partition=\"gpu\",qos=\"\",cluster=\"alpha\",clique=\"k.1\"} 1\n", of)
		fmt.Fprintf(&agent, "quoin_gpu_held_seconds_total{%s} 60\nquoin_gpu_idle_held_seconds_total{%[1]s} 0\nquoin_gpu_idle_held_stretch_seconds{%[1]s} 0\n", of)
	}
	agent.WriteString("quoin_gpus{state=\"allocated\"} 8\nquoin_agent_probe_up 1\nquoin_agent_mapping_files{state=\"held\"} 8\n")
	x := exporter.Exporter{Since49: true, Hostname: "n0000", Driver: "580.95.05", Mapping: mapping, Counters: countersOf(b, true)}
	if err := x.Write(&text, devices); err != nil {
		b.Fatal(err)
	}
	return map[string]string{"exporter": text.String(), "agent": agent.String(), "publisher": "quoin_publisher_leader 1\n"}
}
