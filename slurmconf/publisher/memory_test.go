package publisher

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/kube"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/test/rig/sites"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// What the configuration of tests is made of.
type (
	Publication = publication.Publication
	Selection   = publication.Selection
	Gres        = publication.Gres
	Duration    = publication.Duration
)

// memory is a Store that a test changes by hand, and a Recorder.
type memory struct {
	mu        sync.Mutex // the publisher annotates several nodes at once
	snap      *inputs.Snapshot
	changes   chan struct{}
	published map[string]*plandoc.Published
	plans     map[string][]byte // packed, by publication
	planSaves int
	planLoads int
	notes     map[string]string
	marks     nodeMarks // beside notes
	saves     int
	waitSaves int // of plandoc.AnnotationWaits alone
	loads     int // passes
	annotated int
	// conditions are those of Nodes, by node and type.
	conditions      map[string]map[string]inputs.Condition
	conditionWrites int
	broken          error           // of every call
	refuses         error           // of writes
	refusesFiles    error           // of those to publications
	refusesNotes    error           // of those of annotations
	refusesList     error           // of the list of plans
	events          []string        // the reasons that were recorded
	foreign         map[string]bool // nodes whose annotation somebody else owns
}

func newMemory(snap *inputs.Snapshot) *memory {
	return &memory{snap: snap, published: map[string]*plandoc.Published{}, plans: map[string][]byte{}, notes: map[string]string{}, foreign: map[string]bool{}, conditions: map[string]map[string]inputs.Condition{}}
}

func (m *memory) Changes() <-chan struct{} { return m.changes }

func (m *memory) Snapshot(context.Context) (*inputs.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.snap.Nodes {
		n := &m.snap.Nodes[i]
		n.Annotations = map[string]string{}
		if spec := m.notes[n.Name]; spec != "" {
			n.Annotations[plandoc.SpecAnnotation] = spec
		}
		n.Foreign = nil
		if n.Annotations[plandoc.SpecAnnotation] != "" && m.foreign[n.Name] {
			n.Foreign = map[string]string{plandoc.SpecAnnotation: "topograph"}
		}
		m.marks.show(n)
		n.Conditions = maps.Clone(m.conditions[n.Name])
	}
	return m.snap, m.broken
}

func (m *memory) Load(_ context.Context, p plandoc.Location) (*plandoc.Published, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loads++
	if was := m.published[p.String()]; was != nil {
		return was.Clone(), m.broken
	}
	return nil, m.broken
}

func (m *memory) Save(_ context.Context, p plandoc.Location, out *plandoc.Published) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.refuses, m.refusesFiles); err != nil {
		return "", err
	}
	version := ""
	if was := m.published[p.String()]; was != nil {
		version = was.Version
	}
	if out.Version != version {
		return "", fmt.Errorf("publication %s has version %q and not %q", p.String(), version, out.Version)
	}
	next := out.Clone()
	if was := m.published[p.String()].Clone(); next.Annotations[plandoc.AnnotationWaits] != was.Annotations[plandoc.AnnotationWaits] {
		was.Say(plandoc.AnnotationWaits, next.Annotations[plandoc.AnnotationWaits])
		if maps.Equal(was.Annotations, next.Annotations) && maps.Equal(was.Files, next.Files) {
			m.waitSaves++
			m.saves--
		}
	}
	m.saves++
	next.Version = strconv.Itoa(m.saves + m.waitSaves)
	m.published[p.String()] = next
	return next.Version, m.broken
}

func (m *memory) LoadPlan(_ context.Context, publication string) (*plandoc.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	packed := m.plans[publication]
	if m.planLoads++; packed == nil {
		return nil, m.broken
	}
	d, err := plandoc.Unpack(packed)
	if err != nil {
		return nil, err
	}
	d.Version = plandoc.Digest(map[string]string{"": string(packed)})
	return d, m.broken
}

func (m *memory) PlanChanged(publication, version string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := ""
	if packed := m.plans[publication]; packed != nil {
		is = plandoc.Digest(map[string]string{"": string(packed)})
	}
	return is != version
}

func (m *memory) SavePlan(_ context.Context, d *plandoc.Document) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.refuses, m.refusesFiles, m.broken); err != nil {
		return "", err
	}
	version := ""
	if was := m.plans[d.Publication]; was != nil {
		version = plandoc.Digest(map[string]string{"": string(was)})
	}
	if d.Version != version {
		return "", fmt.Errorf("plan %s has version %q and not %q", d.Publication, version, d.Version)
	}
	packed, err := plandoc.Pack(d)
	if err != nil {
		return "", err
	}
	m.planSaves++
	m.plans[d.Publication] = packed
	return plandoc.Digest(map[string]string{"": string(packed)}), nil
}

func (m *memory) Stored(context.Context) (map[string]plandoc.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]plandoc.Stored{}
	for name, packed := range m.plans {
		d, err := plandoc.Unpack(packed)
		if err != nil { // as other stores, it lists a plan that nobody can read
			d = plandoc.New(name, "")
		}
		at, _ := plandoc.ReadLocation(d.Place)
		out[name] = plandoc.Stored{Place: at, Files: d.Place, RemovePlan: "remove plan " + name, RemoveFiles: "remove files " + d.Place}
	}
	return out, cmp.Or(m.broken, m.refusesList)
}

// plan returns what is stored of the default publication.
func (m *memory) plan(t testing.TB) *plandoc.Document {
	t.Helper()
	d, err := m.LoadPlan(t.Context(), "default")
	if err != nil || d == nil {
		t.Fatal("no plan", err)
	}
	return d
}

func (m *memory) Mark(_ context.Context, n *inputs.Node, change inputs.Marks) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.refuses, m.refusesNotes); err != nil {
		return err
	}
	m.annotated++
	switch spec, changes := change.Annotations[plandoc.SpecAnnotation]; {
	case spec != "":
		m.notes[n.Name] = spec
	case changes:
		delete(m.notes, n.Name)
	}
	return m.marks.write(n, change)
}

// SetConditions implements a Setter of conditions.
func (m *memory) SetConditions(_ context.Context, node string, conditions []inputs.Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conditionWrites++
	if m.refuses != nil {
		return m.refuses
	}
	if m.conditions[node] == nil {
		m.conditions[node] = map[string]inputs.Condition{}
	}
	for _, c := range conditions {
		m.conditions[node][c.Type] = c
	}
	return nil
}

// Record implements Recorder.
func (m *memory) Record(_ plandoc.Location, _ bool, reason, _ string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, reason)
}

// edit changes what is in the store, as people and other programs do.
func (m *memory) edit(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	again.Notify(m.changes)
}

// change puts another snapshot in place.
func (m *memory) change(snap *inputs.Snapshot) {
	m.edit(func() { m.snap = snap })
}

// approve lets through what is held of the default publication.
func (m *memory) approve() {
	held := m.get("slurm/quoin-slurm")
	m.edit(func() { held.Annotations[plandoc.AnnotationApprove] = held.Annotations[plandoc.AnnotationHeld] })
}

// get returns what is published at a place, namespace/configMap.
func (m *memory) get(key string) *plandoc.Published {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.published[key]
}

// pass waits in fake time and lets everything that is due happen. Between two
// passes the test may read the store without its lock.
func (m *memory) pass(d time.Duration) {
	m.sync()
	time.Sleep(d)
	synctest.Wait()
	m.sync()
}

// rests lets time pass in which nothing is written.
func (m *memory) rests(t *testing.T, d time.Duration) {
	t.Helper()
	before := m.writes()
	m.pass(d)
	if wrote := since(before, m.writes()); len(wrote) > 0 {
		t.Errorf("written at rest: %v", wrote)
	}
}

func (m *memory) sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
}

// inBubble runs a publisher over the store in fake time, with steps beside it.
func inBubble(t *testing.T, store *memory, pubs []*publication.Cluster, steps func()) {
	t.Helper()
	inBubbleWith(t, store, pubs, func(*Publisher) {}, func(*Publisher) { steps() })
}

// inBubbleWith is inBubble for a publisher that is prepared first.
func inBubbleWith(t *testing.T, store *memory, pubs []*publication.Cluster, prepare, steps func(*Publisher)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		store.changes = make(chan struct{}, 1) // of the bubble
		pub := newPublisher(store, pubs)
		pub.options.Recorder = store
		pub.options.Conditions = store
		prepare(pub)
		go func() { _ = pub.Ask(ctx) }()
		go func() { done <- pub.Run(ctx) }()
		steps(pub)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func newPublisher(store Store, pubs []*publication.Cluster) *Publisher {
	return New(store, pubs, Options{}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

// inBackground runs all until the test ends; an error from one fails it.
func inBackground(t *testing.T, all ...func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range all {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// complete fills in defaults. A publication that says nothing of SettleTime publishes at once, and again
// at once: few tests are about these times.
func complete(t testing.TB, pubs ...Publication) []*publication.Cluster {
	t.Helper()
	var atOnce Duration
	if err := atOnce.UnmarshalYAML(&yaml.Node{Value: "0s"}); err != nil {
		t.Fatal(err)
	}
	for i := range pubs {
		if pubs[i].SettleTime == (Duration{}) {
			pubs[i].SettleTime = atOnce
		}
		if pubs[i].MaxDomainGPUs == nil {
			pubs[i].MaxDomainGPUs = publication.Pairs[int]{"GB200": 288, "GB300": 288} // tests move machines into racks that are full
		}
	}
	out, err := publication.Compile(pubs, kube.ParseSelector)
	if err != nil {
		t.Fatal(err)
	}
	return spacedBy(0, out)
}

// spacedBy sets the least time between two publications.
func spacedBy(d time.Duration, pubs []*publication.Cluster) []*publication.Cluster {
	for _, p := range pubs {
		p.Times.Spacing = d
	}
	return pubs
}

// confirmAfter sets how long facts must name a new place.
func confirmAfter(d time.Duration, pubs []*publication.Cluster) []*publication.Cluster {
	for _, p := range pubs {
		p.Times.Confirm = d
	}
	return pubs
}

func nodeName(n int) string { return fmt.Sprintf("gb200-%03d", n) }

// nodeNames are the names of nodes of the racks, which count from 1.
func nodeNames(first, last int) (names []string) {
	for i := first; i <= last; i++ {
		names = append(names, nodeName(i))
	}
	return names
}

// racks are four racks with 18 nodes each, gb200-001 to gb200-072, after some
// faults.
func racks(t testing.TB, faults ...simulated.Fault) *inputs.Snapshot {
	t.Helper()
	c := sites.Open(t, "gb200-nvl72x4")
	c.Apply(simulated.Step{Do: faults})
	return snapshotOf(c)
}

// racksWithout are the racks after the first nodes have gone.
func racksWithout(t testing.TB, first int) *inputs.Snapshot {
	t.Helper()
	var faults []simulated.Fault
	for _, name := range nodeNames(1, first) {
		faults = append(faults, simulated.Fault{Node: name, Absent: true})
	}
	return racks(t, faults...)
}

// labelled are the racks with a label: one value for the first two racks, another for the others, and values of single
// nodes.
func labelled(t testing.TB, key, first, last string, others map[string]string) *inputs.Snapshot {
	t.Helper()
	snap := racks(t)
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		n.Labels = maps.Clone(n.Labels)
		n.Labels[key] = []string{first, last}[i/36]
		if value, ok := others[n.Name]; ok {
			n.Labels[key] = value
		}
	}
	return snap
}

// withGPUs returns the snapshot after a change of the GPUs in the reports of nodes, or of all without names. Agents have
// read the fabric twice.
func withGPUs(snap *inputs.Snapshot, change func(node string, g *topology.GPU), nodes ...string) *inputs.Snapshot {
	next := *snap
	next.Reports = maps.Clone(snap.Reports)
	for name, report := range snap.Reports {
		if len(nodes) > 0 && !slices.Contains(nodes, name) {
			continue
		}
		r := *report
		r.GPUs = slices.Clone(r.GPUs)
		for i := range r.GPUs {
			change(name, &r.GPUs[i])
		}
		r.Domain = r.Joined()
		next.Reports[name] = &r
	}
	return &next
}

// snapshotOf is what agents and kubelets of the machines would have written.
func snapshotOf(c *simulated.Cluster) *inputs.Snapshot {
	s := &inputs.Snapshot{Reports: map[string]*topology.Node{}}
	for _, m := range c.Machines() {
		if !m.Exists {
			continue
		}
		s.Nodes = append(s.Nodes, inputs.Node{Name: m.Name, Labels: m.Labels})
		if m.Report != nil {
			s.Reports[m.Name] = m.Report
		}
	}
	return s
}

// makeOf makes what a publication writes after prev.
func makeOf(t testing.TB, pub *publication.Cluster, in inputs.Inputs, prev Previous) *Rendered {
	t.Helper()
	made, err := Make(pub, in, prev)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// makeFiles is makeOf where there must be something to write.
func makeFiles(t testing.TB, pub *publication.Cluster, in inputs.Inputs, prev Previous) *Rendered {
	t.Helper()
	made := makeOf(t, pub, in, prev)
	if made.Refused != "" {
		t.Fatalf("%s: %s", made.Refused, made.Message)
	}
	return made
}

// recalled is what a plan continues from after the publication of what was made.
func recalled(t testing.TB, pub *publication.Cluster, made *Rendered) Previous {
	t.Helper()
	plan := made.FilePlan
	return ReadPlan(pub, &plan)
}

// previousOf is what a plan continues from after the publication of the files.
func previousOf(t testing.TB, pub *publication.Cluster, files map[string]string) Previous {
	t.Helper()
	plan, err := plandoc.FromFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return ReadPlan(pub, plan)
}
