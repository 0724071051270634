package publisher

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestReadPlan reads the stored plan of what was made: a plan that carries it on makes the
// same, and no node's lines in gres.conf count as changed.
func TestReadPlan(t *testing.T) {
	for _, format := range []string{"conf", "yaml"} {
		for _, site := range simulated.Shipped() {
			t.Run(format+" "+site, func(t *testing.T) {
				pub := complete(t, Publication{Format: format})[0]
				facts := pub.Rules.Gather(snapshotOf(openCluster(t, site)))
				made, err := Make(pub, facts, Previous{})
				if err != nil {
					t.Fatal(err)
				}
				plan, err := made.document(&plandoc.Plan{})
				if err != nil {
					t.Fatal(err)
				}
				prev, err := readPlan(pub, &plan)
				if err != nil {
					t.Fatal(err)
				}
				if files, err := plan.Files(); err != nil || !maps.Equal(files, made.Files) {
					t.Errorf("%v, the stored plan gives\n%v", err, files)
				}
				lines, err := gres.ByNode(made.gres, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(lines, prev.Gres); diff != "" {
					t.Errorf("gres.conf (-made +read):\n%s", diff)
				}
				again, err := Make(pub, facts, prev)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(made.Files, again.Files); diff != "" {
					t.Errorf("carried on (-first +again):\n%s", diff)
				}
			})
		}
	}
}
