package main

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/ibrig"
)

// TestRealMapCables draws a site of 139 nodes by the texts of the real ibnetdiscover, one of the rails
// and one of the storage, and by descriptions alone. The descriptions of 69 adapters name no node.
func TestRealMapCables(t *testing.T) {
	t.Parallel()
	f := ibrig.New(ibrig.Shape{Seed: 5, Groups: 4, Nodes: 32, Rails: 8, RailLeaves: true, Spines: 8, Storage: true, Aggregation: true})
	f.AddGroup(11)
	f.TakeNames(69)
	texts := ibrig.DiscoverTest(t, f)
	if len(texts) != 2 {
		t.Fatalf("%d texts, want 2", len(texts))
	}
	code, out, errs := quoin(t, "", "map", "--ibnetdiscover", write(t, "rails.txt", texts[0]), "--ibnetdiscover", write(t, "storage.txt", texts[1]))
	if code != 0 || errs != "" {
		t.Errorf("exit status %d, stderr %q", code, errs)
	}
	for _, want := range []string{"139 nodes", "node[0001-0032]", "node[0033-0064]", "node[0065-0096]", "node[0097-0128]", "node[0129-0139]", "AdapterNameless: the nodes of 69 adapters are not known"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, " leaf-"); n != 5 {
		t.Errorf("%d leaves, want 5:\n%s", n, out)
	}
}
