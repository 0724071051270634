package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// oneSet is a store of one publication.
type oneSet struct {
	session.Store
	set *plandoc.Published
	err error
}

func (s oneSet) Load(context.Context, plandoc.Location) (*plandoc.Published, error) {
	return s.set, s.err
}

// TestPlanStatus holds that quoin plan status ends as the store and the nodes that are pending in Slurm say.
func TestPlanStatus(t *testing.T) {
	all, err := publication.Compile([]publication.Publication{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pending := &plandoc.Published{Annotations: map[string]string{plandoc.AnnotationPending: "loaded: n1: x"}}
	for name, tt := range map[string]struct {
		store oneSet
		held  []plandoc.Held
		want  error
	}{
		"nothing is published":       {oneSet{}, nil, nil},
		"all is as published":        {oneSet{set: &plandoc.Published{}}, nil, nil},
		"a change is held":           {oneSet{set: &plandoc.Published{}}, []plandoc.Held{{}}, show.Differs},
		"a node is pending":          {oneSet{set: pending}, nil, show.Differs},
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

// asks notes what people ask for.
type asks struct {
	session.Store
	digest string
}

func (a *asks) Ask(_ context.Context, _ plandoc.Location, annotations map[string]string) error {
	a.digest = annotations[plandoc.AnnotationApprove]
	return nil
}

// TestApprove approves one of what is held.
func TestApprove(t *testing.T) {
	all, err := publication.Compile([]publication.Publication{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	big, split, large := plandoc.Held{Reason: "BigChange", Digest: "1", Waits: true}, plandoc.Held{Reason: "TopologiesChange", Digest: "2", Waits: true, Alone: true}, plandoc.Held{Reason: "TooLarge", Message: "5 bytes", Digest: "3"}
	const diff = " now. Look at what is held: quoin plan diff --store s\n"
	for name, tt := range map[string]struct {
		held   []plandoc.Held
		digest string
		want   string // what is said, if nobody is asked
	}{
		"nothing":               {nil, "1", "digest \"1\" is not held: nothing is held\n"},
		"what is published":     {[]plandoc.Held{big}, "7", "digest \"7\" is published already: revision 4, by ann\n"},
		"the only one":          {[]plandoc.Held{big}, "1", ""},
		"the second":            {[]plandoc.Held{big, split}, "2", ""},
		"another":               {[]plandoc.Held{big}, "9", "digest \"9\" is not held" + diff + "  1: BigChange: \n"},
		"another than two":      {[]plandoc.Held{big, split}, "9", "digest \"9\" is not held" + diff + "  1: BigChange: \n  2: TopologiesChange: \n"},
		"one that cannot be":    {[]plandoc.Held{large, split}, "3", "TooLarge cannot be approved: 5 bytes\n"},
		"beside one that can't": {[]plandoc.Held{large, split}, "2", ""},
		"another, and none can": {[]plandoc.Held{large}, "9", "digest \"9\" is not held" + diff + "  cannot be approved: TooLarge: 5 bytes\n"},
		"no digest":             {[]plandoc.Held{{Reason: "NoPlan", Message: "x"}}, "", "digest \"\" is not held" + diff + "  cannot be approved: NoPlan: x\n"},
	} {
		var out strings.Builder
		cmd, store := &cobra.Command{}, &asks{}
		cmd.SetContext(t.Context())
		r := &planRun{Command: cmd, out: &out, store: store, pub: all[0], doc: &plandoc.Document{Held: tt.held, Current: plandoc.Revision{Number: 4, Author: "ann", Digest: "7"}}, again: " --store s"}
		err := r.approve(tt.digest, "ann")
		if wanted := map[bool]error{true: nil, false: show.Differs}[tt.want == ""]; out.String() != tt.want || !errors.Is(err, wanted) || (store.digest == tt.digest) != (tt.want == "" || tt.digest == "") {
			t.Errorf("%s: %v, %q, want %q; asked for %q", name, err, &out, tt.want, store.digest)
		}
	}
}
