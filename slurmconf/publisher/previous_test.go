package publisher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestReadPrevious reads back what was made: a plan that carries it on makes the
// same, and no node's lines in gres.conf count as changed.
func TestReadPrevious(t *testing.T) {
	for _, format := range []string{"conf", "yaml"} {
		for _, site := range simulated.Shipped() {
			t.Run(format+" "+site, func(t *testing.T) {
				pub := complete(t, Publication{Format: format})[0]
				facts := pub.Rules.Gather(snapshotOf(openCluster(t, site)))
				made, err := Make(pub, facts, Previous{})
				if err != nil {
					t.Fatal(err)
				}
				prev, err := readPrevious(&published.Set{Files: made.Files})
				if err != nil {
					t.Fatal(err)
				}
				lines, err := gres.ByNode(made.gres, nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(lines, prev.Gres); diff != "" {
					t.Errorf("gres.conf (-made +read):\n%s", diff)
				}
				if changed, of := gresChanges(prev.Gres, made.gres); changed != 0 || of != len(lines) {
					t.Errorf("the lines of %d of %d nodes count as changed, want none of %d", changed, of, len(lines))
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

func TestReadPreviousRefuses(t *testing.T) {
	const good = "- topology: default\n  cluster_default: true\n  flat: true\n"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"topology.yaml":      {map[string]string{"topology.yaml": "- topology: ["}, "topology.yaml:"},
		"topology.conf":      {map[string]string{"topology.conf": "BlockName=a Nodes=n[1-"}, "topology.conf: block a: "},
		"gres.conf":          {map[string]string{"topology.yaml": good, "gres.conf": "Gres=gpu"}, "gres.conf:1: Gres"},
		"nodes of gres.conf": {map[string]string{"topology.yaml": good, "gres.conf": "NodeName=n[1- Name=gpu Count=4"}, "gres.conf: NodeName=n[1-: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readPrevious(&published.Set{Files: tt.files}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want one that begins with %q", err, tt.want)
			}
		})
	}
}
