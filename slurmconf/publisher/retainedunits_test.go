package publisher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// fileOf returns the topologies of what the memory has published.
func fileOf(t *testing.T, m *memory) (name string, topologies []topology.Topology) {
	t.Helper()
	for _, name := range []string{"topology.yaml", "topology.conf"} {
		if text := m.get("slurm/quoin-slurm").Files[name]; text != "" {
			topologies, err := slurmconf.ParseTopologies(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return name, topologies
		}
	}
	t.Fatal("nothing is published")
	return "", nil
}

// namesOf are the names of topologies.
func namesOf(topologies []topology.Topology) (names []string) {
	for i := range topologies {
		names = append(names, topologies[i].Name)
	}
	return names
}

// wantKnown checks that slurmctld knows everything that annotations name.
func wantKnown(t *testing.T, m *memory) {
	t.Helper()
	name, topologies := fileOf(t, m)
	known := map[string]bool{}
	for _, u := range topology.UnitsOf(topologies) {
		known[u.String()] = true
	}
	for node, spec := range m.notes {
		for part := range strings.SplitSeq(spec, ",") {
			if !known[part] {
				t.Fatalf("node %s is annotated %q, and %s does not know %s: %v", node, spec, name, part, known)
			}
		}
	}
}

// TestTopologiesLeaveAfterAnnotations configures topologies away: at any moment
// the file has what annotations name, and in the end only what is wanted.
func TestTopologiesLeaveAfterAnnotations(t *testing.T) {
	yaml, conf := Publication{Format: "yaml"}, Publication{Format: "conf"}
	of := func(p Publication, topology string) Publication {
		p.Topology = topology
		return p
	}
	byLeaf := of(yaml, "block")
	byLeaf.BlocksBy = "leaf"
	for _, tt := range []struct {
		name     string
		from, to Publication
		between  string // the topologies in the file until the annotations have followed
		want     string
	}{
		{"both to blocks", of(yaml, "auto"), of(yaml, "block"), "topology.yaml nvl fabric", "topology.yaml nvl"},
		{"both to the tree", of(yaml, "auto"), of(yaml, "tree"), "topology.yaml fabric nvl", "topology.yaml fabric"},
		{"tree to blocks", of(yaml, "tree"), of(yaml, "block"), "topology.yaml nvl fabric", "topology.yaml nvl"},
		{"blocks to the tree", of(yaml, "block"), of(yaml, "tree"), "topology.yaml fabric nvl", "topology.yaml fabric"},
		{"blocks to both", of(yaml, "block"), of(yaml, "auto"), "topology.yaml nvl fabric", "topology.yaml nvl fabric"},
		{"domains to leaves", of(yaml, "block"), byLeaf, "topology.yaml leaf nvl", "topology.yaml leaf"},
		{"yaml to conf", of(yaml, "auto"), of(conf, "block"), "topology.yaml default nvl fabric", "topology.conf default"},
		{"yaml to conf with the tree", of(yaml, "auto"), of(conf, "tree"), "topology.yaml default nvl fabric", "topology.conf default"},
		{"conf to yaml", of(conf, "block"), of(yaml, "auto"), "topology.yaml nvl fabric default", "topology.yaml nvl fabric"},
		{"conf with the tree to yaml with blocks", of(conf, "tree"), of(yaml, "block"), "topology.yaml nvl default", "topology.yaml nvl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(racks(t))
			tt.to.MaxChange = new(1.0)
			inBubble(t, store, complete(t, tt.from), func() { store.pass(5 * time.Minute) })
			before := len(store.notes)
			var seen []string
			inBubble(t, store, complete(t, tt.to), func() {
				for range 60 {
					store.edit(func() {}) // the watch sees the annotations, and other things
					store.pass(20 * time.Second)
					wantKnown(t, store)
					name, topologies := fileOf(t, store)
					name += " " + strings.Join(namesOf(topologies), " ")
					if len(seen) == 0 || seen[len(seen)-1] != name {
						seen = append(seen, name)
					}
					if len(store.notes) != before {
						t.Fatalf("%d of %d annotations are left", len(store.notes), before)
					}
				}
				store.rests(t, time.Hour)
			})
			if diff := cmp.Diff(slices.Compact([]string{tt.between, tt.want}), seen); diff != "" {
				t.Errorf("the files (-want +got):\n%s", diff)
			}
			_, topologies := fileOf(t, store)
			var got []string
			for unit := range topology.SpecUnits(store.notes["gb200-001"]) {
				of, _, _ := strings.Cut(unit, ":")
				got = append(got, of)
			}
			if names := namesOf(topologies); !slices.Equal(got, names) {
				t.Errorf("annotated %q, want units of %v", store.notes["gb200-001"], names)
			}
			if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; held != "" {
				t.Errorf("held %q", held)
			}
		})
	}
}

// TestLeafTurnsInner has a nearer tier of switches become known: what was a leaf
// has switches below it, under another name while annotations name the leaf.
func TestLeafTurnsInner(t *testing.T) {
	deeper := fabricOf(2, func(name string, labels map[string]string) {
		labels[nodelabels.DefaultTiers[2]] = labels[nodelabels.DefaultTiers[1]]
		labels[nodelabels.DefaultTiers[1]] = labels[nodelabels.DefaultTiers[0]]
		labels[nodelabels.DefaultTiers[0]] = "near-" + name[:2]
	})
	for _, format := range []string{"yaml", "conf"} {
		t.Run(format, func(t *testing.T) {
			store := newMemory(fabricOf(2))
			inBubble(t, store, complete(t, Publication{Format: format, MaxChange: new(1.0)}), func() {
				store.pass(5 * time.Minute)
				store.change(deeper)
				for range 60 {
					store.pass(20 * time.Second)
					wantKnown(t, store)
					store.edit(func() {})
				}
				held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]
				if held != "" || !strings.HasSuffix(store.notes["n31"], ":near-n3") {
					t.Errorf("held %q, annotated %q", held, store.notes["n31"])
				}
			})
		})
	}
}

// TestConfTurnsToLeaves makes the blocks of topology.conf's one topology from leaves. The old
// blocks stay, empty, while annotations name them. Then they are forgotten.
func TestConfTurnsToLeaves(t *testing.T) {
	store := newMemory(racks(t))
	of := func(by string, forget ...string) []*publication.Cluster {
		return complete(t, Publication{Format: "conf", Topology: "block", BlocksBy: by, MaxChange: new(1.0), ForgetBlocks: forget})
	}
	inBubble(t, store, of("nvlink"), func() { store.pass(5 * time.Minute) })
	var was []string
	for _, b := range blocksIn(t, store) {
		was = append(was, b.Name)
	}
	pubs := of("leaf", was...)
	inBubble(t, store, pubs, func() {
		for range 60 {
			store.edit(func() {})
			store.pass(20 * time.Second)
			wantKnown(t, store)
		}
		store.rests(t, time.Hour)
		if held := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationHeldReason]; held != "" {
			t.Errorf("held %q", held)
		}
	})
	got := blocksIn(t, store)
	if len(got) != 4 || slices.ContainsFunc(got, func(b topology.Block) bool { return slices.Contains(was, b.Name) || len(b.Nodes) == 0 }) {
		t.Errorf("blocks %v, want the leaves alone", got)
	}
}

// blocksIn are the blocks of the first topology that has any.
func blocksIn(t *testing.T, m *memory) []topology.Block {
	t.Helper()
	_, topologies := fileOf(t, m)
	for _, topo := range topologies {
		if len(topo.Blocks) > 0 {
			return topo.Blocks
		}
	}
	return nil
}
