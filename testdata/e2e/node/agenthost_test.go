//go:build cgo

package node_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/testdata/rig/await"
	"github.com/quoin-hpc/quoin/testdata/rig/programs"
)

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
	cmd.Args = append(cmd.Args, "--set", "agent.cgroupRoot="+m.cgroups, "--set", "agent.hookGate=fail", "--set", "agent.hookGateWait=1s")
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
	programs.PutTest(t, p.dir, programs.Hook)
	prolog := func(nodes string) (int, string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(p.dir, "quoin-hook"), "prolog", "--run-dir", run)
		cmd.Env = []string{"SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0", "SLURM_JOB_NUM_NODES=2", "SLURM_JOB_NODELIST=" + nodes, "SLURMD_NODENAME=n1"}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	ready := func(g *gate.State) bool { return g.Ready && g.Reason == imex.ReasonReady && g.Clique != "" }
	gateIs("its own service is ready", func(g *gate.State) bool { return ready(g) && len(g.Apart) == 0 })
	if code, said := prolog("n[1-2]"); code != 0 || said != "" {
		t.Errorf("with all nodes: %d, %s", code, said)
	}

	m.put("usr/bin/nvidia-imex-ctl", `#!/bin/sh
case "$*" in
*-N*) echo '{"nodes": {"0": {"status": "READY", "host": "10.0.0.1", "hostName": "n1"}, "1": {"status": "UNAVAILABLE", "host": "10.0.0.2", "hostName": "n2"}}, "status": "DEGRADED"}' ;;
*) echo READY ;;
esac
`, 0o700)
	gateIs("a node is away", func(g *gate.State) bool { return ready(g) && len(g.Apart) == 1 && g.Apart[0] == "n2" })
	if code, said := prolog("n[1-2]"); code != 1 || !strings.Contains(said, "missing=n2 ") || !strings.Contains(said, "DEGRADED") {
		t.Errorf("with the node that is away: %d, %s", code, said)
	}
	if code, said := prolog("n[1,3]"); code != 0 || said != "" {
		t.Errorf("with another node: %d, %s", code, said)
	}

	events := filepath.Join(m.cgroups, "system.slice/nvidia-imex.service/cgroup.events")
	if err := os.WriteFile(events, []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateIs("the service has ended, so that nothing serves", func(g *gate.State) bool { return g.Clique == "" && g.Reason == imex.ReasonNoDriver })
	p = newAgentProcess(t)
	run = p.node.Run()
	cmd = p.onNVML(programs.QuoinTest(t), 580, m.Machine, "20ms")
	cmd.Args = append(cmd.Args, "--set", "agent.cgroupRoot="+m.cgroups, "--set", "imex.join=host")
	p.start(cmd)
	gateIs("the service is to serve", func(g *gate.State) bool {
		return !g.Ready && g.Clique != "" && g.Reason == imex.ReasonNotReady && strings.Contains(g.Message, "systemctl enable --now") && !strings.Contains(g.Message, "disable")
	})
}

func gateText(g *gate.State) string {
	if g == nil {
		return "not there"
	}
	return g.Reason + " " + strings.Join(g.Apart, ",") + ": " + g.Message
}
