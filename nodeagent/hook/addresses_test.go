package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
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

func (h *hosts) lookUp(_ context.Context, name string) (all []netip.Addr, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, name)
	for _, w := range h.words {
		if address, is := strings.CutPrefix(w, name+"="); is {
			all = append(all, netip.MustParseAddr(address))
		}
	}
	if all == nil {
		err = errors.New("no such host")
	}
	return all, err
}

// TestGateAddresses has peers without names: the addresses of the job's nodes tell which of
// these they are. Names are looked up only if that is of use, and once.
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
		{"the job's node is down", wide, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead", "10.0.0.3=n3:connected"}, []string{"n2=10.0.0.2"}, "fail", `missing=n2 `, "n1 n2"},
		{"two of the job's nodes are down", three, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead", "10.0.0.3=:dead"}, []string{"n2=10.0.0.2", "n3=10.0.0.3"}, "fail", `missing=n2,n3 `, "n1 n2 n3"},
		{"others' node is down", wide, []string{"10.0.0.1=:self", "10.0.0.2=:connected", "10.0.0.3=:dead"}, []string{"n2=10.0.0.2"}, "ready", `^$`, "n1 n2"},
		{"a node of another domain", wide, []string{"10.0.0.1=:self", "10.0.0.3=:dead"}, []string{"n1=10.0.0.1", "n2=10.0.1.2"}, "ready", `^$`, "n1 n2"},
		{"another network", wide, []string{"10.0.0.1=:self", "10.0.0.2=:dead"}, []string{"n1=192.0.2.1", "n2=192.0.2.2"}, "unknown",
			`reason=PeersUnknown waited=[.0-9]+m?s missing= message="DEGRADED; whether this node is connected to n2 is not known: the names in Slurm are not known of these peers: 10\.0\.0\.2\. What to do: let quoin imex nodes-config --dir write the names beside nodes_config\.cfg; the job goes on"`, "n1 n2"},
		{"loopback", wide, []string{"10.0.0.1=:self", "10.0.0.2=:dead"}, []string{"n1=127.0.1.1", "n2=127.0.0.1"}, "unknown", `connected to n2 is not known`, "n1 n2"},
		{"no name server", wide, []string{"10.0.0.1=n1:self", "10.0.0.2=:dead"}, nil, "unknown", `connected to n2 is not known`, "n1 n2"},
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
	if all, err := resolver(t.Context(), "localhost"); err != nil || !slices.Contains(all, netip.MustParseAddr("127.0.0.1")) && !slices.Contains(all, netip.IPv6Loopback()) {
		t.Errorf("localhost is %v, %v", all, err)
	}
	if all, err := resolver(t.Context(), "--version"); err == nil || len(all) > 0 {
		t.Errorf("--version is %v, %v: want an error", all, err)
	}
}

// TestLookUpIsBounded has names of which many never get an answer: the others count, after a
// second in all.
func TestLookUpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range maxLookUps + 9 {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		release := make(chan bool)
		asked := make(chan string, len(names))
		look := lookUp(func(_ context.Context, name string) ([]netip.Addr, error) {
			asked <- name
			if name != "n0" && name != "n1" {
				<-release // whatever the context says
			}
			return []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1%eth0")}, nil
		})
		before := time.Now()
		got := look.addressesOf(t.Context(), names)
		want := gate.Addresses{"n0": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")}}
		want["n1"] = want["n0"]
		if took := time.Since(before); took != lookUpWait || fmt.Sprint(got) != fmt.Sprint(want) || len(asked) != maxLookUps {
			t.Errorf("%v of %d after %s, want %v of %d after %s", got, len(asked), took, want, maxLookUps, lookUpWait)
		}
		close(release)
	})
}
