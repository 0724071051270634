package publisher

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// named are the racks, whose nodes are called by their label sn as others maps
// them, else by their own name.
func named(t *testing.T, others map[string]string) *inputs.Snapshot {
	t.Helper()
	snap := racks(t)
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		name, other := others[n.Name]
		if !other {
			name = n.Name
		}
		n.Labels["sn"] = name
	}
	return snap
}

// TestBadSlurmNames lets one node call itself by a text that is not a node's
// name, from its first day on.
func TestBadSlurmNames(t *testing.T) {
	for _, name := range []string{"x[1-5],gb200-003", "a b", "k#1", "a\nb", "DEFAULT"} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(named(t, map[string]string{"gb200-002": name}))
			inBubble(t, store, complete(t, Publication{SlurmNames: "label:sn"}), func() {
				store.pass(time.Hour)
				got := store.get("slurm/quoin-slurm")
				if got == nil || !strings.Contains(got.Files["topology.yaml"], "nodes: gb200-[001,003-018]\n") || got.Annotations[plandoc.AnnotationHeld] != "" {
					t.Fatalf("published %+v, want all but gb200-002", got)
				}
				want := fmt.Sprintf("gb200-002: NoSlurmName: label sn: %q", name)
				if left := got.Annotations[plandoc.AnnotationLeftOut]; !strings.HasPrefix(left, want) {
					t.Errorf("left out %q, want %s", left, want)
				}
			})
		})
	}
}

// without are the racks, called by their label sn, after some nodes have lost it
// or have gone.
func without(t *testing.T, nameless, gone string) *inputs.Snapshot {
	t.Helper()
	snap := named(t, map[string]string{nameless: ""})
	snap.Nodes = slices.DeleteFunc(snap.Nodes, func(n inputs.Node) bool { return n.Name == gone })
	delete(snap.Reports, gone)
	return snap
}

// topologyOf is the topology file with all nodes in it.
func topologyOf(m *memory) string { return wholeOf(m, "slurm/quoin-slurm")["topology.yaml"] }

// wholeOf are the files of a place with all nodes in them.
func wholeOf(m *memory, place string) map[string]string {
	for _, packed := range m.plans {
		d, err := plandoc.Unpack(packed)
		if err != nil {
			return map[string]string{"topology.yaml": err.Error()}
		}
		if d.Place != place || !d.Current.Plan.ByAnnotation {
			continue
		}
		whole, err := d.Current.Plan.Whole()
		if err != nil {
			return map[string]string{"topology.yaml": err.Error()}
		}
		return whole
	}
	return m.get(place).Files
}

// TestNamelessAtAStart starts a publisher when published names are missing already. The stored
// plan says which nodes had them. If it is lost, a node without a name may be any of them.
func TestNamelessAtAStart(t *testing.T) {
	store := newMemory(without(t, "", ""))
	pubs := complete(t, Publication{SlurmNames: "label:sn"})
	inBubble(t, store, pubs, func() { store.pass(time.Hour) })
	before := topologyOf(store)
	leaves := strings.ReplaceAll(before, "gb200-[001-018]", "gb200-[001-006,008-018]")
	cpu := inputs.Node{Name: "cpu-1", Labels: map[string]string{}}
	other := inputs.Node{Name: "other", Labels: map[string]string{nodelabels.Count: "8"}}
	for _, tt := range []struct {
		name     string
		lost     bool // the stored plan
		nameless string
		gone, at string // "start" or "later"
		with     []inputs.Node
		want     string
		left     string // out, with NoSlurmName
	}{
		{"one lost its name", false, "gb200-002", "", "start", nil, before, ""},
		{"one lost its name, another has gone", false, "gb200-002", "gb200-007", "start", nil, leaves, ""},
		{"one has gone, and a new one with GPUs has no name", false, "", "gb200-007", "start", []inputs.Node{other}, leaves, "other"},
		{"without a plan, one lost its name", true, "gb200-002", "", "start", nil, before, "gb200-002"},
		{"without a plan, one lost its name, another has gone", true, "gb200-002", "gb200-007", "start", nil, before, "gb200-002"},
		{"without a plan, one has gone, one without GPUs never had a name", true, "", "gb200-007", "start", []inputs.Node{cpu}, leaves, "cpu-1"},
		{"without a plan, a stranger with GPUs is there before one goes", true, "", "gb200-007", "later", []inputs.Node{other}, leaves, "other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			with := func(gone string) *inputs.Snapshot {
				snap := without(t, tt.nameless, gone)
				snap.Nodes = append(snap.Nodes, tt.with...)
				return snap
			}
			first := with("")
			if tt.at == "start" {
				first = with(tt.gone)
			}
			again := newMemory(first)
			again.published["slurm/quoin-slurm"] = store.get("slurm/quoin-slurm").Clone()
			if !tt.lost {
				again.plans = maps.Clone(store.plans)
			}
			again.saves, again.notes = store.saves, maps.Clone(store.notes)
			inBubble(t, again, pubs, func() {
				again.pass(time.Minute)
				again.change(with(tt.gone))
				again.pass(time.Hour)
				if diff := cmp.Diff(tt.want, topologyOf(again)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				left := again.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationLeftOut]
				if want := tt.left + ": " + inputs.ReasonNoSlurmName; tt.left == "" && left != "" || tt.left != "" && !strings.Contains(left, want) {
					t.Errorf("left out %q, want %q", left, want)
				}
				if tt.nameless != "" && tt.gone != "" { // it says its name again: now the other is known
					again.change(without(t, "", tt.gone))
					again.pass(time.Hour)
					if diff := cmp.Diff(leaves, topologyOf(again)); diff != "" {
						t.Errorf("named again (-want +got):\n%s", diff)
					}
				}
			})
		})
	}
}

// TestNodeIsUnselected takes a node out of one publication's selector. Another takes it from
// then on, or none does.
func TestNodeIsUnselected(t *testing.T) {
	site := func(cluster string) *inputs.Snapshot {
		return labelled(t, "sc", "a", "a", map[string]string{"gb200-005": cluster})
	}
	no := false
	a := Publication{Name: "a", ConfigMap: "quoin-slurm", Nodes: Selection{Selector: "sc=a"}}
	for _, tt := range []struct {
		name, label    string
		other          Publication
		restart, leave bool // before the label is seen to be another; at once
		note           string
	}{
		{"nobody takes it", "", Publication{Name: "b", Namespace: "slurm-b", Nodes: Selection{Selector: "sc=b"}, BaseBlockSize: 18, Annotate: &no}, false, false, ""},
		{"another takes all others", "", Publication{Name: "rest", Namespace: "slurm-rest", Nodes: Selection{Selector: "sc!=a"}, BaseBlockSize: 18, Annotate: &no}, false, true, ""},
		{"another takes all others, restarted", "", Publication{Name: "rest", Namespace: "slurm-rest", Nodes: Selection{Selector: "sc!=a"}, BaseBlockSize: 18, Annotate: &no}, true, true, ""},
		{"another takes it now", "b", Publication{Name: "b", Namespace: "slurm-b", Nodes: Selection{Selector: "sc=b"}, BaseBlockSize: 18, Annotate: &no}, false, true, ""},
		{"another takes it now, and annotates", "b", Publication{Name: "b", Namespace: "slurm-b", Nodes: Selection{Selector: "sc=b"}, Topology: "tree"}, false, true, "fabric:leaf-01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(site("a"))
			pubs := complete(t, a, tt.other)
			unselected := func() {
				store.change(site(tt.label))
				store.pass(5 * time.Minute)
				if left := !strings.Contains(topologyOf(store), "gb200-[001-018]"); left != tt.leave {
					t.Errorf("left within five minutes: %v, want %v:\n%s", left, tt.leave, topologyOf(store))
				}
				store.pass(10 * time.Minute)
				if got := topologyOf(store); !strings.Contains(got, "gb200-[001-004,006-018]") || store.notes["gb200-005"] != tt.note {
					t.Errorf("after removeAfter its annotation is %q, want %q, and the files are\n%s", store.notes["gb200-005"], tt.note, got)
				}
			}
			inBubble(t, store, pubs, func() {
				store.pass(10 * time.Minute)
				if !tt.restart {
					unselected()
				}
			})
			if tt.restart {
				store.snap = site(tt.label)
				inBubble(t, store, pubs, unselected)
			}
		})
	}
}

// TestRestartTakesAnnotationsBack ends the publisher between the files that a
// node has left and its annotation.
func TestRestartTakesAnnotationsBack(t *testing.T) {
	site := func(label string) *inputs.Snapshot {
		return labelled(t, "sc", "a", "a", map[string]string{"gb200-005": label})
	}
	for name, foreign := range map[string]bool{"its own": false, "another's": true} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(site("a"))
			store.foreign["gb200-005"] = foreign
			pubs := complete(t, Publication{Nodes: Selection{Selector: "sc=a"}})
			inBubble(t, store, pubs, func() {
				store.pass(5 * time.Minute)
				store.edit(func() { store.refusesNotes = errors.New("too many requests") })
				store.change(site(""))
				store.pass(11 * time.Minute)
				leaving := []string{"gb200-005"}
				if foreign { // the Node shows that it is another's
					leaving = nil
				}
				if !strings.Contains(topologyOf(store), "gb200-[001-004,006-018]") || store.notes["gb200-005"] == "" || !slices.Equal(store.plan(t).Leaving, leaving) {
					t.Errorf("a minute after the files, its annotation is %q, and leaving are %v", store.notes["gb200-005"], store.plan(t).Leaving)
				}
			})
			store.refusesNotes = nil
			inBubble(t, store, pubs, func() {
				store.pass(time.Hour) // the clock begins anew
				store.edit(func() {}) // as the Node's change is one
				store.pass(time.Minute)
				store.rests(t, 24*time.Hour)
				if (store.notes["gb200-005"] != "") != foreign || len(store.notes) < 71 || len(store.plan(t).Leaving) != 0 {
					t.Errorf("its annotation is %q of %d, and leaving are %v", store.notes["gb200-005"], len(store.notes), store.plan(t).Leaving)
				}
			})
		})
	}
}
