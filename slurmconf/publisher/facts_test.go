package publisher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
)

func TestGatherNames(t *testing.T) {
	long := strings.Repeat("n", 65)
	for _, tt := range []struct{ names, node, value, want, reason string }{
		{"short", "n1.example.com", "", "n1", ""},
		{"full", "n1.example.com", "", "n1.example.com", ""},
		{"full", long, "", "", ReasonBadSlurmName},
		{"short", "default", "", "", ReasonBadSlurmName},
		{"short", "n1234567890123456789", "", "", ReasonBadSlurmName},
		{"short", ".n1", "", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "x_1", "x_1", ""},
		{"annotation:sn", "n1", "", "", ReasonNoSlurmName},
		{"label:sn", "n1", "", "", ReasonNoSlurmName},
		{"label:sn", "n1", "x-1", "x-1", ""},
		{"annotation:sn", "n1", "x[1-5],n2", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "x1,x2", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "a b", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "k#1", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "a\nb", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "a{b}", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", "Default", "", ReasonBadSlurmName},
		{"annotation:sn", "n1", strings.Repeat("x", 300), "", ReasonBadSlurmName},
	} {
		t.Run(tt.names+" "+tt.node+" "+tt.value, func(t *testing.T) {
			pub := complete(t, Publication{SlurmNames: tt.names})[0]
			values := map[string]string{"sn": tt.value}
			g := Gather(&pub, &Snapshot{Nodes: []Node{{Name: tt.node, Labels: values, Annotations: values}}})
			if tt.reason == "" {
				if len(g.Unnamed) > 0 || len(g.Facts) != 1 || g.Facts[0].SlurmName != tt.want {
					t.Errorf("facts %+v, without a name %v: want %s", g.Facts, g.Unnamed, tt.want)
				}
				return
			}
			if len(g.Facts) > 0 || len(g.Unnamed) != 1 || g.Unnamed[0].Node != tt.node || g.Unnamed[0].Reason != tt.reason ||
				!strings.Contains(g.Unnamed[0].Message, fmt.Sprintf("%q", tt.value[:min(10, len(tt.value))])[:1]) && tt.value != "" {
				t.Errorf("facts %+v, without a name %v: want %s of %s with the value", g.Facts, g.Unnamed, tt.reason, tt.node)
			}
		})
	}
}

// named are the racks, whose nodes are called by their label sn as others maps
// them, else by their own name.
func named(t *testing.T, others map[string]string) *Snapshot {
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
				if got == nil || !strings.Contains(got.Files["topology.yaml"], "nodes: gb200-[001,003-018]\n") || got.Annotations[AnnotationHeld] != "" {
					t.Fatalf("published %+v, want all but gb200-002", got)
				}
				want := fmt.Sprintf("gb200-002: BadSlurmName: label sn: %q", name)
				if left := got.Annotations[AnnotationLeftOut]; !strings.HasPrefix(left, want) {
					t.Errorf("left out %q, want %s", left, want)
				}
			})
		})
	}
}

func TestMakeNamesTheNameless(t *testing.T) {
	pub := complete(t, Publication{SlurmNames: "annotation:sn"})[0]
	snap := racks(t)
	for i := range snap.Nodes {
		if i != 4 {
			snap.Nodes[i].Annotations = map[string]string{"sn": "s" + snap.Nodes[i].Name}
		}
	}
	made, err := Make(&pub, Gather(&pub, snap), Previous{})
	if err != nil {
		t.Fatal(err)
	}
	const message = "no annotation sn says its name in Slurm"
	if diff := cmp.Diff([]topology.Problem{{Node: "gb200-005", Reason: ReasonNoSlurmName, Message: message}}, made.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if want := "gb200-005: NoSlurmName: " + message; made.LeftOut != want {
		t.Errorf("left out %q, want %q", made.LeftOut, want)
	}
}
