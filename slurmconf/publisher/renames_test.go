package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// TestMassRenameByLabelIsHeld renames nodes by their label, which may be a mistake
// where they are many.
func TestMassRenameByLabelIsHeld(t *testing.T) {
	others := map[string]string{}
	for _, n := range racks(t).Nodes {
		others[n.Name] = "x-" + n.Name
	}
	store := newMemory(named(t, nil))
	inBubble(t, store, complete(t, Publication{SlurmNames: "label:sn"}), func() {
		store.pass(5 * time.Minute)
		before := store.get("slurm/quoin-slurm").Clone()
		for len(others) > 14 { // 20 % of 72
			store.change(named(t, others))
			store.pass(time.Hour)
			got := store.get("slurm/quoin-slurm")
			held, want := got.Annotations[plandoc.AnnotationHeldReason], fmt.Sprintf("BigChange: %d of 72 nodes would get another Slurm name", len(others))
			if diff := cmp.Diff(before.Files, got.Files); diff != "" || !strings.HasPrefix(held, want) {
				t.Fatalf("held %q, want %s; files:\n%s", held, want, diff)
			}
			maps.DeleteFunc(others, func(node, _ string) bool { return len(others) > 14 && (len(others) <= 30 || node > "gb200-030") })
		}
		store.change(named(t, others))
		store.pass(time.Minute)
		got := store.get("slurm/quoin-slurm")
		if text, held := topologyOf(store), got.Annotations[plandoc.AnnotationHeldReason]; held != "" || strings.Count(text, "x-gb200-") == 0 || strings.Count(text, "- block:") != 4 {
			t.Errorf("held %q, files:\n%s", held, text)
		}
	})
}

// TestNamesChangeToPods starts a publisher that is configured to take the names from pods. Not all nodes have a pod: the
// others do not leave as if their NodeSet was scaled in. The whole change is held at once, in one publisher after the
// other, also if the pods are so few that their names alone are no big change.
func TestNamesChangeToPods(t *testing.T) {
	const renamed = "Node gb200-001 was named gb200-001 until now (slurmNames: short); by slurmNames: slinky:a, namespace: slurm it is g001; "
	for _, tt := range []struct {
		pods int
		want string
	}{
		{36, "72 of 72 nodes would get another Slurm name, move or leave, more than 20 %: " + renamed + "36 are without a worker pod by slurmNames: slinky:a, which was short;"},
		{10, "72 of 72 nodes would get another Slurm name, move or leave, more than 20 %: " + renamed + "62 are without a worker pod by slurmNames: slinky:a, which was short;"},
	} {
		t.Run(fmt.Sprint(tt.pods), func(t *testing.T) {
			store := newMemory(whole(racks(t)))
			inBubble(t, store, complete(t, Publication{SlurmNames: "short"}), func() { store.pass(5 * time.Minute) })
			store.snap = whole(podsOn(tt.pods).on(t))
			pubs := complete(t, Publication{SlurmNames: "slinky:a"})
			digest := ""
			for _, wait := range []time.Duration{time.Minute, 8 * time.Minute, time.Hour} {
				inBubble(t, store, pubs, func() {
					store.pass(wait)
					d := store.plan(t)
					if len(d.Held) != 1 || !strings.HasPrefix(d.Held[0].Message, tt.want) || len(d.Current.Plan.Places()) != 72 || digest != "" && d.Held[0].Digest != digest {
						t.Errorf("held %+v, and %d nodes have a place; want %s", d.Held, len(d.Current.Plan.Places()), tt.want)
						return
					}
					digest = d.Held[0].Digest
				})
			}
			inBubble(t, store, pubs, func() {
				store.approve()
				store.pass(time.Hour) // one approval is enough
				if d := store.plan(t); d.Held != nil || len(d.Current.Plan.Places()) != tt.pods || d.Current.Plan.Places()["g001"].Block == "" {
					t.Errorf("approved: held %+v, and the nodes are %v", d.Held, d.Current.Plan.Places())
				}
			})
		})
	}
}

// TestNewNames gives published places the names that their Nodes have now.
func TestNewNames(t *testing.T) {
	pods, labels := complete(t, Publication{SlurmNames: "slinky:a"})[0], complete(t, Publication{SlurmNames: "label:sn"})[0]
	for _, tt := range []struct {
		name    string
		byPods  bool
		now     map[string]string // Node -> name
		pending string
		want    string // the nodes of block b, then of leaf l
	}{
		{"one", false, map[string]string{"A": "x", "B": "b"}, "", "x b"},
		{"none is named now", false, map[string]string{"B": "b"}, "", "a b"},
		{"two swap", false, map[string]string{"A": "b", "B": "a"}, "", "b a"},
		{"a chain", false, map[string]string{"A": "b", "B": "c"}, "", "b c"},
		{"a chain whose end stays", false, map[string]string{"A": "b"}, "", "a b"},
		{"pods: one is replaced", true, map[string]string{"A": "x", "B": "b"}, "", "x b"},
		{"pods: two swap", true, map[string]string{"A": "b", "B": "a"}, "", "b a"},
		{"pods: one waits, and another is on its Node", true, map[string]string{"A": "b"}, "a", "b a"},
		{"pods: one is on another Node, and that of the Node is gone", true, map[string]string{"A": "b"}, "", "b"},
		{"pods: one is on a Node that was not published", true, map[string]string{"B": "b", "C": "a"}, "", "b"},
		{"pods: both waited", true, map[string]string{"C": "a", "D": "b"}, "", ""},
		{"pods: none runs", true, nil, "", "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := seatsOf(labels, map[string]string{"a": "A", "b": "B"})
			if tt.byPods {
				h.pub = pods
			}
			in := inputs.Inputs{Pending: map[string]bool{tt.pending: true}}
			for node, name := range tt.now {
				in.Facts = append(in.Facts, topology.Facts{Name: node, SlurmName: name})
			}
			names, all := h.assign(&in, h.lastSeats(&in), []string{"a", "b"})
			old := topology.Plan{Topologies: []topology.Topology{{Kind: "block", Blocks: []topology.Block{{Name: "b", Nodes: []string{"a", "b"}}}}, {Kind: "tree", Switches: []topology.Switch{{Name: "l", Nodes: []string{"a", "b"}}}}}}
			next := names.plan(&old)
			if !slices.Equal(old.Topologies[0].Blocks[0].Nodes, []string{"a", "b"}) {
				t.Errorf("what was published has changed: %v", old)
			}
			for _, got := range [][]string{next.Topologies[0].Blocks[0].Nodes, next.Topologies[1].Switches[0].Nodes} {
				if strings.Join(got, " ") != tt.want {
					t.Errorf("%v, want %s", got, tt.want)
				}
			}
			lines := slices.Sorted(maps.Keys(translate(names, map[string][]gres.Line{"a": {}, "b": {}})))
			if want := slices.Sorted(strings.FieldsSeq(tt.want)); !slices.Equal(lines, want) {
				t.Errorf("gres.conf has %v, want %v", lines, want)
			}
			if same := tt.want == "a b"; same != (len(names) == 0) || same && len(all) > 0 {
				t.Errorf("renamed are %v, %v, want none: %t", names, all, same)
			}
		})
	}
}
