//go:build cgo

package node_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/topology"
)

// domainOf is what nvidia-imex-ctl -N -j prints of 10.0.0.1, READY, with a connection to each of
// the others. A node that is not connected gives no answer, and none does if mute: its own
// connections are made up. A state that is empty is not said.
func domainOf(mute bool, states ...string) string {
	host := func(i int) string { return fmt.Sprintf("10.0.0.%d", i+1) }
	nodes := map[string]any{}
	for i, state := range append([]string{"CONNECTED"}, states...) {
		node := map[string]any{"status": "READY", "host": host(i), "version": "580.95.05", "changed": true}
		connections := map[string]any{}
		for k, of := range append([]string{"CONNECTED"}, states...) {
			switch {
			case i > 0 && (mute || state != "CONNECTED"):
				of = "INVALID"
				node["status"], node["version"], node["changed"] = "UNAVAILABLE", "", false
			case i > 0 && of != "CONNECTED":
				of = "RECOVERING"
			}
			if of != "" {
				connections[strconv.Itoa(k)] = map[string]any{"host": host(k), "status": of, "changed": true}
			}
		}
		node["connections"] = connections
		nodes[strconv.Itoa(i)] = node
	}
	text, _ := json.Marshal(map[string]any{"nodes": nodes, "timestamp": "9/4/2026 00:37:39.905", "status": "DEGRADED"})
	return string(text)
}

// TestAgentHostIMEX is a machine without Kubernetes on which its own nvidia-imex.service serves:
// the agent keeps a gate by it, jobs wait for the nodes that they need, and the publisher
// says the same.
func TestAgentHostIMEX(t *testing.T) {
	t.Parallel()
	m, p := newIMEXMachine(t, "235 nvidia-caps-imex-channels\n"), newAgentProcess(t)
	m.RealBoot()
	m.says("READY")
	run := p.node.Run()
	cmd := p.onNVML(programs.QuoinTest(t), 580, m.Machine, "20ms")
	cmd.Args = append(cmd.Args, "--set", "agent.hookGate=fail", "--set", "agent.hookGateWait=1s")
	p.start(cmd)
	gateIs := func(what string, is func(g *gate.State) bool) {
		t.Helper()
		var g *gate.State
		await.Until(t, what, func() bool {
			var err error
			g, _, err = gate.Read(run)
			return err == nil && is(g)
		}, func() string { return strings.Join([]string{"the gate is", gateText(g)}, " ") })
	}
	prolog := func(nodes string) (int, string) {
		t.Helper()
		return p.hook("prolog", "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST="+nodes, "SLURMD_NODENAME=n1",
			"SLURM_CONF="+nodedir.SlurmConf(t, "Name=gpu File=/dev/nvidia[0-7]\n"))
	}
	ready := func(g *gate.State) bool { return g.Ready && g.Reason == imex.ReasonReady && g.Clique != "" }
	gateIs("its own service is ready", func(g *gate.State) bool { return ready(g) && len(g.Peers) == 0 })
	if code, said := prolog("n[1-2]"); code != 0 || said != "" {
		t.Errorf("with all nodes: %d, %s", code, said)
	}

	// The machine is 10.0.0.1. Its root has the files of a machine that runs no other process.
	m.put("proc/1/net/fib_trie", "Local:\n           |-- 10.0.0.1\n              /32 host LOCAL\n", 0o600)
	domain := func(text string) {
		t.Helper()
		m.put("domain", text, 0o600)
		m.answers("case \"$*\" in\n*-N*) cat " + m.path("domain") + " ;;\n*) echo READY ;;\nesac\n")
	}
	peerIs := func(address, name, state string) func(g *gate.State) bool {
		return func(g *gate.State) bool {
			return ready(g) && slices.Contains(g.Peers, topology.IMEXPeer{Address: address, Name: name, State: state})
		}
	}
	// Nothing names the peer that is away, and nothing here resolves n2 and n3.
	domain(domainOf(false, "RECOVERING", "CONNECTED"))
	gateIs("a node is away, and has no name", peerIs("10.0.0.2", "", topology.PeerDead))
	if code, said := prolog("n[1-2]"); code != 0 || !strings.Contains(said, "connected to n2 is not known: the names in Slurm are not known of these peers: 10.0.0.2. ") || !strings.Contains(said, "reason=PeersUnknown waited=") {
		t.Errorf("with a node that may be the one that is away: %d, %s", code, said)
	}
	if code, said := prolog("n1,10.0.0.2"); code != 1 || !strings.Contains(said, "missing=10.0.0.2 ") {
		t.Errorf("with the node that is away, by its address: %d, %s", code, said)
	}
	m.put("etc/nvidia-imex/nodes_names.cfg", "10.0.0.1 n1\n10.0.0.2 n2\n10.0.0.3 n3\n", 0o600)
	gateIs("a node is away", peerIs("10.0.0.2", "n2", topology.PeerDead))
	code, said := prolog("n[1-2]")
	if code != 1 || !strings.Contains(said, "missing=n2 ") || !regexp.MustCompile(`waited=[1-9].*it has no connection to n2 \(10\.0\.0\.2\)\. What to do: run nvidia-imex-ctl -N on the node; `).MatchString(said) {
		t.Errorf("with the node that is away: %d, %s", code, said)
	}
	if code, said := prolog("n[1,3]"); code != 0 || said != "" {
		t.Errorf("with another node: %d, %s", code, said)
	}
	domain(domainOf(false, "RECOVERING", "INVALID"))
	gateIs("two are away", peerIs("10.0.0.3", "n3", topology.PeerDead))
	if code, said := prolog("n[1-3]"); code != 1 || !strings.Contains(said, "missing=n2,n3 ") {
		t.Errorf("with both nodes that are away: %d, %s", code, said)
	}
	domain(domainOf(true, "CONNECTED", ""))
	gateIs("it does not say whether one is connected", peerIs("10.0.0.3", "n3", topology.PeerUnknown))
	if code, said := prolog("n[1-3]"); code != 0 || !strings.Contains(said, "connected to n3 is not known: nvidia-imex-ctl -N does not say it; the job goes on") {
		t.Errorf("with a node of which nothing is known: %d, %s", code, said)
	}
	domain(domainOf(true, "CONNECTED", "CONNECTED"))
	gateIs("none answers, and all are connected", func(g *gate.State) bool {
		return ready(g) && len(g.Peers) == 0 && strings.Contains(g.Message, "DEGRADED")
	})
	if code, said := prolog("n[1-3]"); code != 0 || said != "" {
		t.Errorf("with all nodes, which are connected: %d, %s", code, said)
	}
	m.put(m.path("etc/nvidia-imex/nodes_config.cfg"), strings.Repeat("10.0.0.1\n", 36), 0o600) // the list that the configuration names, below the machine's root
	gateIs("its list has more nodes than NVLink joins", func(g *gate.State) bool {
		return ready(g) && strings.Contains(g.Message, "nodes_config.cfg has 36 nodes, and NVLink joins at most 9 such nodes") && strings.Contains(g.Remedy, "quoin imex nodes-config")
	})

	events := filepath.Join(m.cgroups, "system.slice/nvidia-imex.service/cgroup.events")
	if err := os.WriteFile(events, []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateIs("the service has ended, so that nothing serves", func(g *gate.State) bool { return g.Clique == "" && g.Reason == imex.ReasonNoDriver })
	p = newAgentProcess(t)
	run = p.node.Run()
	cmd = p.onNVML(programs.QuoinTest(t), 580, m.Machine, "20ms")
	cmd.Args = append(cmd.Args, "--set", "imex.join=host")
	p.start(cmd)
	gateIs("the service is to serve", func(g *gate.State) bool {
		return !g.Ready && g.Clique != "" && g.Reason == imex.ReasonNotReady && strings.Contains(g.Remedy, "systemctl enable --now") && !strings.Contains(g.Remedy, "disable")
	})
}

func gateText(g *gate.State) string {
	if g == nil {
		return "not there"
	}
	return fmt.Sprintf("%s %+v: %s: %s", g.Reason, g.Peers, g.Message, g.Remedy)
}
