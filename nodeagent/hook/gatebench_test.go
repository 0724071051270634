package hook

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/topology"
)

// benchGate has a node with a ready clique of 18, and peers of the host's own service.
func benchGate(b *testing.B, run, mapping string, peers ...topology.IMEXPeer) {
	b.Helper()
	g := gate.State{Node: "n1", BootID: testBoot, Clique: "c.1", Ready: true, Reason: "Ready", Peers: peers}
	for range 18 {
		g.Members = append(g.Members, gate.Member{Node: "some-node-of-the-rack.example.org", Ready: true})
	}
	if err := gate.Write(run, g); err != nil {
		b.Fatal(err)
	}
	if err := rundir.Dir(run).WriteHookConfig(rundir.HookConfig{MappingDir: mapping, Gate: &rundir.Gate{Policy: rundir.GateFail}}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkGate measures what the gate adds to a Prolog: ns/op is all of it.
func BenchmarkGate(b *testing.B) {
	var peers []topology.IMEXPeer // n18 is down, and it is no node of the job
	for i := range 18 {
		peers = append(peers, topology.IMEXPeer{Address: fmt.Sprintf("10.0.0.%d", i+1), Name: fmt.Sprintf("n%d", i+1), State: topology.PeerConnected})
	}
	peers[0].State, peers[17].State = topology.PeerSelf, topology.PeerDead
	for _, job := range []struct {
		name, nodes, word string
		peers             []topology.IMEXPeer
	}{{"single", "1", "", nil}, {"ready", "16", rundir.GateReady, nil}, {"peer", "16", rundir.GateReady, peers}} {
		b.Run(job.name, func(b *testing.B) {
			run := memoryDir(b)
			benchGate(b, run, b.TempDir(), job.peers...)
			env := map[string]string{"SLURM_JOB_NUM_NODES": job.nodes, "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n[1-16]", "SLURM_JOB_GPUS": "0"}
			h := &hook{env: func(key string) string { return env[key] }, stderr: io.Discard, runDir: rundir.Dir(run), start: time.Now(), call: rundir.Call{Hook: "prolog", Job: "7"}}
			h.loadConfig("")
			b.ReportAllocs()
			for b.Loop() {
				if code := h.passGate(b.Context()); code != 0 {
					b.Fatal(code)
				}
			}
			if h.call.Gate != job.word {
				b.Fatalf("came through as %q, want %q", h.call.Gate, job.word)
			}
		})
	}
}
