package live

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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/hosts"
	"github.com/quoin-hpc/quoin/topology"
)

// answer has two nodes as slurmrestd 26.05.5 writes them, shortened.
const answer = `{"nodes":[
 {"architecture":"x86_64","boot_time":{"set":true,"infinite":false,"number":1795387571},"name":"d1","gres":"gpu:gb200:4(S:0-1)","state":["IDLE","DYNAMIC_NORM"],"reason":"","slurmd_start_time":{"set":true,"infinite":false,"number":1795472120},"topology":"nvl:b1,fabric:s1","version":"26.05.5","last_busy":{"set":true,"infinite":false,"number":1795555748},"partitions":["p","q"],"cpus":8,"real_memory":24105},
 {"name":"d2","state":["IDLE","DRAIN","INVALID_REG","DYNAMIC_NORM"],"reason":"Failed to set topology 'nvl:b9'","slurmd_start_time":{"set":true,"infinite":false,"number":1795472120},"topology":""},
 {"name":"n3","state":["UNKNOWN","NOT_RESPONDING"],"slurmd_start_time":{"set":true,"infinite":false,"number":0},"topology":""},
 {"name":"c1","state":["IDLE","CLOUD","POWERED_DOWN"],"slurmd_start_time":{"set":true,"infinite":false,"number":5},"topology":""}
],"last_update":{"set":true,"infinite":false,"number":1795472057},"errors":[],"warnings":[]}`

var answered = map[string]Node{
	"d1": {Topology: "nvl:b1,fabric:s1", Registered: true, State: "IDLE+DYNAMIC_NORM", Gres: "gpu:gb200:4(S:0-1)",
		LastBusy: time.Unix(1795555748, 0), Partitions: "p,q", CPUs: 8, Memory: 24105},
	"d2": {Registered: true, Invalid: true, Reason: "Failed to set topology 'nvl:b9'", State: "IDLE+DRAIN+INVALID_REG+DYNAMIC_NORM"},
	"n3": {State: "UNKNOWN+NOT_RESPONDING"},
	"c1": {Registered: true, Off: true, State: "IDLE+CLOUD+POWERED_DOWN"},
}

func TestReadNodes(t *testing.T) {
	got, err := ReadNodes(strings.NewReader(answer))
	if diff := cmp.Diff(answered, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for text, want := range map[string]string{
		``:                      "EOF",
		`[]`:                    "[ where { should be",
		`{"errors":[]}`:         "no list of nodes",
		`{"nodes":{}}`:          "{ where [ should be",
		`{"nodes":[{"name":1}]`: "read node 1:",
		`{"nodes":[{"name":"a"`: "read node 1:",
		`{"meta":{"nodes":[]}}`: "no list of nodes",
	} {
		if _, err := ReadNodes(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzReadNodes(f *testing.F) {
	for _, text := range []string{answer, `{"nodes":[]}`, `{"meta":[1,{"a":null}],"nodes":[{"name":"a","state":null,"topology":null}]}`, `{"nodes":[{"state":"IDLE"}]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		nodes, err := ReadNodes(strings.NewReader(text))
		if nodes == nil && err == nil {
			t.Fatal("neither nodes nor an error")
		}
		for name, n := range nodes {
			if len(name) > 512 || len(n.Topology) > 2048 || len(n.Reason) > 2048 {
				t.Fatalf("a text of node %.20q is not bounded", name)
			}
			if spec := Refused(n.Reason); spec != "" && !strings.Contains(n.Reason, spec) {
				t.Fatalf("%q is not in the reason %q", spec, n.Reason)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for reason, want := range map[string]string{
		"Failed to set topology 'nvl:b9'":                                            "nvl:b9",
		"slurm-operator: Failed to set topology 'nvl:b9,fabric:x' [root@2026-11-23]": "nvl:b9,fabric:x",
		"Failed to set topology 'nvl:b9":                                             "",
		"gres/gpu count reported lower than configured (0 < 4)":                      "",
		"": "",
	} {
		if got := Refused(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
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
		_, _ = io.WriteString(w, answer)
	case path == "jobs/":
		_, _ = io.WriteString(w, jobs)
	case path == "partitions/":
		_, _ = io.WriteString(w, partitions)
	case path == "reconfigure/":
		_, _ = io.WriteString(w, `{"errors":[]}`)
	}
}

// serve starts it, and returns its address.
func (s *slurmrestd) serve(t *testing.T) string {
	t.Helper()
	s.tokens = map[string]bool{}
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
			[]string{"/slurm/v0.0.45/diag/", "/slurm/v0.0.45/conf", "/slurm/v0.0.45/nodes/"}},
		{"25.11 counts from its start", slurmrestd{parser: "v0.0.44", counting: 1795472340}, time.Minute,
			[]string{"/slurm/v0.0.45/diag/", "/slurm/v0.0.44/diag/", "/slurm/v0.0.44/nodes/"}},
		{"25.11 counts from midnight", slurmrestd{parser: "v0.0.44", counting: midnight + 3}, -1, nil},
		{"its clock goes back", slurmrestd{parser: "v0.0.45", age: -5}, -1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest := NewREST(tt.serve.serve(t), tokenFile(t, "SLURM_JWT=abc.def\n"))
			began := time.Now()
			got, err := rest.Ask(t.Context(), Question{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answered, got.Nodes); diff != "" || len(got.Topologies) != 0 {
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

func TestAskErrors(t *testing.T) {
	const refused = `{"errors":[{"description":"Failure to query nodes","error_number":1007,"error":"Protocol authentication error"}]}`
	tests := map[string]struct {
		serve slurmrestd
		token string
		want  string
	}{
		"the token is not valid":      {slurmrestd{parser: "v0.0.45", status: 511, body: refused}, "x", "slurmrestd GET /slurm/v0.0.45/diag/: 511 Network Authentication Required: Failure to query nodes: Protocol authentication error; does "},
		"no data parser that we know": {slurmrestd{parser: "v0.0.39"}, "x", "slurmrestd has none of the data parsers v0.0.45, v0.0.44, v0.0.43: want Slurm 25.05 or newer"},
		"slurmctld is away":           {slurmrestd{parser: "v0.0.44", status: 500, body: "x"}, "x", "slurmrestd GET /slurm/v0.0.44/diag/: 500 Internal Server Error"},
		"it sends the token away":     {slurmrestd{parser: "v0.0.45", status: 302}, "x", "slurmrestd GET /slurm/v0.0.45/diag/: 302 Found"},
		"a token of two lines":        {slurmrestd{parser: "v0.0.45"}, "x\ny", "want one line with a token, as scontrol token prints it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rest := NewREST(tt.serve.serve(t), tokenFile(t, tt.token))
			if _, err := rest.Ask(t.Context(), Question{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := NewREST("http://127.0.0.1:1", "/nowhere/token").Ask(t.Context(), Question{}); !errors.Is(err, os.ErrNotExist) {
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
	s := &slurmrestd{parser: "v0.0.45", age: 1, tokens: map[string]bool{}}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	server.Start()
	t.Cleanup(server.Close)
	got, err := NewREST("unix:"+path, "").Ask(t.Context(), Question{})
	if err != nil || len(got.Nodes) != 4 || !s.tokens[""] || len(s.tokens) != 1 {
		t.Errorf("%+v, %v, tokens %v", got, err, s.tokens)
	}
}

// TestScontrol plays scontrol by a script.
func TestScontrol(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "scontrol")
	script := "#!/bin/sh\ncase \"$*\" in\n'--json show '*) cat " + dir + "/$3;;\n'show topology nvl') echo BlockName=b1 BlockIndex=0 Nodes=d1 BlockSize=1;;\n" +
		"'show topology gone') echo error >&2;;\n*) echo \"bad $*\" >&2; exit 1;;\nesac\n"
	for name, text := range map[string]string{program: script, dir + "/nodes": answer, dir + "/jobs": jobs, dir + "/partitions": partitions} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s := &Scontrol{program}
	got, err := s.Ask(t.Context(), Question{Topologies: []string{"nvl", "gone"}})
	want := &State{Nodes: answered, Topologies: []topology.Topology{
		{Name: "nvl", Default: true, Kind: "block", Sizes: []int{1}, Blocks: []topology.Block{{Name: "b1", Nodes: hosts.In("d1")}}}, {Name: "gone", Default: true, Kind: "flat"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Ask(t.Context(), Question{Topologies: []string{"gone"}, Jobs: true, Brief: true}); err != nil || !cmp.Equal(got.Jobs, readJobs) || !cmp.Equal(got.Partitions, readPartitions) || got.Nodes != nil {
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
			_, err := (&Scontrol{program}).Ask(ctx, Question{Nodes: 1 << 17})
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
