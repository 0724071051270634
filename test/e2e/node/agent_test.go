// Package node_test runs the programs of one node as processes: quoin agent with its probes, on a
// simulated machine or a loaded NVML, and quoin-hook, called by the tests or by a real Slurm.
package node_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/nodeagent/process"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
)

// agentProcess is quoin agent on a simulated machine, with a directory as store.
type agentProcess struct {
	t        testing.TB
	dir      string
	node     nodedir.Dir // below dir
	cmd      *exec.Cmd
	log      logtext.Text
	address  string
	simulate string
}

const oneRack = `name: rack
groups:
- {racks: 1, nodes: 2, node: "n{node}", nvlink: rack, gpus: {count: 4, product: NVIDIA GB200, memoryMiB: 189471}}
`

// newAgentProcess has a directory and an address, and no process yet.
func newAgentProcess(t testing.TB) *agentProcess {
	t.Helper()
	dir := t.TempDir()
	address := loopback.Address(9835)
	return &agentProcess{t: t, dir: dir, node: nodedir.New(t, dir), address: address, simulate: filepath.Join(dir, "rack.yaml")}
}

func startAgent(t testing.TB, quoin, interval string, more ...string) *agentProcess {
	t.Helper()
	p := newAgentProcess(t)
	p.change("")
	args := append([]string{"agent", "--simulate", p.simulate, "--node", "n1", "--listen", p.address, p.health(), "--times", "read: " + interval}, p.node.Settings()...)
	if !slices.Contains(more, "--kubeconfig") {
		more = append(more, "--store", p.dir)
	}
	cmd := exec.Command(quoin, append(args, more...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.start(cmd)
	return p
}

// start runs the agent until the test ends.
func (p *agentProcess) start(cmd *exec.Cmd) {
	p.t.Helper()
	p.startBy(cmd, cmd.Start)
}

// startBy runs the agent, which start starts, until the test ends.
func (p *agentProcess) startBy(cmd *exec.Cmd, start func() error) {
	p.t.Helper()
	p.cmd = cmd
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Logf("agent's log:\n%s", &p.log)
		}
	})
}

// change gives the simulated rack these faults.
func (p *agentProcess) change(faults string) {
	p.t.Helper()
	put.File(p.t, p.simulate, oneRack+faults, 0o600)
}

// until waits for what must come.
func (p *agentProcess) until(what string, is func() bool) {
	p.t.Helper()
	await.Until(p.t, what, is)
}

// settled reports whether the agent has stored all that it will say of a machine
// that nothing happens to: its report, with the NVLink domain confirmed where the
// GPUs agree on one or on none.
func (p *agentProcess) settled() bool {
	n, err := topology.ParseReport("report", []byte(p.report()))
	if err != nil {
		return false
	}
	return n.Domain == n.Joined()
}

func (p *agentProcess) report() string {
	data, _ := os.ReadFile(filepath.Join(p.dir, "reports", "n1.json"))
	return string(data)
}

// files returns the identities of all files that the agent keeps: one that is
// written again has another time, though its text be the same.
func (p *agentProcess) files() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, name := range []string{"reports/n1.json", "run/inventory.json", "run/hook.json"} {
		info, err := os.Stat(filepath.Join(p.dir, name))
		if err != nil {
			p.t.Fatal(err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			p.t.Fatal("no inode")
		}
		all[name] = fmt.Sprint(stat.Ino, info.ModTime())
	}
	return all
}

// health is the flag by which the agent answers probes, beside its metrics.
func (p *agentProcess) health() string {
	return "--set=agent.healthListen=" + strings.Replace(p.address, ":9835", ":9837", 1)
}

func (p *agentProcess) get(path string) (int, string) {
	address := p.address
	if path != "/metrics" {
		_, address, _ = strings.Cut(p.health(), "healthListen=")
	}
	resp, err := http.Get("http://" + address + path) //nolint:noctx // the agent ends with the test
	if err != nil {
		return 0, ""
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, string(text)
}

// metric returns the value of a series.
func (p *agentProcess) metric(series string) float64 {
	_, text := p.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return f
		}
	}
	return -1
}

// probe returns the process id of the agent's child, 0 for none.
func (p *agentProcess) probe() int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	for _, t := range tasks {
		data, _ := os.ReadFile(t)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil {
			return pid
		}
	}
	return 0
}

// said counts the lines of the agent's log with a message.
func (p *agentProcess) said(message string) int {
	return strings.Count(p.log.String(), fmt.Sprintf("msg=%q", message))
}

// writes is how often the agent has written the report to the store.
func (p *agentProcess) writes() int { return p.said("report stored") }

// hasInventory reports whether the agent has written the inventory, and before it what else the hook reads.
func (p *agentProcess) hasInventory() bool {
	_, err := os.Stat(filepath.Join(p.node.Run(), "inventory.json"))
	return err == nil
}

// hook calls quoin-hook, and returns its exit status and what it says.
func (p *agentProcess) hook(verb string, env ...string) (code int, said string) {
	p.t.Helper()
	path := filepath.Join(p.dir, programs.Hook)
	if _, err := os.Stat(path); err != nil {
		programs.PutTest(p.t, p.dir, programs.Hook)
	}
	cmd := exec.CommandContext(p.t.Context(), path, verb, "--run-dir", p.node.Run())
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// endOf returns whether a process that lives now has ended. Then another process may have got its number.
func endOf(pid int) (ended func() bool) {
	start := process.Read("/proc", strconv.Itoa(pid)).Start
	return func() bool {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(data), ") Z ") || process.Read("/proc", strconv.Itoa(pid)).Start != start
	}
}

// TestAgentWritesOnChangeOnly reads the machine many times: nothing is written
// until a fact changes.
func TestAgentWritesOnChangeOnly(t *testing.T) {
	p := startAgent(t, programs.QuoinTest(t), "20ms", "--log-level", "debug")
	p.until("report and files", func() bool { return p.hasInventory() && p.settled() })
	p.until("ready", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK })
	before := p.files()
	const heard = "facts unchanged"
	from := p.said(heard)
	p.until("the probe reads on for a second", func() bool { return p.said(heard) >= from+50 })
	written := p.writes()
	if written > 2 {
		t.Errorf("%d writes, want at most one of the first report and one of its domain", written)
	}
	if diff := cmp.Diff(before, p.files()); diff != "" {
		t.Errorf("files written without a change (-before +after):\n%s", diff)
	}
	p.change("faults: [{node: n1, gpu: 2, health: unhealthy}]\n")
	p.until("the changed report", func() bool { return strings.Contains(p.report(), "unhealthy") })
	p.until("its metric", func() bool { return p.metric(`quoin_agent_gpus{fabric="completed",health="unhealthy"}`) == 1 })
	after := p.files()
	if after["reports/n1.json"] == before["reports/n1.json"] {
		t.Error("the report was changed in place and not by rename")
	}
	if after["run/hook.json"] == "" || after["run/hook.json"] != before["run/hook.json"] {
		t.Error("run/hook.json was written though health is not in it")
	}
	p.until("the write is logged", func() bool { return p.writes() > written })
	if n := p.writes(); n != written+1 {
		t.Errorf("%d writes, want 1", n-written)
	}
}

// TestAgentLeavesNoProbe ends the agent in every way.
func TestAgentLeavesNoProbe(t *testing.T) {
	quoin := programs.QuoinTest(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startAgent(t, quoin, "20ms")
			p.until("report", func() bool { return p.report() != "" && p.probe() != 0 })
			ended := endOf(p.probe())
			if err := p.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil && signal != syscall.SIGKILL {
				t.Errorf("%v: want exit status 0", err)
			}
			p.until("the probe ends", ended)
		})
	}
}
