package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/simulated"
)

// TestMain is also the probe of the tests: it does what FAKE_PROBE says.
func TestMain(m *testing.M) {
	if what := os.Getenv("FAKE_PROBE"); what != "" {
		fakeProbe(what)
		return
	}
	os.Exit(m.Run())
}

const goodLine = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1"}`

func fakeProbe(what string) {
	for word := range strings.SplitSeq(what, " ") {
		switch word {
		case "report":
			fmt.Println(goodLine)
		case "garbage":
			fmt.Println("\x00\xff not a report")
			fmt.Println(`{"apiVersion":"quoin.dev/v9","kind":"NodeReport","node":"n1"}`)
			fmt.Println(strings.Repeat("x", 3*maxLine))
		case "stranger":
			fmt.Println(strings.Replace(goodLine, "n1", "n2", 1))
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

func newAgent(t testing.TB, store Store) *Agent {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{Node: "n1", Probe: []string{self}, Silence: time.Second}, store, nil, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(io.Discard, nil)))
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
		{"report hang", true, "hang", "said nothing for 1s"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Setenv("FAKE_PROBE", tt.what)
			good, err := newAgent(t, &memory{}).runProbe(t.Context())
			var end probeEnd
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
	a.config.Silence = 20 * time.Millisecond
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
		a := New(Config{Node: "n1"}, store, nil, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(io.Discard, nil)))
		a.changed = make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.publish(ctx); close(done) }()
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

func TestInventoryOf(t *testing.T) {
	c, err := simulated.Open("a100-mig")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Machine("a100-swapped")
	if err != nil {
		t.Fatal(err)
	}
	inv, err := InventoryOf(m.Report)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, e := range inv.Entries {
		if e.GRESIndex != i || e.Minor != i {
			t.Errorf("entry %d: %+v: GRES indices follow the minor numbers", i, e)
		}
		ids = append(ids, e.ExporterID)
	}
	if diff := cmp.Diff([]string{"2", "3", "0", "1", "6", "7", "4", "5"}, ids); diff != "" {
		t.Errorf("exporter ids in GRES order (-want +got):\n%s", diff)
	}
	m, err = c.Machine("a100-mig")
	if err != nil {
		t.Fatal(err)
	}
	if inv, err = InventoryOf(m.Report); err != nil || len(inv.Entries) != 56 || inv.Entries[8].ExporterID != "1.8" {
		t.Errorf("%d entries, the ninth %+v, %v", len(inv.Entries), inv.Entries[8], err)
	}
}

func TestHookFiles(t *testing.T) {
	run := t.TempDir()
	f := NewHookFiles(run, "/maps")
	minor := 3
	n := &topology.Node{Name: "n1", GPUs: []topology.GPU{{UUID: "GPU-a", Minor: &minor}}}
	if err := f.Write(n); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&topology.Node{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	inv, err := dcgm.ReadInventory(run)
	if err != nil || len(inv.Entries) != 1 {
		t.Errorf("a report without GPUs changed the inventory: %+v, %v", inv, err)
	}
	if err := NewHookFiles(filepath.Join(run, "inventory.json"), "/maps").Write(n); err == nil {
		t.Error("a run directory that is a file gave no error")
	}
}

func FuzzReadLines(f *testing.F) {
	f.Add([]byte("a\n\nbb\r\nccc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 16
		var got [][]byte
		readLines(bytes.NewReader(data), limit, func(l []byte) { got = append(got, bytes.Clone(l)) })
		for _, l := range got {
			if len(l) > limit || bytes.ContainsRune(l, '\n') {
				t.Fatalf("line %q", l)
			}
		}
		if want := bytes.Count(data, []byte("\n")); len(got) < want || len(got) > want+1 {
			t.Fatalf("%d lines of %d", len(got), want)
		}
	})
}
