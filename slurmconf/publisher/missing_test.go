package publisher

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
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

// look makes a pass look at x.
func (m *missed) look(t *testing.T) (*nodeHistory, *gathered, *inputs.Snapshot) {
	t.Helper()
	m.pub.Name, m.other.Name, m.other.ConfigMap = "a", "b", "b"
	pubs := complete(t, m.pub, m.other)
	snap := &inputs.Snapshot{Nodes: m.nodes, Whole: !m.part, Unplaced: m.unplaced, NodeSets: m.sets}
	plan := oneBlock([]string{"x"})
	prev := Previous{Plan: plan, stored: plandoc.Plan{Policy: pubs[0].Keys()}}
	if m.stored != "" {
		prev.stored.Policy[keyNames] = m.stored
	}
	if !m.unknown {
		plan.Nodes = []topology.Placement{{Node: "n", SlurmName: "x"}}
	}
	h := &nodeHistory{pub: pubs[0], others: pubs[1:]}
	g := &gathered{Inputs: h.pub.Rules.Gather(snap), settings: settingsOf(h.pub, &prev)}
	g.prev = h.rename(g, prev)
	if m.ofSet {
		h.sets["x"] = inputs.Owner{Namespace: "slurm", NodeSet: "gpu"}
	}
	return h, g, snap
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

// TestAbsences has each row of the table of rules, and the order of the rows: a case also knows
// what rows after its own would go by, as far as the two can be true at once.
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
		now, later, kept = "leaves now", "leaves later", "stays"
		counts, free     = ", counts", ", does not count"
	)
	type row struct {
		why  absence
		fate string
	}
	for _, tt := range []struct {
		name string
		missed
		want row
	}{
		{"the store is empty", missed{pub: label, part: true}, row{noNodes, kept}},
		{"the store is empty, and nobody knows the Node", missed{pub: label, part: true, unknown: true}, row{noNodes, kept}},
		{"two Nodes claim it", missed{pub: label, nodes: []inputs.Node{node("n", "sn", "x"), node("m", "sn", "x")}}, row{claimedByTwo, kept}},
		{"two Nodes claim it, and its own is gone", missed{pub: label, nodes: []inputs.Node{node("l", "sn", "x"), node("m", "sn", "x")}}, row{claimedByTwo, kept}},
		{"two pods of a Node claim it", missed{pub: slinky, nodes: []inputs.Node{withPods("n", "a/x", "a/y")}}, row{claimedByTwo, kept}},
		{"its pod is gone, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}}, row{podReplaced, now + free}},
		{"its pod is gone, and another publication's pod is on its Node, which both may take", missed{pub: slinky, other: Publication{SlurmNames: "slinky:b"}, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, row{podGivenUp, later + free}},
		{"its pod is made again, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y"), withPods("m", "a/y")}, sets: gpu(3), ofSet: true}, row{nodeTaken, now + counts}},
		{"its pod waits, and another publication's pod is on its Node", missed{pub: chooses, other: podsOfB, nodes: []inputs.Node{withPods("n", "b/y")}, unplaced: waits}, row{nodeTaken, now + counts}},
		{"another publication took its Node", missed{pub: selects, other: takesB, nodes: []inputs.Node{node("n", "sc", "b", "sn", "x")}}, row{nodeTaken, now + counts}},
		{"another publication took its Node, which lost its name", missed{pub: selects, other: takesB, nodes: []inputs.Node{node("n", "sc", "b")}}, row{nodeTaken, now + counts}},
		{"its Node lost its label", missed{pub: label, nodes: []inputs.Node{node("n"), node("m")}}, row{noSlurmName, kept}},
		{"its Node has a bad name", missed{pub: label, nodes: []inputs.Node{node("n", "sn", "a b")}}, row{noSlurmName, kept}},
		{"its Node lost its label, and a Node that is not taken has it", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n", "sc", "a"), node("m", "sn", "x")}}, row{noSlurmName, kept}},
		{"its Node is gone", missed{pub: label, nodes: []inputs.Node{node("m")}}, row{nodeGone, later + free}},
		{"its Node is gone, with its pod", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, row{nodeGone, later + free}},
		{"its Node is gone, and its pod waits", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, unplaced: waits}, row{nodeGone, later + free}},
		{"its Node is gone, and slurmNames was changed", missed{pub: slinky, stored: "short", nodes: []inputs.Node{withPods("m", "a/y")}}, row{nodeGone, later + free}},
		{"its report is gone", missed{pub: label, part: true, nodes: []inputs.Node{node("m")}}, row{reportDeleted, later + counts}},
		{"slurmNames was changed, and its Node has no pod", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n"), withPods("m", "a/y")}}, row{namesChanged, later + counts}},
		{"slurmNames was changed, and its Node has a pod of the other cluster", missed{pub: slinky, stored: "slinky:b", nodes: []inputs.Node{withPods("n", "b/x"), withPods("m", "a/y")}}, row{namesChanged, later + counts}},
		{"slurmNames was changed, and its pod was there since", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, ofSet: true}, row{podGivenUp, later + free}},
		{"its NodeSet was scaled in", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, row{podGivenUp, later + free}},
		{"its NodeSet was scaled in, and so its Node is not taken", missed{pub: chooses, other: takesNone, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(1), ofSet: true}, row{podGivenUp, later + free}},
		{"its pod is gone, and nobody knows its NodeSet", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(9)}, row{podGivenUp, later + free}},
		{"its pod is gone, and nobody knows its Node", missed{pub: slinky, nodes: []inputs.Node{withPods("m", "a/y")}, unknown: true}, row{podGivenUp, later + free}},
		{"its NodeSet wants another pod", missed{pub: slinky, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, row{podWanted, later + counts}},
		{"its NodeSet wants another pod, and so its Node is not taken", missed{pub: chooses, other: takesNone, nodes: []inputs.Node{node("n"), withPods("m", "a/y")}, sets: gpu(2), ofSet: true}, row{podWanted, later + counts}},
		{"its Node is not selected any more", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n", "sn", "x")}}, row{notSelected, later + counts}},
		{"its Node is not selected any more, and has no name", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("n"), node("m", "sc", "a")}}, row{notSelected, later + counts}},
		{"its Node is not selected any more, and its report is all that a store has", missed{pub: selects, other: takesNone, part: true, nodes: []inputs.Node{node("n", "sn", "x")}}, row{notSelected, later + counts}},
		{"a Node that is not selected has the name, and its own is gone", missed{pub: selects, other: takesNone, nodes: []inputs.Node{node("m", "sn", "x")}}, row{notSelected, later + counts}},
		{"a Node that is not selected has the name, and nobody knows its own", missed{pub: selects, other: takesNone, unknown: true, nodes: []inputs.Node{node("m", "sn", "x"), node("l", "sc", "a")}}, row{notSelected, later + counts}},
		{"its pod runs on its Node, which is not selected any more", missed{pub: Publication{SlurmNames: "slinky:a", Nodes: Selection{Selector: "sc=a"}}, other: takesNone, nodes: []inputs.Node{withPods("n", "a/x")}}, row{notSelected, later + counts}},
		{"its pod waits for a Node", missed{pub: slinky, nodes: []inputs.Node{node("n")}, unplaced: waits}, row{podWaits, later + counts}},
		{"its pod waits for a Node, and slurmNames was changed", missed{pub: slinky, stored: "short", nodes: []inputs.Node{node("n")}, unplaced: waits}, row{podWaits, later + counts}},
		{"nobody knows its Node, and one is nameless", missed{pub: label, unknown: true, nodes: []inputs.Node{node("m")}}, row{perhapsNameless, kept}},
		{"nobody knows its Node", missed{pub: label, unknown: true, nodes: []inputs.Node{node("m", "sn", "y")}}, row{notKnown, later + counts}},
		{"nobody knows its Node, in a store that cannot tell", missed{pub: label, unknown: true, part: true, nodes: []inputs.Node{node("m", "sn", "y")}}, row{notKnown, later + counts}},
		{"no pod is known at all", missed{pub: slinky, nodes: []inputs.Node{node("n")}}, row{notKnown, later + counts}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, g, snap := tt.look(t)
			l := h.look(g, g.prev.nodes(), snap)
			if !slices.Equal(l.names, []string{"x"}) {
				t.Fatalf("missing are %q, want x", l.names)
			}
			got := row{l.whyAbsent("x"), ""}
			r := rules[got.why]
			if got.fate = map[fate]string{stays: kept, leavesNow: now, leavesLater: later}[r.fate]; r.fate != stays {
				got.fate += map[bool]string{true: counts, false: free}[r.counts]
			}
			if got != tt.want {
				t.Errorf("%+v, want %+v: %s", got, tt.want, got.why.words(h.pub, &g.settings))
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
	h := &nodeHistory{pub: pub}
	for range 2 { // also when the files are written
		g := &gathered{Inputs: pub.Rules.Gather(snap)}
		g.prev = h.rename(g, Previous{Plan: plan})
		if why := h.look(g, g.prev.nodes(), snap).whyAbsent("x"); why != namedOtherwise || rules[why] != (rule{leavesLater, true, "under another Slurm name now"}) {
			t.Errorf("%v: %+v, want namedOtherwise, which leaves later and counts", why, rules[why])
		}
		missing := h.missing(g, g.prev.nodes(), snap, time.Now())
		want := []topology.Facts{{Name: "x", SlurmName: "x", NodeUnknown: true, Gone: true, Stays: "it is under another Slurm name now"}}
		if diff := cmp.Diff(want, missing.stay); diff != "" || len(missing.gone) > 0 {
			t.Errorf("%v leave, and stay (-want +got):\n%s", missing.gone, diff)
		}
		g.Facts = append(g.Facts, missing.stay...)
		h.wrote(g)
	}
}

// TestMissing keeps a name, lets it leave later, and names the Node that had it.
func TestMissing(t *testing.T) {
	began := time.Now()
	m := missed{pub: Publication{SlurmNames: "label:sn", Nodes: Selection{Selector: "sc=a"}}, other: Publication{Nodes: Selection{Selector: "sc=none"}}, nodes: []inputs.Node{node("n", "sn", "x")}}
	h, g, snap := m.look(t)
	want := missing{stay: []topology.Facts{{Name: "n", SlurmName: "x", Gone: true, Stays: "it is not selected any more (nodes.selector)"}}, nameless: map[string]string{}, gone: leavers{}, lost: leavers{},
		outside: map[string]*inputs.Node{"x": &m.nodes[0]}, leaving: map[string]*inputs.Node{"x": &m.nodes[0]}, next: began.Add(h.pub.RemoveAfter.Duration), again: true}
	diff := func(at time.Duration) {
		t.Helper()
		if diff := cmp.Diff(want, h.missing(g, g.prev.nodes(), snap, began.Add(at)), cmp.AllowUnexported(missing{})); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", at, diff)
		}
	}
	diff(0)
	diff(h.pub.RemoveAfter.Duration - 1)
	want.stay, want.gone, want.next, want.again = nil, leavers{"x": notSelected}, time.Time{}, false
	diff(h.pub.RemoveAfter.Duration)
	diff(2 * h.pub.RemoveAfter.Duration) // for example because the change is held

	// A name that is not missing for a while is missed from the start when it goes again.
	m.nodes[0].Labels["sc"] = "a"
	g.Inputs = h.pub.Rules.Gather(snap)
	if got := h.missing(g, g.prev.nodes(), snap, began); len(got.stay)+len(got.gone) > 0 || len(h.since) > 0 {
		t.Errorf("x is back: %+v, %v", got, h.since)
	}
	m.nodes[0].Labels["sc"] = "b"
	g.Inputs = h.pub.Rules.Gather(snap)
	if got := h.missing(g, g.prev.nodes(), snap, began.Add(time.Minute)); len(got.stay) != 1 || got.again {
		t.Errorf("x is away since the publisher began: %+v", got)
	}
}

// TestStoreEmpty takes all nodes away at once: the files stay, and a finding says why.
func TestStoreEmpty(t *testing.T) {
	m := missed{pub: Publication{SlurmNames: "label:sn"}, part: true}
	h, g, snap := m.look(t)
	got := h.missing(g, g.prev.nodes(), snap, time.Now())
	want := []topology.Facts{{Name: "n", SlurmName: "x", Stays: "it is not shown: there is no node and no report at all"}}
	if diff := cmp.Diff(want, got.stay); diff != "" || len(got.gone) > 0 || !got.next.IsZero() {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	if len(got.problems) != 1 || got.problems[0].Reason != ReasonStoreEmpty || got.problems[0].Severity != topology.Unknown ||
		got.problems[0].Message != "there is no node and no report at all; published nodes that stay: 1" {
		t.Errorf("%+v", got.problems)
	}
	if got := h.missing(g, nil, snap, time.Now()); len(got.problems) > 0 {
		t.Errorf("nothing is published, and %v", got.problems)
	}
}

// TestMissingNames has several missing names at once.
func TestMissingNames(t *testing.T) {
	see := func(h *nodeHistory, snap *inputs.Snapshot, plan *topology.Plan) *look {
		g := &gathered{Inputs: h.pub.Rules.Gather(snap)}
		g.prev = h.rename(g, Previous{Plan: plan})
		return h.look(g, g.prev.nodes(), snap)
	}
	want := func(l *look, want map[string]absence) {
		t.Helper()
		got := map[string]absence{}
		for _, name := range l.names {
			got[name] = l.whyAbsent(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}

	// Node m is nameless, and is known to be y. So it is not x, of which nobody knows the Node.
	plan := oneBlock([]string{"x", "y"})
	plan.Nodes = []topology.Placement{{Node: "m", SlurmName: "y"}}
	h := &nodeHistory{pub: complete(t, Publication{SlurmNames: "label:sn"})[0]}
	want(see(h, &inputs.Snapshot{Whole: true, Nodes: []inputs.Node{node("m")}}, plan), map[string]absence{"x": notKnown, "y": noSlurmName})

	// The NodeSet makes one pod again: that of the name which was missed last.
	plan = oneBlock([]string{"g0", "g1", "g2", "g3"})
	snap := &inputs.Snapshot{Whole: true, Nodes: []inputs.Node{withPods("n0", "a/g0"), withPods("n1", "a/g1"), withPods("n2", "a/g2"), withPods("n3", "a/g3")},
		NodeSets: []inputs.NodeSet{{Namespace: "slurm", Name: "gpu", Replicas: 2}}}
	h = &nodeHistory{pub: complete(t, Publication{SlurmNames: "slinky:a"})[0]}
	want(see(h, snap, plan), map[string]absence{})
	now := time.Now()
	h.since = map[string]time.Time{"g1": now, "g2": now.Add(time.Second), "g3": now}
	for i := 1; i <= 3; i++ {
		snap.Nodes[i].Workers = nil
	}
	want(see(h, snap, plan), map[string]absence{"g1": podGivenUp, "g2": podWanted, "g3": podGivenUp})
	if len(h.sets) != 4 {
		t.Errorf("NodeSets of %v are known, want of all four", h.sets)
	}
	want(see(h, snap, oneBlock([]string{"g0", "g1"})), map[string]absence{"g1": podWanted})
	if len(h.sets) != 2 {
		t.Errorf("NodeSets of %v are known, want of the two that are published", h.sets)
	}
}

// TestOutsideNodeKeepsItsAnnotation has a Node that is not selected, with the name of a published
// node that lost its label and stays.
func TestOutsideNodeKeepsItsAnnotation(t *testing.T) {
	m := missed{pub: Publication{SlurmNames: "label:sn", Nodes: Selection{Selector: "sc=a"}}, other: Publication{Nodes: Selection{Selector: "sc=none"}},
		nodes: []inputs.Node{node("n", "sc", "a"), node("m", "sn", "x")}}
	h, g, snap := m.look(t)
	if got := h.missing(g, g.prev.nodes(), snap, time.Now()); got.nameless["n"] != "x" || len(got.leaving)+len(got.gone)+len(got.stay) > 0 {
		t.Errorf("%+v, want n to stay as x, and no other to leave", got)
	}
}

// TestRenamedThenNameless takes the label from nodes that have just been renamed:
// each stays under its last name, not the one before.
func TestRenamedThenNameless(t *testing.T) {
	call := func(format string) *inputs.Snapshot {
		others := map[string]string{}
		for i := 1; i <= 8; i++ {
			others[fmt.Sprintf("gb200-%03d", i)] = format
			if format != "" {
				others[fmt.Sprintf("gb200-%03d", i)] = fmt.Sprintf(format, i)
			}
		}
		return named(t, others)
	}
	store := newMemory(call("old%d"))
	inBubble(t, store, complete(t, Publication{SlurmNames: "label:sn"}), func() {
		store.pass(5 * time.Minute)
		store.change(call("new%d"))
		store.pass(5 * time.Minute)
		wantNodes(t, store, "renamed", "gb200-[009-018],new[1-8]")
		store.change(call(""))
		store.pass(time.Hour)
		wantNodes(t, store, "nameless", "gb200-[009-018],new[1-8]")
		if left := store.get("slurm/quoin-slurm").Annotations[plandoc.AnnotationLeftOut]; strings.Contains(left, "gb200") {
			t.Errorf("left out %q", left)
		}
	})
}

// TestNameOfNobodyAfterRestart has a published name of which nobody knows the Node. That is still so
// after the plan was written again and another publisher has read it: the name counts when it leaves.
func TestNameOfNobodyAfterRestart(t *testing.T) {
	call := func(name string) *inputs.Snapshot { return whole(named(t, map[string]string{"gb200-001": name})) }
	pubs := complete(t, Publication{SlurmNames: "label:sn"})
	store := newMemory(call("old"))
	inBubble(t, store, pubs, func() { store.pass(5 * time.Minute) })
	delete(store.plans, "default")
	store.snap = call("new")
	inBubble(t, store, pubs, func() {
		store.pass(5 * time.Minute)
		wantNodes(t, store, "nobody knows whose name old was", "gb200-[002-018],new,old")
	})
	inBubble(t, store, pubs, func() {
		store.pass(9 * time.Minute)
		wantNodes(t, store, "after a restart", "gb200-[002-018],new,old")
		store.pass(2 * time.Minute)
		wantNodes(t, store, "after removeAfter", "gb200-[002-018],new")
		if d := store.plan(t); len(d.Moves) != 1 || d.Moves[0].Places != "old" {
			t.Errorf("counted %+v, want old", d.Moves)
		}
	})
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
		h := nodeHistory{owners: map[string]string{"a": "n", "b": "n", "c": "n", "x": "m"}, since: tt.since}
		g := &gathered{}
		if tt.has != "" {
			g.Nodes = map[string]*inputs.Node{tt.has: {Name: "n"}}
		}
		for range 10 { // in any order
			if got := h.lastNames(g); !maps.Equal(got, map[string]string{"n": tt.want, "m": "x"}) {
				t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
			}
		}
	}
}
