package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// answer is an answer of Slurm's that the room slurmctld reads.
func answer(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answered is what Slurm said in the answers of the names.
func answered(t *testing.T, names ...string) *slurmctld.State {
	t.Helper()
	var state slurmctld.State
	for _, name := range names {
		var err error
		switch text := strings.NewReader(answer(t, name)); name {
		case "nodes":
			state.Nodes, err = slurmctld.ReadNodes(text)
		case "jobs":
			state.Jobs, err = slurmctld.ReadJobs(text)
		case "partitions":
			state.Partitions, err = slurmctld.ReadPartitions(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &state
}

// slurmrestd plays a slurmrestd that has one data parser.
type slurmrestd struct {
	parser string
	// age is how long ago slurmctld was started, and counting when it counts from.
	age, counting int64
	status        int    // of every answer, if not 0
	body          string // with that status
	asked, uris   []string
	tokens        map[string]bool
	answers       map[string]string // by the last part of the path
}

func (s *slurmrestd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked, s.uris = append(s.asked, r.URL.Path), append(s.uris, r.URL.RequestURI())
	s.tokens[r.Header.Get("X-SLURM-USER-TOKEN")] = true
	path, of := strings.CutPrefix(r.URL.Path, "/slurm/"+s.parser+"/")
	const now = 1795472400
	switch {
	case !of:
		http.Error(w, "Unable to find requested URL endpoint.", http.StatusNotFound)
	case s.status != 0:
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	case path == "diag/":
		fmt.Fprintf(w, `{"statistics":{"req_time":{"number":%d},"req_time_start":{"number":%d}}}`, now, s.counting)
	case path == "conf":
		fmt.Fprintf(w, `{"slurm_conf_meta":{"BOOT_TIME":%d}}`, now-s.age)
	case path == "nodes/":
		_, _ = io.WriteString(w, s.answers["nodes"])
	case path == "jobs/":
		_, _ = io.WriteString(w, s.answers["jobs"])
	case path == "partitions/":
		_, _ = io.WriteString(w, s.answers["partitions"])
	case path == "reconfigure/":
		_, _ = io.WriteString(w, `{"errors":[]}`)
	}
}

// serve starts it, and returns its address.
func (s *slurmrestd) serve(t *testing.T) string {
	t.Helper()
	s.tokens, s.answers = map[string]bool{}, map[string]string{}
	for _, name := range []string{"nodes", "jobs", "partitions"} {
		s.answers[name] = answer(t, name)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAsk(t *testing.T) {
	const midnight = 1795392000
	tests := []struct {
		name  string
		serve slurmrestd
		// age is how long ago slurmctld read its files, or negative.
		age  time.Duration
		want []string
	}{
		{"26.05 says when it started", slurmrestd{parser: "v0.0.45", age: 300, counting: 1795472399}, 5 * time.Minute,
			[]string{"/slurm/v0.0.46/diag/", "/slurm/v0.0.45/diag/", "/slurm/v0.0.45/conf", "/slurm/v0.0.45/nodes/"}},
		{"25.11 counts from its start", slurmrestd{parser: "v0.0.44", counting: 1795472340}, time.Minute,
			[]string{"/slurm/v0.0.46/diag/", "/slurm/v0.0.45/diag/", "/slurm/v0.0.44/diag/", "/slurm/v0.0.44/nodes/"}},
		{"25.11 counts from midnight", slurmrestd{parser: "v0.0.44", counting: midnight + 3}, -1, nil},
		{"its clock goes back", slurmrestd{parser: "v0.0.45", age: -5}, -1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest := NewREST(tt.serve.serve(t), tokenFile(t, "SLURM_JWT=abc.def\n"))
			began := time.Now()
			got, err := rest.Ask(t.Context(), Question{Nodes: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answered(t, "nodes").Nodes, got.Nodes); diff != "" || len(got.Topologies) != 0 {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if known := !got.Read.IsZero(); known != (tt.age >= 0) || known && (got.Read.Before(began.Add(-tt.age)) || got.Read.After(time.Now().Add(-tt.age))) {
				t.Errorf("read at %v, want %v ago", got.Read, tt.age)
			}
			if diff := cmp.Diff(tt.want, tt.serve.asked); tt.want != nil && diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]bool{"abc.def": true}, tt.serve.tokens); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
			asked := len(tt.serve.asked)
			if err := rest.Reconfigure(t.Context()); err != nil || tt.serve.asked[asked] != "/slurm/"+tt.serve.parser+"/diag/" || tt.serve.asked[len(tt.serve.asked)-1] != "/slurm/"+tt.serve.parser+"/reconfigure/" {
				t.Errorf("reconfigure: %v, asked %v", err, tt.serve.asked[asked:])
			}
		})
	}
}

// TestAskNextSlurm asks a slurmrestd of Slurm 26.11, which is not released. Its answers are written from its source.
func TestAskNextSlurm(t *testing.T) {
	var asked []string
	const below = "/slurm/v0.0.46/"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		http.ServeFile(w, r, filepath.Join("..", "testdata", "v0.0.46", strings.Trim(strings.TrimPrefix(r.URL.Path, below), "/")+".json"))
	}))
	t.Cleanup(server.Close)
	began := time.Now()
	got, err := NewREST(server.URL, "").Ask(t.Context(), Question{Nodes: true, Jobs: true, Reservations: true, Details: true})
	if err != nil {
		t.Fatal(err)
	}
	if age := began.Sub(got.Read); age < 5*time.Minute-time.Second || age > 5*time.Minute {
		t.Errorf("read %s ago, want 5 minutes by BOOT_TIME", age)
	}
	want := &slurmctld.State{Read: got.Read, Release: slurmconf.Release2605, // no rules of 26.11 are known
		Nodes: map[string]slurmctld.Node{
			"d1": {State: "ALLOCATED+DYNAMIC_NORM", Topology: "nvl:b1", Registered: true, Gres: "gpu:gb200:4(S:0-1)"},
			"d2": {State: "IDLE+DRAIN+BLOCKED", Topology: "nvl:b1", Registered: true, Reason: "links down", Reservation: "m1"}},
		Jobs: []slurmctld.Job{{ID: "8", Array: "6_2", Name: "train", User: "alice", Account: "physics", QOS: "high", Partition: "p", Nodes: "d1", GPUs: []string{"gpu:gb200:4(IDX:0-3)"}, HoldsGPUs: true,
			Start: time.Unix(1795471950, 0), Segment: 1}},
		Partitions:   map[string]string{"p": "nvl"},
		Reservations: []slurmctld.Reservation{{Name: "m1", Nodes: "d2", Start: time.Unix(1795472000, 0), End: time.Unix(1795479600, 0), Users: "root"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{below + "diag/", below + "conf"}, asked[:2]); diff != "" {
		t.Errorf("asked first (-want +got):\n%s", diff)
	}
}

// TestAskForJobs asks slurmrestd for jobs as well as nodes, and for jobs alone.
func TestAskForJobs(t *testing.T) {
	s := &slurmrestd{parser: "v0.0.44", age: 1}
	rest, said := NewREST(s.serve(t), tokenFile(t, "x")), answered(t, "jobs", "partitions")
	got, err := rest.Ask(t.Context(), Question{Nodes: true, Jobs: true})
	if want := "/slurm/v0.0.44/jobs/?flags=ALL"; !slices.Contains(s.uris, want) || slices.Contains(s.uris, "/slurm/v0.0.44/jobs/") {
		t.Errorf("asked %q, want %s", s.uris, want)
	}
	if err != nil || !cmp.Equal(got.Jobs, said.Jobs) || !cmp.Equal(got.Partitions, said.Partitions) || len(got.Nodes) != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = rest.Ask(t.Context(), Question{Jobs: true, Details: true}); err != nil || len(got.Jobs) != 3 || got.Nodes != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if !slices.Contains(s.uris, "/slurm/v0.0.44/jobs/") {
		t.Errorf("asked %q without details", s.uris)
	}
	if got, err = rest.Ask(t.Context(), Question{Nodes: true}); err != nil || got.Jobs != nil || got.Partitions != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAskErrors(t *testing.T) {
	const refused = `{"errors":[{"description":"Failure to query nodes","error_number":1007,"error":"Protocol authentication error"}]}`
	tests := map[string]struct {
		serve slurmrestd
		token string
		want  string
	}{
		"the token is not valid":      {slurmrestd{parser: "v0.0.45", status: 511, body: refused}, "x", "slurmrestd GET /slurm/v0.0.45/diag/: 511 Network Authentication Required: Failure to query nodes: Protocol authentication error; does "},
		"no data parser that we know": {slurmrestd{parser: "v0.0.39"}, "x", "slurmrestd has none of the data parsers v0.0.46, v0.0.45, v0.0.44, v0.0.43: want Slurm 25.05 or newer"},
		"slurmctld is away":           {slurmrestd{parser: "v0.0.44", status: 500, body: "x"}, "x", "slurmrestd GET /slurm/v0.0.44/diag/: 500 Internal Server Error"},
		"it sends the token away":     {slurmrestd{parser: "v0.0.45", status: 302}, "x", "slurmrestd GET /slurm/v0.0.45/diag/: 302 Found"},
		"a token of two lines":        {slurmrestd{parser: "v0.0.45"}, "x\ny", "want one line with a token, as scontrol token prints it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rest := NewREST(tt.serve.serve(t), tokenFile(t, tt.token))
			if _, err := rest.Ask(t.Context(), Question{Nodes: true}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := NewREST("http://127.0.0.1:1", "/nowhere/token").Ask(t.Context(), Question{Nodes: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no token file: %v", err)
	}
}

// TestAskBySocket asks without a token.
func TestAskBySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &slurmrestd{parser: "v0.0.45", age: 1, tokens: map[string]bool{}, answers: map[string]string{"nodes": answer(t, "nodes")}}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(server.Close)
	got, err := NewREST("unix:"+path, "").Ask(t.Context(), Question{Nodes: true})
	if err != nil || len(got.Nodes) != 4 || !s.tokens[""] || len(s.tokens) != 1 {
		t.Errorf("%+v, %v, tokens %v", got, err, s.tokens)
	}
}

// TestScontrol plays scontrol by a script.
func TestScontrol(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "scontrol")
	script := "#!/bin/sh\ncase \"$*\" in\n'--all --json show '*) cat " + dir + "/$4;;\n'show topology nvl') echo BlockName=b1 BlockIndex=0 Nodes=d1 BlockSize=1;;\n" +
		"'show topology gone') echo error >&2;;\n*) echo \"bad $*\" >&2; exit 1;;\nesac\n"
	for name, text := range map[string]string{program: script, dir + "/nodes": answer(t, "nodes"), dir + "/jobs": answer(t, "jobs"), dir + "/partitions": answer(t, "partitions")} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, said := &Scontrol{program}, answered(t, "jobs", "partitions")
	got, err := s.Ask(t.Context(), Question{Topologies: []string{"nvl", "gone"}, Nodes: true})
	want := &slurmctld.State{Nodes: answered(t, "nodes").Nodes, Topologies: []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{1}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("d1")}}}, {Name: "gone", Default: true, Kind: "flat"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Ask(t.Context(), Question{Topologies: []string{"gone"}, Jobs: true}); err != nil || !cmp.Equal(got.Jobs, said.Jobs) || !cmp.Equal(got.Partitions, said.Partitions) || got.Nodes != nil {
		t.Errorf("jobs: %+v, %v", got, err)
	}
	if err := s.Reconfigure(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "scontrol reconfigure: exit status 1: bad reconfigure") {
		t.Errorf("error %v", err)
	}
}

// TestEndless has answers without an end. Each costs little memory, and a hanging scontrol ends
// with its child.
func TestEndless(t *testing.T) {
	dir := t.TempDir()
	repeat := func(first, again string) string {
		return "printf '%s' '" + first + "'; yes '" + again + "' | tr -d '\\n'"
	}
	for name, script := range map[string]string{
		"no JSON":          "exec yes",
		"zeros":            "exec head -c 200000000 /dev/zero",
		"blanks":           repeat("{", " "),
		"a long text":      repeat(`{"nodes":[{"name":"`, "n"),
		"a skipped text":   repeat(`{"meta":{"a":["`, "n"),
		"many nodes":       `awk 'BEGIN { printf "{\"nodes\":["; for (i = 0; ; i++) printf "{\"name\":\"n%d\",\"reason\":\"%0900d\"},", i, i }'`,
		"a deep list":      repeat(`{"meta":`, "["),
		"text on stderr":   "yes >&2",
		"it hangs":         "sleep 1000 & echo $! >" + dir + "/child; wait",
		"nothing after it": "echo '{\"nodes\":[]}'; exec yes",
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "scontrol")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "it hangs" || name == "text on stderr" {
				time.AfterFunc(time.Second, cancel)
			}
			most := watchMemory()
			_, err := (&Scontrol{program}).Ask(ctx, Question{Nodes: true, Topologies: []string{""}})
			if err == nil {
				t.Error("no error")
			}
			more := most() >> 20
			if more > 60 {
				t.Errorf("%d MB more", more)
			}
			t.Logf("%d MB more: %v", more, err)
		})
	}
	child, err := os.ReadFile(dir + "/child")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the child has ended", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// watchMemory returns a function that says how many bytes more were in use at most, until it is
// called. Garbage is collected by Go's default.
func watchMemory() func() int64 {
	percent := debug.SetGCPercent(100)
	used := func() int64 {
		samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(samples)
		return int64(samples[0].Value.Uint64()) //nolint:gosec // small
	}
	runtime.GC()
	before, most := used(), int64(0)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most = max(most, used()-before)
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(end)
		<-ended
		debug.SetGCPercent(percent)
		return most
	}
}
