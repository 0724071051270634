package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// oneSet is a store of one publication.
type oneSet struct {
	planStore
	set *plandoc.Published
	err error
}

func (s oneSet) Load(context.Context, plandoc.Location) (*plandoc.Published, error) {
	return s.set, s.err
}

// TestPlanStatus holds that quoin plan status ends as the store and the nodes behind in Slurm say.
func TestPlanStatus(t *testing.T) {
	all, err := publication.Compile([]publication.Publication{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	behind := &plandoc.Published{Annotations: map[string]string{plandoc.AnnotationBehind: "loaded: n1: x"}}
	for name, tt := range map[string]struct {
		store oneSet
		held  []plandoc.Held
		want  error
	}{
		"nothing is published":       {oneSet{}, nil, nil},
		"all is as published":        {oneSet{set: &plandoc.Published{}}, nil, nil},
		"a change is held":           {oneSet{set: &plandoc.Published{}}, []plandoc.Held{{}}, show.Differs},
		"a node is behind":           {oneSet{set: behind}, nil, show.Differs},
		"the store cannot be read":   {oneSet{err: context.Canceled}, nil, context.Canceled},
		"it cannot, and one is held": {oneSet{err: context.Canceled}, []plandoc.Held{{}}, context.Canceled},
	} {
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		r := &planRun{Command: cmd, out: io.Discard, store: tt.store, pub: all[0], doc: &plandoc.Document{Held: tt.held}}
		if err := r.status(time.Now()); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
