package manifests_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/pages"
)

// TestPageQueries asks Prometheus the queries of the page for jobs and metrics: of a GPU that two jobs
// share, which the exporter shows once for each, and of a GPU of one job.
func TestPageQueries(t *testing.T) {
	blocks, err := pages.Read("docs/jobs-and-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var queries []string
	for _, b := range blocks {
		if b.Language == "promql" {
			queries = append(queries, strings.Split(strings.TrimSpace(b.Text), "\n")...)
		}
	}
	job := func(uuid, id, user string) string {
		return `quoin_gpu_job_info{UUID="` + uuid + `", job_id="` + id + `", user="` + user + `"}`
	}
	share := func(uuid, id, account, share string) series {
		return series{`quoin:gpu_job_share:ratio{UUID="` + uuid + `", job_id="` + id + `", account="` + account + `"}`, share}
	}
	test := unitTest{
		Interval: "1m",
		Series: []series{
			{job("GPU-a", "7", "ada"), "1"}, {job("GPU-a", "8", "bob"), "1"}, {job("GPU-b", "9", "ada"), "1"},
			share("GPU-a", "7", "physics", "0.5"), share("GPU-a", "8", "biology", "0.5"), share("GPU-b", "9", "physics", "1"),
			{`DCGM_FI_DEV_FB_USED{UUID="GPU-a", hpc_job="7"}`, "100"}, {`DCGM_FI_DEV_FB_USED{UUID="GPU-a", hpc_job="8"}`, "100"}, {`DCGM_FI_DEV_FB_USED{UUID="GPU-b", hpc_job="9"}`, "20"},
		},
	}
	want := [][]sample{
		{{`{account="physics"}`, 1.5}, {`{account="biology"}`, 0.5}},
		{{`{UUID="GPU-a", job_id="7", user="ada"}`, 100}, {`{UUID="GPU-b", job_id="9", user="ada"}`, 20}},
	}
	if len(queries) != len(want) {
		t.Fatalf("%d queries, want %d: %q", len(queries), len(want), queries)
	}
	for i, query := range queries {
		test.Exprs = append(test.Exprs, exprTest{Expr: query, At: "0m", Samples: want[i]})
	}
	if out, err := runUnits(t, unitFile{Interval: "1m", Tests: []unitTest{test}}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
