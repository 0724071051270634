package manifests_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-hpc/quoin/test/rig/kuberig"
)

// maxConfigMap is what the API server takes of a ConfigMap's data.
const maxConfigMap = 1 << 20

// TestRealMonitoring installs the chart by Helm without the Prometheus Operator, and turns scraping,
// rules and dashboards on when the operator's own CRDs are there. The API server refuses a field
// that they do not have.
func TestRealMonitoring(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	helm := func(args ...string) (string, error) {
		return kuberig.Helm(t, append([]string{"upgrade", "--install", "quoin", "chart", "--namespace", "quoin-system", "--create-namespace", "--set", kuberig.Image, "--kubeconfig", c.Kubeconfig()}, args...)...)
	}
	out, err := helm()
	if err != nil {
		t.Fatalf("without the operator: %v\n%s", err, out)
	}
	if _, err := helm(monitored...); err == nil || !strings.Contains(err.Error(), "ensure CRDs are installed first") {
		t.Errorf("scraping without the operator: error %v, want one that names the CRDs", err)
	}
	if err := c.ApplyCRDs(t.Context(), kuberig.Monitoring); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string][]string{
		"plain":           nil,
		"TLS and a token": {"--set", "metrics.tlsSecret=certs,metrics.authorize=true", "--set-json", `podMonitor.tlsConfig={"serverName":"quoin","ca":{"secret":{"name":"certs","key":"ca.crt"}}}`, "--set-json", `podMonitor.authorization={"credentials":{"name":"prometheus-token","key":"token"}}`},
		"chosen labels":   {"--set", "podMonitor.additionalLabels.release=prom,prometheusRule.additionalLabels.release=prom,dashboards.annotations.grafana_folder=Quoin,dashboards.namespace=slurm"},
	} {
		rendered, err := kuberig.Helm(t, append(append([]string{"template", "quoin", "chart", "--namespace", "quoin-system", "--set", kuberig.Image}, monitored...), more...)...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var objects strings.Builder
		got := 0
		for document := range strings.SplitSeq(rendered, "\n---\n") {
			if strings.HasPrefix(document, "# Source: quoin/templates/6") {
				objects.WriteString(document + "\n---\n")
				got++
			}
		}
		err = c.Objects().ApplyText(t.Context(), objects.String(), metav1.DryRunAll)
		if want := len(readDashboards(t)) + 3; err != nil || got != want {
			t.Errorf("%s: the API server is to take %d objects, want %d: %v", name, got, want, err)
		}
	}
	if out, err := helm(monitored...); err != nil {
		t.Fatalf("with the operator: %v\n%s", err, out)
	}
	list, err := c.Client().CoreV1().ConfigMaps("quoin-system").List(t.Context(), metav1.ListOptions{LabelSelector: "grafana_dashboard=1"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range list.Items {
		maps.Copy(got, m.Data)
	}
	for _, d := range readDashboards(t) {
		text := got[d.UID+".json"]
		if !json.Valid([]byte(text)) || len(text) > maxConfigMap/4 {
			t.Errorf("ConfigMap of %s: %d bytes, valid JSON %v", d.UID, len(text), json.Valid([]byte(text)))
		}
	}
	if len(got) != len(readDashboards(t)) {
		t.Errorf("%d dashboards in ConfigMaps, want %d", len(got), len(readDashboards(t)))
	}
}
