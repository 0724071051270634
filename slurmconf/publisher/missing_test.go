package publisher

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// missed is a published name that is missing: x, which Node n had last.
type missed struct {
	pub, other Publication
	// nodes are the Nodes that there are. part says that the store cannot tell what is gone.
	nodes []inputs.Node
	part  bool
	// unplaced are pods on no Node, and sets the NodeSets. ofSet says that the pod of x was
	// of NodeSet gpu.
	unplaced []inputs.Worker
	sets     []inputs.NodeSet
	ofSet    bool
	// stored is the plan's slurmNames, if it is another one.
	stored string
	// unknown says that nobody knows which Node had the name.
	unknown bool
}

// history makes what a publisher knows when it has just started.
func (m *missed) history(t *testing.T) (*seats, *stored, *inputs.Snapshot) {
	t.Helper()
	m.pub.Name, m.other.Name, m.other.ConfigMap = "a", "b", "b"
	pubs := complete(t, m.pub, m.other)
	plan := oneBlock([]string{"x"})
	prev := Previous{Plan: plan, stored: plandoc.Plan{Policy: pubs[0].Keys()}}
	if m.stored != "" {
		prev.stored.Policy[keyNames] = m.stored
	}
	if !m.unknown {
		plan.Nodes = []topology.Placement{{Node: "n", SlurmName: "x"}}
	}
	return &seats{pub: pubs[0], others: pubs[1:]}, &stored{doc: plandoc.New("a", "slurm/a"), prev: prev}, &inputs.Snapshot{Nodes: m.nodes, Whole: !m.part, Unplaced: m.unplaced, NodeSets: m.sets}
}

func storedPlan(plan *topology.Plan) *stored {
	return &stored{doc: plandoc.New("a", "slurm/a"), prev: Previous{Plan: plan}}
}

// look makes a pass look at x.
func (m *missed) look(t *testing.T) *look {
	t.Helper()
	h, mem, snap := m.history(t)
	in := h.pub.Rules.Gather(snap)
	h.recall(&in, mem)
	if m.ofSet {
		x := h.of("x")
		x.set, x.seen = inputs.Owner{Namespace: "slurm", NodeSet: "gpu"}, true
	}
	return h.look(in, snap, mem, time.Now())
}

// pass makes a pass, and returns the nodes that are there or stay.
func (h *seats) pass(snap *inputs.Snapshot, mem *stored, now time.Time) presentNodes {
	return h.look(h.pub.Rules.Gather(snap), snap, mem, now).present(now)
}

// node is a Node with GPUs and labels: pairs of a key and a value.
func node(name string, labels ...string) inputs.Node {
	n := inputs.Node{Name: name, GPUs: 4, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

// withPods is a Node with worker pods, each CLUSTER/NAME.
func withPods(name string, pods ...string) inputs.Node {
	n := node(name)
	for _, p := range pods {
		cluster, name, _ := strings.Cut(p, "/")
		n.Workers = append(n.Workers, inputs.Worker{Namespace: "slurm", NodeSet: "gpu", Cluster: cluster, Pod: name, Hostname: name})
	}
	return n
}

// TestAbsences has each case of absence, and their order: a row also has what cases after its own
// would go by, as far as the two can be true at once.
func TestAbsences(t *testing.T) {
	waits := []inputs.Worker{{Namespace: "slurm", NodeSet: "gpu", Cluster: "a", Pod: "x", Hostname: "x"}}
	gpu := func(replicas int) []inputs.NodeSet {
		return []inputs.NodeSet{{Namespace: "slurm", Name: "gpu", Replicas: replicas}}
	}
	label, slinky := Publication{SlurmNames: "label:sn"}, Publication{SlurmNames: "slinky:a"}
	selects, chooses := label, Publication{Nodes: Selection{Slinky: "a"}}
	selects.Nodes = Selection{Selector: "sc=a"}
	takesB, podsOfB, takesNone := Publication{Nodes: Selection{Selector: "sc=b"}, SlurmNames: "label:sn"}, Publication{Nodes: Selection{Slinky: "b"}}, Publication{Nodes: Selection{Selector: "sc=none"}}
	const (
		empty    = "not shown: there is no node and no report at all"
		claimed  = "claimed more than once: "
		nameless = "without a Slurm name"
		givenUp  = "without a worker pod, and no NodeSet is known to make it again"
		wanted   = "without a worker pod, and the NodeSet has not made it again"
		waiting  = "without a Node: the worker pod waits for one"
		selected = "not selected any more (nodes.selector)"
		unknown  = "on no Node that is known"
	)
	for _, tt := range []struct {
		name string
		missed
		want absence
	}{
		{"the store is empty", missed{pub: label, part: true}, absence{fate: stays, why: empty}},
		{"the store is empty, and nobody knows the Node", missed{pub: label, part: true, unknown: true}, absence{fate: stays, why: empty}},
		{"two Nodes claim it", missed{pub: label, nodes: []inputs.Node{node("n", "sn", "x"), node("m", "sn", "x")}}, absence{fate: stays, why: claimed + "nodes n, m have the Slurm name x, by label sn: correct the label sn"}},
		{"two Nodes claim it, and its own is gone", missed{pub: label, nodes: []inputs.Node{node("l", "sn", "x"), node("m", "sn", "x")}}, absence{fate: stays, why: claimed + "nodes l, m have the Slurm name x, by label sn: correct the label sn"}},
		{"its pod is gone, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}}, absence{fate: leavesNowFree, why: "without a worker pod, and another publication has one there"}},
		{"its pod is gone, and another publication's pod is on its Node, which both may take", missed{pub: slinky, other: Publication{SlurmNames: "slinky:b"}, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its pod is made again, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}, sets: gpu(3), ofSet: true}, absence{fate: leavesNow, why: "taken by another publication"}},
		{"its pod waits, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y")}, unplaced: waits}, absence{fate: leavesNow, why: "taken by another publication"}},
		{"another publication took its Node", missed{pub: selects, other: takesB, nodes: []inputs.Node{node("n", "sc", "b", "sn", "x")}}, absence{fate: leavesNow, why: "taken by another publication"}},
		{"another publication took its Node, which lost its name", missed{pub: selects, other: takesB, nodes: []inputs.Node{node("n", "sc", "b")}}, absence{fate: leavesNow, why: "taken by another publication"}},
		{"its Node lost its label", missed{pub: label, nodes: []inputs.Node{node("n"), node("m")}}, absence{fate: stays, why: nameless}},
		{"its Node has a bad name", missed{pub: label, nodes: []inputs.Node{node("n", "sn", "a b")}}, absence{fate: stays, why: nameless}},
		{"its Node lost its label, and a Node that is not taken has it", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n", "sc", "a"), node("m", "sn", "x")}}, absence{fate: stays, why: nameless}},
		{"its Node is gone", missed{pub: label, nodes: []inputs.Node{node("m")}}, absence{fate: leavesLaterFree, why: "gone"}},
		{"its Node is gone, with its pod", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, absence{fate: leavesLaterFree, why: "gone"}},
		{"its Node is gone, and its pod waits", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, unplaced: waits}, absence{fate: leavesLaterFree, why: "gone"}},
		{"its Node is gone, and slurmNames was changed", missed{pub: slinky, stored: "short", nodes: []inputs.Node{withPods("m", "a/y")}}, absence{fate: leavesLaterFree, why: "gone"}},
		{"its report is gone", missed{pub: label, part: true, nodes: []inputs.Node{node("m")}}, absence{fate: leavesLater, why: "without a report"}},
		{"slurmNames was changed, and its Node has no pod", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n"), withPods("m", "a/y")}}, absence{fate: leavesNow, why: "without a worker pod by slurmNames: slinky:a, which was short", bySettings: true}},
		{"slurmNames was changed, and its Node has a pod of the other cluster", missed{pub: slinky, stored: "slinky:b", nodes: []inputs.Node{withPods("n", "b/x"), withPods("m", "a/y")}}, absence{fate: leavesLater, why: "without a worker pod by slurmNames: slinky:a, which was slinky:b", bySettings: true}},
		{"slurmNames was changed, and its pod was there since", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, ofSet: true}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its NodeSet was scaled in", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its NodeSet was scaled in, and so its Node is not taken", missed{pub: chooses, other: takesNone, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its pod is gone, and nobody knows its NodeSet", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(9)}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its pod is gone, and nobody knows its Node", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, unknown: true}, absence{fate: leavesLaterFree, why: givenUp}},
		{"its NodeSet wants another pod", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, absence{fate: leavesLater, why: wanted}},
		{"its NodeSet wants another pod, and so its Node is not taken", missed{pub: chooses, other: takesNone, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, absence{fate: leavesLater, why: wanted}},
		{"its Node is not selected any more", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n", "sn", "x")}}, absence{fate: leavesLater, why: selected}},
		{"its Node is not selected any more, and has no name", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n"), node("m", "sc", "a")}}, absence{fate: leavesLater, why: selected}},
		{"its Node is not selected any more, and its report is all that a store has", missed{pub: selects, other: takesNone, part: true, nodes: []inputs.Node{node("n", "sn", "x")}}, absence{fate: leavesLater, why: selected}},
		{"a Node that is not selected has the name, and its own is gone", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("m", "sn", "x")}}, absence{fate: leavesLater, why: selected}},
		{"a Node that is not selected has the name, and nobody knows its own", missed{pub: selects, other: takesNone, unknown: true, nodes: []inputs.Node{node("m", "sn", "x"), node("l", "sc", "a")}}, absence{fate: leavesLater, why: selected}},
		{"its pod runs on its Node, which is not selected any more", missed{pub: Publication{SlurmNames: "slinky:a", Nodes: Selection{Selector: "sc=a"}}, other: takesNone, nodes: []inputs.Node{withPods("n", "a/x")}}, absence{fate: leavesLater, why: selected}},
		{"its pod waits for a Node", missed{pub: slinky, nodes: []inputs.Node{node("n")}, unplaced: waits}, absence{fate: leavesLater, why: waiting}},
		{"its pod waits for a Node, and slurmNames was changed", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n")}, unplaced: waits}, absence{fate: leavesLater, why: waiting}},
		{"nobody knows its Node, and one is nameless", missed{pub: label, unknown: true, nodes: []inputs.Node{node("m")}}, absence{fate: stays, why: "perhaps node m, which has no Slurm name now"}},
		{"nobody knows its Node", missed{pub: label, unknown: true, nodes: []inputs.Node{node("m", "sn", "y")}}, absence{fate: leavesLater, why: unknown}},
		{"nobody knows its Node, in a store that cannot tell", missed{pub: label, unknown: true, part: true, nodes: []inputs.Node{node("m", "sn", "y")}}, absence{fate: leavesLater, why: unknown}},
		{"no pod is known at all", missed{pub: slinky, nodes: []inputs.Node{node("n")}}, absence{fate: leavesLater, why: unknown}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := tt.look(t)
			if len(l.missing) != 1 || l.missing[0].name != "x" {
				t.Fatalf("missing are %v, want x", l.missing)
			}
			if got := l.missing[0].absence; got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestNamedOtherwise gives a Node the name of another one, whose own label is gone.
func TestNamedOtherwise(t *testing.T) {
	pub := complete(t, Publication{SlurmNames: "label:sn"})[0]
	snap := &inputs.Snapshot{Whole: true, Nodes: []inputs.Node{node("n", "sn", "y"), node("m")}}
	plan := oneBlock([]string{"x", "y"})
	plan.Nodes = []topology.Placement{{Node: "n", SlurmName: "x"}, {Node: "m", SlurmName: "y"}}
	mem := storedPlan(plan)
	mem.prev.stored.Policy = pub.Keys()
	h := &seats{pub: pub}
	for range 2 { // also when the files are written
		l := h.look(pub.Rules.Gather(snap), snap, mem, time.Now())
		want := absence{fate: leavesLater, why: "under another Slurm name now"}
		if got := h.of("x").absence; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		present := l.present(time.Now())
		facts := []topology.Facts{{Name: "x", SlurmName: "x", NodeUnknown: true, Gone: true, Stays: "it is under another Slurm name now"}}
		if diff := cmp.Diff(facts, staying(present)); diff != "" || len(present.gone) > 0 {
			t.Errorf("%v leave, and stay (-want +got):\n%s", present.gone, diff)
		}
		h.wrote(&present.Inputs)
	}
}

// staying are the facts of nodes that stay for what nobody sees of them.
func staying(p presentNodes) []topology.Facts {
	return slices.DeleteFunc(slices.Clone(p.Facts), func(f topology.Facts) bool { return f.Stays == "" && !f.Gone })
}

// TestMissing keeps a name, lets it leave later, and names the Node that had it. A later publisher goes on from what
// is stored.
func TestMissing(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := missed{pub: Publication{SlurmNames: "label:sn", Nodes: Selection{Selector: "sc=a"}}, other: Publication{Nodes: Selection{Selector: "sc=none"}}, nodes: []inputs.Node{node("n", "sn", "x")}}
	h, mem, snap := m.history(t)
	removeAfter := h.pub.RemoveAfter.Duration
	stay := []topology.Facts{{Name: "n", SlurmName: "x", Gone: true, Stays: "it is not selected any more (nodes.selector)"}}
	gone, none := leavers{"x": notSelected}, map[string]time.Time{}
	want := func(h *seats, at time.Duration, gone leavers, stay []topology.Facts, since map[string]time.Time, leaves, next time.Time) {
		t.Helper()
		got := h.pass(snap, mem, began.Add(at))
		diff := cmp.Diff(gone, got.gone, cmp.AllowUnexported(absence{})) + cmp.Diff(stay, got.Facts, cmpopts.EquateEmpty()) + cmp.Diff(since, got.since)
		if x := h.of("x"); diff != "" || x.outside != &m.nodes[0] || x.fate == stays || len(got.lost) > 0 || !got.leaves.Equal(leaves) || !got.next.Equal(next) {
			t.Errorf("after %s: %v, leaves %s, next %s (-want +got):\n%s", at, got.lost, got.leaves, got.next, diff)
		}
	}
	leaves, long := began.Add(removeAfter), map[string]time.Time{"x": began}
	want(h, 0, leavers{}, stay, none, leaves, began.Add(saidPause))
	want(h, saidPause, leavers{}, stay, long, leaves, time.Time{})
	want(h, removeAfter-1, leavers{}, stay, long, leaves, time.Time{})
	want(h, removeAfter, gone, nil, long, time.Time{}, time.Time{})
	want(h, 2*removeAfter, gone, nil, long, time.Time{}, time.Time{}) // for example because the change is held

	// Another publisher knows since when a name is missing only if that is stored.
	want(&seats{pub: h.pub, others: h.others}, removeAfter, leavers{}, stay, none, leaves.Add(removeAfter), leaves.Add(saidPause))
	mem.doc.MissingSince = long
	want(&seats{pub: h.pub, others: h.others}, removeAfter-1, leavers{}, stay, long, leaves, time.Time{})
	want(&seats{pub: h.pub, others: h.others}, removeAfter, gone, nil, long, time.Time{}, time.Time{})

	// A name that is not missing for a while is missed from the start when it goes again.
	m.nodes[0].Labels["sc"] = "a"
	if got := h.pass(snap, mem, began.Add(removeAfter)); len(staying(got))+len(got.gone)+len(got.since) > 0 || !h.of("x").since.IsZero() {
		t.Errorf("x is back: %+v, %+v", got, h.of("x"))
	}
	m.nodes[0].Labels["sc"] = "b"
	want(h, removeAfter, leavers{}, stay, none, leaves.Add(removeAfter), leaves.Add(saidPause))
}

// seatsOf are the seats of names whose Nodes are known.
func seatsOf(pub *publication.Cluster, nodes map[string]string) *seats {
	s := &seats{pub: pub, byName: map[string]*seat{}}
	for name, node := range nodes {
		s.of(name).node = node
	}
	return s
}

// TestLastName has several published names of one node.
func TestLastName(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		since map[string]time.Time
		has   string
		want  string
	}{
		{"it has one of the names now", map[string]time.Time{"a": now}, "a", "a"},
		{"one was not missed before", map[string]time.Time{"b": now, "a": now.Add(time.Second)}, "", "c"},
		{"one was missed last", map[string]time.Time{"b": now, "a": now.Add(time.Second), "c": now}, "", "a"},
		{"nothing tells", nil, "", "a"},
	} {
		h := seatsOf(nil, map[string]string{"a": "n", "b": "n", "c": "n", "x": "m"})
		for name, since := range tt.since {
			h.of(name).since = since
		}
		in := &inputs.Inputs{}
		if tt.has != "" {
			in.Nodes = map[string]*inputs.Node{tt.has: {Name: "n"}}
		}
		for range 10 { // in any order
			if got := h.lastSeats(in); !maps.Equal(got, map[string]*seat{"n": h.of(tt.want), "m": h.of("x")}) {
				t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
			}
		}
	}
}
