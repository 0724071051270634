package service

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/testdata/rig/kuberig"
	"github.com/quoin-hpc/quoin/testdata/rig/loopback"
)

// TestRealAccess serves metrics as the agent does, with the rights that the chart gives it, and
// asks with tokens of a real API server.
func TestRealAccess(t *testing.T) {
	t.Parallel()
	c := kuberig.StartTest(t)
	dir := t.TempDir()
	rights, err := kuberig.Helm(t.Context(), "template", "quoin", "../../../manifests/chart", "--namespace", "default", "--set", "nodeNamespace=default,metrics.tlsSecret=x,metrics.authorize=true",
		"--show-only", "templates/14-rbac-metrics.yaml")
	path := filepath.Join(dir, "rights.yaml")
	if err == nil {
		err = os.WriteFile(path, []byte(rights), 0o600)
	}
	if err == nil {
		_, err = c.Kubectl(t.Context(), "apply", "-f", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, name := range []string{"quoin-agent", "prometheus", "nobody"} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.Client().CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if tokens[name], err = c.Token(t.Context(), "default", name, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Kubectl(t.Context(), "create", "clusterrolebinding", "scrape", "--clusterrole=quoin-metrics-reader", "--serviceaccount=default:prometheus"); err != nil {
		t.Fatal(err)
	}
	agent, err := clientcmd.BuildConfigFromFlags("", tokens["quoin-agent"])
	if err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, "agent")
	address := loopback.Address(9835)
	serving(t, &Options{Listen: config.Listen{Address: address, TLSCert: filepath.Join(dir, "tls.crt"), TLSKey: filepath.Join(dir, "tls.key"), Authorize: true},
		Registry: Registry("agent"), Ready: func(context.Context) error { return nil }, Cluster: agent, Log: slog.New(slog.DiscardHandler)})
	ask := func(token string) int {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // its own
		defer client.CloseIdleConnections()
		resp, err := client.Do(r)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	of := func(name string) string {
		rc, err := clientcmd.BuildConfigFromFlags("", tokens[name])
		if err != nil {
			t.Fatal(err)
		}
		return rc.BearerToken
	}
	until(t, "a reader with the right reads", func() bool { return ask(of("prometheus")) == http.StatusOK }) // the binding arrives soon
	for _, tt := range []struct {
		name, token string
		want        int
	}{
		{"no token", "", http.StatusUnauthorized},
		{"an invented token", "invented", http.StatusUnauthorized},
		{"a token without the right", of("nobody"), http.StatusForbidden},
		{"the right", of("prometheus"), http.StatusOK},
	} {
		if got := ask(tt.token); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if _, err := c.Kubectl(t.Context(), "delete", "-f", path); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody knows new tokens", func() bool { return ask("another") == http.StatusServiceUnavailable })
	c.StopServer()
	if got := ask("unknown"); got != http.StatusServiceUnavailable {
		t.Errorf("the API server is away: %d for a new token", got)
	}
}
