package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/test/rig/fakeprobe"
	"github.com/quoin-hpc/quoin/topology"
)

func TestSamplingLine(t *testing.T) {
	for line, want := range map[string]Sampling{
		"sample off":                           {},
		" sample  off ":                        {},
		"sample 10s GPU-a":                     {10 * time.Second, []string{"GPU-a"}},
		"sample 1m30s GPU-a,MIG-GPU-b/1/0":     {90 * time.Second, []string{"GPU-a", "MIG-GPU-b/1/0"}},
		"sample 100ms GPU-b,GPU-a,GPU-b":       {100 * time.Millisecond, []string{"GPU-b", "GPU-a"}},
		"sample 24h0m0s MIG-00-00,GPU-0-0-0-0": {24 * time.Hour, []string{"MIG-00-00", "GPU-0-0-0-0"}},
	} {
		got, err := ParseSampling(line)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for line, want := range map[string]string{
		"":                            "want sample TIME UUID,UUID,",
		"sample":                      "want sample TIME UUID,UUID,",
		"sample on":                   "want sample TIME UUID,UUID,",
		"stop 10s GPU-a":              "want sample TIME UUID,UUID,",
		"sample 10s GPU-a GPU-b":      "want sample TIME UUID,UUID,",
		"sample 10 GPU-a":             "want 100ms or more, such as 10s",
		"sample 99ms GPU-a":           "want 100ms or more, such as 10s",
		"sample -10s GPU-a":           "want 100ms or more, such as 10s",
		"sample 10s GPU-a,":           `device "": want GPU-`,
		"sample 10s 0":                `device "0": want GPU-`,
		"sample 10s GPU-a,../../etc":  `device "../../etc": want GPU-`,
		strings.Repeat("x", 1000):     `x…": want sample`,
		"sample 1s " + gpuList(1025):  "want at most 1024 devices",
		"sample 1s GPU-a\x00,GPU-b":   "want GPU-",
		"sample 1s GPU-a\nsample off": "want sample TIME",
	} {
		if got, err := ParseSampling(line); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 {
			t.Errorf("%q: %+v, %v; want %q", line, got, err, want)
		}
	}
}

func gpuList(n int) string {
	uuids := make([]string, n)
	for i := range uuids {
		uuids[i] = fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", i)
	}
	return strings.Join(uuids, ",")
}

func FuzzParseSampling(f *testing.F) {
	f.Add("sample 10s GPU-a,MIG-b,GPU-a")
	f.Add("sample off")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := ParseSampling(line)
		if err != nil {
			return
		}
		again, err := ParseSampling(s.String())
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Fatalf("%v (-first +again):\n%s", err, diff)
		}
	})
}

// sampled is a supervisor whose probe is told what to sample.
type sampled struct {
	Supervisor
	t       *testing.T
	wanted  chan []string
	samples chan topology.Sample
}

func newSampled(t *testing.T, script string) *sampled {
	t.Helper()
	t.Setenv(fakeprobe.Variable, script)
	s := &sampled{Supervisor: newProbe(t), t: t, wanted: make(chan []string), samples: make(chan topology.Sample, 1000)}
	s.Pause, s.Samples, s.Wanted = 10*time.Millisecond, s.samples, s.wanted
	return s
}

// start runs the supervisor until the test ends, and counts how often its probe
// ends.
func (s *sampled) start() (stop func(), ends *atomic.Int64) {
	ctx, cancel := context.WithCancel(s.t.Context())
	events, done := make(chan Event), make(chan struct{})
	ends = new(atomic.Int64)
	go func() { s.Run(ctx, events); close(events) }()
	go func() {
		defer close(done)
		for e := range events {
			if e.Kind == Ended {
				ends.Add(1)
			}
		}
	}()
	stop = func() { cancel(); <-done }
	s.t.Cleanup(stop)
	return stop, ends
}

// next returns the UUIDs of the next sample, and the id of the process that took it.
func (s *sampled) next() (uuids string, pid float64) {
	s.t.Helper()
	select {
	case sample := <-s.samples:
		var names []string
		for _, d := range sample.Devices {
			names, pid = append(names, d.UUID), *d.Power
		}
		return strings.Join(names, " "), pid
	case <-time.After(3 * time.Minute):
		s.t.Fatal("no sample")
		return "", 0
	}
}

// TestSamplesFollowWhatIsWanted: each probe is told what is wanted when it starts
// and when that changes.
func TestSamplesFollowWhatIsWanted(t *testing.T) {
	s := newSampled(t, "joined sampler")
	s.Silence = time.Minute
	stop, _ := s.start()
	var got []string
	var pid float64
	for _, want := range [][]string{{"GPU-a", "GPU-b"}, {"GPU-c"}, nil, {"GPU-d"}} {
		s.wanted <- want
		uuids, by := s.next()
		got, pid = append(got, uuids), max(pid, by)
	}
	if diff := cmp.Diff([]string{"GPU-a GPU-b", "GPU-c", "", "GPU-d"}, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	p, err := os.FindProcess(int(pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if fifth, again := s.next(); fifth != "GPU-d" || again == pid {
		t.Errorf("the next probe sampled %q, as process %g after %g", fifth, again, pid)
	}
	for i := range 8 { // none of these orders goes to the probe that ended
		want := fmt.Sprintf("GPU-e%d", i)
		s.wanted <- []string{want}
		if got, _ := s.next(); got != want {
			t.Errorf("sampled %q, want %s", got, want)
		}
	}
	stop()
	if n := len(s.samples); n != 0 {
		t.Errorf("%d samples more: a probe was told twice", n)
	}
}

// TestSamplesAreNoHeartbeat: a probe that samples and no longer reads the machine
// is killed like one that hangs.
func TestSamplesAreNoHeartbeat(t *testing.T) {
	s := newSampled(t, "joined samples")
	s.Silence = 400 * time.Millisecond
	begun := time.Now()
	good, heard, err := hearProbe(t, s.Supervisor)
	var end endError
	if !good || !errors.As(err, &end) || end.reason != EndHang {
		t.Errorf("good %t, %v; want a hang", good, err)
	}
	if took := time.Since(begun); took < s.Silence {
		t.Errorf("ended after %s, before %s of silence", took, s.Silence)
	}
	if len(s.samples) == 0 {
		t.Error("no sample was taken")
	}
	if diff := cmp.Diff(map[Kind]int{Reported: 1, Silent: 1}, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// TestBadSamplesAreGarbage: bad samples are refused and end the probe as other
// unusable lines do, also with good samples between them. So do samples that
// nobody wants.
func TestBadSamplesAreGarbage(t *testing.T) {
	for _, name := range []string{"bad", "unwanted"} {
		t.Run(name, func(t *testing.T) {
			s := newSampled(t, "joined bad-samples")
			s.Silence = time.Minute
			if name == "unwanted" {
				s.Samples = nil
			}
			_, heard, err := hearProbe(t, s.Supervisor)
			var end endError
			if !errors.As(err, &end) || end.reason != EndGarbage {
				t.Errorf("%v; want garbage", err)
			}
			if heard[Refused] != maxRefused {
				t.Errorf("%d lines refused, want %d", heard[Refused], maxRefused)
			}
		})
	}
}

// TestDeafProbe: a probe that does not read its orders blocks nothing.
func TestDeafProbe(t *testing.T) {
	s := newSampled(t, "report hang")
	s.Silence = 300 * time.Millisecond
	stop, ends := s.start()
	for i := 0; ends.Load() < 3; i++ {
		select {
		case s.wanted <- strings.Split(gpuList(1000+i%2), ","): // soon more than a pipe holds
		case <-time.After(3 * time.Minute):
			t.Fatal("nobody takes what is wanted")
		}
	}
	stop()
}
