package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestMain is also the probe of the tests: it does what FAKE_PROBE says.
func TestMain(m *testing.M) {
	if what := os.Getenv("FAKE_PROBE"); what != "" {
		fakeProbe(what)
		return
	}
	os.Exit(m.Run())
}

const goodLine = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1",` +
	`"gpus":[{"index":0,"uuid":"GPU-a","minor":0,"fabric":{"cliqueID":0,"state":"inProgress"}}],"problems":[{"reason":"FabricSlow","message":"fabric of GPU GPU-a"}]}`

func fakeProbe(what string) {
	if what == "soak" {
		what = soakProbe()
	}
	for word := range strings.SplitSeq(what, " ") {
		switch word {
		case "report":
			fmt.Println(goodLine)
		case "garbage":
			fmt.Println("\x00\xff not a report")
			fmt.Println(`{"apiVersion":"quoin.dev/v9","kind":"NodeReport","node":"n1"}`)
			fmt.Println(strings.Repeat("x", 3*maxLine))
		case "orphan":
			orphan()
		case "half":
			fmt.Print(goodLine[:100])
		case "flood":
			for range 10_000 {
				fmt.Println("not a report")
			}
			select {}
		case "huge":
			for chunk := strings.Repeat("x", 1<<20); ; {
				if _, err := fmt.Print(chunk); err != nil {
					return
				}
			}
		case "100MB":
			for chunk, i := strings.Repeat("x", 1<<20), 0; i < 100; i++ {
				fmt.Print(chunk)
			}
			fmt.Println()
		case "empty":
			fmt.Println()
		case "ids":
			fmt.Println(`{"apiVersion":"quoin.dev/v1alpha1","kind":"DCGMIdentities","gpus":[{"uuid":"GPU-a","id":1}]}`)
		case "banner":
			fmt.Println("libdcgm: a word that was not asked for")
		case "stranger":
			fmt.Println(strings.Replace(goodLine, "n1", "n2", 1))
		case "told", "only", "bad":
			sampleProbe(word)
		case "hang":
			select {}
		case "127":
			fmt.Fprintln(os.Stderr, "undefined symbol: nvmlDeviceGetGpuFabricInfoV")
			os.Exit(127)
		case "crash":
			panic("crash")
		}
	}
}

// memory is a Store in memory.
type memory struct {
	mu     sync.Mutex
	report []byte
	puts   int
	broken error
}

func (m *memory) Get(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.report, m.broken
}

func (m *memory) Put(_ context.Context, report []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report, m.puts = report, m.puts+1
	return m.broken
}

// now returns what is stored, and how often it was written.
func (m *memory) now() (report string, puts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.report), m.puts
}

func discard() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// contextOf returns a context that ends with the test at the latest.
func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func newAgent(t testing.TB, store Store) *Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Node: "n1", Probe: []string{self}, Start: time.Minute, Silence: 2 * time.Second}, store, nil, NewMetrics(prometheus.NewRegistry()), discard())
}

func TestProbeEnds(t *testing.T) {
	tests := []struct {
		what   string
		good   bool
		reason string
		said   string
	}{
		{"report", true, "exit", "exit status 0"},
		{"report crash", true, "exit", "exit status 2"},
		{"127", false, "exit", "exit status 127: undefined symbol"},
		{"garbage report", true, "exit", ""},
		{"garbage", false, "exit", ""},
		{"stranger", false, "exit", ""},
		{"report hang", true, "hang", "said nothing of use for 2s"},
		{"half", false, "exit", "exit status 0"},
		{"report half", true, "exit", "exit status 0"},
		{"flood", false, "garbage", "100 lines of no use in a row, the last: probe:1: report is not JSON"},
		{"report flood", true, "garbage", "100 lines of no use"},
		{"100MB report", true, "exit", ""},
		{"empty", false, "exit", ""},
		{"report empty hang", true, "hang", ""},
		{"report garbage empty hang", true, "garbage", "said nothing of use for 2s, the last: probe: empty line after one that was refused"},
		{"report garbage report empty hang", true, "hang", "said nothing of use for 2s"},
		{"report huge", true, "hang", "said nothing of use for 2s"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Setenv("FAKE_PROBE", tt.what)
			good, err := newAgent(t, &memory{}).runProbe(t.Context())
			var end childEnd
			if good != tt.good || !errors.As(err, &end) || end.reason != tt.reason || !strings.Contains(err.Error(), tt.said) {
				t.Errorf("good %t, %v; want %t, %s: %q", good, err, tt.good, tt.reason, tt.said)
			}
		})
	}
}

// TestProbeLeavesNothing starts many probes that end in all ways and counts
// what is left of them.
func TestProbeLeavesNothing(t *testing.T) {
	a := newAgent(t, &memory{})
	a.config.Start, a.config.Silence = 50*time.Millisecond, 50*time.Millisecond
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	children := func() string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	run := func(n int) {
		for i := range n {
			t.Setenv("FAKE_PROBE", []string{"report", "garbage", "127", "hang", "report crash"}[i%5])
			_, _ = a.runProbe(t.Context())
		}
	}
	run(5)
	files, goroutines := descriptors(), runtime.NumGoroutine()
	run(200)
	if n := descriptors(); n > files {
		t.Errorf("%d descriptors, %d before 200 probes", n, files)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 {
		t.Errorf("%d goroutines, %d before 200 probes", n, goroutines)
	}
	if c := children(); strings.TrimSpace(c) != "" {
		t.Errorf("children left: %s", c)
	}
}

// TestWritesOnChangeOnly feeds reports by hand in fake time.
func TestWritesOnChangeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{}
		a := New(Config{Node: "n1"}, store, nil, NewMetrics(prometheus.NewRegistry()), discard())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.keepStore(ctx); close(done) }()
		take := func(line string) {
			if err := a.take([]byte(line)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for range 10 {
			take(goodLine)
		}
		time.Sleep(24 * time.Hour)
		if store.puts != 1 {
			t.Errorf("%d writes of one report over a day, want 1", store.puts)
		}
		store.mu.Lock()
		store.broken = errors.New("connection refused")
		store.mu.Unlock()
		changed := strings.Replace(goodLine, `"node":"n1"`, `"node":"n1","bootID":"b"`, 1)
		take(changed)
		time.Sleep(10 * time.Minute)
		store.mu.Lock()
		store.broken, store.report = nil, nil
		store.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		store.mu.Lock()
		if string(store.report) != changed {
			t.Errorf("after the store came back it holds %q", store.report)
		}
		store.report = []byte("somebody else's")
		store.mu.Unlock()
		time.Sleep(time.Hour)
		store.mu.Lock()
		if string(store.report) != changed {
			t.Error("a foreign change was not repaired")
		}
		store.mu.Unlock()
		cancel()
		<-done
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	var got []time.Duration
	for range 8 {
		got = append(got, b.next()/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 32, 60, 60}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAwait: a child that no signal ends is waited for, for another beside it
// would hang as well, but it does not keep the agent from ending.
func TestAwait(t *testing.T) {
	gone := errors.New("signal: killed")
	tests := []struct {
		name        string
		after, stop time.Duration // when the child ends, when the agent does
		want        error
		ended       bool
		took        time.Duration
	}{
		{"at once", 0, time.Hour, gone, true, 0},
		{"late", 20 * time.Minute, time.Hour, gone, true, 20 * time.Minute},
		{"never", 24 * time.Hour, time.Hour, nil, false, time.Hour},
		{"agent ends first", 2 * time.Second, time.Second, gone, true, 2 * time.Second},
		{"agent ends first, child never", 24 * time.Hour, time.Second, nil, false, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.stop)
				defer cancel()
				begun := time.Now()
				got, ended := (&child{what: "probe", log: discard()}).await(ctx, func() error { time.Sleep(tt.after); return gone })
				if !errors.Is(got, tt.want) || ended != tt.ended || time.Since(begun) != tt.took {
					t.Errorf("%v, %t after %s; want %v, %t after %s", got, ended, time.Since(begun), tt.want, tt.ended, tt.took)
				}
				time.Sleep(24 * time.Hour) // the bubble ends with its goroutines
			})
		})
	}
}

// TestMetrics follows the series through a report, a hang and a write.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	store := &memory{}
	a := newAgent(t, store)
	a.metrics = NewMetrics(reg)
	a.config.Silence = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	t.Setenv("FAKE_PROBE", "report hang")
	done := make(chan struct{})
	go func() { _ = a.Run(ctx); close(done) }()
	want := map[string]float64{
		"quoin_agent_build_info": 1, "quoin_agent_probe_up": 0, "quoin_agent_report_stored": 1, "quoin_agent_report_writes_total": 1,
		`quoin_agent_probe_restarts_total{reason="hang"}`: 1, `quoin_agent_problems{reason="FabricSlow"}`: 1,
		`quoin_agent_gpus{fabric="inProgress",health=""}`: 1,
	}
	var got map[string]float64
	for diff := "not yet"; diff != "" && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
		got = gathered(t, reg, want)
		diff = cmp.Diff(want, got)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	cancel()
	<-done
}

// gathered returns those of the series that are named, build information
// without its labels.
func gathered(t *testing.T, reg *prometheus.Registry, names map[string]float64) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 && name != "quoin_agent_build_info" {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			if _, ok := names[name]; ok {
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return got
}
