package promrig_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/promrig"
)

// TestRealServer scrapes one series and asks for it.
func TestRealServer(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("a{b=\"c\"} 3\n"))
	}))
	t.Cleanup(target.Close)
	s := promrig.StartTest(t, "scrape_configs: [{job_name: j, scrape_interval: 100ms, scrape_timeout: 100ms, static_configs: [{targets: ['"+strings.TrimPrefix(target.URL, "http://")+"']}]}]\n")
	var rows []promrig.Row
	await.Until(t, "a scraped series", func() bool {
		var err error
		if rows, err = s.Query(t.Context(), `sum by (b) (a)`); err != nil {
			t.Fatal(err)
		}
		return len(rows) > 0
	})
	if diff := cmp.Diff([]promrig.Row{{Labels: map[string]string{"b": "c"}, Value: 3}}, rows); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Query(t.Context(), `sum by (`); err == nil || !strings.Contains(err.Error(), "parse error") {
		t.Errorf("a wrong expression: %v", err)
	}
}

// TestRealServerRefuses starts with a configuration that is none.
func TestRealServerRefuses(t *testing.T) {
	t.Parallel()
	promrig.NeedTest(t)
	if _, err := promrig.Start(t.Context(), t.TempDir(), "nonsense: 1\n"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a wrong configuration: %v", err)
	}
}
