package service

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/chromerig"
	"github.com/quoin-hpc/quoin/test/rig/kuberig"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// oneNode is a site of one node.
type oneNode struct{}

// Publications is one name.
func (oneNode) Publications() []string { return []string{"slurm"} }

// Site has one node.
func (oneNode) Site(context.Context, string) (*picture.Site, error) {
	return &picture.Site{Publication: "slurm", Plan: &topology.Plan{Nodes: []topology.Placement{{Node: "n1", SlurmName: "n1", Reason: "NoGPUs"}}}}, nil
}

// TestRealMapAccess asks for the map with tokens of a real API server: as a program, and by the
// form of a real browser.
func TestRealMapAccess(t *testing.T) {
	t.Parallel()
	g := guard(t, kuberig.StartTest(t), page.New(oneNode{}, slog.New(slog.DiscardHandler)).Handler())
	await.Until(t, "an operator sees the map", func() bool { return g.ask(t, "/map", g.tokens["operator"]) == http.StatusOK }) // the binding arrives soon
	for _, path := range []string{"/map", "/map/data", "/map/other"} {
		for _, tt := range []struct {
			name, token string
			want        int
		}{
			{"no token", "", http.StatusUnauthorized},
			{"an invented token", "invented", http.StatusUnauthorized},
			{"a token that reads metrics", g.tokens["prometheus"], http.StatusForbidden},
		} {
			if got := g.ask(t, path, tt.token); got != tt.want {
				t.Errorf("%s with %s: %d, want %d", path, tt.name, got, tt.want)
			}
		}
	}
	b := chromerig.StartTest(t, chromerig.Options{AnyCertificate: true})
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	do(b.Open("https://"+g.address+"/map"), b.Into("[name=token]", g.tokens["prometheus"]), b.Click("button"), b.Wait("document.body.innerText.includes('bind the ClusterRole quoin-map-reader')"),
		b.Into("[name=token]", g.tokens["operator"]), b.Click("button"), b.Wait("document.getElementById('status')?.textContent === 'live'"))
	var cookies string
	do(b.Eval("document.cookie", &cookies))
	if cookies != "" {
		t.Errorf("a script reads the cookie %q", cookies)
	}
	do(b.Open("https://"+g.address+"/map/sign-in"), b.Eval("window.old = true", nil), b.Click("form[action='/map/sign-out'] button"), b.Wait("!window.old && document.querySelector('[name=token]')"),
		b.Open("https://"+g.address+"/map"), b.Wait("document.querySelector('[name=token]')"))
}
