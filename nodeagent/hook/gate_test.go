package hook

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// wide is the environment of a job on two nodes.
var wide = []string{"SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n1"}

// slinky is the environment of one whose Slurm names are not those of Kubernetes.
var slinky = []string{"SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST=w-[0-1]", "SLURMD_NODENAME=w-0"}

// gate has the site want a gate.
func (p *place) gate(g rundir.Gate, scontrol string) {
	p.t.Helper()
	p.inventory("0", "1")
	if err := rundir.Dir(p.run).WriteHookConfig(rundir.HookConfig{MappingDir: p.mapping, Gate: &g, Scontrol: scontrol}); err != nil {
		p.t.Fatal(err)
	}
}

// agent writes a gate as the agent of node n1.
func (p *place) agent(ready bool, members ...gate.Member) {
	g := gate.State{Node: "n1.example.org", BootID: testBoot, Clique: "c.1", Ready: ready, Reason: "EntryNotReady", Message: "its entry is not ready", Members: members}
	if err := gate.Write(p.run, g); err != nil {
		p.t.Error(err)
	}
}

// peers writes a gate that is open, with peers such as 10.0.0.2=n2:dead.
func (p *place) peers(words ...string) {
	p.service(gate.State{Ready: true, Reason: "Ready", Message: "DEGRADED"}, words)
}

// waits writes a gate that is shut, with peers.
func (p *place) waits(words ...string) {
	p.service(gate.State{Reason: "NotReady", Message: "WAITING_FOR_PEERS"}, words)
}

func (p *place) service(g gate.State, peers []string) {
	g.Node, g.BootID, g.Clique = "n1", testBoot, "c.1"
	for _, w := range peers {
		address, rest, _ := strings.Cut(w, "=")
		name, state, _ := strings.Cut(rest, ":")
		g.Peers = append(g.Peers, topology.IMEXPeer{Address: address, Name: name, State: state})
	}
	if err := gate.Write(p.run, g); err != nil {
		p.t.Error(err)
	}
}

func (p *place) both(ready bool) {
	p.agent(ready, gate.Member{Node: "n1", Ready: ready}, gate.Member{Node: "n2", Ready: true}, gate.Member{Node: "n3"})
}

// age makes the gate older.
func (p *place) age(by time.Duration) {
	at := time.Now().Add(-by)
	if err := os.Chtimes(filepath.Join(p.run, gate.FileName), at, at); err != nil {
		p.t.Error(err)
	}
}

// pass calls a Prolog and checks what every one does: the label is written, and
// the call is logged with a word for the gate.
func (p *place) pass(word string, env []string) (code int, said string, took time.Duration) {
	p.t.Helper()
	vars := map[string]string{"SLURM_JOB_ID": "7"}
	for _, w := range env {
		name, value, _ := strings.Cut(w, "=")
		vars[name] = value
	}
	before := time.Now()
	code, said = call(p.t, vars, "prolog", "--run-dir", p.run, "--mapping-dir", p.mapping, "--wait", patience)
	took = time.Since(before)
	if vars["SLURM_JOB_GPUS"] != "" {
		p.check("after the gate", map[string]string{"0": "7\n"})
	}
	p.logged(word, took)
	return code, said, took
}

// logged checks the call's line in the log.
func (p *place) logged(word string, took time.Duration) {
	p.t.Helper()
	var calls []rundir.Call
	for range 2 {
		some, err := rundir.Dir(p.run).TakeCalls()
		if err != nil {
			p.t.Error(err)
		}
		calls = append(calls, some...)
	}
	if len(calls) != 1 || calls[0].Gate != word || (calls[0].GateNs > 0) != (word != "") || calls[0].Ns <= 0 || calls[0].Ns+calls[0].GateNs > int64(took) {
		p.t.Errorf("logged %+v after %s, want the word %q", calls, took, word)
	}
}

// without leaves a variable out of an environment.
func without(env []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(w string) bool { return strings.HasPrefix(w, name+"=") })
}

const second = rundir.Duration(time.Second)

// patience is the wait of a call whose work must not be given up on a busy machine.
const patience = "5m"

// TestGate has a job across nodes come to gates of every kind.
func TestGate(t *testing.T) {
	fails := rundir.Gate{Wait: second, Policy: rundir.GateFail}
	atOnce := rundir.Gate{Wait: 600 * second, Policy: rundir.GateFail} // the first look is enough
	for _, tt := range []struct {
		name string
		gate *rundir.Gate
		env  []string
		node func(p *place)
		word string
		said string // a regular expression
	}{
		{"ready", &atOnce, wide, func(p *place) { p.both(true) }, "ready", `^$`},
		{"no gate is wanted", nil, wide, func(p *place) { p.both(false) }, "", `^$`},
		{"one node", &atOnce, []string{"SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=1"}, func(*place) {}, "", `^$`},
		{"nodes are not said", &atOnce, []string{"SLURM_JOB_GPUS=0"}, func(*place) {}, "", `^$`},
		{"no NVLink across nodes", &atOnce, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1"}); err != nil {
				p.t.Error(err)
			}
		}, "", `^$`},
		{"a node of the job is not connected", &fails, wide, func(p *place) { p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:dead", "10.0.0.3=n3:dead") }, "fail",
			`reason=PeersNotConnected waited=[1-9][.0-9]*s missing=n2 message="DEGRADED; the job is refused"`},
		{"one without a name, and the file of names is there", &fails, wide, func(p *place) { p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:dead", "10.0.0.3=:connected") }, "fail", `missing=n2 `},
		{"whether one is connected is not said", &atOnce, wide, func(p *place) { p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:unknown") }, "unknown",
			`^quoin-hook: gate job=7 node=n1 reason=PeersUnknown waited=[.0-9]+m?s missing= message="DEGRADED; whether this node is connected to n2 is not known: nvidia-imex-ctl -N does not say it; the job goes on"\n$`},
		{"one node of the job is no peer by name, and a peer without a name is not connected", &atOnce, append([]string{"SLURM_JOB_NODELIST=n[1-3]"}, without(wide, "SLURM_JOB_NODELIST")...), func(p *place) {
			p.peers("10.0.0.1=n1:self", "10.0.0.3=n3:connected", "10.0.0.9=:dead")
		}, "unknown", `connected to n2 is not known: the names in Slurm are not known of these peers: 10\.0\.0\.9\. What to do: `},
		{"its own service waits, and the job has another peer", &fails, wide, func(p *place) { p.waits("10.0.0.1=n1:self", "10.0.0.2=n2:unknown") }, "fail",
			`reason=NotReady waited=[1-9][.0-9]*s missing=n1 message="WAITING_FOR_PEERS; the job is refused"`},
		{"its own service waits, and the job has no other peer", &fails, wide, func(p *place) { p.waits("10.0.0.1=n1:self", "10.0.0.3=n3:unknown") }, "warn",
			`reason=NotReady .* message="WAITING_FOR_PEERS; whether another node of the job is in its clique is not known, so the job goes on"`},
		{"nothing is known of the peers", &atOnce, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1", BootID: testBoot, Clique: "c.1", Ready: true, Reason: "Ready", PeersUnknown: "nobody answers"}); err != nil {
				p.t.Error(err)
			}
		}, "unknown", `message="whether this node is connected to n2 is not known: nobody answers; the job goes on"`},
		{"a component, and a peer that is not connected", &atOnce, append([]string{"SLURM_HET_JOB_ID=6"}, wide...), func(p *place) {
			p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:connected", "10.0.0.3=n3:dead")
		}, "unknown", `connected to the nodes of the job's other components is not known: it has no connection to n3 \(10\.0\.0\.3\); the job goes on`},
		{"a component, and all peers are connected", &atOnce, append([]string{"SLURM_HET_JOB_ID=6"}, wide...), func(p *place) { p.peers() }, "ready", `^$`},
		{"the job's nodes cannot be read", &atOnce, append([]string{"SLURM_JOB_NODELIST=n[1-2"}, without(wide, "SLURM_JOB_NODELIST")...), func(p *place) {
			p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:dead")
		}, "unknown", `whether this node is connected to n\[1-2 is not known`},
		{"nobody knows", &fails, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1", BootID: testBoot, Reason: "Unknown", Message: "not read since noon"}); err != nil {
				p.t.Error(err)
			}
		}, "stale", `not read since noon; the job goes on`},
		{"only others do not", &atOnce, wide, func(p *place) {
			p.peers("10.0.0.1=n1:self", "10.0.0.2=n2:connected", "10.0.0.3=n3:dead", "10.0.0.4=n4:unknown")
		}, "ready", `^$`},
		{"a component, alone in its clique", &fails, append([]string{"SLURM_HET_JOB_ID=6"}, wide...), func(p *place) { p.agent(false, gate.Member{Node: "n1"}) }, "warn", `is not known, so the job goes on`},
		{"alone in its clique", &fails, wide, func(p *place) { p.agent(false, gate.Member{Node: "n1"}, gate.Member{Node: "n3"}) }, "alone", `^$`},
		{"a neighbour has joined", &fails, wide, func(p *place) { p.agent(false, gate.Member{Node: "n2"}) }, "fail", `missing=n1,n2 message=.*; the job is refused`},
		{"a component, and its neighbours are not known", &fails, append([]string{"SLURM_HET_JOB_ID=6"}, wide...), func(p *place) { p.agent(false) }, "warn", `is not known, so the job goes on`},
		{"its neighbours are not known", &fails, wide, func(p *place) { p.agent(false) }, "warn",
			`missing=n1 message="its entry is not ready; whether another node of the job is in its clique is not known, so the job goes on"`},
		{"no file", &atOnce, wide, func(*place) {}, "stale", `job 7: gate: read gate: open .*/gate.json: no such file or directory: is the agent on this node\?; the job goes on without waiting for IMEX\n$`},
		{"stale", &atOnce, wide, func(p *place) { p.both(false); p.age(2 * gate.Stale) }, "stale", `gate: gate.json was last written at 20.*: is the agent alive\?; the job goes on`},
		{"stale, and no NVLink across nodes", &atOnce, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1", Reason: imex.ReasonNoMultiNodeNVLink}); err != nil {
				p.t.Error(err)
			}
			p.age(2 * gate.Stale)
		}, "", `^$`},
		{"of the future", &atOnce, wide, func(p *place) { p.both(false); p.age(-2 * gate.Stale) }, "stale", `is the agent alive`},
		{"of another boot", &atOnce, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1", BootID: "another", Clique: "c.1"}); err != nil {
				p.t.Error(err)
			}
		}, "stale", `gate: gate.json is of another boot; the job goes on`},
		{"broken", &atOnce, wide, func(p *place) {
			if err := os.WriteFile(filepath.Join(p.run, gate.FileName), []byte("{"), 0o600); err != nil {
				p.t.Error(err)
			}
		}, "stale", `gate.json: unexpected end of JSON input; the agent replaces it; the job goes on`},
		{"a named pipe", &atOnce, wide, func(p *place) {
			if err := unix.Mkfifo(filepath.Join(p.run, gate.FileName), 0o644); err != nil {
				p.t.Error(err)
			}
		}, "stale", `want a regular file; the agent replaces it; the job goes on`},
		{"never, warn", &rundir.Gate{Wait: second}, wide, func(p *place) { p.both(false) }, "warn",
			`^quoin-hook: gate job=7 node=n1 reason=EntryNotReady waited=[1-9][.0-9]*s missing=n1 message="its entry is not ready; the job goes on"\n$`},
		{"never, fail", &fails, wide, func(p *place) {
			p.agent(false, gate.Member{Node: "n1"}, gate.Member{Node: "n2"})
		}, "fail", `^quoin-hook: gate job=7 node=n1 reason=EntryNotReady waited=[1-9][.0-9]*s missing=n1,n2 message="its entry is not ready; the job is refused"\n$`},
		{"a component", &fails, append([]string{"SLURM_HET_JOB_ID=6"}, wide...), func(p *place) {
			p.agent(false, gate.Member{Node: "n1"}, gate.Member{Node: "n2"})
		}, "fail", `missing=n1,n2 message=.*; the job is refused`},
		{"a component of one node", &fails, []string{"SLURM_HET_JOB_ID=6", "SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_NODELIST=n1", "SLURMD_NODENAME=n1"}, func(p *place) {
			p.agent(false, gate.Member{Node: "n1"})
		}, "warn", `missing=n1 message=.*; the job goes on`},
		{"other names in Slurm", &fails, slinky, func(p *place) { p.both(false) },
			"warn", `missing= message="its entry is not ready; whether .* is not known, so the job goes on"`},
		{"a job without GPUs", &atOnce, wide[1:], func(p *place) { p.both(false) }, "", `^$`},
		{"a message of many lines", &fails, wide, func(p *place) {
			if err := gate.Write(p.run, gate.State{Node: "n1", Clique: "c.1", Reason: "EntryNotReady", Message: "a \"b\"\n" + strings.Repeat("x", 9999), Members: []gate.Member{{Node: "n2", Ready: true}}}); err != nil {
				p.t.Error(err)
			}
		}, "fail", `^quoin-hook: gate job=7 node=n1 reason=EntryNotReady waited=[1-9][.0-9]*s missing=n1 message="a \\"b\\"\\nx{490,500}\.\.\.; the job is refused"\n$`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.inventory("0", "1")
			if tt.gate != nil {
				p.gate(*tt.gate, "")
			}
			tt.node(p)
			code, said, _ := p.pass(tt.word, append([]string{"SLURM_CONF=" + p.conf}, tt.env...))
			if want := map[bool]int{true: 1}[tt.word == rundir.GateFail]; code != want || !regexp.MustCompile(tt.said).MatchString(said) {
				t.Errorf("exit %d, said %q, want %d and %s", code, said, want, tt.said)
			}
			if said := p.hook("epilog", "7", tt.env...); said != "" {
				t.Errorf("the Epilog, which has no gate, said %q", said)
			}
		})
	}
}

// TestGateChanges has something happen while a Prolog waits, which has written
// its label by then.
func TestGateChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(p *place, looked func())
		word   string
		said   string
	}{
		{"opens", func(p *place, _ func()) { p.both(true) }, "waited", "^$"},
		{"is confirmed and opens", func(p *place, looked func()) { p.both(false); looked(); p.both(true) }, "waited", "^$"},
		{"nobody confirms it", func(p *place, _ func()) { p.age(2 * gate.Stale) }, "stale", "is the agent alive"},
		{"goes away", func(p *place, _ func()) { _ = os.Remove(filepath.Join(p.run, gate.FileName)) }, "stale", "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.gate(rundir.Gate{Wait: 60 * second, Policy: rundir.GateFail}, "")
			p.both(false)
			opened := p.opens(gate.FileName)
			looked := func() { waitOpened(t, opened) }
			happened := make(chan time.Time)
			go func() {
				looked()
				looked() // so the first look has found it shut
				at := time.Now()
				tt.happen(p, looked)
				happened <- at
			}()
			code, said, _ := p.pass(tt.word, wide)
			ended := time.Now()
			if at := <-happened; code != 0 || ended.Before(at) || !regexp.MustCompile(tt.said).MatchString(said) {
				t.Errorf("exit %d, said %q", code, said)
			}
		})
	}
}
