package service

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
)

// TestRealAccess serves metrics as the agent does, with the rights that the chart gives it, and
// asks with tokens of a real API server.
func TestRealAccess(t *testing.T) {
	t.Parallel()
	g := guard(t, kuberig.StartOwnTest(t))
	ask := func(token string) int { return g.ask(t, "/metrics", token) }
	await.Until(t, "a reader with the right reads", func() bool { return ask(g.tokens["prometheus"]) == http.StatusOK }) // the binding arrives soon
	for _, tt := range []struct {
		name, token string
		want        int
	}{
		{"no token", "", http.StatusUnauthorized},
		{"an invented token", "invented", http.StatusUnauthorized},
		{"a token without the right", g.tokens["nobody"], http.StatusForbidden},
		{"the right", g.tokens["prometheus"], http.StatusOK},
	} {
		if got := ask(tt.token); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
	if code := g.ask(t, "/map", g.tokens["prometheus"]); code != http.StatusNotFound {
		t.Errorf("the port of the metrics answers %d for the map", code)
	}
	if err := g.cluster.Objects().DeleteFiles(t.Context(), g.rights); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "nobody knows new tokens", func() bool { return ask("another") == http.StatusServiceUnavailable })
	g.cluster.StopServer()
	if got := ask("unknown"); got != http.StatusServiceUnavailable {
		t.Errorf("the API server is away: %d for a new token", got)
	}
}

// guarded is a server that asks a real API server who may read, with the rights that the chart
// gives it.
type guarded struct {
	cluster *kuberig.Cluster
	// address is that of the server, and rights the file of its rights.
	address, rights string
	// tokens has a token for each of the service accounts prometheus and nobody.
	tokens map[string]string
}

func guard(t *testing.T, c *kuberig.Cluster) *guarded {
	t.Helper()
	dir := t.TempDir()
	rights, err := kuberig.Helm(t, "template", "quoin", "../../../manifests/chart", "--namespace", "default", "--set", kuberig.Image+",nodeNamespace=default,metrics.tlsSecret=x,metrics.authorize=true",
		"--show-only", "templates/14-rbac-metrics.yaml")
	path := filepath.Join(dir, "rights.yaml")
	if err == nil {
		err = os.WriteFile(path, []byte(rights), 0o600)
	}
	if err == nil {
		err = c.Objects().Apply(t.Context(), path)
	}
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, name := range []string{"quoin-agent", "prometheus", "nobody"} {
		if err := c.AddAccount(t.Context(), "default", name); err != nil {
			t.Fatal(err)
		}
		if tokens[name], err = c.Token(t.Context(), "default", name, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Allow(t.Context(), "default", "prometheus", "quoin-metrics-reader"); err != nil {
		t.Fatal(err)
	}
	agent, err := clientcmd.BuildConfigFromFlags("", tokens["quoin-agent"])
	if err != nil {
		t.Fatal(err)
	}
	certificate(t, dir, "agent")
	address := loopback.Address(9835)
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // which this port must not serve
	serving(t, &Options{Listen: config.Listen{Address: address, TLSCert: filepath.Join(dir, "tls.crt"), TLSKey: filepath.Join(dir, "tls.key"), Authorize: true},
		Map: page, Registry: Registry("agent"), Ready: func(context.Context) error { return nil }, Cluster: agent, Log: slog.New(slog.DiscardHandler)})
	for name, file := range tokens {
		rc, err := clientcmd.BuildConfigFromFlags("", file)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = rc.BearerToken
	}
	return &guarded{c, address, path, tokens}
}

// ask returns the status of the answer, or 0 without one.
func (g *guarded) ask(t *testing.T, path, token string) int {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.address+path, nil)
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
