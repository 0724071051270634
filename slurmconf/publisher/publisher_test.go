package publisher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// memory is a Store that a test changes by hand.
type memory struct {
	mu        sync.Mutex // the publisher annotates several nodes at once
	snap      *Snapshot
	changes   chan struct{}
	published map[string]*Published
	notes     map[string]string
	saves     int
	annotated int
	broken    error
	foreign   map[string]bool // nodes whose annotation somebody else owns
}

func newMemory(snap *Snapshot) *memory {
	return &memory{snap: snap, changes: make(chan struct{}, 1), published: map[string]*Published{}, notes: map[string]string{}, foreign: map[string]bool{}}
}

func (m *memory) Changes() <-chan struct{} { return m.changes }

func (m *memory) Snapshot(context.Context) (*Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		n.Annotations = map[string]string{}
		if spec := m.notes[n.Name]; spec != "" {
			n.Annotations[SpecAnnotation] = spec
		}
	}
	return m.snap, m.broken
}

// edit changes what is in the store, as people and other programs do.
func (m *memory) edit(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	notify(m.changes)
}

func (m *memory) Load(_ context.Context, p *Publication) (*Published, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was := m.published[p.key()]; was != nil {
		return was.clone(), m.broken
	}
	return nil, m.broken
}

func (m *memory) Save(_ context.Context, p *Publication, out *Published) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	m.published[p.key()] = out.clone()
	return m.broken
}

func (m *memory) Annotate(_ context.Context, node, spec string) error {
	if m.foreign[node] {
		return fmt.Errorf("node %s: %w", node, ErrConflict)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.annotated++
	if m.notes[node] = spec; spec == "" {
		delete(m.notes, node)
	}
	return nil
}

func (m *memory) sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
}

func (m *memory) get(key string) *Published {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published[key]
}

// change puts another snapshot in place and tells the publisher.
func (m *memory) change(snap *Snapshot) {
	m.edit(func() { m.snap = snap })
}

// snapshotOf is what agents and kubelets of the machines would have written.
func snapshotOf(c *simulated.Cluster) *Snapshot {
	s := &Snapshot{Reports: map[string]*topology.Node{}}
	for _, m := range c.Machines() {
		if !m.Exists {
			continue
		}
		s.Nodes = append(s.Nodes, Node{Name: m.Name, Labels: m.Labels})
		if m.Report != nil {
			s.Reports[m.Name] = m.Report
		}
	}
	return s
}

func openCluster(t testing.TB, name string) *simulated.Cluster {
	t.Helper()
	c, err := simulated.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// complete fills in defaults. A publication that says nothing of FirstWait
// begins at once: few tests are about that.
func complete(t testing.TB, pubs ...Publication) []Publication {
	t.Helper()
	for i := range pubs {
		if pubs[i].FirstWait == (Duration{}) {
			pubs[i].FirstWait = Duration{read: true}
		}
	}
	out, err := Complete(pubs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newPublisher(store Store, pubs []Publication) *Publisher {
	return New(store, pubs, nil, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// inBubble runs a publisher over the store in fake time, with steps beside it.
func inBubble(t *testing.T, store Store, pubs []Publication, steps func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		if m, ok := store.(*memory); ok {
			m.changes = make(chan struct{}, 1)
		}
		go func() { done <- newPublisher(store, pubs).Run(ctx) }()
		steps()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// pass waits in fake time and lets everything that is due happen. Between two
// passes the test may read the store without its lock.
func (m *memory) pass(d time.Duration) {
	m.sync()
	time.Sleep(d)
	synctest.Wait()
	m.sync()
}

func TestPublishThenAnnotate(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() {
		store.pass(9 * time.Second)
		if store.saves != 0 {
			t.Fatal("published before the facts were quiet for 10 s")
		}
		store.pass(2 * time.Second)
		if store.saves != 1 || len(store.notes) != 0 {
			t.Fatalf("%d saves and %d annotations after 11 s, want 1 and none", store.saves, len(store.notes))
		}
		store.pass(115 * time.Second)
		if len(store.notes) != 0 {
			t.Fatal("nodes annotated before slurmctld had the time to load the files")
		}
		store.pass(10 * time.Second)
		if got := store.notes["gb200-001"]; !strings.HasPrefix(got, "nvl:nvl-") || !strings.Contains(got, ",fabric:leaf-01") || len(store.notes) != 72 {
			t.Fatalf("%d annotations, gb200-001 has %q", len(store.notes), got)
		}
		store.pass(24 * time.Hour)
		if store.saves != 1 {
			t.Errorf("%d saves after a day at rest, want 1", store.saves)
		}
	})
}

// TestFlappingWritesNothing lets 5 % of the nodes lose their report, their
// label or their fabric state, again and again.
func TestFlappingWritesNothing(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(5 * time.Minute)
		saves := store.saves
		for round := range 200 {
			c := openCluster(t, "gb200-nvl72x4")
			for k := range 4 {
				node := fmt.Sprintf("gb200-%03d", (round*7+k*13)%72+1)
				fault := []simulated.Fault{{NoReport: true}, {Fabric: "inProgress"}, {Fabric: "notStarted", Reboot: true}, {Absent: true}}[(round+k)%4]
				fault.Node = node
				c.Apply(simulated.Step{Do: []simulated.Fault{fault}})
			}
			store.change(snapshotOf(c))
			store.pass(30 * time.Second)
		}
		if store.saves != saves {
			t.Errorf("flapping nodes made %d writes, want none", store.saves-saves)
		}
	})
}

func TestFirstPublicationWaitsForAllNodes(t *testing.T) {
	c := openCluster(t, "gb200-nvl72x4")
	fault := simulated.Fault{Node: "gb200-030", Fabric: "inProgress"}
	c.Apply(simulated.Step{Do: []simulated.Fault{fault}})
	store := newMemory(snapshotOf(c))
	inBubble(t, store, complete(t, Publication{FirstWait: DefaultPublication().FirstWait}), func() {
		store.pass(4 * time.Minute)
		if store.saves != 0 {
			t.Fatal("published although a node with GPUs is not known yet")
		}
		store.pass(2 * time.Minute)
		if store.saves != 1 {
			t.Fatal("not published after the longest wait")
		}
	})
}

// TestFirstPublicationWaitsForLateAgents starts a site whose agents come up one
// after another and whose nodes have no labels: the base block size must be
// that of whole racks.
func TestFirstPublicationWaitsForLateAgents(t *testing.T) {
	whole := snapshotOf(openCluster(t, "gb200-nvl72x4"))
	upTo := func(n int) *Snapshot {
		snap := &Snapshot{Reports: map[string]*topology.Node{}}
		for i, node := range whole.Nodes {
			snap.Nodes = append(snap.Nodes, Node{Name: node.Name})
			if i%6 < n {
				snap.Reports[node.Name] = whole.Reports[node.Name]
			}
		}
		return snap
	}
	for name, tt := range map[string]struct {
		pub  Publication
		want []int // saves after each sixth of the nodes and 40 s, then after a minute more
	}{
		"chosen base":     {Publication{FirstWait: DefaultPublication().FirstWait}, []int{0, 0, 0, 0, 0, 0, 1}},
		"configured base": {Publication{FirstWait: DefaultPublication().FirstWait, BaseBlockSize: 18}, []int{1, 2, 3, 4, 5, 6, 6}},
		"no wait":         {Publication{}, []int{1, 2, 3, 4, 5, 6, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory(&Snapshot{})
			inBubble(t, store, complete(t, tt.pub), func() {
				for i, want := range tt.want {
					if i < 6 {
						store.change(upTo(i + 1))
					}
					store.pass(40 * time.Second)
					if i == 6 {
						store.pass(time.Minute)
					}
					if store.saves != want {
						t.Fatalf("%d publications after step %d, want %d", store.saves, i+1, want)
					}
				}
			})
		})
	}
}

func TestBigChangeWaitsForApproval(t *testing.T) {
	c := openCluster(t, "gb200-nvl72x4")
	store := newMemory(snapshotOf(c))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() {
		store.pass(time.Minute)
		before := maps.Clone(store.get(pubs[0].key()).Files)
		gone := openCluster(t, "gb200-nvl72x4")
		for i := range 20 {
			gone.Apply(simulated.Step{Do: []simulated.Fault{{Node: fmt.Sprintf("gb200-%03d", i+1), Absent: true}}})
		}
		store.change(snapshotOf(gone))
		store.pass(15 * time.Minute)
		held := store.get(pubs[0].key())
		if diff := cmp.Diff(before, held.Files); diff != "" {
			t.Fatalf("28 %% of the nodes left at once and the files changed:\n%s", diff)
		}
		if !strings.Contains(held.Annotations[AnnotationHeldReason], "BigChange: 20 of 72 nodes") {
			t.Fatalf("held reason %q", held.Annotations[AnnotationHeldReason])
		}
		store.edit(func() { held.Annotations[AnnotationApprove] = held.Annotations[AnnotationHeld] })
		store.pass(time.Minute)
		after := store.get(pubs[0].key())
		if strings.Contains(after.Files["topology.yaml"], "gb200-[001") || after.Annotations[AnnotationHeld] != "" || after.Annotations[AnnotationApprove] != "" {
			t.Errorf("the approved change was not published, or its approval stayed: %v", after.Annotations)
		}
	})
}

func TestTouchedAnnotationsComeBack(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		want := maps.Clone(store.notes)
		if len(want) != 72 {
			t.Errorf("%d nodes annotated", len(want))
		}
		for _, note := range []string{"", "default:theirs", ""} {
			store.edit(func() { store.notes["gb200-005"] = note })
			store.pass(5 * time.Minute)
			if diff := cmp.Diff(want, store.notes); diff != "" {
				t.Errorf("after %q (-want +got):\n%s", note, diff)
			}
		}
		// Without its own annotations the publication is dated anew, once.
		p := store.get(pubs[0].key())
		store.edit(func() {
			clear(p.Annotations)
			store.notes["gb200-005"] = ""
		})
		store.pass(5 * time.Minute)
		saves := store.saves
		store.pass(time.Hour)
		if diff := cmp.Diff(want, store.notes); diff != "" || store.saves != saves || store.get(pubs[0].key()).Annotations[AnnotationDigest] == "" {
			t.Errorf("%d saves more, annotations %v (-want +got):\n%s", store.saves-saves, store.get(pubs[0].key()).Annotations, diff)
		}
	})
}

// TestFirstBlocksAreNoSurprise brings agents to a site that was published as a
// tree by its labels.
func TestFirstBlocksAreNoSurprise(t *testing.T) {
	whole := snapshotOf(openCluster(t, "gb200-nvl72x4"))
	upTo := func(n int) *Snapshot {
		snap := &Snapshot{Reports: map[string]*topology.Node{}}
		for i, node := range whole.Nodes {
			labels := maps.Clone(node.Labels)
			delete(labels, nodelabels.Clique)
			snap.Nodes = append(snap.Nodes, Node{Name: node.Name, Labels: labels})
			if i%18 < n {
				snap.Reports[node.Name] = whole.Reports[node.Name]
			}
		}
		return snap
	}
	store := newMemory(upTo(0))
	pubs := complete(t, Publication{FirstWait: DefaultPublication().FirstWait})
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		tree := store.get(pubs[0].key()).Files["topology.yaml"]
		for n := range 18 {
			store.change(upTo(n + 1))
			store.pass(10 * time.Second)
		}
		store.pass(10 * time.Minute)
		held := store.get(pubs[0].key())
		if !strings.HasPrefix(held.Annotations[AnnotationHeldReason], "KindChange: ") || held.Files["topology.yaml"] != tree || !strings.Contains(tree, "tree:") {
			t.Errorf("held reason %q, files\n%s", held.Annotations[AnnotationHeldReason], held.Files["topology.yaml"])
			return
		}
		store.edit(func() { held.Annotations[AnnotationApprove] = held.Annotations[AnnotationHeld] })
		store.pass(time.Minute)
		if text := store.get(pubs[0].key()).Files["topology.yaml"]; !strings.Contains(text, "block_sizes: [18]") {
			t.Errorf("approved, and the files are\n%s", text)
		}
	})
}

func TestGresChangesAreGuarded(t *testing.T) {
	site := func(product string) *Snapshot {
		snap := snapshotOf(openCluster(t, "gb200-nvl72x4"))
		for _, n := range snap.Reports {
			for i := range n.GPUs {
				n.GPUs[i].Product = product
			}
		}
		return snap
	}
	withAlone := site("NVIDIA GB200") // a node that is in gres.conf and in no topology
	minor := 0
	withAlone.Nodes = append(withAlone.Nodes, Node{Name: "alone"})
	withAlone.Reports["alone"] = &topology.Node{Name: "alone", GPUs: []topology.GPU{{UUID: "GPU-a", Minor: &minor, Product: "NVIDIA L4",
		Fabric: topology.Fabric{State: topology.FabricNotSupported}}}}
	store := newMemory(withAlone)
	pubs := complete(t, Publication{})
	gres := func() string { return store.get(pubs[0].key()).Files["gres.conf"] }
	inBubble(t, store, pubs, func() {
		store.pass(time.Minute)
		before := gres()
		if !strings.Contains(before, "NodeName=alone Name=gpu Type=l4") {
			t.Errorf("gres.conf is\n%s", before)
		}
		store.change(site("NVIDIA GB200"))
		store.pass(5 * time.Minute)
		if got := gres(); got != before {
			t.Errorf("a node left gres.conf at once:\n%s", got)
		}
		store.pass(time.Hour)
		if got := gres(); strings.Contains(got, "alone") {
			t.Errorf("a node that is gone stays in gres.conf for ever:\n%s", got)
		}
		before = gres()
		store.change(site("NVIDIA GB200 SUPER"))
		store.pass(time.Hour)
		held := store.get(pubs[0].key())
		if gres() != before || !strings.Contains(held.Annotations[AnnotationHeldReason], "BigChange: the lines of 72 of 72 nodes in gres.conf") {
			t.Errorf("held reason %q, gres.conf\n%s", held.Annotations[AnnotationHeldReason], gres())
		}
	})
}

// TestAnnotationsDoNotStarve lets one node leave and return all the time.
func TestAnnotationsDoNotStarve(t *testing.T) {
	c := openCluster(t, "gb200-nvl72x4")
	whole := snapshotOf(c)
	c.Apply(simulated.Step{Do: []simulated.Fault{{Node: "gb200-072", Absent: true}}})
	without := snapshotOf(c)
	store := newMemory(whole)
	inBubble(t, store, complete(t, Publication{GoneAfter: Duration{Duration: time.Nanosecond}}), func() {
		store.pass(time.Minute)
		for i := range 20 {
			store.change([]*Snapshot{without, whole}[i%2])
			store.pass(15 * time.Second)
		}
		if len(store.notes) < 71 || store.saves < 20 {
			t.Errorf("%d annotations after five minutes of changes to another node (%d publications)", len(store.notes), store.saves)
		}
	})
}

// TestFlappingWhileHeld lets the size of a held change go up and down.
func TestFlappingWhileHeld(t *testing.T) {
	whole := snapshotOf(openCluster(t, "gb200-nvl72x4"))
	store := newMemory(whole)
	pubs := complete(t, Publication{GoneAfter: Duration{Duration: time.Nanosecond}})
	inBubble(t, store, pubs, func() {
		store.pass(time.Minute)
		saves := store.saves
		for i := range 40 {
			c := openCluster(t, "gb200-nvl72x4")
			for n := range 20 + i%2 {
				c.Apply(simulated.Step{Do: []simulated.Fault{{Node: fmt.Sprintf("gb200-%03d", n+1), Absent: true}}})
			}
			store.change(snapshotOf(c))
			store.pass(15 * time.Second)
		}
		if n := store.saves - saves; n < 2 || n > 11 {
			t.Errorf("%d writes in ten minutes of held changes, want one a minute", n)
		}
		store.pass(time.Minute)
		held := store.get(pubs[0].key())
		store.edit(func() { held.Annotations[AnnotationApprove] = held.Annotations[AnnotationHeld] })
		store.pass(time.Minute)
		if got := store.get(pubs[0].key()); got.Annotations[AnnotationHeld] != "" || strings.Contains(got.Files["topology.yaml"], "gb200-[001") {
			t.Errorf("the digest that is shown does not let the change through: %v", got.Annotations)
		}
	})
}

// TestNodeLosesItsSelectorLabel keeps it for GoneAfter, then takes its
// annotation back.
func TestNodeLosesItsSelectorLabel(t *testing.T) {
	site := func(label string) *Snapshot {
		snap := snapshotOf(openCluster(t, "gb200-nvl72x4"))
		for i := range snap.Nodes {
			snap.Nodes[i].Labels["team"] = "red"
		}
		snap.Nodes[4].Labels["team"] = label
		return snap
	}
	store := newMemory(site("red"))
	pubs := complete(t,
		Publication{Name: "red", Nodes: Selection{Selector: "team=red"}},
		Publication{Name: "blue", Namespace: "slurm-blue", Nodes: Selection{Selector: "team=blue"}, BaseBlockSize: 18})
	inBubble(t, store, pubs, func() {
		store.pass(5 * time.Minute)
		store.change(site(""))
		store.pass(5 * time.Minute)
		if text := store.get(pubs[0].key()).Files["topology.yaml"]; !strings.Contains(text, "gb200-[001-018]") || store.notes["gb200-005"] == "" {
			t.Errorf("the node left at once, annotation %q:\n%s", store.notes["gb200-005"], text)
		}
		store.pass(20 * time.Minute)
		if text := store.get(pubs[0].key()).Files["topology.yaml"]; strings.Contains(text, "gb200-[001-018]") || store.notes["gb200-005"] != "" {
			t.Errorf("the node stays for ever, annotation %q:\n%s", store.notes["gb200-005"], text)
		}
	})
}

func TestOverlappingPublications(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	pubs := complete(t, Publication{Name: "a"}, Publication{Name: "b", Namespace: "slurm-b", Topology: "tree"})
	inBubble(t, store, pubs, func() {
		store.pass(time.Hour)
		if got := store.notes["gb200-001"]; !strings.HasPrefix(got, "nvl:") || len(store.notes) != 72 || store.annotated != 72 {
			t.Errorf("gb200-001 has %q, %d nodes annotated by %d writes: want the first publication's, once", got, len(store.notes), store.annotated)
		}
	})
}

func TestDeletedPublicationIsRestored(t *testing.T) {
	c := openCluster(t, "gb200-nvl72x4")
	store := newMemory(snapshotOf(c))
	pubs := complete(t, Publication{})
	inBubble(t, store, pubs, func() {
		store.pass(time.Minute)
		c.Apply(simulated.Step{Do: []simulated.Fault{{Node: "gb200-003", Fabric: "inProgress"}}})
		store.change(snapshotOf(c))
		store.pass(time.Minute)
		want := store.get(pubs[0].key()).clone()
		store.edit(func() { delete(store.published, pubs[0].key()) })
		store.pass(time.Minute)
		if diff := cmp.Diff(want, store.get(pubs[0].key()), cmp.AllowUnexported(Published{})); diff != "" {
			t.Errorf("(-before +restored):\n%s", diff)
		}
	})
}

func TestLastGoodStays(t *testing.T) {
	tests := []struct {
		name   string
		after  func(*memory)
		reason string
	}{
		{"no node", func(m *memory) { m.change(&Snapshot{}) }, "NothingToPublish"},
		{"two nodes of one Slurm name", func(m *memory) {
			s := snapshotOf(openCluster(t, "gb200-nvl72x4"))
			s.Nodes = append(s.Nodes, Node{Name: "gb200-001.other.example"})
			m.change(s)
		}, "NoPlan"},
		{"published file broken by hand", func(m *memory) {
			m.edit(func() { m.published["slurm/quoin-slurm"].Files["topology.yaml"] = "- topology: [" })
		}, "PublishedUnreadable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
			pub := Publication{ForgetBlocks: nil}
			inBubble(t, store, complete(t, pub), func() {
				store.pass(time.Minute)
				tt.after(store)
				files := maps.Clone(store.get("slurm/quoin-slurm").Files)
				store.pass(time.Hour)
				got := store.get("slurm/quoin-slurm")
				if diff := cmp.Diff(files, got.Files); diff != "" {
					t.Errorf("files changed (-was +is):\n%s", diff)
				}
				if tt.reason != "NothingToPublish" && !strings.HasPrefix(got.Annotations[AnnotationHeldReason], tt.reason) {
					t.Errorf("held reason %q, want %s", got.Annotations[AnnotationHeldReason], tt.reason)
				}
			})
		})
	}
}

func TestStoreErrorIsTriedAgain(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	store.edit(func() { store.broken = errors.New("connection refused") })
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(10 * time.Minute)
		store.edit(func() { store.broken = nil })
		store.pass(2 * time.Minute)
		if len(store.published) != 1 {
			t.Error("not published after the store came back")
		}
	})
}

func TestForeignAnnotationIsLeftAlone(t *testing.T) {
	store := newMemory(snapshotOf(openCluster(t, "gb200-nvl72x4")))
	store.foreign["gb200-005"] = true
	store.notes["gb200-005"] = "default:theirs"
	inBubble(t, store, complete(t, Publication{}), func() {
		store.pass(time.Hour)
		if store.notes["gb200-005"] != "default:theirs" || len(store.notes) != 72 {
			t.Errorf("gb200-005 has %q, %d nodes annotated", store.notes["gb200-005"], len(store.notes))
		}
	})
}

// TestTwoPublications gives two Slurm clusters their own nodes.
func TestTwoPublications(t *testing.T) {
	snap := snapshotOf(openCluster(t, "gb200-nvl72x4"))
	for i := range snap.Nodes {
		snap.Nodes[i].Labels["team"] = []string{"red", "blue"}[i/36]
	}
	pubs := complete(t,
		Publication{Name: "red", Namespace: "slurm-red", Nodes: Selection{Selector: "team=red"}},
		Publication{Name: "blue", Namespace: "slurm-blue", Format: "conf", SlurmVersion: "24.11", Nodes: Selection{Selector: "team=blue"}})
	store := newMemory(snap)
	inBubble(t, store, pubs, func() {
		store.pass(10 * time.Minute)
		red, blue := store.get("slurm-red/quoin-slurm").Files["topology.yaml"], store.get("slurm-blue/quoin-slurm").Files["topology.conf"]
		if !strings.Contains(red, "gb200-[001-018]") || strings.Contains(red, "037") || !strings.Contains(blue, "gb200-[037-054]") || strings.Contains(blue, "001") {
			t.Errorf("red:\n%s\nblue:\n%s", red, blue)
		}
		if len(store.notes) != 36 {
			t.Errorf("%d nodes annotated, want the 36 of the release that takes it", len(store.notes))
		}
	})
}

func TestCompleteRefuses(t *testing.T) {
	two := 2.0
	tests := map[string][]Publication{
		`slurmVersion: slurm release "23.02"`: {{SlurmVersion: "23.02"}},
		`format: "xml": want conf or yaml`:    {{Format: "xml"}},
		`topology.yaml needs 25.05`:           {{SlurmVersion: "24.11", Format: "yaml"}},
		`name: also another`:                  {{}, {Namespace: "other"}},
		`also belongs to publication "a"`:     {{Name: "a"}, {Name: "b"}},
		`slurmNames: "nick"`:                  {{SlurmNames: "nick"}},
		`nodes.selector: "a in ("`:            {{Nodes: Selection{Selector: "a in ("}}},
		`maxChange: "2"`:                      {{MaxChange: &two}},
		`minBlockNodes: "-1": want 1`:         {{MinBlockNodes: -1}},
		`baseBlockSize: "65536": want 1 to`:   {{BaseBlockSize: 65536}},
		`blockSizes: block size 12: want`:     {{BaseBlockSize: 4, BlockSizes: []int{12}}},
		`blockSizes: block size 0: want 1`:    {{BlockSizes: []int{0}}},
		`block sizes [36 18]`:                 {{BlockSizes: []int{36, 18}}},
	}
	for want, pubs := range tests {
		if _, err := Complete(pubs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
