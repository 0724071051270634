package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/cmd/quoin/plan"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
)

// oneSet is a store of one publication.
type oneSet struct {
	set *plandoc.Published
	err error
}

func (s oneSet) LoadPlan(context.Context, string) (*plandoc.Document, error) { return nil, s.err }

func (s oneSet) Load(context.Context, plandoc.Location) (*plandoc.Published, error) {
	return s.set, s.err
}

func (s oneSet) Ask(context.Context, plandoc.Location, map[string]string) error { return s.err }

func TestBehind(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 40, 0, time.UTC)
	set := func(behind string, asked bool) *plandoc.Published {
		annotations := map[string]string{plandoc.AnnotationBehind: behind}
		if asked {
			annotations[plandoc.AnnotationAsked] = "2026-11-26T12:00:00Z"
		}
		return &plandoc.Published{Annotations: annotations}
	}
	const (
		lines  = "loaded: n[3-4]: The file was never loaded\nregistered: n1: x"
		listed = "  loaded: n[3-4]: The file was never loaded\n  registered: n1: x\n"
		first  = "behind in Slurm, by the first stage of planned, published, loaded and registered that differs"
		noted  = " (asked 40 s ago; later answers are noted only if they differ)"
	)
	for name, tt := range map[string]struct {
		set   *plandoc.Published
		asked bool
		want  string
		code  show.ExitCode
	}{
		"nothing is published":             {nil, true, "", show.Fine},
		"nobody asks":                      {&plandoc.Published{}, false, "", show.Fine},
		"Slurm has not answered yet":       {&plandoc.Published{}, true, "in Slurm: not known: Slurm has not answered the publisher yet\n", show.NotKnown},
		"Slurm never answered":             {set(plandoc.CannotAsk, false), true, "in Slurm: not known: " + plandoc.CannotAsk + "\n", show.NotKnown},
		"it does not answer now":           {set(plandoc.CannotAsk, true), true, "in Slurm: not known: " + plandoc.CannotAsk + ". Its last answer:\nin Slurm: all nodes are as published (asked 40 s ago)\n", show.NotKnown},
		"it does not, and some are behind": {set(plandoc.CannotAsk+"\n"+lines, true), true, "in Slurm: not known: " + plandoc.CannotAsk + ". Its last answer:\n" + first + " (asked 40 s ago):\n" + listed, show.Differs},
		"all are as published":             {set("", true), true, "in Slurm: all nodes are as published" + noted + "\n", show.Fine},
		"nodes are behind":                 {set(lines, true), true, first + noted + ":\n" + listed, show.Differs},
		"behind, asked by others":          {set(lines, true), false, first + noted + ":\n" + listed, show.Differs},
	} {
		var out strings.Builder
		code, err := plan.Behind(t.Context(), &out, oneSet{set: tt.set}, plandoc.Location{}, tt.asked, now)
		if err != nil || out.String() != tt.want || code != tt.code {
			t.Errorf("%s: %v, error %v, said %q, want %q", name, code, err, out.String(), tt.want)
		}
	}
	if _, err := plan.Behind(t.Context(), &strings.Builder{}, oneSet{err: context.Canceled}, plandoc.Location{}, true, now); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
