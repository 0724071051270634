package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/fakeprobe"
)

// TestMain is also the probe of the tests.
func TestMain(m *testing.M) {
	if fakeprobe.Played() {
		return
	}
	os.Exit(m.Run())
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// newProbe is a supervisor of this program as a fake probe.
func newProbe(t testing.TB) Supervisor {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Supervisor{Child: Child{Command: []string{self}, Start: time.Minute, Silence: 2 * time.Second, Log: discard()}, Node: "n1"}.WithDefaults()
}

// runProbe runs one probe to its end.
func runProbe(t testing.TB, s Supervisor) (good bool, err error) {
	good, _, err = hearProbe(t, s)
	return good, err
}

// hearProbe runs one probe to its end, and counts what is heard of it.
func hearProbe(t testing.TB, s Supervisor) (good bool, heard map[Kind]int, err error) {
	t.Helper()
	events, done := make(chan Event), make(chan struct{})
	heard = map[Kind]int{}
	go func() {
		defer close(done)
		for e := range events {
			heard[e.Kind]++
		}
	}()
	good, err = s.run(t.Context(), &session{Supervisor: &s, events: events, devices: new([]string), decoder: Decoder{Node: s.Node}})
	close(events)
	<-done
	return good, heard, err
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
		{"report hang", true, "hang", "printed no usable line for 2s"},
		{"half", false, "exit", "exit status 0"},
		{"report half", true, "exit", "exit status 0"},
		{"flood", false, "garbage", "printed 100 unusable lines in a row, the last error: probe:1: report is not JSON"},
		{"report flood", true, "garbage", "100 unusable lines"},
		{"100MB report", true, "exit", ""},
		{"empty", false, "exit", ""},
		{"report empty hang", true, "hang", ""},
		{"report junk empty hang", true, "garbage", "printed no usable line for 2s, the last error: probe: empty line after a refused one"},
		{"report junk report empty hang", true, "hang", "printed no usable line for 2s"},
		{"report huge", true, "hang", "printed no usable line for 2s"},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Setenv(fakeprobe.Variable, tt.what)
			good, err := runProbe(t, newProbe(t))
			var end endError
			if good != tt.good || !errors.As(err, &end) || end.reason != tt.reason || !strings.Contains(err.Error(), tt.said) {
				t.Errorf("good %t, %v; want %t, %s: %q", good, err, tt.good, tt.reason, tt.said)
			}
		})
	}
}

// TestProbeLeavesNothing starts many probes that end in all ways and counts
// what is left of them.
func TestProbeLeavesNothing(t *testing.T) {
	s := newProbe(t)
	s.Start, s.Silence = 50*time.Millisecond, 50*time.Millisecond
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
			t.Setenv(fakeprobe.Variable, []string{"report", "garbage", "127", "hang", "report crash"}[i%5])
			_, _ = runProbe(t, s)
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

// TestEnvironment: a child gets the parent's variables, but its own settings of Go.
func TestEnvironment(t *testing.T) {
	t.Setenv("GOGC", "100")
	t.Setenv("QUOIN_OTHER", "kept")
	c := Child{Command: []string{"sh", "-c", "echo $GOMAXPROCS $GOGC $QUOIN_OTHER"}, Start: time.Minute, Log: discard()}
	got, err := Ask(t.Context(), c, func(line []byte) (string, error) { return string(line), nil })
	if want := "1 30 kept"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
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
				got, ended := (&Child{Name: "probe", Log: discard()}).await(ctx, func() error { time.Sleep(tt.after); return gone })
				if !errors.Is(got, tt.want) || ended != tt.ended || time.Since(begun) != tt.took {
					t.Errorf("%v, %t after %s; want %v, %t after %s", got, ended, time.Since(begun), tt.want, tt.ended, tt.took)
				}
				time.Sleep(24 * time.Hour) // the bubble ends with its goroutines
			})
		})
	}
}
