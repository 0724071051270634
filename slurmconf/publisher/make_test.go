package publisher

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

func TestMakeNothing(t *testing.T) {
	pub := complete(t, Publication{})[0]
	gone := &topology.Previous{BaseBlockSize: 2, Blocks: []topology.Block{{Name: "nvl-8a61c302-1"}}}
	for name, tt := range map[string]struct {
		prev Previous
		want string
	}{
		"no block":             {Previous{}, "no NVLink domain and no switch is known"},
		"only a block's place": {Previous{Topology: gone}, "no node is in a block or switch"},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := Make(&pub, Gathered{Facts: []topology.Facts{{Name: "n1", SlurmName: "n1"}}}, tt.prev)
			if err != nil {
				t.Fatal(err)
			}
			if made.Refused != "NothingToPublish" || !strings.HasPrefix(made.Message, tt.want) || !strings.HasPrefix(made.LeftOut, "n1: NoGPUs: ") {
				t.Errorf("refused %q for %q, left out %q: want %q and why n1 is left out", made.Refused, made.Message, made.LeftOut, tt.want)
			}
		})
	}
}
