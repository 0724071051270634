package loaded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/gres"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
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
	// podless are nodes without a worker pod.
	podless []string
	// invalid are nodes whose pod says that Slurm refused the registration.
	invalid map[string]string
	slurm   *slurmctld.State
}

func blocks(units ...string) []topology.Topology {
	t := topology.Topology{Name: "nvl", Default: true, Kind: "block", Sizes: []int{2}}
	for _, u := range units {
		name, nodes, _ := strings.Cut(u, "=")
		t.Blocks = append(t.Blocks, topology.Block{Name: name, Nodes: hosts.In(nodes)})
	}
	return []topology.Topology{t}
}

// gresLines reads lines of gres.conf.
func gresLines(texts ...string) []gres.Line {
	lines, err := gres.Parse("gres.conf", []byte(strings.Join(texts, "\n")))
	if err != nil {
		panic(err)
	}
	return lines
}

func (s *site) input() *Input {
	doc := plandoc.New("default", "slurm/quoin-slurm")
	doc.Add(plandoc.Revision{Time: noon.Add(-time.Hour), Digest: "1", Plan: plandoc.Plan{Format: "yaml", ByAnnotation: s.byAnnotation, Plan: topology.Plan{Topologies: blocks("b1=n[1-4]")}}})
	doc.Add(plandoc.Revision{Time: noon, Digest: "2", Plan: plandoc.Plan{Format: "yaml", ByAnnotation: s.byAnnotation, Plan: topology.Plan{Topologies: blocks("b1=n[1-2]", "b2=n[3-4]")}}})
	in := &Input{Doc: doc, Published: map[string]string{"n1": "nvl:b1", "n2": "nvl:b1", "n3": "nvl:b2", "n4": "nvl:b2"}, Nodes: map[string]*inputs.Node{}, LoadTimeout: 2 * time.Minute, Now: noon.Add(s.after)}
	in.Planned = map[string]string{}
	for name, spec := range in.Published {
		in.Planned[name] = spec
		n := &inputs.Node{Name: "k-" + name, Workers: []inputs.Worker{{Invalid: s.invalid[name]}}}
		if slices.Contains(s.podless, name) {
			n.Workers = nil
		}
		in.Nodes[name] = n
	}
	maps.Copy(in.Planned, s.planned)
	return in
}

// says is a Slurm that read its files so long after noon.
func says(read time.Duration, nodes map[string]slurmctld.Node) *slurmctld.State {
	all := map[string]slurmctld.Node{}
	for i := range 4 {
		all[fmt.Sprintf("n%d", i+1)] = slurmctld.Node{Registered: true}
	}
	maps.Copy(all, nodes)
	return &slurmctld.State{Read: noon.Add(read), Nodes: all}
}

// shows is a scontrol that shows the blocks.
func shows(units ...string) *slurmctld.State {
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

func placed(spec string) slurmctld.Node { return slurmctld.Node{Topology: spec, Registered: true} }

func TestKnows(t *testing.T) {
	const refused = "Failed to set topology 'nvl:b2'"
	tests := []struct {
		name   string
		site   site
		b1, b2 Verdict
		loaded Verdict
	}{
		{"nobody can be asked", site{}, Unknown, Unknown, Unknown},
		{"nobody can be asked, and a pod was refused", site{invalid: map[string]string{"n3": refused}}, Unknown, No, Unknown},
		{"a pod was refused for another reason", site{invalid: map[string]string{"n3": "gres/gpu count reported lower than configured (0 < 4)"}}, Unknown, Unknown, Unknown},
		{"Slurm does not say when it read its files", site{slurm: &slurmctld.State{}}, Unknown, Unknown, Unknown},
		{"it read them before b2 was there", site{slurm: says(-time.Minute, nil)}, Yes, No, No},
		{"it read them at that time, as far as seconds tell", site{slurm: says(-time.Second, nil)}, Yes, Unknown, Yes},
		{"it read them soon after", site{slurm: says(time.Minute, nil)}, Yes, Unknown, Yes},
		{"it read them when they had arrived everywhere", site{slurm: says(2*time.Minute, nil)}, Yes, Yes, Yes},
		{"a node is in b2 by its own Topology=", site{slurm: says(-time.Minute, map[string]slurmctld.Node{"n3": placed("nvl:b2")})}, Yes, Yes, No},
		{"a node was refused, and another was not", site{slurm: says(time.Minute, map[string]slurmctld.Node{"n3": {Registered: true, Invalid: true, Reason: refused}, "n4": placed("nvl:b2")})}, Yes, Yes, Yes},
		{"a node was refused", site{slurm: says(time.Minute, map[string]slurmctld.Node{"n3": {Registered: true, Invalid: true, Reason: refused}})}, Yes, No, Yes},
		{"a node was refused before Slurm loaded the file", site{slurm: says(2*time.Minute, map[string]slurmctld.Node{"n3": {Registered: true, Reason: refused}})}, Yes, Yes, Yes},
		{"scontrol shows both", site{slurm: shows("b1=n[1-2]", "b2=n[3-4]")}, Yes, Yes, Yes},
		{"scontrol lacks b2", site{slurm: shows("b1=n[1-4]")}, Yes, No, No},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewView(tt.site.input(), tt.site.slurm)
			got := []Verdict{v.Knows("nvl:b1"), v.Knows("nvl:b2"), v.Loaded(), v.Knows("nvl:b1,nvl:b2"), v.Knows("")}
			if diff := cmp.Diff([]Verdict{tt.b1, tt.b2, tt.loaded, tt.b2, Unknown}, got); diff != "" {
				t.Errorf("b1, b2, files, both, none (-want +got):\n%s", diff)
			}
		})
	}
	if (*View)(nil).Knows("nvl:b1") != Unknown {
		t.Error("nothing knows something")
	}
}

func TestBehind(t *testing.T) {
	const never = "loaded: n[3-4]: The file was never loaded, which was published at 2026-11-23T12:00:00Z: set inplaceReconfigure: true of Slinky's Controller, or run scontrol reconfigure and read slurmctld's log"
	annotated := map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("nvl:b2")}
	with := func(nodes map[string]slurmctld.Node, name string, n slurmctld.Node) map[string]slurmctld.Node {
		out := map[string]slurmctld.Node{name: n}
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
		{"not loaded yet", site{slurm: says(-time.Minute, nil), after: time.Minute}, "loaded: n[3-4]: Slurm has not loaded the published file yet: it has time (loadTimeout) until 2026-11-23T12:02:00Z"},
		{"never loaded", site{slurm: says(-time.Minute, nil), after: 2 * time.Minute}, never},
		{"never loaded, by annotation", site{byAnnotation: true, slurm: says(-time.Minute, map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1")}), after: 2 * time.Minute}, never},
		{"never loaded, as scontrol shows", site{slurm: shows("b1=n[1-4]"), after: 2 * time.Minute}, never},
		{"never loaded, and no node needs it", site{byAnnotation: true, slurm: says(-time.Minute, annotated), after: 2 * time.Minute}, strings.Replace(never, "n[3-4]: ", "", 1)},
		{"lost its place", site{byAnnotation: true, slurm: says(time.Minute, with(annotated, "n4", placed(""))), after: time.Hour},
			"registered: n4: Slurm has it in no block and no switch, published is nvl:b2: scontrol update nodename=NAME topology=nvl:b2"},
		{"has its own place beside the file", site{slurm: says(time.Minute, map[string]slurmctld.Node{"n1": placed("nvl:b2")}), after: time.Hour},
			"registered: n1: Slurm has it in nvl:b2 by its own Topology=, published is nvl:b1: scontrol update nodename=NAME topology=nvl:b1"},
		{"was refused", site{byAnnotation: true, slurm: says(time.Minute, with(annotated, "n4", slurmctld.Node{Registered: true, Reason: "Failed to set topology 'nvl:b2'"})), after: time.Hour},
			"registered: n4: Slurm refused its place nvl:b2 when it registered: scontrol update nodename=NAME topology=nvl:b2, then resume it"},
		{"not there, not registered, and off", site{slurm: &slurmctld.State{Read: noon, Nodes: map[string]slurmctld.Node{"n2": {}, "n3": {Off: true}, "n4": {Registered: true}}}, after: time.Hour},
			"registered: n1: Slurm has no such node: look at slurmd there; if its Node or its worker pod is gone, it leaves the files after removeAfter\nregistered: n2: slurmd has not registered: look at slurmd there"},
		{"scontrol has it elsewhere", site{slurm: shows("b1=n[1-3]", "b2=n4"), after: time.Hour}, "registered: n3: scontrol show topology does not have it in nvl:b2: run scontrol reconfigure"},
		{"paths of switches", site{slurm: says(time.Minute, map[string]slurmctld.Node{"n1": placed("nvl:root:spine:b1")}), after: time.Hour}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewView(tt.site.input(), tt.site.slurm)
			if diff := cmp.Diff(tt.want, v.Text(v.Pending())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// fake is a Slurm.
type fake struct {
	mu           sync.Mutex
	state        *slurmctld.State
	err          error
	asked        []string // the times of questions about nodes, as durations after noon
	brief        int      // other questions
	reconfigured int
}

func (f *fake) Ask(_ context.Context, q client.Question) (*slurmctld.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !q.Nodes {
		f.brief++
		if f.state == nil {
			return nil, f.err
		}
		return &slurmctld.State{Release: f.state.Release, Read: f.state.Read, Topologies: f.state.Topologies}, f.err
	}
	f.asked = append(f.asked, time.Since(noon).String()+" "+strings.Join(q.Topologies, ","))
	return f.state, f.err
}

func (f *fake) Reconfigure(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reconfigured++
	return f.err
}

// count returns what was asked so far.
func (f *fake) count() (asked []string, brief, reconfigured int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked), f.brief, f.reconfigured
}

// events are what was recorded.
type events []string

func (e *events) Record(_ plandoc.Location, _ bool, reason, message string) {
	*e = append(*e, reason+": "+message[:len(NeverLoaded)])
}

// newWatch returns a Watch of the Slurm, and its series.
func newWatch(t *testing.T, slurm client.Asker, e *events, reconfigure bool) (*Watch, *prometheus.Registry) {
	t.Helper()
	pubs, err := publication.Compile([]publication.Publication{{Slurm: publication.Slurm{Scontrol: "scontrol", Reconfigure: reconfigure}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	return NewWatch(pubs[0], Options{Slurm: client.New("default", slurm, log), Recorder: e, Metrics: NewMetrics(reg), Log: log}), reg
}

// bubble is a Watch that works in fake time, which begins at noon.
type bubble struct {
	*testing.T
	w     *Watch
	f     *fake
	e     events
	reg   *prometheus.Registry
	heard chan struct{}
}

// watched runs a test of a Watch.
func watched(t *testing.T, state *slurmctld.State, reconfigure bool, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(noon))
		b := &bubble{T: t, f: &fake{state: state}, heard: make(chan struct{}, 1)}
		b.w, b.reg = newWatch(t, b.f, &b.e, reconfigure)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b.w.Slurm.Want(asker, nil) // the first question, which TestFirstQuestion is about
		go b.w.Slurm.Run(ctx, b.heard)
		test(b)
	})
}

// TestFirstQuestion asks for the release before Reconcile wants an answer.
func TestFirstQuestion(t *testing.T) {
	for name, tt := range map[string]struct {
		*fake
		want slurmconf.Release
	}{
		"Slurm answers":  {&fake{state: &slurmctld.State{Release: slurmconf.Release2511, Read: noon}}, slurmconf.Release2511},
		"Slurm does not": {&fake{err: errors.New("connection refused")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := newWatch(t, tt.fake, &events{}, false)
				if release, asking := w.Release(); release != 0 || !asking {
					t.Errorf("before Slurm is asked: %s, asking %t", release, asking)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				heard := make(chan struct{}, 1)
				go w.Slurm.Run(ctx, heard)
				<-heard
				if release, asking := w.Release(); release != tt.want || asking || tt.brief != 1 {
					t.Errorf("then: %s, asking %t, after %d questions; want %s after one", release, asking, tt.brief, tt.want)
				}
			})
		})
	}
}

// until lets a Watch work until so long after noon, and returns what it said when.
func (b *bubble) until(s *site, until time.Duration) (said []string) {
	end, last := time.After(time.Until(noon.Add(until+time.Second))), ""
	for {
		s.after = time.Since(noon)
		text := b.w.Reconcile(s.input()).Text
		if first, _, _ := strings.Cut(text, ", which"); first != last {
			last = first
			said = append(said, s.after.String()+" "+first)
		}
		for news := false; !news; news = b.w.News() {
			select {
			case <-b.heard:
			case <-end:
				return said
			}
		}
	}
}

// says lets Slurm say something else.
func (b *bubble) says(state *slurmctld.State, err error) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	b.f.state, b.f.err, b.f.asked, b.f.brief = state, err, nil, 0
}

// TestFewerGPUs has nodes in their place whose Gres= has more GPUs than the published gres.conf.
func TestFewerGPUs(t *testing.T) {
	s := site{byAnnotation: true}
	gresOf := func(name, gres string) *slurmctld.State {
		slurm := says(time.Minute, nil)
		for n, spec := range s.input().Published {
			is := placed(spec)
			if n == name {
				is.Gres = gres
			}
			slurm.Nodes[n] = is
		}
		return slurm
	}
	const mig = " Name=gpu Type=a100_1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap"
	for name, tt := range map[string]struct{ node, gres, want string }{
		"detected, one fewer":          {"n2", "gpu:h100:9", "the node has 8 gpus, and Gres= in slurm.conf has 9: slurm.conf must follow, or slurmctld drains the node"},
		"detected, a part of the Type": {"n2", "gpu:h:8", ""},
		"detected, two Types":          {"n2", "gpu:h100:5,gpu:a100:4", "the node has 8 gpus, and Gres= in slurm.conf has 9: slurm.conf must follow, or slurmctld drains the node"},
		"detected, no report":          {"n3", "gpu:9", ""},
		"detected, no Gres=":           {"n2", "(null)", ""},
		"one instance fewer":           {"n1", "gpu:a100_1g.5gb:3(S:0)", "gres.conf has 2 gpus of type a100_1g.5gb, and Gres= in slurm.conf has 3: slurm.conf must follow, or slurmctld drains the node"},
		"as many":                      {"n1", "gpu:a100_1g.5gb:2(S:0-1),nic:4", ""},
		"more in gres.conf":            {"n1", "gpu:a100_1g.5gb:1", ""},
		"another Type":                 {"n1", "gpu:a100:2", "gres.conf has 0 gpus of type a100, and Gres= in slurm.conf has 2: slurm.conf must follow, or slurmctld drains the node"},
		"no Type":                      {"n2", "gpu:9", "gres.conf has 8 gpus, and Gres= in slurm.conf has 9: slurm.conf must follow, or slurmctld drains the node"},
		"no Gres=":                     {"n2", "(null)", ""},
		"a Gres= of another kind":      {"n2", "gpu:x:y:z", ""},
		"the node detects them":        {"n3", "gpu:9", ""},
		"no line":                      {"n4", "gpu:9", ""},
		"no place":                     {"n5", "gpu:h100:8", "gres.conf has 7 gpus of type h100, and Gres= in slurm.conf has 8: slurm.conf must follow, or slurmctld drains the node"},
		"no place, as many":            {"n5", "gpu:h100:7", ""},
		"neither place nor line":       {"n6", "gpu:9", ""},
	} {
		in := s.input()
		for _, n := range []string{"n5", "n6", "n7"} { // Slurm has no n7
			in.Nodes[n] = &inputs.Node{Name: "k-" + n}
		}
		in.Doc.Current.Plan.Devices = gresLines("NodeName=n1"+mig+"1", "NodeName=n1"+mig+"2", "NodeName=n2 Name=gpu Type=h100 File=/dev/nvidia[0-7]", "NodeName=n3 AutoDetect=nvidia", "NodeName=n[5,7] Name=gpu Type=h100 File=/dev/nvidia[0-6]")
		if strings.HasPrefix(name, "detected") {
			in.Doc.Current.Plan.Detect = "nvidia"
		}
		slurm := gresOf(tt.node, tt.gres)
		if slurm.Nodes[tt.node].Gres == "" {
			slurm.Nodes[tt.node] = slurmctld.Node{Registered: true, Gres: tt.gres}
		}
		v := NewView(in, slurm)
		pending := v.Pending()
		var nodes []Node
		var problems []topology.Finding
		if tt.want != "" {
			nodes = []Node{{tt.node, StageRegistered, tt.want}}
			problems = []topology.Finding{{Subject: topology.Subject{Node: "k-" + tt.node}, Reason: gres.ReasonFewerGPUs, Message: tt.want, Remedy: "lower Gres= of the node, and resume the node if it is drained"}}
		}
		if diff := cmp.Diff(nodes, pending) + cmp.Diff(problems, v.problems(pending)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWatchNeverLoaded(t *testing.T) {
	for _, reconfigure := range []bool{false, true} {
		watched(t, says(-time.Minute, nil), reconfigure, func(t *bubble) {
			s := &site{}
			said := t.until(s, 4*time.Minute)
			if diff := cmp.Diff([]string{"0s loaded: n[3-4]: Slurm has not loaded the published file yet: it has time (loadTimeout) until 2026-11-23T12:02:00Z", "2m0s loaded: n[3-4]: The file was never loaded"}, said); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(events{"FileNeverLoaded: The file was never loaded"}, t.e); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			want := 0
			brief := 12 + 2 // each 10 s to the two minutes, then each minute
			if reconfigure {
				want, brief = 1, 12+1+1 // and once after 10 s
			}
			if asked, others, reconfigured := t.f.count(); reconfigured != want || others != brief || !slices.Equal(asked, []string{"0s nvl"}) {
				t.Errorf("reconfigured %d times, asked %d times and about nodes %v", reconfigured, others, asked)
			}
			if err := testutil.GatherAndCompare(t.reg, strings.NewReader(`# HELP quoin_publisher_file_never_loaded 1 if Slurm has not loaded the published files loadTimeout after they were written. Absent while Slurm cannot be asked.
# TYPE quoin_publisher_file_never_loaded gauge
quoin_publisher_file_never_loaded{publication="default"} 1
# HELP quoin_publisher_nodes_pending Nodes that Slurm does not have in their planned place yet, by the first stage that differs: published, loaded, registered. Absent while Slurm cannot be asked.
# TYPE quoin_publisher_nodes_pending gauge
quoin_publisher_nodes_pending{publication="default",stage="loaded"} 2
quoin_publisher_nodes_pending{publication="default",stage="published"} 0
quoin_publisher_nodes_pending{publication="default",stage="registered"} 0
`)); err != nil {
				t.Error(err)
			}
			t.says(says(3*time.Minute, nil), nil)
			if t.until(s, time.Hour); t.w.text != "" {
				t.Errorf("loaded, and it says %q", t.w.text)
			}
			if n := testutil.ToFloat64(t.w.Metrics.never); n != 0 {
				t.Errorf("loaded, and quoin_publisher_file_never_loaded is %v", n)
			}
			if asked, _, _ := t.f.count(); len(asked) > 7 {
				t.Errorf("asked %v at rest, want each ten minutes", asked)
			}
		})
	}
}

// TestWatchLoads has Slurm load the files. That is seen within ten seconds, and nodes are asked for at
// once.
func TestWatchLoads(t *testing.T) {
	watched(t, says(-time.Minute, nil), false, func(t *bubble) {
		s := &site{}
		t.until(s, 65*time.Second)
		t.says(says(65*time.Second, map[string]slurmctld.Node{"n4": {}}), nil)
		if diff := cmp.Diff([]string{"1m6s loaded: n[3-4]: Slurm has not loaded the published file yet: it has time (loadTimeout) until 2026-11-23T12:02:00Z", "1m10s ", "2m10s registered: n4: slurmd has not registered: look at slurmd there"}, t.until(s, 3*time.Minute)); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		asked, _, _ := t.f.count()
		if diff := cmp.Diff([]string{"1m10s ", "2m10s nvl"}, asked); diff != "" {
			t.Errorf("asked about nodes (-want +got):\n%s", diff)
		}
	})
}

// TestWatchLoadsFirst has a node join when Slurm has loaded its block. What was said of nodes before
// confirms nothing.
func TestWatchLoadsFirst(t *testing.T) {
	without := func(read time.Duration) *slurmctld.State {
		state := says(read, nil)
		delete(state.Nodes, "n4")
		return state
	}
	watched(t, without(-time.Minute), false, func(t *bubble) {
		s := &site{}
		t.until(s, 65*time.Second)
		t.says(without(65*time.Second), nil)
		t.until(s, 75*time.Second)
		t.says(says(65*time.Second, nil), nil)
		if said := t.until(s, time.Hour); len(said) > 0 {
			t.Errorf("said %q", said)
		}
	})
}

// TestWatchNeverLoadedUnneeded has a new block that no node needs: no node is pending, and the
// file was never loaded all the same.
func TestWatchNeverLoadedUnneeded(t *testing.T) {
	placedAll := map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("nvl:b2")}
	watched(t, says(-time.Minute, placedAll), false, func(t *bubble) {
		t.until(&site{byAnnotation: true}, 4*time.Minute)
		never, pending := testutil.ToFloat64(t.w.Metrics.never), testutil.ToFloat64(t.w.Metrics.pending.WithLabelValues("default", string(StageLoaded)))
		if never != 1 || pending != 0 || len(t.e) != 1 {
			t.Errorf("never loaded %v, nodes pending %v, events %q, want 1, 0 and one", never, pending, t.e)
		}
	})
}

// TestWatchConfirms has a node that loses its place, which is said when a second question finds
// it so.
func TestWatchConfirms(t *testing.T) {
	watched(t, says(time.Minute, map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("")}), false, func(t *bubble) {
		time.Sleep(time.Hour)
		got := t.until(&site{byAnnotation: true}, 2*time.Hour)
		if diff := cmp.Diff([]string{"1h1m0s registered: n4: Slurm has it in no block and no switch, published is nvl:b2: scontrol update nodename=NAME topology=nvl:b2"}, got); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		if asked, _, _ := t.f.count(); len(asked) != 7 {
			t.Errorf("asked %v, want at 1h, 1h1m and each ten minutes", asked)
		}
	})
}

// TestWatchWithoutPods has two nodes that Slurm does not know. One of them has no worker pod: it
// is pending only if pods do not make the nodes of Slurm.
func TestWatchWithoutPods(t *testing.T) {
	for names, want := range map[string]string{"short": "n[3-4]", "slinky": "n3"} {
		state := says(time.Minute, map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1")})
		delete(state.Nodes, "n3")
		delete(state.Nodes, "n4")
		watched(t, state, false, func(t *bubble) {
			pubs, err := publication.Compile([]publication.Publication{{SlurmNames: names, Slurm: t.w.pub.Slurm}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.w.pub = pubs[0]
			time.Sleep(time.Hour)
			got := t.until(&site{byAnnotation: true, podless: []string{"n4"}}, 2*time.Hour)
			if diff := cmp.Diff([]string{"1h1m0s registered: " + want + ": Slurm has no such node: look at slurmd there; if its Node or its worker pod is gone, it leaves the files after removeAfter"}, got); diff != "" {
				t.Errorf("%s: said (-want +got):\n%s", names, diff)
			}
		})
	}
}

// TestWatchConfirmsByNodes has a node that registers just after the only question about nodes.
// Questions without nodes confirm nothing of it.
func TestWatchConfirmsByNodes(t *testing.T) {
	without := func(read time.Duration) *slurmctld.State {
		state := says(read, nil)
		delete(state.Nodes, "n1")
		return state
	}
	watched(t, without(-time.Minute), false, func(t *bubble) {
		s := &site{}
		if diff := cmp.Diff([]string{"0s loaded: n[3-4]: Slurm has not loaded the published file yet: it has time (loadTimeout) until 2026-11-23T12:02:00Z"}, t.until(s, time.Minute)); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		t.says(says(time.Minute, nil), nil)
		if t.until(s, time.Hour); t.w.text != "" {
			t.Errorf("n1 is there, and it says %q", t.w.text)
		}
		t.says(without(time.Minute), nil)
		if t.until(s, 2*time.Hour); !strings.HasPrefix(t.w.text, "registered: n1: ") {
			t.Errorf("n1 is gone, and it says %q", t.w.text)
		}
	})
}

func TestWatchCannotAsk(t *testing.T) {
	watched(t, nil, false, func(t *bubble) {
		s := &site{}
		t.says(nil, errors.New("connection refused"))
		if k := t.w.Reconcile(s.input()); !k.Unjudged || k.Text != "" {
			t.Errorf("before any answer: %+v", k)
		}
		if diff := cmp.Diff([]string{"30s " + plandoc.CannotAsk}, t.until(s, 2*time.Hour)); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		if n, err := testutil.GatherAndCount(t.reg); n != 0 || err != nil {
			t.Errorf("%d series of what nobody knows, %v", n, err)
		}
		if asked, _, _ := t.f.count(); len(asked) > 2*66+4 {
			t.Errorf("asked %d times in two hours", len(asked))
		}
		if k := t.w.Reconcile(s.input()); k.View.Knows("nvl:b2") != Unknown || k.Unjudged {
			t.Error("it knows a block of a Slurm that does not answer, or waits for it")
		}
		t.says(says(time.Minute, nil), nil)
		if t.until(s, 2*time.Hour+time.Minute); t.w.text != "" {
			t.Errorf("Slurm answers, and it says %q", t.w.text)
		}
		// Then it fails again.
		t.says(nil, errors.New("connection refused"))
		if said := t.until(s, 4*time.Hour); len(said) != 1 || !strings.HasSuffix(said[0], plandoc.CannotAsk) {
			t.Errorf("said %q", said)
		}
		t.w.End()
		asked, brief, _ := t.f.count()
		time.Sleep(time.Hour)
		if more, others, _ := t.f.count(); len(more) != len(asked) || others != brief {
			t.Errorf("asked %d times after the end", len(more)+others-len(asked)-brief)
		}
		nobody := NewWatch(t.w.pub, Options{Metrics: t.w.Metrics, Log: t.w.Log})
		if k := nobody.Reconcile(s.input()); k.Text != "" || k.Unjudged {
			t.Errorf("nobody to ask: %+v", k)
		}
	})
}

// TestWatchHeardByOthers has others ask before the Watch does. What they heard will do, though a later question failed.
func TestWatchHeardByOthers(t *testing.T) {
	watched(t, says(time.Minute, nil), false, func(t *bubble) {
		s := &site{}
		t.until(s, 8*time.Minute)
		all := client.Question{Loaded: true, Topologies: topologies(s.input()), Nodes: true}
		at := t.w.Slurm.Newer(t.Context(), all, time.Now()).Asked
		t.says(nil, errors.New("connection refused"))
		time.Sleep(time.Minute)
		t.w.Slurm.Newer(t.Context(), all, time.Now())
		time.Sleep(2 * time.Minute)
		t.until(s, 12*time.Minute)
		if asked, brief, _ := t.f.count(); t.w.judged != at || len(asked)+brief != 1 {
			t.Errorf("asked %d times, judged what was asked at %v, want once and %v", len(asked)+brief, t.w.judged, at)
		}
	})
}

// TestWatchLoadNotKnown has a slurmrestd before 26.05 after midnight. Nobody knows whether Slurm has
// loaded files that it never said to have loaded.
func TestWatchLoadNotKnown(t *testing.T) {
	unsaid := says(0, nil)
	unsaid.Read = time.Time{}
	watched(t, unsaid, false, func(t *bubble) {
		s := &site{}
		if diff := cmp.Diff([]string{"0s " + plandoc.LoadNotKnown}, t.until(s, time.Minute)); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		t.says(says(time.Minute, nil), nil)
		t.until(s, 20*time.Minute)
		t.says(unsaid, nil)
		if t.until(s, time.Hour); t.w.text != "" {
			t.Errorf("Slurm had loaded the files, and it says %q", t.w.text)
		}
	})
	placedAll := map[string]slurmctld.Node{"n1": placed("nvl:b1"), "n2": placed("nvl:b1"), "n3": placed("nvl:b2"), "n4": placed("nvl:b2")}
	annotated := says(0, placedAll)
	annotated.Read = time.Time{}
	watched(t, annotated, false, func(t *bubble) {
		if said := t.until(&site{byAnnotation: true}, time.Hour); len(said) > 0 {
			t.Errorf("each node says its place, and it says %q", said)
		}
	})
}

// TestWatchGresAlone follows files that place no node: nothing waits for Slurm to load them, and no
// topology is asked for.
func TestWatchGresAlone(t *testing.T) {
	unsaid := says(0, nil)
	unsaid.Read = time.Time{}
	watched(t, unsaid, false, func(t *bubble) {
		doc := plandoc.New("default", "slurm/quoin-slurm")
		doc.Add(plandoc.Revision{Time: noon, Digest: "1", Plan: plandoc.Plan{Format: "conf", Devices: gresLines("NodeName=n1 Name=gpu File=/dev/nvidia0")}})
		in := &Input{Doc: doc, Nodes: map[string]*inputs.Node{"n1": {Name: "k-n1", Workers: []inputs.Worker{{}}}}, LoadTimeout: 2 * time.Minute}
		for range 3 {
			in.Now = time.Now()
			if known := t.w.Reconcile(in); known.Text != "" {
				t.Errorf("it says %q", known.Text)
			}
			<-t.heard
		}
		if asked, _, _ := t.f.count(); len(asked) != 3 || slices.ContainsFunc(asked, func(q string) bool { return !strings.HasSuffix(q, " ") }) {
			t.Errorf("asked %q", asked)
		}
	})
}

// TestWatchKeepsLastAnswer has a Slurm that goes away while a node is pending. What it said last stays,
// after the word that it cannot be asked, and nothing is decided by it.
func TestWatchKeepsLastAnswer(t *testing.T) {
	watched(t, says(-time.Minute, nil), false, func(t *bubble) {
		s := &site{}
		t.until(s, 3*time.Minute)
		asked := t.w.Slurm.Last().Asked.Loaded
		t.says(nil, errors.New("connection refused"))
		t.until(s, 20*time.Minute)
		k := t.w.Reconcile(s.input())
		if !strings.HasPrefix(k.Text, plandoc.CannotAsk+"\nloaded: n[3-4]: The file was never loaded, ") || !k.Asked.Equal(asked) || k.View.Loaded() != Unknown {
			t.Errorf("asked at %v, want %v; it says %q", k.Asked, asked, k.Text)
		}
		t.says(says(15*time.Minute, nil), nil)
		t.until(s, 25*time.Minute)
		if k := t.w.Reconcile(s.input()); k.Text != "" || k.View.Loaded() != Yes {
			t.Errorf("Slurm answers again, and it says %q", k.Text)
		}
	})
}
