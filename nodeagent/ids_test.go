package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/nodeagent/probe"
	"github.com/quoin-hpc/quoin/test/rig/fakeprobe"
	"github.com/quoin-hpc/quoin/topology"
)

// exposition is what DCGM Exporter answers of GPUs with these ids and MIG
// instances, with series of other things between.
func exposition(gpus map[int]string, instances ...int) string {
	var b strings.Builder
	for _, series := range []string{"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"} {
		fmt.Fprintf(&b, "# HELP %s A figure (in %%).\n# TYPE %s gauge\n", series, series)
		for id, uuid := range gpus {
			labels := fmt.Sprintf(`gpu="%d",UUID=%q,pci_bus_id="00000000:%02X:00.0",device="nvidia%d",modelName="NVIDIA \"A\" 100"`, id, uuid, id, id)
			if len(instances) == 0 {
				fmt.Fprintf(&b, "%s{%s,Hostname=\"n1\",DCGM_FI_DRIVER_VERSION=\"580.65.06\",hpc_job=\"7}\"} 1.5e+03\n", series, labels)
			}
			for _, i := range instances {
				fmt.Fprintf(&b, "%s{%s,GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"%d\",Hostname=\"n1\"} NaN\n", series, labels, i)
			}
		}
	}
	b.WriteString("# TYPE DCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS gauge\nDCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS{nvlink=\"1\",nvswitch=\"nvswitch0\"} 0\n")
	b.WriteString("DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu=\"0\",Hostname=\"n1\"} 0.1\ngo_goroutines 12\n")
	return b.String()
}

func TestExporter(t *testing.T) {
	two := map[int]string{0: "GPU-b", 1: "GPU-a"}
	tests := []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		want   map[string]int
		err    string
	}{
		{"two GPUs", say(exposition(two)), map[string]int{"GPU-a": 1, "GPU-b": 0}, ""},
		{"MIG", say(exposition(two, 7, 8)), map[string]int{"GPU-a": 1, "GPU-b": 0}, ""},
		{"no end of line", say(`DCGM_FI_DEV_SM_CLOCK{gpu="3",UUID="GPU-a"} 1`), map[string]int{"GPU-a": 3}, ""},
		{"with --use-old-namespace", say(`DCGM_FI_DEV_SM_CLOCK{gpu="3",uuid="GPU-a"} 1`), map[string]int{"GPU-a": 3}, ""},
		{"no GPU", say("go_goroutines 12\n"), nil, "no series DCGM_FI_* has the labels gpu and UUID"},
		{"nothing", say(""), nil, "no series DCGM_FI_*"},
		{"a page", say("<html><body>Login</body></html>"), nil, "no series DCGM_FI_*"},
		{"cut off", say("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-a\"} 1\nDCGM_FI_DEV_SM_CLOCK{gpu=\"1\",UU"), nil, "line 2 of the metrics: text format parsing error"},
		{"no number", say(`DCGM_FI_DEV_SM_CLOCK{gpu="nvidia0",UUID="GPU-a"} 1`), nil, `line 1 of the metrics: gpu="nvidia0": want a number`},
		{"two ids", say("DCGM_FI_A{gpu=\"0\",UUID=\"GPU-a\"} 1\nDCGM_FI_A{gpu=\"1\",UUID=\"GPU-a\"} 1\n"), nil, "line 2 of the metrics: GPU-a is gpu 1, before it was 0"},
		{"two nodes", say("DCGM_FI_A{gpu=\"0\",UUID=\"GPU-a\"} 1\nDCGM_FI_A{gpu=\"0\",UUID=\"GPU-z\"} 1\n"), nil, "want the exporter of one node"},
		{"a long line", say("DCGM_FI_A{gpu=\"" + strings.Repeat("1", 2*maxSeries)), nil, "line 1 of the metrics: bufio.Scanner: token too long"},
		{"no end", func(w http.ResponseWriter, _ *http.Request) {
			for line := []byte(strings.Repeat("#"+strings.Repeat("x", 4000)+"\n", 1<<8)); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		}, nil, "the metrics are longer than 64 MiB"},
		{"broken off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, exposition(two)[:200])
		}, nil, " of the metrics: "},
		{"a file vanished", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such file", 500) }, nil, "it answers 500 Internal Server Error"},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil, "Client.Timeout exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(tt.answer))
			defer server.Close()
			e := NewExporter(server.URL + "/metrics")
			if tt.name == "hangs" {
				e.client.Timeout = 50 * time.Millisecond
			}
			got, err := e.Read(t.Context())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v; want %q", err, tt.err)
			}
		})
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, err := NewExporter(gone.URL).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v; want that the connection is refused", err)
	}
}

func say(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, text)
	}
}

// FuzzExporterIDs checks that whatever a server says gives ids that name one GPU
// each, or an error.
func FuzzExporterIDs(f *testing.F) {
	f.Add([]byte(exposition(map[int]string{0: "GPU-a", 1: "GPU-b"})))
	f.Add([]byte(exposition(map[int]string{0: "GPU-a"}, 7)))
	f.Add([]byte("DCGM_FI_A{gpu=\"0\",UUID=\"GPU-\\\"\"} +Inf 123\r\nDCGM_FI_B{\"x\"} 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ids, err := exporterIDs(&io.LimitedReader{R: bytes.NewReader(data), N: 1 << 20})
		if (err == nil) != (len(ids) > 0) {
			t.Fatalf("%v, %v", ids, err)
		}
		seen := map[int]bool{}
		for uuid, id := range ids {
			if uuid == "" || id < 0 || seen[id] {
				t.Fatalf("%v", ids)
			}
			seen[id] = true
		}
	})
}

// idSource is a source in memory.
type idSource struct {
	mu    sync.Mutex
	reads int
	ids   map[string]int
	err   error
}

func (s *idSource) String() string { return "source" }
func (s *idSource) Kind() string   { return "exporter" }
func (s *idSource) Read(context.Context) (map[string]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.ids, s.err
}

// answer is what it says from now on; it returns how often it was asked.
func (s *idSource) answer(ids map[string]int, err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.err = ids, err
	return s.reads
}

// TestKeepIDs follows the ids through the life of a node in fake time.
func TestKeepIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		store, source := &memory{}, &idSource{err: refused}
		says := make(fed)
		var log strings.Builder
		a := New(Config{Node: "n1", Probe: says, Stale: 1000 * time.Hour, IDs: []IDSource{source}}, store, nil, NewMetrics(prometheus.NewRegistry()),
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		stop := start(t, a)
		// after lets a while pass and returns the ids and problems of the stored
		// report, and how often it was written since the last call.
		before := 0
		after := func(d time.Duration) string {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			report, puts := store.now()
			last := before
			before = puts
			if report == "" {
				return "nothing"
			}
			n, err := topology.ParseReport("stored", []byte(report))
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(idsOf(n), puts-last)
		}
		check := func(when, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
		take := func(uuids ...string) {
			t.Helper()
			n := &topology.Node{Name: "n1", BootID: "b"}
			for i, u := range uuids {
				n.GPUs = append(n.GPUs, topology.GPU{Index: i, UUID: u})
			}
			line, err := topology.EncodeReport(n)
			if err != nil {
				t.Fatal(err)
			}
			says <- event(t, string(line))
		}
		check("before the probe has spoken", after(time.Hour), "nothing")
		if n := source.answer(nil, refused); n != 0 {
			t.Errorf("%d readings without a GPU", n)
		}
		take("GPU-a", "GPU-b")
		check("no answer", after(time.Second/2), "[GPU-a:? GPU-b:? DCGMIDUnknown] 1")
		both := map[string]int{"GPU-a": 1, "GPU-b": 0}
		source.answer(both, nil)
		check("an answer", after(2*time.Second), "[GPU-a:1 GPU-b:0] 1")
		reads := source.answer(both, nil)
		check("a day at rest", after(24*time.Hour), "[GPU-a:1 GPU-b:0] 0")
		if n := source.answer(nil, refused) - reads; n != 6*24 {
			t.Errorf("%d readings in a day, want one in ten minutes", n)
		}
		check("the exporter has gone", after(24*time.Hour), "[GPU-a:1 GPU-b:0] 0")
		take("GPU-b")
		check("a GPU is lost", after(time.Minute), "[GPU-b:0 GPUMissing] 1")
		take("GPU-a", "GPU-b")
		check("it is back", after(time.Minute), "[GPU-a:1 GPU-b:0] 1")
		source.answer(map[string]int{"GPU-b": 0}, nil)
		check("DCGM has lost it", after(time.Hour), "[GPU-a:1 GPU-b:0] 0")
		source.answer(map[string]int{"GPU-b": 1}, nil)
		check("DCGM counts anew", after(time.Hour), "[GPU-a:? GPU-b:1 DCGMIDUnknown] 1")
		source.answer(map[string]int{"GPU-x": 0, "GPU-y": 1}, nil)
		check("another node's exporter", after(time.Hour), "[GPU-a:? GPU-b:1 DCGMIDUnknown] 1")
		source.answer(map[string]int{"GPU-a": 0, "GPU-b": 1, "GPU-x": 2}, nil)
		check("all well", after(2*time.Minute), "[GPU-a:0 GPU-b:1] 1")
		take("GPU-a", "GPU-b", "GPU-x")
		if got := after(time.Second / 2); !strings.HasPrefix(got, "[GPU-a:0 GPU-b:1 GPU-x:2] ") { // it may be written first without its id
			t.Errorf("another GPU: %s", got)
		}
		for range 2 {
			source.answer(nil, refused)
			check("the exporter has gone again", after(time.Hour), "[GPU-a:0 GPU-b:1 GPU-x:2] 0")
			source.answer(map[string]int{"GPU-a": 0, "GPU-b": 1, "GPU-x": 2}, nil)
			check("all well again", after(2*time.Minute), "[GPU-a:0 GPU-b:1 GPU-x:2] 0")
		}
		stop()
		if n := strings.Count(log.String(), "\n"); n != 6 {
			t.Errorf("%d warnings, want one of each trouble:\n%s", n, log.String())
		}
	})
}

// idsOf returns the GPUs with their ids, and the problems.
func idsOf(n *topology.Node) []string {
	var out []string
	for _, g := range n.GPUs {
		id := "?"
		if g.DCGMID != nil {
			id = fmt.Sprint(*g.DCGMID)
		}
		out = append(out, g.UUID+":"+id)
	}
	for _, p := range n.Problems {
		out = append(out, p.Reason)
	}
	return out
}

// slow is a store that answers after a while.
type slow struct {
	memory
	after time.Duration
}

func (s *slow) Get(ctx context.Context) ([]byte, error) {
	time.Sleep(s.after)
	return s.memory.Get(ctx)
}

// TestIDsAfterRestart: an agent that starts anew while nobody answers keeps the
// ids of the same boot. Its first report waits for the store, but not for long.
func TestIDsAfterRestart(t *testing.T) {
	const unknown = "[GPU-a:? GPU-b:? DCGMIDUnknown]"
	for _, tt := range []struct {
		boot  string
		after time.Duration // of which the store answers
		want  string        // the first report
	}{
		{"b", 0, "[GPU-a:3 GPU-b:? XidCritical DCGMIDUnknown]"},
		{"b", storePatience - time.Second, "[GPU-a:3 GPU-b:? XidCritical DCGMIDUnknown]"},
		{"b", storePatience + time.Second, unknown},
		{"another", 0, unknown},
	} {
		synctest.Test(t, func(t *testing.T) {
			three := 3
			stored := &topology.Node{Name: "n1", BootID: "b", GPUs: []topology.GPU{{UUID: "GPU-a", DCGMID: &three, Xids: []int{79}}, {Index: 1, UUID: "GPU-b"}},
				Problems: []topology.Finding{{Reason: reasonDCGMIDUnknown, Message: "DCGM id of GPU GPU-b: source: no answer; NVML's index is used instead"}}}
			line, err := topology.EncodeReport(stored)
			if err != nil {
				t.Fatal(err)
			}
			now := &topology.Node{Name: "n1", BootID: tt.boot, GPUs: []topology.GPU{{UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}}}
			said, err := topology.EncodeReport(now)
			if err != nil {
				t.Fatal(err)
			}
			says, reports, source := make(fed), make(chan *topology.Node, 1), &idSource{err: errors.New("connection refused")}
			a := New(Config{Node: "n1", Probe: says, IDs: []IDSource{source}, Subscribers: []chan *topology.Node{reports}},
				&slow{memory{report: line}, tt.after}, nil, NewMetrics(prometheus.NewRegistry()), discard())
			defer start(t, a)()
			says <- event(t, string(said))
			begun := time.Now()
			n := <-reports
			if waited := time.Since(begun); waited != min(tt.after, storePatience) {
				t.Errorf("boot %s, the store answers after %s: reported after %s", tt.boot, tt.after, waited)
			}
			if got := fmt.Sprint(idsOf(n)); got != tt.want {
				t.Errorf("boot %s, the store answers after %s: %s, want %s", tt.boot, tt.after, got, tt.want)
			}
			if got := n.GPUs[0].Xids != nil; got != (tt.want != unknown) {
				t.Errorf("boot %s: Xids %v", tt.boot, n.GPUs[0].Xids)
			}
		})
	}
}

// TestFirstReportWaitsForIDs: the first report waits until somebody was asked for ids, and no longer than until the
// facts are stale.
func TestFirstReportWaitsForIDs(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*Agent)
		want bool // a report
	}{
		{"no answer yet", func(*Agent) {}, false},
		{"an answer", func(a *Agent) { a.onIDs(idAnswer{ids: map[string]int{"GPU-a": 1}}) }, true},
		{"stale", (*Agent).onStale, true},
	} {
		a := New(Config{Node: "n1", IDs: []IDSource{&idSource{}}}, &memory{}, nil, NewMetrics(prometheus.NewRegistry()), discard())
		a.hear(event(t, goodLine))
		tt.end(a)
		if a.publish(); (a.line != nil) != tt.want || (a.Ready() == nil) != tt.want {
			t.Errorf("%s: report %s, %v", tt.name, a.line, a.Ready())
		}
	}
	a := newAgent(t, &memory{})
	if a.hear(probe.Event{Kind: probe.Ended, Err: errors.New("exit status 127")}); a.Ready() != nil {
		t.Errorf("the probe ended, and the agent is not ready: %v", a.Ready())
	}
}

// lastSource answers when the agent ends.
type lastSource struct{ idSource }

func (s *lastSource) Read(ctx context.Context) (map[string]int, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestIDsAtTheEnd: that an agent ends is no answer about ids, even if the loop would take one.
func TestIDsAtTheEnd(t *testing.T) {
	for range 30 { // an answer would be sent or not, by chance
		synctest.Test(t, func(t *testing.T) {
			a := New(Config{Node: "n1", IDs: []IDSource{&lastSource{}}}, &memory{}, nil, NewMetrics(prometheus.NewRegistry()), discard())
			ctx, cancel := context.WithCancel(t.Context())
			go func() { a.answerIDs(ctx); close(a.ids) }()
			a.questions <- []string{"GPU-a"}
			synctest.Wait()
			cancel()
			if got, answered := <-a.ids; answered {
				t.Errorf("answer %+v", got)
			}
		})
	}
}

// TestHostEngine has the DCGM probe do what its library may do to it.
func TestHostEngine(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what, err string
		want      map[string]int
	}{
		{"ids", "", map[string]int{"GPU-a": 1}},
		{"banner ids", "", map[string]int{"GPU-a": 1}},
		{"ids hang", "", map[string]int{"GPU-a": 1}},
		{"127", "exit status 127: undefined symbol", nil},
		{"crash", "exit status 2", nil},
		{"hang", "printed no usable line for 200ms; the host engine may hang", nil},
		{"banner", "exit status 0", nil},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Setenv(fakeprobe.Variable, tt.what)
			h := NewHostEngine("localhost:5555", []string{self}, discard())
			h.child.Start, h.child.Silence = 10*time.Second, 200*time.Millisecond
			if tt.what == "hang" {
				h.child.Start = h.child.Silence
			}
			got, err := h.Read(t.Context())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ids (-want +got):\n%s", diff)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v; want %q", err, tt.err)
			}
		})
	}
}
