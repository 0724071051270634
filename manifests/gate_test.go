package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/imexrig"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/sites"
)

// gateSite is a rack of two machines.
const gateSite = `name: gate
groups:
- {racks: 1, nodes: 2, node: "g{node}", nvlink: rack, gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471}, imex: {major: 235, channels: 2048}}
`

// TestRealGateFile has a real agent, with its own token, keep the gate of a node
// that joins the domain, and a hook pass it.
func TestRealGateFile(t *testing.T) {
	t.Parallel()
	site := sites.Parse(t, gateSite)
	var nodes []imexrig.Spec
	for _, name := range []string{"g1", "g2"} {
		machine, err := site.Machine(name)
		if err != nil {
			t.Fatal(err)
		}
		clique, ok := machine.Report.GPUs[0].Fabric.Clique()
		if !ok {
			t.Fatalf("%s has no clique", name)
		}
		nodes = append(nodes, imexrig.Spec{Name: name, Clique: clique.String()})
	}
	m := startMembershipOf(t, imexrig.Options{Nodes: nodes, Own: true})
	run := m.startAgent("g1")
	gateIs := func(what string, is func(*gate.State) bool) *gate.State {
		t.Helper()
		var g *gate.State
		var err error
		await.Until(t, what, func() bool {
			g, _, err = gate.Read(run)
			return err == nil && is(g)
		}, func() string { return fmt.Sprintf("%+v, %v", g, err) })
		return g
	}
	g := gateIs("both are members", func(g *gate.State) bool {
		return g.Ready && len(g.Members) == 2 && g.Members[0].Ready && g.Members[1].Ready
	})
	if g.Clique != nodes[0].Clique || g.Node != "g1" || g.Reason != imex.ReasonReady {
		t.Errorf("%+v", g)
	}
	if said, code := m.hook(run, "g[1-2]"); code != 0 || strings.Contains(said, "gate") {
		t.Errorf("the hook said %q and ended with %d", said, code)
	}
	m.fleet.Node("g1").SetReady(false)
	gateIs("not ready", func(g *gate.State) bool { return !g.Ready && g.Reason == imex.ReasonNotReady })
	if said, code := m.hook(run, "g[1-2]"); code != 0 || !strings.Contains(said, "NotReady") {
		t.Errorf("the hook said %q and ended with %d", said, code)
	}
	m.fleet.Node("g1").SetReady(true)
	gateIs("ready again", func(g *gate.State) bool { return g.Ready })
	m.fleet.Node("g2").SetReady(false)
	gateIs("a peer is not ready", func(g *gate.State) bool {
		return g.Ready && len(g.Members) == 2 && g.Members[0].Ready != g.Members[1].Ready
	})

	m.cluster.StopServer()
	stopped := time.Now()
	await.Until(t, "confirmed without the API server", func() bool {
		_, at, err := gate.Read(run)
		return err == nil && at.After(stopped.Add(20*time.Second)) // more than between two confirmations
	})
}

// startAgent runs quoin agent as a node's, with a token of that node alone, and
// returns its run directory.
func (m *membership) startAgent(node string) string {
	m.t.Helper()
	token, err := m.cluster.Token(m.t.Context(), "quoin-node", "quoin-agent", node)
	if err != nil {
		m.t.Fatal(err)
	}
	dir := nodedir.New(m.t, m.t.TempDir())
	site := filepath.Join(string(dir), "site.yaml")
	if err := os.WriteFile(site, []byte(gateSite), 0o600); err != nil {
		m.t.Fatal(err)
	}
	address := loopback.Address(9835)
	m.start("agent of "+node, exec.Command(m.quoin, append([]string{"agent", "--simulate", site, "--node", node, "--kubeconfig", token,
		"--listen", address, "--times", "read: 1s", "--set", "agent.hookGateWait=1s"}, dir.Settings()...)...))
	return dir.Run()
}

// hook runs the Prolog of a job on these nodes, which are two.
func (m *membership) hook(run, nodes string) (said string, code int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), m.quoin+"-hook", "prolog", "--run-dir", run)
	cmd.Env = []string{"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST=" + nodes, "SLURMD_NODENAME=g1", "SLURM_JOB_START_TIME=100",
		"SLURM_CONF=" + nodedir.SlurmConf(m.t, "Name=gpu File=/dev/nvidia[0-7]\n")}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
