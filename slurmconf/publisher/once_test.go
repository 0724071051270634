package publisher

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// TestOnce plays a site. All that changes is published and annotated at once, however much it is. Files that are refused
// leave the published ones as they are.
func TestOnce(t *testing.T) {
	pub := complete(t, Publication{SettleTime: publication.Default().SettleTime})[0]
	pub.Times = publication.DefaultTimes()
	tooOld := complete(t, Publication{SlurmVersion: "24.11"})[0]
	store := newMemory(nil)
	for _, step := range []struct {
		name            string
		pub             *publication.Cluster
		snap            *inputs.Snapshot
		refused         string
		revision, nodes int
	}{
		{"the first publication", pub, racksWithout(t, 18), "", 1, 54},
		{"a rack joins", pub, racks(t), "", 2, 72},
		{"nothing changes", pub, racks(t), "", 2, 72},
		{"many nodes move", pub, racksMoved(t, 39), "", 3, 72},
		{"many nodes go", pub, racksWithout(t, 40), "", 4, 32},
		{"a node goes at once after that", pub, racksWithout(t, 41), "", 5, 31},
		{"a Slurm that takes no blocks", tooOld, racks(t), reasonLintFatal, 5, 31},
	} {
		store.snap = step.snap
		made, err := Once(t.Context(), store, step.pub)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		plan, set := store.plan(t).Current, store.get("slurm/quoin-slurm")
		if places := plan.Plan.Places(); made.Refused != step.refused || plan.Number != step.revision || len(places) != step.nodes {
			t.Errorf("%s: refused %q, revision %d with %d nodes: want %q, %d and %d", step.name, made.Refused, plan.Number, len(places), step.refused, step.revision, step.nodes)
		}
		files, err := plan.Plan.Files()
		if step.refused == "" {
			files = made.Files
		}
		if diff := cmp.Diff(files, set.Files); err != nil || diff != "" {
			t.Errorf("%s: %v, files (-want +published):\n%s", step.name, err, diff)
		}
		for i := range step.snap.Nodes {
			if name := step.snap.Nodes[i].Name; step.refused == "" && store.notes[name] != made.Specs[name] {
				t.Errorf("%s: %s is annotated with %q, want %q", step.name, name, store.notes[name], made.Specs[name])
			}
		}
	}
	if pub.SettleTime.Duration == 0 || pub.Times == (publication.Times{}) || *pub.MaxChange == 1 {
		t.Errorf("the publication waits no more: %s, %+v, %v", pub.SettleTime, pub.Times, *pub.MaxChange)
	}
}
