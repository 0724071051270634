package main

import (
	"context"
	"errors"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// plans is a store that has the answer to every question for a plan.
type plans struct {
	session.Store
	doc *plandoc.Document
	err error
}

func (p plans) LoadPlan(context.Context, string) (*plandoc.Document, error) { return p.doc, p.err }

// TestFabricPlans has a stored plan that cannot be read end the command: without its block a tray that has lost its
// fabric looks like a machine that has none.
func TestFabricPlans(t *testing.T) {
	conf, err := config.Parse(config.Default(), "quoin.yaml", []byte("publications: {a: {configMap: a, maxDomainGPUs: {GB200: 144}}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	unread := errors.New("configmaps is forbidden")
	for _, tt := range []struct {
		name  string
		store session.Store
		err   error
		plan  bool
	}{
		{"no store", nil, nil, false},
		{"no plan", plans{}, nil, false},
		{"a plan", plans{doc: plandoc.New("a", "slurm/a")}, nil, true},
		{"a plan that cannot be read", plans{err: unread}, unread, false},
	} {
		got, err := fabricPlans(t.Context(), &session.Session{Config: conf, Store: tt.store})
		if !errors.Is(err, tt.err) || err == nil && (len(got) != 1 || got[0].MaxDomainGPUs["GB200"] != 144 || (got[0].Plan != nil) != tt.plan) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}
