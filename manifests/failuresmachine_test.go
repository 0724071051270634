package manifests_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// gpuMachine is a node's machine below the hardware: a loaded NVML, the files of
// its kernel and of the driver's daemon, and the program that asks the daemon. A
// real agent, with a token of that node alone, reads it.
type gpuMachine struct {
	*nvml.Machine
	t            *testing.T
	cgroups, run string
}

// inClique is the statement that all GPUs have joined a clique of a rack.
func inClique(rack int) string {
	return fmt.Sprintf("fabric completed 0 5f2e8a10-7c4b-4d1e-9a36-2b8c0d6e4f11 %d 1 0x11aa", rack+1)
}

// startMachine makes a machine with IMEX, whose daemon is ready in a domain that is
// up, and starts its agent.
func (m *membership) startMachine(node, kind string, statements ...string) *gpuMachine {
	m.t.Helper()
	token, err := m.cluster.Token(m.t.Context(), "quoin-node", "quoin-agent", node)
	if err != nil {
		m.t.Fatal(err)
	}
	dir := nodedir.New(m.t, m.t.TempDir())
	machine := nvml.New(m.t, kind, statements...)
	g := &gpuMachine{machine, m.t, filepath.Join(machine.Root(), "sys/fs/cgroup"), dir.Run()}
	g.hostService(false)
	g.channels(true)
	g.put("dev/nvidia-caps-imex-channels/channel0", "", 0o600)
	// A domain is asked where its nodes' addresses are in a file that the agent sees.
	const domain = "var/lib/kubelet/plugins/compute-domain.nvidia.com/domains/" + "0b6a/"
	g.put(domain+"nodes.cfg", "10.0.0.1\n", 0o600)
	g.put("proc/1/net/fib_trie", "Local:\n           |-- 10.0.0.1\n              /32 host LOCAL\n", 0o600)
	g.put(domain+"imexd.cfg", "IMEX_NODE_CONFIG_FILE="+filepath.Join(g.Root(), domain, "nodes.cfg")+"\nIMEX_CMD_ENABLED=1\nIMEX_CMD_PORT=50005\n", 0o600)
	g.says("READY", "UP")
	address := loopback.Address(9835)
	cmd := exec.Command(m.quoin, append([]string{"agent", "--set", "agent.nvmlLibrary=" + nvml.Library(m.t, 580), "--set", "agent.hostRoot=" + g.Root(), "--node", node, "--kubeconfig", token,
		"--listen", address, "--times", "read: 1s"}, dir.Files()...)...)
	cmd.Env = append(os.Environ(), g.Environment())
	m.start("agent of "+node, cmd)
	return g
}

// put writes a file below the machine's root, by rename.
func (g *gpuMachine) put(name, text string, mode os.FileMode) {
	g.t.Helper()
	put.File(g.t, filepath.Join(g.Root(), name), text, mode)
}

// hostService has the machine's own nvidia-imex.service run, or not.
func (g *gpuMachine) hostService(runs bool) {
	g.t.Helper()
	populated := 0
	if runs {
		populated = 1
	}
	put.File(g.t, filepath.Join(g.cgroups, "system.slice/nvidia-imex.service/cgroup.events"), fmt.Sprintf("populated %d\nfrozen 0\n", populated), 0o600)
}

// channels has the NVIDIA driver that is loaded have channels, or none.
func (g *gpuMachine) channels(has bool) {
	g.t.Helper()
	text := "Character devices:\n195 nvidia\n"
	if has {
		text += "235 nvidia-caps-imex-channels\n"
	}
	g.put("proc/devices", text+"\nBlock devices:\n  7 loop\n", 0o600)
}

// says has the daemon say these states of itself and of its domain. A domain that is not UP
// lacks the connection to its second node.
func (g *gpuMachine) says(daemon, domain string) {
	g.t.Helper()
	nodes := `{}`
	if domain != "UP" {
		nodes = `{"0": {"status": "READY", "host": "10.0.0.1", "connections": {"0": {"host": "10.0.0.1", "status": "CONNECTED"}, "1": {"host": "10.0.0.2", "status": "INVALID"}}}, ` +
			`"1": {"status": "UNAVAILABLE", "host": "10.0.0.2", "connections": {}}}`
	}
	g.answers(fmt.Sprintf("case \"$*\" in\n*-N*) echo '{\"nodes\": %s, \"status\": \"%s\"}' ;;\n*) echo %s ;;\nesac\n", nodes, domain, daemon))
}

// answers puts nvidia-imex-ctl onto the machine, with a script that answers.
func (g *gpuMachine) answers(script string) {
	g.t.Helper()
	programs.PutIMEXCtl(g.t, filepath.Join(g.Root(), "usr/bin"), script)
}

// hangs has the daemon never answer.
func (g *gpuMachine) hangs() {
	g.t.Helper()
	g.answers("exec sleep 1000\n")
}

// gateIs waits for a reason of the node's gate.
func (g *gpuMachine) gateIs(t *testing.T, want string) {
	t.Helper()
	await.Until(t, "the gate is "+want, func() bool {
		state, at, err := gate.Read(g.run)
		return err == nil && time.Since(at) <= gate.Stale && state.Reason == want && state.Ready == (want == imex.ReasonReady)
	})
}
