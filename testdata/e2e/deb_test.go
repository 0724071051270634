package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/testdata/nvml"
	"github.com/quoin-hpc/quoin/testdata/rig/await"
)

// TestBoxPackage makes the packages, installs the Debian package on a bare Debian that has booted, as
// nodeagent/README.md says, and removes it.
func TestBoxPackage(t *testing.T) {
	needBox(t)
	dir := makePackages(t, []string{"amd64"})
	deb, _ := packageNames("amd64")
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--variant=apt", "--include=systemd", "bookworm", root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	copyFile(t, filepath.Join(dir, deb), filepath.Join(root, "quoin.deb"))
	copyFile(t, nvml.Library(t, 580), filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"))
	copyFile(t, nvml.New(t, "gb200").File, filepath.Join(root, machineFile))
	d := boot(t, root)
	d.install()
	d.publishes()
	d.restarts()
	d.purges()
}

const (
	agentUnit, publisherUnit = "quoin-agent.service", "quoin-publisher.service"
	// machineFile is where the fake NVML reads its machine.
	machineFile = "/var/lib/fake-nvml.txt"
	node        = "node-1"
	jobRecord   = "run/quoin/jobs/4711.json"
)

var jobOfNode = []string{"env", "-i", "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2", "SLURM_JOB_USER=alice", "SLURM_JOB_UID=1000", "SLURMD_NODENAME=" + node,
	"SLURM_CONF=/shared/quoin/published/slurm/quoin-slurm/slurm.conf"}

// install follows the page: the package, the configuration, the shared directory, the units.
func (d *debian) install() {
	t := d.t
	t.Helper()
	d.run("dpkg", "-i", "/quoin.deb")
	for _, unit := range []string{agentUnit, publisherUnit} {
		if out := d.run("systemd-analyze", "verify", "/usr/lib/systemd/system/"+unit); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
		if d.run("systemctl", "start", unit); d.process(unit) != "" {
			t.Errorf("%s runs without a configuration", unit)
		}
	}
	if out := d.run("quoin", "version"); !strings.Contains(out, version.Number) {
		t.Errorf("version: %s", out)
	}
	d.run("hostname", node)
	d.run("sh", "-ec", "mkdir -p /etc/quoin && cp /usr/share/quoin/quoin.yaml /etc/quoin/ && sed -i 's/^  slurmVersion/  settleTime: 1s\\n&/' /etc/quoin/quoin.yaml")
	d.run("sh", "-ec", "mkdir -p /etc/systemd/system/quoin-agent.service.d && printf '[Service]\\nEnvironment="+nvml.Variable+"="+machineFile+"\\n' >/etc/systemd/system/quoin-agent.service.d/fake.conf && systemctl daemon-reload")
	d.run("sh", "-ec", "mkdir -p /shared/quoin/reports && chown quoin: /shared/quoin")
	d.run("systemctl", "enable", "--now", "quoin-publisher")
	d.run("systemctl", "enable", "--now", "quoin-agent")
}

// publishes waits for the files for Slurm, and runs the hook as slurmd does.
func (d *debian) publishes() {
	t := d.t
	t.Helper()
	const report = "shared/quoin/reports/" + node + ".json"
	await.Until(t, "the agent has stored its report", func() bool { return d.read(report) != "" })
	// A block has two nodes at least. The other one is this one by another name.
	d.run("sh", "-ec", "sed 's/"+node+"/node-2/; s/b200b200/b200b201/g' /"+report+" >/shared/quoin/reports/node-2.json")
	await.Until(t, "the topology is published", func() bool {
		return strings.Contains(d.read("shared/quoin/published/slurm/quoin-slurm/topology.yaml"), "nodes: node-[1-2]")
	}, func() string {
		return d.run("journalctl", "--no-pager", "-n", "50", "-u", agentUnit, "-u", publisherUnit)
	})
	if text := d.read("shared/quoin/published/slurm/quoin-slurm/gres.conf"); !strings.Contains(text, "NodeName=node-[1-2] Name=gpu") {
		t.Errorf("gres.conf:\n%s", text)
	}
	agent, publisher := d.process(agentUnit), d.process(publisherUnit)
	if got := d.status(agent, "CapEff"); got != "0000000000000001" { // CAP_CHOWN
		t.Errorf("capabilities of the agent: %s", got)
	}
	if got := d.status(publisher, "CapEff"); got != "0000000000000000" || strings.HasPrefix(d.status(publisher, "Uid"), "0 ") {
		t.Errorf("the publisher has capabilities %s, as user %s", got, d.status(publisher, "Uid"))
	}
	d.run(append(jobOfNode, "/usr/lib/quoin/prolog")...)
	if text := d.read("var/lib/dcgm-exporter/job-mapping/2"); strings.TrimSpace(text) != "4711" || d.read(jobRecord) == "" {
		t.Errorf("mapping of GPU 2: %q, record %q", text, d.read(jobRecord))
	}
	out, _ := d.command("quoin", "doctor", "--only", "node", "--config", "/etc/quoin/quoin.yaml", "--hook-dir", "/usr/lib/quoin").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "fatal ") {
			t.Errorf("quoin doctor: %s", line)
		}
	}
}

// restarts restarts the agent, kills it, and upgrades the package. The job's record stays.
func (d *debian) restarts() {
	t := d.t
	t.Helper()
	agent, publisher := d.process(agentUnit), d.process(publisherUnit)
	d.run("systemctl", "restart", agentUnit)
	agent = d.replaced(agentUnit, agent)
	d.run("sh", "-c", "kill -KILL "+agent)
	agent = d.replaced(agentUnit, agent)
	if got := strings.TrimSpace(d.run("systemctl", "show", "-P", "NRestarts", agentUnit)); got != "1" {
		t.Errorf("systemd has restarted the agent %s times, want 1", got)
	}
	config := d.read("etc/quoin/quoin.yaml")
	d.run("dpkg", "-i", "/quoin.deb")
	d.replaced(agentUnit, agent)
	d.replaced(publisherUnit, publisher)
	if got := d.read("etc/quoin/quoin.yaml"); got == "" || got != config {
		t.Errorf("after an upgrade the configuration is %q", got)
	}
	if d.read(jobRecord) == "" {
		t.Error("the job's record is gone")
	}
}

// purges removes the package while a job runs.
func (d *debian) purges() {
	t := d.t
	t.Helper()
	d.run("dpkg", "--purge", "quoin")
	for _, unit := range []string{agentUnit, publisherUnit} {
		if pid := d.process(unit); pid != "" {
			t.Errorf("after the removal, %s runs as %s", unit, pid)
		}
	}
	for path, stays := range map[string]bool{"usr/bin/quoin": false, "usr/lib/quoin": false, "usr/lib/systemd/system/" + agentUnit: false,
		"etc/systemd/system/multi-user.target.wants/" + agentUnit: false, "etc/systemd/system/multi-user.target.wants/" + publisherUnit: false,
		"etc/quoin/quoin.yaml": true, "shared/quoin/published": true, jobRecord: true} {
		if _, err := os.Lstat(filepath.Join("/proc", d.pid, "root", path)); (err == nil) != stays {
			t.Errorf("after the removal, %s: %v", path, err)
		}
	}
	if out := strings.TrimSpace(d.run("systemctl", "is-system-running")); out != "running" {
		t.Errorf("after the removal the system is %s", out)
	}
}
