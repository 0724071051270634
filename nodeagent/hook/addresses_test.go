package hook

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// hosts is a name server for tests: names such as n2=10.0.0.2. It notes the names that are asked.
type hosts struct {
	mu    sync.Mutex
	words []string
	asked []string
}

func (h *hosts) lookUp(_ context.Context, name string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, name)
	for _, w := range h.words {
		if address, is := strings.CutPrefix(w, name+"="); is {
			all = append(all, address)
		}
	}
	return all
}

// TestGateAddresses has peers without names: the addresses of the job's nodes tell which peers
// these nodes are. Names are looked up only if that is of use, and once.
func TestGateAddresses(t *testing.T) {
	three := append([]string{"SLURM_JOB_NODELIST=n[1-3]"}, without(wide, "SLURM_JOB_NODELIST")...)
	for _, tt := range []struct {
		name  string
		env   []string
		peers []string
		hosts []string
		word  string
		said  string
		asked string
	}{
		{"the job's node is down", wide, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead", "10.0.0.3=n3:connected"}, []string{"n2=10.0.0.2"}, "fail", `missing=n2 `, "n2"},
		{"two of the job's nodes are down", three, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead", "10.0.0.3=:dead"}, []string{"n2=10.0.0.2", "n3=10.0.0.3"}, "fail", `missing=n2,n3 `, "n2 n3"},
		{"one of two addresses is down", wide, []string{"10.0.0.1=:self", "10.0.0.2=:dead"}, []string{"n2=192.0.2.2", "n2=10.0.0.2"}, "fail", `missing=n2 `, "n2"},
		{"others' node is down", wide, []string{"10.0.0.1=:self", "10.0.0.2=:connected", "10.0.0.3=:dead"}, []string{"n2=10.0.0.2"}, "ready", `^$`, "n2"},
		{"names of another kind", wide, []string{"10.0.0.1=gb-1:self", "10.0.0.2=n3:connected", "10.0.0.3=n2:dead"}, []string{"n2=10.0.0.2"}, "ready", `^$`, "n2"},
		{"a node of another domain", wide, []string{"10.0.0.1=:self", "10.0.0.3=:dead"}, []string{"n1=10.0.0.1", "n2=10.0.1.2"}, "unknown", `connected to n2 is not known`, "n2"},
		{"worker pods with addresses of their own", wide, []string{"10.0.0.1=:self", "10.0.0.2=:dead"}, []string{"n1=192.0.2.1", "n2=192.0.2.2"}, "unknown",
			`reason=PeersUnknown waited=[.0-9]+m?s missing= message="DEGRADED; whether this node is connected to n2 is not known: the names in Slurm are not known of these peers: 10\.0\.0\.2\. What to do: let quoin imex nodes-config --dir write the names beside nodes_config\.cfg; the job goes on"`, "n2"},
		{"worker pods with addresses of their own, and the file of names", three, []string{"10.0.0.1=n1:self", "10.0.0.2=n2:dead", "10.0.0.3=n3:connected"}, []string{"n2=192.0.2.2", "n3=10.0.0.2"}, "fail", `missing=n2 `, ""},
		{"no name server", wide, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead"}, nil, "unknown", `connected to n2 is not known`, "n2"},
		{"names tell", wide, []string{"10.0.0.1=n1:self", "10.0.0.2=n2:connected", "10.0.0.3=n3:dead"}, nil, "ready", `^$`, ""},
		{"all are connected", wide, nil, nil, "ready", `^$`, ""},
		{"a job on one node", []string{"SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "SLURMD_NODENAME=n1"}, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead"}, nil, "", `^$`, ""},
		{"a job without GPUs", wide[1:], []string{"10.0.0.1=n1:self", "10.0.0.2=:dead"}, nil, "", `^$`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.gate(rundir.Gate{Wait: second, Policy: rundir.GateFail}, "")
			p.peers(tt.peers...)
			names := &hosts{words: tt.hosts}
			env := map[string]string{"SLURM_JOB_ID": "7", "SLURM_CONF": configlessConf}
			for _, w := range tt.env {
				name, value, _ := strings.Cut(w, "=")
				env[name] = value
			}
			var said bytes.Buffer
			before := time.Now()
			code := Run(t.Context(), Options{Verb: "prolog", BootID: testBoot, RunDir: rundir.Dir(p.run), MappingDir: p.mapping, Wait: 5 * time.Minute,
				Env: func(name string) string { return env[name] }, Stderr: &said, LookUp: names.lookUp})
			p.logged(tt.word, time.Since(before))
			slices.Sort(names.asked)
			if want := map[bool]int{true: 1}[tt.word == rundir.GateFail]; code != want || !regexp.MustCompile(tt.said).MatchString(said.String()) || strings.Join(names.asked, " ") != tt.asked {
				t.Errorf("exit %d, said %q, asked %q", code, said.String(), names.asked)
			}
		})
	}
}

// TestResolver asks the machine itself, which every machine knows, and for a name that is an option.
func TestResolver(t *testing.T) {
	if all := resolver(t.Context(), "localhost"); !slices.Contains(all, "127.0.0.1") && !slices.Contains(all, "::1") {
		t.Errorf("localhost is %v", all)
	}
	if all := resolver(t.Context(), "::ffff:10.0.0.1"); !slices.Contains(all, "10.0.0.1") {
		t.Errorf("an address in another form is %v", all)
	}
	if all := resolver(t.Context(), "--version"); all != nil {
		t.Errorf("--version is %v: want nothing", all)
	}
}

// TestLookUpIsBounded has a name that gets no answer: the names before it count, after a second in all.
func TestLookUpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		look := func(ctx context.Context, name string) []string {
			if asked = append(asked, name); name == "n2" {
				<-ctx.Done()
				return nil
			}
			return []string{"10.0.0.1"}
		}
		before := time.Now()
		got, want := addressesOf(t.Context(), look, []string{"n1", "n2", "n3"}), gate.Addresses{"n1": {"10.0.0.1"}, "n2": nil}
		if took := time.Since(before); took != lookUpWait || fmt.Sprint(got) != fmt.Sprint(want) || len(asked) != 2 {
			t.Errorf("%v after %s, asked %v, want %v after %s", got, took, asked, want, lookUpWait)
		}
	})
}
