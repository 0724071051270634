package publisher

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// baseOf is the base block size in the file.
func baseOf(t *testing.T, m *memory) int {
	t.Helper()
	_, topologies := fileOf(t, m)
	return topologies[0].Sizes[0]
}

// TestFirstNodeSetIsSmall runs two worker pods on a site of four racks, and then one on each node: the
// base block size is that of the whole racks from the beginning.
func TestFirstNodeSetIsSmall(t *testing.T) {
	p := podsOn(2)
	slinkyBubble(t, p, func(store *memory) {
		wantNodes(t, store, "two pods", "g[001-002]")
		for _, pods := range []int{20, 72} {
			if base, d := baseOf(t, store), store.plan(t); base != 18 || len(d.Held) > 0 {
				t.Errorf("base %d, held %+v", base, d.Held)
			}
			clear(p)
			maps.Copy(p, podsOn(pods))
			store.change(p.on(t))
			store.pass(30 * time.Minute)
		}
		if base, d := baseOf(t, store), store.plan(t); base != 18 || len(d.Held) > 0 {
			t.Errorf("with a pod on each node: base %d, held %+v", base, d.Held)
		}
	})
}

// TestOtherSlurmsNodesAreNoPart has two Slurm clusters share each rack: a node that the other one
// has counts for no domain of this one.
func TestOtherSlurmsNodesAreNoPart(t *testing.T) {
	p := podsOn(72)
	for i := range 72 {
		if i%18 >= 9 {
			p.run("b", fmt.Sprintf("g%03d", i+1), fmt.Sprintf("gb200-%03d", i+1))
		}
	}
	store := newMemory(p.on(t))
	pubs := complete(t, Publication{SlurmNames: "slinky:a"}, Publication{Name: "b", SlurmNames: "slinky:b", ConfigMap: "quoin-slurm-b"})
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		if base := baseOf(t, store); base != 9 {
			t.Errorf("base %d, want 9", base)
		}
	})
}

// TestNewBaseIsHeld has larger racks come, and smaller ones: the published base block size stays until
// the new one is approved, and all else is published.
func TestNewBaseIsHeld(t *testing.T) {
	for _, tt := range []struct {
		name      string
		racks, to int
		says      string
	}{
		{"larger", 8, 8, "jobs of 7-8 nodes stay in one rack, and now they may use two racks"},
		{"smaller", 5, 5, "jobs of 6 nodes may use two racks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			site := []rackOf{{"core", 1, 6}, {"core", 2, 6}}
			store := newMemory(siteOf(site...))
			pub := Publication{MaxChange: new(1.0), RemoveAfter: Duration{Duration: time.Minute}}
			inBubble(t, store, complete(t, pub), func() {
				store.pass(5 * time.Minute)
				more := append(site, rackOf{"core", 3, tt.racks}, rackOf{"core", 4, tt.racks}, rackOf{"core", 5, tt.racks})
				store.change(siteOf(more...))
				store.pass(5 * time.Minute)
				d := store.plan(t)
				if base := baseOf(t, store); base != 6 || len(d.Current.Plan.Places()) != 12+3*tt.racks || len(d.Held) != 1 {
					t.Fatalf("base %d, %d nodes, held %+v", base, len(d.Current.Plan.Places()), d.Held)
				}
				held := d.Held[0]
				if held.Reason != placement.BaseSizeChange || !held.Alone || !strings.Contains(held.Message, tt.says) || d.Wanted == nil || d.Wanted.BaseBlockSize() != tt.to {
					t.Errorf("held %+v, wanted %+v", held, d.Wanted)
				}
				found := false
				for _, p := range d.Current.Plan.Problems {
					found = found || p.Reason == placement.BaseSizeChange && strings.Contains(p.Message, tt.says)
				}
				if !found {
					t.Errorf("problems %+v", d.Current.Plan.Problems)
				}
				cluster := complete(t, pub)[0]
				prev := ReadPlan(cluster, &d.Current.Plan)
				if made := makeOf(t, cluster, cluster.Rules.Gather(siteOf(more...)), prev); made.Plan.BaseBlockSize() != 6 {
					t.Errorf("a command makes %+v", made)
				}
				store.approveDigest(held.Digest)
				store.pass(5 * time.Minute)
				if base, d := baseOf(t, store), store.plan(t); base != tt.to || len(d.Held) > 0 {
					t.Errorf("approved: base %d, held %+v", base, d.Held)
				}
				store.change(siteOf(more[:4]...)) // a rack has gone
				store.pass(time.Hour)
				if base, d := baseOf(t, store), store.plan(t); base != tt.to || len(d.Held) > 0 {
					t.Errorf("a rack has gone: base %d, held %+v", base, d.Held)
				}
			})
			pub.BaseBlockSize = 6 // people's own word
			inBubble(t, store, complete(t, pub), func() {
				store.pass(5 * time.Minute)
				if base, d := baseOf(t, store), store.plan(t); base != 6 || len(d.Held) > 0 {
					t.Errorf("configured: base %d, held %+v", base, d.Held)
				}
				if text := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeld]; text != "" {
					t.Errorf("held %q", text)
				}
			})
		})
	}
}
