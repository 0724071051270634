package main

import (
	"context"
	"errors"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// plans is a store that has the answer to every question for a plan.
type plans struct {
	session.Store
	doc *plandoc.Document
	err error
}

func (p plans) LoadPlan(context.Context, string) (*plandoc.Document, error) { return p.doc, p.err }

// TestJudgeFabrics has a stored plan that cannot be read end the command: without its block a tray that has lost its
// fabric looks like a machine that has none.
func TestJudgeFabrics(t *testing.T) {
	conf, err := config.Parse(config.Default(), "quoin.yaml", []byte("publications: {a: {configMap: a}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	snap := &inputs.Snapshot{Nodes: []inputs.Node{{Name: "n1"}}, Reports: map[string]*topology.Node{
		"n1": {Name: "n1", GPUs: []topology.GPU{{UUID: "GPU-1", Product: "NVIDIA GB200", Fabric: topology.Fabric{State: topology.FabricNotSupported}}}}}}
	published := plandoc.New("a", "slurm/a")
	published.Current.Plan.Topologies = []topology.Topology{{Name: "nvl", Kind: topology.KindBlock, Blocks: []topology.Block{{Name: "nvl-1", Nodes: topology.Names{"n1"}}}}}
	unread := errors.New("configmaps is forbidden")
	for _, tt := range []struct {
		name  string
		store session.Store
		err   error
		want  string // the verdict on a tray without a fabric
	}{
		{"no store", nil, nil, topology.ReasonNoFabric},
		{"no plan", plans{}, nil, topology.ReasonNoFabric},
		{"a plan", plans{doc: published}, nil, topology.ReasonFabricMissing},
		{"a plan that cannot be read", plans{err: unread}, unread, ""},
	} {
		got, err := judgeFabrics(t.Context(), &session.Session{Config: conf, Store: tt.store}, snap)
		if !errors.Is(err, tt.err) || err == nil && (len(got) != 1 || got[0]["n1"].Reason != tt.want) {
			t.Errorf("%s: %+v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}
