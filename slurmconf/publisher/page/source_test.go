package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/dir"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/nodestatus"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/page"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
	"github.com/quoin-hpc/quoin/topology/reportdir"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// stored is a directory that says what Kubernetes would say too.
type stored struct {
	*dir.Store
	path       string
	conditions map[string]map[string]inputs.Condition
	states     map[string]string
	held       []plandoc.Held
	wanted     *plandoc.Plan
	spoil      func(*plandoc.Document) // or nil
	err        error
}

// Snapshot has the conditions.
func (s *stored) Snapshot(ctx context.Context) (*inputs.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx)
	for i := range snap.Nodes {
		snap.Nodes[i].Conditions = s.conditions[snap.Nodes[i].Name]
	}
	return snap, err
}

// SlurmStates has the states of worker pods.
func (s *stored) SlurmStates([]string) map[string]string { return s.states }

// LoadPlan has the held change.
func (s *stored) LoadPlan(ctx context.Context, name string) (*plandoc.Document, error) {
	d, err := s.Store.LoadPlan(ctx, name)
	if s.err != nil {
		return nil, s.err
	}
	if d != nil {
		d.Held, d.Wanted = s.held, s.wanted
		if s.spoil != nil {
			s.spoil(d)
		}
	}
	return d, err
}

// slurm is a Slurm that was asked.
type slurm struct {
	page.Jobs
	nodes map[string]slurmctld.Node
	jobs  []occupancy.Job
	asked time.Time
	err   error
}

// Seen is what it said.
func (s *slurm) Seen(context.Context, string, []topology.Topology) occupancy.View {
	return occupancy.View{Asked: s.asked, Nodes: s.nodes, Jobs: s.jobs, Err: s.err}
}

// filled is a store with the reports of a site.
func filled(t testing.TB, c *simulated.Cluster) (*stored, []*publication.Cluster) {
	t.Helper()
	path := t.TempDir()
	if err := os.MkdirAll(filepath.Join(path, "nodes"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Machines() {
		labels, err := json.Marshal(map[string]any{"labels": m.Labels})
		if err == nil {
			err = os.WriteFile(filepath.Join(path, "nodes", m.Name+".json"), labels, 0o600)
		}
		var report []byte
		if err == nil {
			report, err = topology.EncodeReport(m.Report)
		}
		if err == nil {
			err = reportdir.New(path, m.Name).Put(t.Context(), report)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	atOnce := publication.Duration{Duration: time.Millisecond}
	clusters, err := publication.Compile([]publication.Publication{{SettleTime: atOnce}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &stored{Store: dir.New(path), path: path}, clusters
}

// publish runs a publisher until it has published.
func publish(t testing.TB, s *stored, clusters []*publication.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := publisher.New(s.Store, clusters, publisher.Options{}, publisher.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	go func() { ended <- p.Run(ctx) }()
	await.Until(t, "published", func() bool {
		set, err := s.Load(ctx, clusters[0].Place())
		return err == nil && set != nil && set.Annotations[plandoc.AnnotationDigest] != ""
	}, func() string { return "nothing is published" })
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func siteOf(t testing.TB, s *stored, clusters []*publication.Cluster, seen page.Live) *picture.Site {
	t.Helper()
	site, err := page.NewSource(s, clusters, seen, nil).Site(t.Context(), clusters[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := picture.ViewOf(site); err != nil {
		t.Fatal(err)
	}
	return site
}

// TestSource draws what a store holds: the plan, conditions, pods, and what is held.
func TestSource(t *testing.T) {
	s, clusters := filled(t, racks(t, 2))
	before := siteOf(t, s, clusters, nil)
	if p := before.Plan.Nodes; len(p) != 36 || p[0].Reason != "NotPublished" || !slices.Contains(before.Trouble, "nothing is published yet: nodes have no place") || before.Segments != nil {
		t.Errorf("before the first publication: %d nodes, %+v, %q", len(p), p[0], before.Trouble)
	}
	publish(t, s, clusters)
	s.conditions = map[string]map[string]inputs.Condition{"gb200-00002": {
		nodestatus.ConditionIMEX:   {Type: nodestatus.ConditionIMEX, True: true, Reason: "FabricNotReady", Message: "wait"},
		nodestatus.ConditionDrift:  {Type: nodestatus.ConditionDrift, Reason: "Agrees", Message: "all agree"},
		nodestatus.ConditionFabric: {Type: nodestatus.ConditionFabric, True: true, Reason: "FabricUnhealthy", Message: "look"}}}
	s.states = map[string]string{}
	for _, n := range names(1, 36) {
		s.states[n] = "IDLE"
	}
	s.states["gb200-00002"] = "IDLE+DRAIN"
	delete(s.states, "gb200-00003")
	doc, err := s.Store.LoadPlan(t.Context(), clusters[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	next := doc.Current.Plan
	next.Topologies = slices.Clone(next.Topologies)
	next.Topologies[0].Blocks = next.Topologies[0].Blocks[:1]
	s.held, s.wanted = []plandoc.Held{{Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Reason: "BigChange", Message: "18 nodes", Digest: "abc", Waits: true}}, &next
	site := siteOf(t, s, clusters, nil)
	want := picture.Said{Slurm: "IDLE+DRAIN", Use: "unavailable", IMEX: picture.Verdict{Wrong: true, Reason: "FabricNotReady", Message: "wait"}, Drift: picture.Verdict{Reason: "Agrees", Message: "all agree"},
		Fabric: picture.Verdict{Wrong: true, Reason: "FabricUnhealthy", Message: "look"}}
	if diff := cmp.Diff(want, site.Said["gb200-00002"]); diff != "" {
		t.Errorf("node 2 (-want +got):\n%s", diff)
	}
	// Nobody writes conditions on the other nodes: they are judged by plan, reports and what is held.
	for k, want := range []string{"Agrees", "PublishedDiffers"} {
		for _, node := range site.Plan.Blocks()[k].Nodes {
			if got := site.Said[node].Drift; node != "gb200-00002" && (got.Reason != want || got.Wrong != (k == 1)) {
				t.Errorf("the place of %s: %+v, want %s", node, got, want)
			}
		}
	}
	if got := site.Said["gb200-00003"]; got.Slurm != "not in Slurm" || got.Use != "unavailable" {
		t.Errorf("a node without a pod is %+v", got)
	}
	if h := site.Held; h == nil || len(h.Holds) != 1 || h.Holds[0].Since != "2026-01-02 03:04 UTC" || !h.Holds[0].Waits || !slices.ContainsFunc(h.Differences, func(d string) bool {
		return strings.HasPrefix(d, "gb200-[00001-00018] move from nvl-")
	}) {
		t.Errorf("held: %+v", h)
	}
	if len(site.Plan.Blocks()) != 2 || len(site.Plan.Blocks()[0].Nodes) != 18 || len(site.Plan.BlockTopologies()) != 1 || site.Plan.Places()[site.Plan.Nodes[0].SlurmName].Block == "" || site.Plan.Places()[site.Plan.Nodes[0].SlurmName].Leaf != "leaf-001" {
		t.Errorf("the plan is %+v", site.Plan.Nodes[0])
	}
	i := slices.IndexFunc(site.Segments, func(s picture.Segments) bool { return s.Size == 4 })
	if row := site.Segments[i]; row.Now != 8 || row.All != 8 || len(row.Taken) != 2 || row.Taken[site.Plan.Blocks()[0].Name] != 16 {
		t.Errorf("segments of 4: %+v", row)
	}
}

// TestSourceNow changes facts after the publication, so that no file changes: a fault that comes is shown, and
// one that has gone is not. The stored plan says in which form the files are.
func TestSourceNow(t *testing.T) {
	const clique, labelled, silent = "nvidia.com/gpu.clique", "gb200-00002", "gb200-00003"
	for _, published := range []struct {
		name   string
		faulty bool
		format string
	}{{"published without the fault", false, ""}, {"published with the fault", true, ""}, {"published as topology.conf", false, "conf"}} {
		t.Run(published.name, func(t *testing.T) {
			s, clusters := filled(t, racks(t, 2))
			node, report := filepath.Join(s.path, "nodes", labelled+".json"), filepath.Join(s.path, "reports", silent+".json")
			read := func(path string) []byte {
				t.Helper()
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			write := func(path string, text []byte) {
				t.Helper()
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var n struct {
				Labels map[string]string `json:"labels"`
			}
			right := read(node)
			if err := json.Unmarshal(right, &n); err != nil {
				t.Fatal(err)
			}
			n.Labels[clique] = "11111111-2222-3333-4444-555555555555.7"
			wrong, err := json.Marshal(n)
			if err != nil {
				t.Fatal(err)
			}
			fault := []string{topology.ReasonLabelDiffers + " " + labelled}
			var stored []string
			if published.faulty {
				write(node, wrong)
				stored = fault
			}
			old := clusters[0].Publication
			old.Format = published.format
			first, err := publication.Compile([]publication.Publication{old}, nil)
			if err != nil {
				t.Fatal(err)
			}
			publish(t, s, first)
			for _, tt := range []struct {
				name   string
				labels []byte
				want   []string
				drift  string
			}{{"a wrong label", wrong, fault, topology.ReasonLabelDiffers}, {"the right label", right, nil, "Agrees"}} {
				write(node, tt.labels)
				site := siteOf(t, s, clusters, nil)
				if diff := cmp.Diff(tt.want, problemsOf(site.Plan)); diff != "" || len(site.Trouble) > 0 {
					t.Errorf("%s: problems (-want +got):\n%s%q", tt.name, diff, site.Trouble)
				}
				if drift := site.Said[labelled].Drift; drift.Reason != tt.drift {
					t.Errorf("%s: the place of the node: %+v, want %s", tt.name, drift, tt.drift)
				}
			}
			source := func() string { // which says why the node is where it is
				plan := siteOf(t, s, clusters, nil).Plan
				return plan.Nodes[slices.IndexFunc(plan.Nodes, func(n topology.Placement) bool { return n.SlurmName == silent })].Source
			}
			text := read(report)
			if err := os.Remove(report); err != nil {
				t.Fatal(err)
			}
			if got := source(); got != "previous" {
				t.Errorf("the place of a node that is gone is by %q", got)
			}
			if write(report, text); source() != "nvml" {
				t.Errorf("the place of a node that is back is by %q", source())
			}
			doc, err := s.LoadPlan(t.Context(), clusters[0].Name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored, problemsOf(&doc.Current.Plan.Plan)); diff != "" || doc.Current.Number != 1 {
				t.Errorf("revision %d, want the first with its problems (-want +got):\n%s", doc.Current.Number, diff)
			}
		})
	}
}

// TestSourceNotKnown draws a stored plan after which no plan can be made: what is wrong is as old as that plan.
func TestSourceNotKnown(t *testing.T) {
	s, clusters := filled(t, racks(t, 1))
	publish(t, s, clusters)
	clusters[0].BlockSizes = []int{36} // which is no multiple of the base that stays
	s.spoil = func(d *plandoc.Document) {
		d.Current.Plan.Topologies[0].Sizes, d.Current.Plan.Problems = []int{5, 10}, []topology.Finding{{Reason: "Old"}}
	}
	site := siteOf(t, s, clusters, nil)
	if len(site.Trouble) != 1 || !strings.HasPrefix(site.Trouble[0], "what is wrong now is not known: ") || !strings.Contains(site.Trouble[0], "; problems and reasons of nodes are those of revision 1 of 20") ||
		!slices.Equal(problemsOf(site.Plan), []string{"Old "}) {
		t.Errorf("trouble %q, problems %q", site.Trouble, problemsOf(site.Plan))
	}
}

// problemsOf are the reasons of a plan's problems, with the nodes.
func problemsOf(p *topology.Plan) (all []string) {
	for _, f := range p.Problems {
		all = append(all, f.Reason+" "+f.Node)
	}
	return all
}

// TestSourceLive draws what Slurm says, and goes on without it.
func TestSourceLive(t *testing.T) {
	s, clusters := filled(t, racks(t, 1))
	publish(t, s, clusters)
	s.states = map[string]string{"gb200-00001": "IDLE", "gb200-00002": "IDLE"}
	seen := &slurm{nodes: map[string]slurmctld.Node{"gb200-00001": {State: "ALLOCATED"}, "gb200-00003": {State: "IDLE+DRAIN", Reason: "fan", Reservation: "repair"}, "gb200-00004": {State: "IDLE+RESERVED", Reservation: "repair"}}, jobs: []occupancy.Job{{Job: slurmctld.Job{ID: "7", Nodes: "gb200-00001"}}}}
	site := siteOf(t, s, clusters, seen)
	if a, b := site.Said["gb200-00001"], site.Said["gb200-00002"]; a.Use != "busy" || b.Use != "free" || len(site.Jobs) != 1 || len(site.Trouble) != 0 {
		t.Errorf("%+v, %+v, jobs %v, trouble %q", a, b, site.Jobs, site.Trouble)
	}
	if a, b := site.Said["gb200-00003"], site.Said["gb200-00004"]; a.Why != "fan; reservation repair" || a.Use != "unavailable" || b.Why != "reservation repair" || b.Use != "busy" {
		t.Errorf("%+v, %+v", a, b)
	}
	seen.asked = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	if site = siteOf(t, s, clusters, seen); site.Asked != "2026-11-26T12:00:00Z" || len(site.Trouble) != 0 {
		t.Errorf("asked %q, trouble %q", site.Asked, site.Trouble)
	}
	seen.err = errors.New("connection refused")
	if site = siteOf(t, s, clusters, seen); !slices.Equal(site.Trouble, []string{"Slurm does not answer: connection refused; what is shown was asked at 2026-11-26T12:00:00Z"}) || site.Asked == "" {
		t.Errorf("asked %q, trouble %q", site.Asked, site.Trouble)
	}
	seen.nodes, seen.jobs = nil, nil
	if site = siteOf(t, s, clusters, seen); !slices.Equal(site.Trouble, []string{"Slurm does not answer: connection refused; its last answer is too old to be shown: it was asked at 2026-11-26T12:00:00Z"}) || site.Asked != "" {
		t.Errorf("asked %q, trouble %q", site.Asked, site.Trouble)
	}
	seen.asked = time.Time{}
	if site = siteOf(t, s, clusters, seen); !slices.Equal(site.Trouble, []string{"Slurm does not answer: connection refused"}) {
		t.Errorf("trouble %q", site.Trouble)
	}
	s.err = plandoc.ErrUnreadable
	if site = siteOf(t, s, clusters, nil); len(site.Trouble) != 2 || len(site.Plan.Nodes) != 18 {
		t.Errorf("an unreadable plan: trouble %q, %d nodes", site.Trouble, len(site.Plan.Nodes))
	}
	s.err = errors.New("away")
	source := page.NewSource(s, clusters, nil, nil)
	if _, err := source.Site(t.Context(), clusters[0].Name); err == nil {
		t.Error("no error without a plan")
	}
	if _, err := source.Site(t.Context(), "other"); err == nil {
		t.Error("no error for another publication")
	}
	if _, err := source.JobGPUs(t.Context(), clusters[0].Name, "7"); err == nil || errors.Is(err, client.ErrNoJob) {
		t.Errorf("nobody can be asked about a job: %v", err)
	}
}

// BenchmarkLook10008 is one look at 10,008 nodes: read the plan, gather, and make the view.
func BenchmarkLook10008(b *testing.B) {
	s, clusters := filled(b, racks(b, 556))
	publish(b, s, clusters)
	s.states = map[string]string{}
	for _, n := range names(1, 10008) {
		s.states[n] = "IDLE"
	}
	snap, err := s.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	doc, err := s.Store.LoadPlan(b.Context(), clusters[0].Name)
	if err != nil {
		b.Fatal(err)
	}
	packed, err := plandoc.Pack(doc)
	if err != nil {
		b.Fatal(err)
	}
	source := page.NewSource(&remembered{s, snap, packed}, clusters, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		site, err := source.Site(b.Context(), clusters[0].Name)
		if err == nil {
			_, err = picture.ViewOf(site)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// remembered is a store that keeps what it watches, and reads the plan each time, as Kubernetes.
type remembered struct {
	*stored
	snap *inputs.Snapshot
	plan []byte
}

// Snapshot is the one that is kept.
func (r *remembered) Snapshot(context.Context) (*inputs.Snapshot, error) { return r.snap, nil }

// LoadPlan reads the plan.
func (r *remembered) LoadPlan(context.Context, string) (*plandoc.Document, error) {
	return plandoc.Unpack(r.plan)
}
