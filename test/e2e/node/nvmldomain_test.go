//go:build cgo

package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/quoin-hpc/quoin/slurmconf"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/reportdir"
)

// domainRig is a store that quoin publisher publishes from, with an agent on a
// loaded NVML beside nodes whose reports lie there.
type domainRig struct {
	*agentProcess
	quoin   string
	machine *fake.Machine
	markers int
}

func newDomainRig(t *testing.T) *domainRig {
	t.Helper()
	r := &domainRig{agentProcess: newAgentProcess(t), quoin: programs.QuoinTest(t), machine: fake.New(t, "gb200", inDomain(1))}
	config := filepath.Join(t.TempDir(), "quoin.yaml")
	put.File(t, config, "publicationDefaults: {settleTime: 50ms, maxChange: 1, annotate: false}\n", 0o755)
	for name, domain := range map[string]byte{"a2": 1, "a3": 1, "b1": 2, "b2": 2} {
		r.put(name, domain)
	}
	cmd := exec.Command(r.quoin, "publisher", "--store", r.dir, "--config", config, "--listen", "", "--times", "confirm: 50ms, spacing: 0s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return r
}

// inDomain is the statement that has all GPUs joined the domain of a number.
func inDomain(number byte) string {
	return fmt.Sprintf("fabric completed 0 %s 0 1 0x11aa", topology.UUID{15: number})
}

// put stores the report of a node that has confirmed its domain.
func (r *domainRig) put(name string, number byte) {
	r.t.Helper()
	n := topology.Node{Name: name, BootID: "b", GPUs: []topology.GPU{{UUID: "GPU-" + name, Product: "NVIDIA GB200", Fabric: topology.Fabric{ClusterUUID: topology.UUID{15: number}, State: topology.FabricCompleted}}}}
	n.Domain = n.Joined()
	report, err := topology.EncodeReport(&n)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := reportdir.New(r.dir, name).Put(r.t.Context(), report); err != nil {
		r.t.Fatal(err)
	}
}

// block is where a node is published.
func (r *domainRig) block(name string) string {
	data, err := os.ReadFile(filepath.Join(r.dir, "published", "slurm", "quoin-slurm", "topology.yaml"))
	if err != nil {
		return ""
	}
	published, err := slurmconf.ReadPlan("topology.yaml", data)
	if err != nil {
		r.t.Fatal(err)
	}
	return published.Places()[name].Block
}

// run starts the agent anew, with so long between two readings.
func (r *domainRig) run(interval string) {
	r.t.Helper()
	r.stop()
	r.start(r.onNVML(r.quoin, 580, r.machine, interval))
}

// reboot reboots the machine and starts the agent. The agent of the last boot has
// ended before: it must not read the new one.
func (r *domainRig) reboot(interval string, statements ...string) {
	r.t.Helper()
	r.stop()
	r.machine.Reboot(statements...)
	r.run(interval)
}

func (r *domainRig) stop() {
	r.t.Helper()
	if r.cmd == nil || r.cmd.ProcessState != nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// stays waits until the agent has reported what is wanted and the publisher has
// published twice after it, the second time when the facts have settled, and
// holds that n1 is still in the block of a2.
func (r *domainRig) stays(when, reported string) {
	r.t.Helper()
	r.until(when+": "+reported, func() bool { return strings.Contains(r.report(), reported) })
	for range 2 {
		r.markers++
		marker := fmt.Sprintf("b%d", 10+r.markers)
		r.put(marker, 2)
		r.until(when+": "+marker+" is published", func() bool { return r.block(marker) != "" && r.block(marker) == r.block("b1") })
	}
	if !strings.Contains(r.report(), reported) {
		r.t.Errorf("%s: reported %s", when, r.report())
	}
	if at, want := r.block("n1"), r.block("a2"); at != want {
		r.t.Errorf("%s: n1 is in block %s, want %s", when, at, want)
	}
}

// TestNVMLDomain takes a node through what NVML says of its fabric, from the
// library to the published file: only two readings of a new boot move it, and nothing
// takes it out.
func TestNVMLDomain(t *testing.T) {
	t.Parallel()
	r := newDomainRig(t)
	r.run("20ms")
	const confirmed1, confirmed2 = `"domain":"00000000-0000-0000-0000-000000000001.0"`, `"domain":"00000000-0000-0000-0000-000000000002.0"`
	const changed = `,"domainChanged":true` // while it runs: that is held, because one node alone names the domain of another rack
	const boot2, boot4 = `"bootID":"3f0c5d1e-0000-4000-8000-000000000002"`, `"bootID":"3f0c5d1e-0000-4000-8000-000000000004"`
	r.until("n1 is published", func() bool { return r.settled() && r.block("n1") != "" })
	r.stays("in its rack", confirmed1)

	r.machine.Change(inDomain(2))
	r.stays("another domain in the same boot", confirmed2+changed)
	r.run("20ms")
	r.until("the new agent reads", func() bool { return r.metric("quoin_agent_probe_up") == 1 })
	r.stays("the same after a restart of the agent", confirmed2+changed)

	r.reboot("20ms", "fabric inProgress")
	r.stays("in progress after a reboot", boot2)
	r.machine.Change(inDomain(2), "gpu 5", "fabric inProgress")
	r.stays("one GPU in progress", `"clusterUUID":"00000000-0000-0000-0000-000000000002"`)

	r.reboot("1h", "fabric notSupported") // read once in an hour
	r.stays("no NVLink, read once after a reboot", `"state":"notSupported"`)
	r.reboot("1h", inDomain(2))
	r.stays("read once after a reboot", boot4)
	if probe := r.probe(); probe == 0 || syscall.Kill(probe, syscall.SIGKILL) != nil {
		t.Fatalf("no probe %d to kill", probe)
	}
	r.until("another probe reads", func() bool {
		return r.metric(`quoin_agent_probe_restarts_total{reason="exit"}`) == 1 && r.metric("quoin_agent_probe_up") == 1
	})
	r.stays("read once by each of two probes", boot4)
	if strings.Contains(r.report(), `"domain"`) {
		t.Errorf("confirmed: %s", r.report())
	}

	r.run("20ms")
	r.until("it is confirmed", func() bool { return strings.Contains(r.report(), confirmed2) })
	r.until("n1 has moved", func() bool { return r.block("n1") == r.block("b1") })
	if strings.Contains(r.report(), changed) {
		t.Errorf("a new boot has the change of the last one: %s", r.report())
	}
	r.reboot("20ms", "fabric notSupported")
	r.until("no NVLink after a clique", func() bool {
		report := r.report()
		return strings.Contains(report, `"state":"notSupported"`) && strings.Contains(report, `"earlierClique":"00000000-0000-0000-0000-000000000002.0"`)
	})
	r.put("b3", 2)
	r.until("b3 is published", func() bool { return r.block("b3") != "" })
	if at := r.block("n1"); at != r.block("b1") || strings.Contains(r.report(), `"domain"`) {
		t.Errorf("n1 is in block %s, want that of b1; reported %s", at, r.report())
	}
}
