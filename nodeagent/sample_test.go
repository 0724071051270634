package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

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

// joinedLine is a reading that one more confirms.
const joinedLine = `{"apiVersion":"quoin.dev/v1alpha1","kind":"NodeReport","node":"n1","bootID":"b",` +
	`"gpus":[{"index":0,"uuid":"GPU-a","minor":0,"fabric":{"clusterUUID":"8a61c302-0000-4000-8000-000000000001","cliqueID":1,"state":"completed"}}]}`

// sampleProbe is a probe that says a report, and then each second part of what
// how says.
func sampleProbe(how string) {
	fmt.Println(joinedLine)
	switch how {
	case "told": // a sample of what it is told, with its process' id for power
		ReadSamplings(os.Stdin, func(s Sampling) {
			var devices []topology.DeviceUse
			for _, uuid := range s.Devices {
				watts := float64(os.Getpid())
				devices = append(devices, topology.DeviceUse{UUID: uuid, Power: &watts})
			}
			line, err := topology.EncodeSample(topology.Sample{Devices: devices})
			if err != nil {
				panic(err)
			}
			fmt.Printf("%s\n", line)
		}, func(err error) { panic(err) })
	case "only": // samples and never a reading
		for {
			fmt.Println(`{"kind":"Sample","devices":[{"uuid":"GPU-a"}]}`)
			time.Sleep(20 * time.Millisecond)
		}
	case "bad": // as many as end a child, with good ones between that do not count
		for range maxRefused {
			fmt.Println(`{"kind":"Sample","devices":[{"uuid":"nonsense"}]}`)
			fmt.Println(`{"kind":"Sample","devices":[]}`)
		}
		select {}
	}
}

// fakeSampled wants what it is set to.
type fakeSampled struct {
	mu      sync.Mutex
	wanted  []string
	changed chan struct{}
	taken   chan topology.Sample
}

func newFakeSampled(wanted ...string) *fakeSampled {
	return &fakeSampled{wanted: wanted, changed: make(chan struct{}, 1), taken: make(chan topology.Sample, 1000)}
}

func (f *fakeSampled) Wanted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}

func (f *fakeSampled) Changed() <-chan struct{} { return f.changed }

func (f *fakeSampled) Take(s topology.Sample) {
	select {
	case f.taken <- s:
	default:
	}
}

func (f *fakeSampled) want(uuids ...string) {
	f.mu.Lock()
	f.wanted = uuids
	f.mu.Unlock()
	notify(f.changed)
}

// next returns the UUIDs of the next sample, and the id of the process that took it.
func (f *fakeSampled) next(t *testing.T) (uuids string, pid float64) {
	t.Helper()
	select {
	case s := <-f.taken:
		var names []string
		for _, d := range s.Devices {
			names, pid = append(names, d.UUID), *d.Power
		}
		return strings.Join(names, " "), pid
	case <-time.After(3 * time.Minute):
		t.Fatal("no sample")
		return "", 0
	}
}

// sampledAgent runs an agent with a probe of this kind until the test ends.
func sampledAgent(t *testing.T, how string, sampled Sampled) (*Agent, *prometheus.Registry) {
	t.Helper()
	t.Setenv("FAKE_PROBE", how)
	reg := prometheus.NewRegistry()
	a := newAgent(t, &memory{})
	a.metrics, a.config.Sampled, a.config.Pause = NewMetrics(reg), sampled, 10*time.Millisecond
	return a, reg
}

func runAgent(t *testing.T, a *Agent) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = a.Run(ctx); close(done) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// TestSamplesFollowWhatIsWanted: each probe is told what is wanted when it starts
// and when it changes; one that ends is followed by one that is told anew.
func TestSamplesFollowWhatIsWanted(t *testing.T) {
	sampled := newFakeSampled("GPU-a", "GPU-b")
	a, _ := sampledAgent(t, "told", sampled)
	a.config.Silence = time.Minute
	stop := runAgent(t, a)
	first, pid := sampled.next(t)
	sampled.want("GPU-c")
	second, _ := sampled.next(t)
	sampled.want()
	third, _ := sampled.next(t)
	sampled.want("GPU-d")
	fourth, _ := sampled.next(t)
	if diff := cmp.Diff([]string{"GPU-a GPU-b", "GPU-c", "", "GPU-d"}, []string{first, second, third, fourth}); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	p, err := os.FindProcess(int(pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if fifth, again := sampled.next(t); fifth != "GPU-d" || again == pid {
		t.Errorf("the next probe sampled %q, as process %g after %g", fifth, again, pid)
	}
	for i := range 8 { // the probe that ended takes no word of it
		want := fmt.Sprintf("GPU-e%d", i)
		sampled.want(want)
		if got, _ := sampled.next(t); got != want {
			t.Errorf("sampled %q, want %s", got, want)
		}
	}
	stop()
	if n := len(sampled.taken); n != 0 {
		t.Errorf("%d samples more: a probe was told twice", n)
	}
}

// TestSamplesAreNoSignOfLife: a probe that samples and no longer reads is one that
// hangs.
func TestSamplesAreNoSignOfLife(t *testing.T) {
	sampled := newFakeSampled("GPU-a")
	a, reg := sampledAgent(t, "only", sampled)
	a.config.Silence = 400 * time.Millisecond
	begun := time.Now()
	good, err := a.runProbe(t.Context())
	var end childEnd
	if !good || !errors.As(err, &end) || end.reason != endHang {
		t.Errorf("good %t, %v; want a hang", good, err)
	}
	if took := time.Since(begun); took < a.config.Silence {
		t.Errorf("ended after %s, before %s of silence", took, a.config.Silence)
	}
	if len(sampled.taken) == 0 {
		t.Error("no sample was taken")
	}
	none := map[string]float64{"quoin_agent_probe_lines_refused_total": 0}
	if diff := cmp.Diff(none, gathered(t, reg, none)); diff != "" {
		t.Errorf("lines refused (-want +got):\n%s", diff)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.facts.domain; d.boot != "b" || !d.domain.IsZero() {
		t.Errorf("samples count as readings: %+v", d)
	}
}

// TestBadSamplesAreGarbage: they are counted and end the probe as other lines of
// no use do, whatever good samples come between; and so are samples that nobody
// wants.
func TestBadSamplesAreGarbage(t *testing.T) {
	for name, sampled := range map[string]Sampled{"bad": newFakeSampled("GPU-a"), "unwanted": nil} {
		t.Run(name, func(t *testing.T) {
			a, reg := sampledAgent(t, "bad", sampled)
			a.config.Silence = time.Minute
			_, err := a.runProbe(t.Context())
			var end childEnd
			if !errors.As(err, &end) || end.reason != endGarbage {
				t.Errorf("%v; want garbage", err)
			}
			want := map[string]float64{"quoin_agent_probe_lines_refused_total": maxRefused}
			if diff := cmp.Diff(want, gathered(t, reg, want)); diff != "" {
				t.Errorf("lines refused (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDeafProbe: a probe that does not read what it is told keeps the agent from
// nothing.
func TestDeafProbe(t *testing.T) {
	sampled := newFakeSampled()
	a, reg := sampledAgent(t, "report hang", sampled)
	a.config.Silence = 300 * time.Millisecond
	stop := runAgent(t, a)
	end := time.Now().Add(3 * time.Minute)
	restarts := `quoin_agent_probe_restarts_total{reason="hang"}`
	for i := 0; gathered(t, reg, map[string]float64{restarts: 0})[restarts] < 3; i++ {
		if time.Now().After(end) {
			t.Fatal("the probe was not started again")
		}
		sampled.want(strings.Split(gpuList(1000+i%2), ",")...) // more than a pipe holds, soon
		time.Sleep(5 * time.Millisecond)
	}
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the agent took %s to end", took)
	}
}
