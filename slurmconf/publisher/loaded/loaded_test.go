package loaded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/live"
	"github.com/quoin-hpc/quoin/testdata/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// noon is when the files of a site were published last. An hour before, they had no block b2.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// site is a publication with two blocks, b2 newer than b1, and nodes n1 to n4.
type site struct {
	byAnnotation bool
	// after is how long after noon it is.
	after time.Duration
	// planned are places that are not published yet.
	planned map[string]string
	// invalid are nodes whose pod says that Slurm refused the registration.
	invalid map[string]string
	slurm   *live.State
}

func blocks(units ...string) []topology.Topology {
	t := topology.Topology{Name: "nvl", Default: true, Kind: "block", Sizes: []int{2}}
	for _, u := range units {
		name, nodes, _ := strings.Cut(u, "=")
		t.Blocks = append(t.Blocks, topology.Block{Name: name, Nodes: hosts.In(nodes)})
	}
	return []topology.Topology{t}
}

func (s *site) input() *Input {
	doc := plandoc.New("default", "slurm/quoin-slurm")
	doc.Add(plandoc.Revision{Time: noon.Add(-time.Hour), Digest: "1", Plan: topology.Plan{Format: "yaml", ByAnnotation: s.byAnnotation, Topologies: blocks("b1=n[1-4]")}})
	doc.Add(plandoc.Revision{Time: noon, Digest: "2", Plan: topology.Plan{Format: "yaml", ByAnnotation: s.byAnnotation, Topologies: blocks("b1=n[1-2]", "b2=n[3-4]")}})
	in := &Input{Doc: doc, Published: map[string]string{"n1": "nvl:b1", "n2": "nvl:b1", "n3": "nvl:b2", "n4": "nvl:b2"}, Nodes: map[string]*inputs.Node{}, Now: noon.Add(s.after)}
	in.Planned = map[string]string{}
	for name, spec := range in.Published {
		in.Planned[name] = spec
		n := &inputs.Node{Name: "k-" + name, Workers: []inputs.Worker{{Invalid: s.invalid[name]}}}
		in.Nodes[name] = n
	}
	maps.Copy(in.Planned, s.planned)
	return in
}

// says is a Slurm that read its files so long after noon.
func says(read time.Duration, nodes map[string]live.Node) *live.State {
	all := map[string]live.Node{}
	for i := range 4 {
		all[fmt.Sprintf("n%d", i+1)] = live.Node{Registered: true}
	}
	maps.Copy(all, nodes)
	return &live.State{Read: noon.Add(read), Nodes: all}
}

// shows is a scontrol that shows the blocks.
func shows(units ...string) *live.State {
	s := says(0, nil)
	s.Read = time.Time{}
	t := topology.Topology{Name: "nvl", Kind: "block"}
	for _, u := range units {
		name, nodes, _ := strings.Cut(u, "=")
		t.Blocks = append(t.Blocks, topology.Block{Name: name, Nodes: hosts.In(nodes)})
	}
	s.Topologies = []topology.Topology{t}
	return s
}

func placed(spec string) live.Node { return live.Node{Topology: spec, Registered: true} }

func TestKnows(t *testing.T) {
	const refused = "Failed to set topology 'nvl:b2'"
	tests := []struct {
		name   string
		site   site
		b1, b2 Answer
		loaded Answer
	}{
		{"nobody can be asked", site{}, Unknown, Unknown, Unknown},
		{"nobody can be asked, and a pod was refused", site{invalid: map[string]string{"n3": refused}}, Unknown, No, Unknown},
		{"a pod was refused for another reason", site{invalid: map[string]string{"n3": "gres/gpu count reported lower than configured (0 < 4)"}}, Unknown, Unknown, Unknown},
		{"Slurm does not say when it read its files", site{slurm: &live.State{}}, Unknown, Unknown, Unknown},
		{"it read them before b2 was there", site{slurm: says(-time.Minute, nil)}, Yes, No, No},
		{"it read them at that time, as far as seconds tell", site{slurm: says(-time.Second, nil)}, Yes, Unknown, Yes},
		{"it read them soon after", site{slurm: says(time.Minute, nil)}, Yes, Unknown, Yes},
		{"it read them when they had arrived everywhere", site{slurm: says(2*time.Minute, nil)}, Yes, Yes, Yes},
		{"a node is in b2 by its own Topology=", site{slurm: says(-time.Minute, map[string]live.Node{"n3": placed("nvl:b2")})}, Yes, Yes, No},
		{"a node was refused, and another was not", site{slurm: says(time.Minute, map[string]live.Node{"n3": {Registered: true, Invalid: true, Reason: refused}, "n4": placed("nvl:b2")})}, Yes, Yes, Yes},
		{"a node was refused", site{slurm: says(time.Minute, map[string]live.Node{"n3": {Registered: true, Invalid: true, Reason: refused}})}, Yes, No, Yes},
		{"a node was refused before Slurm loaded the file", site{slurm: says(2*time.Minute, map[string]live.Node{"n3": {Registered: true, Reason: refused}})}, Yes, Yes, Yes},
		{"scontrol shows both", site{slurm: shows("b1=n[1-2]", "b2=n[3-4]")}, Yes, Yes, Yes},
		{"scontrol lacks b2", site{slurm: shows("b1=n[1-4]")}, Yes, No, No},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewView(tt.site.input(), tt.site.slurm)
			got := []Answer{v.Knows("nvl:b1", 2*time.Minute), v.Knows("nvl:b2", 2*time.Minute), v.Loaded(), v.Knows("nvl:b1,nvl:b2", 2*time.Minute), v.Knows("", 0)}
			if diff := cmp.Diff([]Answer{tt.b1, tt.b2, tt.loaded, tt.b2, Unknown}, got); diff != "" {
				t.Errorf("b1, b2, files, both, none (-want +got):\n%s", diff)
			}
		})
	}
	if (*View)(nil).Knows("nvl:b1", 0) != Unknown {
		t.Error("nothing knows something")
	}
}

func TestBehind(t *testing.T) {
	const never = "loaded: n[3-4]: The file was never loaded, which was published at 2026-11-23T12:00:00Z: set inplaceReconfigure: true of Slinky's Controller, or run scontrol reconfigure and read slurmctld's log"
	annotated := map[string]live.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("nvl:b2")}
	with := func(nodes map[string]live.Node, name string, n live.Node) map[string]live.Node {
		out := map[string]live.Node{name: n}
		for other, is := range nodes {
			if other != name {
				out[other] = is
			}
		}
		return out
	}
	tests := []struct {
		name string
		site site
		want string
	}{
		{"nobody can be asked", site{}, ""},
		{"nobody can be asked, and a move is held", site{planned: map[string]string{"n1": "nvl:b2"}}, "published: n1: the published files have it in nvl:b1, the plan has it in nvl:b2"},
		{"as published by file", site{slurm: says(time.Minute, nil), after: time.Hour}, ""},
		{"as published by annotation", site{byAnnotation: true, slurm: says(time.Minute, annotated), after: time.Hour}, ""},
		{"not loaded yet", site{slurm: says(-time.Minute, nil), after: time.Minute}, "loaded: n[3-4]: Slurm has not loaded the published file yet"},
		{"never loaded", site{slurm: says(-time.Minute, nil), after: 2 * time.Minute}, never},
		{"never loaded, by annotation", site{byAnnotation: true, slurm: says(-time.Minute, map[string]live.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1")}), after: 2 * time.Minute}, never},
		{"never loaded, as scontrol shows", site{slurm: shows("b1=n[1-4]"), after: 2 * time.Minute}, never},
		{"never loaded, and no node needs it", site{byAnnotation: true, slurm: says(-time.Minute, annotated), after: 2 * time.Minute}, strings.Replace(never, "n[3-4]: ", "", 1)},
		{"lost its place", site{byAnnotation: true, slurm: says(time.Minute, with(annotated, "n4", placed(""))), after: time.Hour},
			"registered: n4: Slurm has it in no block and no switch, published is nvl:b2: scontrol update nodename=NAME topology=nvl:b2"},
		{"has its own place beside the file", site{slurm: says(time.Minute, map[string]live.Node{"n1": placed("nvl:b2")}), after: time.Hour},
			"registered: n1: Slurm has it in nvl:b2 by its own Topology=, published is nvl:b1: scontrol update nodename=NAME topology=nvl:b1"},
		{"was refused", site{byAnnotation: true, slurm: says(time.Minute, with(annotated, "n4", live.Node{Registered: true, Reason: "Failed to set topology 'nvl:b2'"})), after: time.Hour},
			"registered: n4: Slurm refused its place nvl:b2 when it registered: scontrol update nodename=NAME topology=nvl:b2, then resume it"},
		{"not there, not registered, and off", site{slurm: &live.State{Read: noon, Nodes: map[string]live.Node{"n2": {}, "n3": {Off: true}, "n4": {Registered: true}}}, after: time.Hour},
			"registered: n1: Slurm has no such node: look at slurmd there\nregistered: n2: slurmd has not registered: look at slurmd there"},
		{"scontrol has it elsewhere", site{slurm: shows("b1=n[1-3]", "b2=n4"), after: time.Hour}, "registered: n3: scontrol show topology does not have it in nvl:b2: run scontrol reconfigure"},
		{"paths of switches", site{slurm: says(time.Minute, map[string]live.Node{"n1": placed("nvl:root:spine:b1")}), after: time.Hour}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewView(tt.site.input(), tt.site.slurm)
			if diff := cmp.Diff(tt.want, v.Text(v.Behind())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fake is a Slurm.
type fake struct {
	state        *live.State
	err          error
	asked        []string // the times of questions about nodes, as durations after noon
	brief        int      // other questions
	in           *Input
	reconfigured int
}

func (f *fake) Ask(_ context.Context, q live.Question) (*live.State, error) {
	if q.Brief {
		f.brief++
		if f.state == nil {
			return nil, f.err
		}
		return &live.State{Read: f.state.Read, Topologies: f.state.Topologies}, f.err
	}
	f.asked = append(f.asked, f.in.Now.Sub(noon).String()+" "+strings.Join(q.Topologies, ","))
	return f.state, f.err
}

func (f *fake) Reconfigure(context.Context) error {
	f.reconfigured++
	return f.err
}

// events are what was recorded.
type events []string

func (e *events) Record(_ published.Place, _ bool, reason, message string) {
	*e = append(*e, reason+": "+message[:len(NeverLoaded)])
}

// newWatch returns a Watch of the Slurm, and its series.
func newWatch(t *testing.T, slurm Slurm, e *events, reconfigure bool) (*Watch, *prometheus.Registry) {
	t.Helper()
	pubs, err := publication.Compile([]publication.Publication{{Slurm: publication.Slurm{Scontrol: "scontrol", Reconfigure: reconfigure}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	return NewWatch(pubs[0], Options{Slurm: func(*publication.Cluster) Slurm { return slurm }, Recorder: e, Metrics: NewMetrics(reg), Log: slog.New(slog.DiscardHandler)}), reg
}

// run lets a Watch work until so long after noon, and returns what it said when.
func run(w *Watch, f *fake, s *site, until time.Duration) (said []string) {
	last := ""
	for s.after <= until {
		f.in = s.input()
		_, text, next := w.Reconcile(context.Background(), f.in)
		if first, _, _ := strings.Cut(text, ", which"); first != last {
			last = first
			said = append(said, s.after.String()+" "+first)
		}
		if next.IsZero() {
			return said
		}
		s.after = next.Sub(noon)
	}
	return said
}

func TestWatchNeverLoaded(t *testing.T) {
	for _, reconfigure := range []bool{false, true} {
		e, f, s := events{}, &fake{state: says(-time.Minute, nil)}, &site{}
		w, reg := newWatch(t, f, &e, reconfigure)
		said := run(w, f, s, 4*time.Minute)
		if diff := cmp.Diff([]string{"0s loaded: n[3-4]: Slurm has not loaded the published file yet", "2m0s loaded: n[3-4]: The file was never loaded"}, said); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(events{"FileNeverLoaded: The file was never loaded"}, e); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		want := 0
		brief := 12 + 2 // each 10 s to the two minutes, then each minute
		if reconfigure {
			want, brief = 1, 12+1+1 // and once after 10 s
		}
		if f.reconfigured != want || f.brief != brief || !slices.Equal(f.asked, []string{"0s nvl"}) {
			t.Errorf("reconfigured %d times, asked %d times and about nodes %v", f.reconfigured, f.brief, f.asked)
		}
		if err := testutil.GatherAndCompare(reg, strings.NewReader(`# HELP quoin_publisher_file_never_loaded 1 if Slurm has not loaded the published files two minutes after they were written, even if no node needs what is new in them. Absent while Slurm cannot be asked.
# TYPE quoin_publisher_file_never_loaded gauge
quoin_publisher_file_never_loaded{publication="default"} 1
# HELP quoin_publisher_nodes_behind Nodes whose place has not come as far as Slurm, by the first stage that differs: published, loaded or registered. Absent while Slurm cannot be asked.
# TYPE quoin_publisher_nodes_behind gauge
quoin_publisher_nodes_behind{publication="default",stage="loaded"} 2
quoin_publisher_nodes_behind{publication="default",stage="published"} 0
quoin_publisher_nodes_behind{publication="default",stage="registered"} 0
`)); err != nil {
			t.Error(err)
		}
		f.state, f.asked = says(3*time.Minute, nil), nil
		if run(w, f, s, time.Hour); w.text != "" {
			t.Errorf("loaded, and it says %q", w.text)
		}
		if n := testutil.ToFloat64(w.options.Metrics.never); n != 0 {
			t.Errorf("loaded, and quoin_publisher_file_never_loaded is %v", n)
		}
		if len(f.asked) > 7 {
			t.Errorf("asked %v at rest, want each ten minutes", f.asked)
		}
	}
}

// TestWatchNeverLoadedUnneeded has a new block that no node needs: no node is behind, and the
// file was never loaded all the same.
func TestWatchNeverLoadedUnneeded(t *testing.T) {
	e, f := events{}, &fake{state: says(-time.Minute, map[string]live.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("nvl:b2")})}
	w, _ := newWatch(t, f, &e, false)
	run(w, f, &site{byAnnotation: true}, 4*time.Minute)
	never, behind := testutil.ToFloat64(w.options.Metrics.never), testutil.ToFloat64(w.options.Metrics.behind.WithLabelValues("default", string(StageLoaded)))
	if never != 1 || behind != 0 || len(e) != 1 {
		t.Errorf("never loaded %v, nodes behind %v, events %q, want 1, 0 and one", never, behind, e)
	}
}

// TestWatchConfirms has a node that loses its place, which is said when a second question finds
// it so.
func TestWatchConfirms(t *testing.T) {
	e, f := events{}, &fake{state: says(time.Minute, map[string]live.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("")})}
	w, _ := newWatch(t, f, &e, false)
	got := run(w, f, &site{byAnnotation: true, after: time.Hour}, 2*time.Hour)
	if diff := cmp.Diff([]string{"1h1m0s registered: n4: Slurm has it in no block and no switch, published is nvl:b2: scontrol update nodename=NAME topology=nvl:b2"}, got); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if len(f.asked) != 7 {
		t.Errorf("asked %v, want at 1h, 1h1m and each ten minutes", f.asked)
	}
}

// TestWatchConfirmsByNodes has a node that registers just after the only question about nodes.
// Questions without nodes confirm nothing of it.
func TestWatchConfirmsByNodes(t *testing.T) {
	e, f := events{}, &fake{state: says(-time.Minute, nil)}
	delete(f.state.Nodes, "n1")
	w, _ := newWatch(t, f, &e, false)
	s := &site{}
	if diff := cmp.Diff([]string{"0s loaded: n[3-4]: Slurm has not loaded the published file yet"}, run(w, f, s, time.Minute)); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	f.state = says(time.Minute, nil)
	if run(w, f, s, time.Hour); w.text != "" {
		t.Errorf("n1 is there, and it says %q", w.text)
	}
	delete(f.state.Nodes, "n1")
	if run(w, f, s, 2*time.Hour); !strings.HasPrefix(w.text, "registered: n1: ") {
		t.Errorf("n1 is gone, and it says %q", w.text)
	}
}

func TestWatchCannotAsk(t *testing.T) {
	e, f, s := events{}, &fake{err: errors.New("connection refused")}, &site{}
	w, reg := newWatch(t, f, &e, false)
	if diff := cmp.Diff([]string{"30s " + published.CannotAsk}, run(w, f, s, 2*time.Hour)); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if n, err := testutil.GatherAndCount(reg); n != 0 || err != nil {
		t.Errorf("%d series of what nobody knows, %v", n, err)
	}
	if len(f.asked) > 18 {
		t.Errorf("asked %d times in two hours", len(f.asked))
	}
	v, _, _ := w.Reconcile(t.Context(), s.input())
	if v.Knows("nvl:b2", 0) != Unknown {
		t.Error("it knows a block of a Slurm that does not answer")
	}
	s.after += askEvery
	f.err, f.state, f.in = nil, says(time.Minute, nil), s.input()
	if _, text, _ := w.Reconcile(t.Context(), f.in); text != "" {
		t.Errorf("Slurm answers, and it says %q", text)
	}
	nobody := &Watch{pub: w.pub, options: w.options}
	if _, text, next := nobody.Reconcile(t.Context(), f.in); text != "" || !next.IsZero() {
		t.Errorf("nobody to ask: %q, again at %v", text, next)
	}
}
