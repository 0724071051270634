package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/quoin/plan"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// oneSet is a store of one publication.
type oneSet struct {
	set *published.Set
	err error
}

func (s oneSet) LoadPlan(context.Context, string) (*plandoc.Document, error) { return nil, s.err }

func (s oneSet) Load(context.Context, published.Place) (*published.Set, error) { return s.set, s.err }

func (s oneSet) Ask(context.Context, published.Place, map[string]string) error { return s.err }

func TestBehind(t *testing.T) {
	said := &published.Set{Annotations: map[string]string{published.AnnotationBehind: "loaded: n[3-4]: The file was never loaded\nregistered: n1: x"}}
	for name, tt := range map[string]struct {
		set   *published.Set
		asked bool
		want  string
		code  show.ExitCode
	}{
		"nothing is published":    {nil, true, "", show.Fine},
		"nobody asks":             {&published.Set{}, false, "", show.Fine},
		"Slurm cannot be asked":   {&published.Set{Annotations: map[string]string{published.AnnotationBehind: published.CannotAsk}}, true, "in Slurm: " + published.CannotAsk + "\n", show.NotKnown},
		"all are as published":    {&published.Set{}, true, "in Slurm: all nodes are as published\n", show.Fine},
		"nodes are behind":        {said, true, "behind in Slurm, by the first stage of planned, published, loaded and registered that differs:\n  loaded: n[3-4]: The file was never loaded\n  registered: n1: x\n", show.Differs},
		"behind, asked by others": {said, false, "behind in Slurm, by the first stage of planned, published, loaded and registered that differs:\n  loaded: n[3-4]: The file was never loaded\n  registered: n1: x\n", show.Differs},
	} {
		var out strings.Builder
		code, err := plan.Behind(t.Context(), &out, oneSet{set: tt.set}, published.Place{}, tt.asked)
		if err != nil || out.String() != tt.want || code != tt.code {
			t.Errorf("%s: %v, error %v, said %q, want %q", name, code, err, out.String(), tt.want)
		}
	}
	if _, err := plan.Behind(t.Context(), &strings.Builder{}, oneSet{err: context.Canceled}, published.Place{}, true); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
