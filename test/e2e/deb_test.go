package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/ibrig"
	"github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/pages"
	"github.com/quoin-hpc/quoin/test/rig/put"
	"github.com/quoin-hpc/quoin/test/rig/slurmrig"
	"github.com/quoin-hpc/quoin/test/rig/sysfs"
)

// TestBoxPackage makes the package, and does what manifests/docs/slurmd.md says
// word by word, on a Debian that has booted with a real slurmctld and slurmd: it is slurmctld's machine
// and node-1 of four H100 machines below two leaf switches.
func TestBoxPackage(t *testing.T) {
	needBox(t)
	blocks, err := pages.Read("../../manifests/docs/slurmd.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := makePackages(t, []string{"amd64"})
	deb, _ := packageNames("amd64")
	root := filepath.Join(t.TempDir(), "root")
	command(t, "mmdebstrap", "--quiet", "--variant=apt", "--include=systemd", "bookworm", root)
	copyFile(t, filepath.Join(dir, deb), filepath.Join(root, "root", deb))
	m := &h100{t: t, fabric: ibrig.New(ibrig.Shape{Seed: 100, Groups: 2, Nodes: 2, Rails: 8, RailLeaves: true, Spines: 2, Aggregation: true,
		Name: func(number int) string { return fmt.Sprintf("node-%d", number) }})}
	m.make(root)
	m.debian = boot(t, root)
	m.devices()
	// Slurm takes no address for one if the network has loopback's alone.
	command(t, "nsenter", "-t", m.pid, "-n", "ip", "address", "add", "10.0.0.1/32", "dev", "lo")
	m.run("systemctl", "enable", "slurmctld", "slurmd")
	if out, err := m.command("systemctl", "start", "slurmctld", "slurmd").CombinedOutput(); err != nil {
		t.Fatalf("start Slurm: %v\n%s%s", err, out, m.journal("slurmctld", "slurmd"))
	}
	m.page(blocks)
}

const (
	agentUnit, publisherUnit = "quoin-agent.service", "quoin-publisher.service"
	// machineFile is where the fake NVML reads its machine, sysFolder is the machine's sysfs, and
	// fabricText is what ibnetdiscover says.
	machineFile, sysFolder, fabricText = "/var/lib/fake-nvml.txt", "/var/lib/fake-sys", "/var/lib/fake-fabric.txt"
	node                               = "node-1"
	published                          = "shared/quoin/published/slurm/quoin-slurm"
	mapping                            = "var/lib/dcgm-exporter/job-mapping"
)

// slurmConf is the site's, before somebody reads the page.
const slurmConf = `ClusterName=site
SlurmctldHost=node-1(127.0.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
NodeName=node-[1-4] NodeAddr=127.0.0.1 Port=[17001-17004] CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// h100 is a booted machine with eight GPUs, and what the page needs around it.
type h100 struct {
	*debian
	t      *testing.T
	fabric *ibrig.Fabric
	job    string // one that runs while Quoin goes
}

// make writes the files of the machine: the files of Slurm and of fake hardware.
func (m *h100) make(root string) {
	t := m.t
	t.Helper()
	copyFile(t, nvml.Library(t, 580), filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"))
	site, rail := sysfs.DGXH100(), 0
	var places []string // of the GPUs on PCI
	for i, path := range site.GPUs {
		places = append(places, fmt.Sprintf("gpu %d", i), "pci 0000"+strings.ToUpper(path[strings.LastIndex(path, " ")+1:]))
	}
	copyFile(t, nvml.New(t, "h100", places...).File, filepath.Join(root, machineFile))
	for i := range site.Adapters {
		// Two adapters of two functions are for storage, and their paths are shorter.
		if a := &site.Adapters[i]; len(strings.Fields(a.Path)) > 3 {
			a.GUID = uint32(m.fabric.Nodes[0].Adapters[rail].GUID) //nolint:gosec // its lower half
			rail++
		}
	}
	if rail != 8 {
		t.Fatalf("%d rails", rail)
	}
	command(t, "cp", "-a", string(sysfs.Make(t, site)), filepath.Join(root, sysFolder))
	command(t, "mkdir", filepath.Join(root, sysFolder, "fs"))
	command(t, "ln", "-s", "/sys/fs/cgroup", filepath.Join(root, sysFolder, "fs/cgroup"))
	m.slurm(root)
	for name, text := range map[string]string{
		fabricText:                ibrig.DiscoverTest(t, m.fabric)[0],
		"/etc/slurm/slurm.conf":   slurmConf,
		"/etc/slurm/cgroup.conf":  "CgroupPlugin=disabled\n",
		"/etc/slurm/slurm.key":    strings.Repeat("0123456789abcdef", 64),
		"/usr/sbin/ibnetdiscover": "#!/bin/sh\nexec cat " + fabricText + "\n",
		"/etc/hosts":              "127.0.0.1 localhost node-1\n",
		"/etc/hostname":           node + "\n",
		dropIn(agentUnit):         "[Service]\nEnvironment=" + nvml.Variable + "=" + machineFile + "\nExecStart=\nExecStart=/usr/bin/quoin agent --config /etc/quoin/quoin.yaml --set agent.sysRoot=" + sysFolder + "\n",
		dropIn(publisherUnit):     "[Service]\nExecStart=\nExecStart=/usr/bin/quoin publisher --config /etc/quoin/quoin.yaml --set publicationDefaults.settleTime=1s\n",
	} {
		put.File(t, filepath.Join(root, name), text, 0o644)
	}
	if err := os.Mkdir(filepath.Join(root, "var/spool/slurmd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"/etc/slurm/slurm.key": 0o600, "/usr/sbin/ibnetdiscover": 0o755} {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// slurm gives the Debian a newer Slurm than its own, which runs with its own libraries.
func (m *h100) slurm(root string) {
	t := m.t
	t.Helper()
	if _, err := slurmrig.Slurm2605.Build(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"usr/bin", "usr/sbin", "usr/lib", "usr/lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "opt/slurm/usr"), 0o755); err != nil {
			t.Fatal(err)
		}
		command(t, "cp", "-a", filepath.Join(slurmrig.Slurm2605.Root(), folder), filepath.Join(root, "opt/slurm/usr"))
	}
	const libraries = "/opt/slurm/usr/lib/x86_64-linux-gnu"
	for name, file := range map[string]string{"bin/scontrol": "scontrol", "bin/sinfo": "sinfo", "bin/squeue": "squeue", "bin/srun": "srun", "bin/sbatch": "sbatch", "bin/scancel": "scancel",
		"sbin/slurmctld": "slurmctld-wlm", "sbin/slurmd": "slurmd-wlm", "sbin/slurmstepd": "slurmstepd-wlm"} {
		// slurmd opens its own program, so that it can be no script.
		command(t, "gcc", "-o", filepath.Join(root, "usr", name), "-DFOLDER=\""+libraries+"\"", "-DPROGRAM=\"/opt/slurm/usr/"+filepath.Dir(name)+"/"+file+"\"", "testdata/newer.c")
	}
	if err := os.Symlink(libraries+"/slurm-wlm", filepath.Join(root, "usr/lib/x86_64-linux-gnu/slurm-wlm")); err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"slurmctld.service", "slurmd.service"} {
		text, err := os.ReadFile(filepath.Join(slurmrig.Slurm2605.Root(), "usr/lib/systemd/system", unit))
		if err != nil {
			t.Fatal(err)
		}
		put.File(t, filepath.Join(root, "etc/systemd/system", unit), regexp.MustCompile(`(?m)^(User|Group)=.*\n`).ReplaceAllString(string(text), ""), 0o644)
	}
}

// journal is what some units have logged at last.
func (m *h100) journal(units ...string) string {
	args := []string{"journalctl", "--no-pager", "-n", "40"}
	for _, unit := range units {
		args = append(args, "-u", unit)
	}
	return m.run(args...)
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	ran(t, exec.CommandContext(t.Context(), name, args...))
}

func dropIn(unit string) string { return "/etc/systemd/system/" + unit + ".d/fake.conf" }

// devices makes the device files of the GPUs.
func (m *h100) devices() {
	for minor := range 8 {
		if err := unix.Mknod(filepath.Join("/proc", m.pid, "root/dev", fmt.Sprint("nvidia", minor)), unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor)))); err != nil { //nolint:gosec // 0 to 7
			m.t.Fatal(err)
		}
	}
}

// step is what the test does around a block of the page.
type step struct {
	before func()
	after  func(out string)
}

// page runs the blocks of the page in their order, and looks at what they have brought.
func (m *h100) page(blocks []pages.Block) {
	t := m.t
	t.Helper()
	steps := map[string]step{ // by how the block begins
		"dpkg -i quoin_":                       {after: func(string) { m.installed() }},
		"ibnetdiscover >":                      {after: m.leaves},
		"systemctl enable --now quoin-agent\n": {after: func(string) { m.reports() }},
		"quoin map --store":                    {before: m.publishes, after: m.leaves},
		"systemctl restart slurmd\n":           {after: func(string) { m.registers() }},
		"scontrol show topology":               {after: m.looks},
		"sed -i ":                              {before: m.runsOn},
		"dpkg --purge quoin":                   {after: func(string) { m.purged() }},
		"rm -r ":                               {after: func(string) { m.gone() }},
	}
	began := time.Now()
	for _, b := range blocks {
		if b.NotRun != "" {
			continue
		}
		var s step
		for begin := range steps {
			if strings.HasPrefix(b.Text, begin) {
				s = steps[begin]
				delete(steps, begin)
			}
		}
		if s.before != nil {
			s.before()
		}
		start := time.Now()
		out := m.block(b)
		t.Logf("%6.1f s  %s: %s", time.Since(start).Seconds(), b.Heading, strings.Split(b.Text, "\n")[0])
		if s.after != nil {
			s.after(out)
		}
	}
	t.Logf("%6.1f s  the whole page, with the test's own waiting", time.Since(began).Seconds())
	if len(steps) > 0 {
		t.Errorf("the page has no blocks that begin with %q", slices.Sorted(maps.Keys(steps)))
	}
}

// block does what the page says: it runs commands, or writes a file.
func (m *h100) block(b pages.Block) string {
	t := m.t
	t.Helper()
	switch b.Language {
	case "sh":
		return m.run("sh", "-ec", "cd /root\n"+b.Text)
	case "yaml":
		m.write("etc/quoin/quoin.yaml", b.Text)
	case "conf":
		nodes := regexp.MustCompile(`(?m)^NodeName=.*`).ReplaceAllString(m.read("etc/slurm/slurm.conf"), "$0 Gres="+gres)
		m.write("etc/slurm/slurm.conf", nodes+b.Text)
	default:
		t.Fatalf("line %d: what is a block of %s?", b.Line, b.Language)
	}
	return ""
}

// gres is what the page says of the lines of nodes.
const gres = "gpu:h100_80gb_hbm3:8"

// write writes a file of the Debian.
func (m *h100) write(name, text string) {
	m.t.Helper()
	m.run("mkdir", "-p", filepath.Dir("/"+name))
	put.File(m.t, filepath.Join("/proc", m.pid, "root", name), text, 0o644)
}

// installed looks at what is there after the package is installed, before anything is configured.
func (m *h100) installed() {
	t := m.t
	t.Helper()
	for _, unit := range []string{agentUnit, publisherUnit} {
		if out := m.run("systemd-analyze", "verify", "/usr/lib/systemd/system/"+unit); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
		if m.run("systemctl", "start", unit); m.process(unit) != "" {
			t.Errorf("%s runs without a configuration", unit)
		}
	}
	if out := m.run("quoin", "version"); !strings.Contains(out, version.Number) {
		t.Errorf("version: %s", out)
	}
}

// leaves looks at a map: each leaf switch has its two nodes.
func (m *h100) leaves(out string) {
	m.t.Helper()
	for _, nodes := range []string{"node-[1-2]", "node-[3-4]"} {
		if !regexp.MustCompile(`(?m)leaf-.*` + regexp.QuoteMeta(nodes)).MatchString(out) {
			m.t.Errorf("no leaf with %s:\n%s", nodes, out)
		}
	}
}

// reports waits for the agent's report. The other nodes are this one by other names and numbers.
func (m *h100) reports() {
	t := m.t
	t.Helper()
	const reports = "shared/quoin/reports/"
	var own string
	await.Until(t, "the agent has stored its report", func() bool { own = m.read(reports + node + ".json"); return own != "" })
	for i, n := range m.fabric.Nodes[1:] {
		text := strings.NewReplacer(`"`+node+`"`, `"`+n.Name+`"`, "GPU-01000100", fmt.Sprintf("GPU-0100010%d", i+1),
			"00000000-0000-0000-0000-000000000001", fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", i+2)).Replace(own)
		for rail, a := range n.Adapters {
			guid := func(guid uint64) string { return fmt.Sprintf("%016x", guid) }
			text = strings.ReplaceAll(text, guid(m.fabric.Nodes[0].Adapters[rail].GUID), guid(a.GUID))
		}
		m.write(reports+n.Name+".json", text)
	}
}

// publishes waits for the files for Slurm.
func (m *h100) publishes() {
	t := m.t
	t.Helper()
	await.Until(t, "the topology is published", func() bool {
		text := m.read(published + "/topology.yaml")
		return strings.Contains(text, "nodes: node-[1-2]") && strings.Contains(text, "nodes: node-[3-4]")
	}, func() string { return m.journal(agentUnit, publisherUnit) })
	if text := m.read(published + "/gres.conf"); !strings.Contains(text, "NodeName=node-[1-4] Name=gpu") {
		t.Errorf("gres.conf:\n%s", text)
	}
	agent, publisher := m.process(agentUnit), m.process(publisherUnit)
	if got := m.status(agent, "CapEff"); got != "0000000000000001" { // CAP_CHOWN
		t.Errorf("capabilities of the agent: %s", got)
	}
	if got := m.status(publisher, "CapEff"); got != "0000000000000000" || strings.HasPrefix(m.status(publisher, "Uid"), "0 ") {
		t.Errorf("the publisher has capabilities %s, as user %s", got, m.status(publisher, "Uid"))
	}
}

// registers waits until the node is idle in Slurm, with its GPUs. sinfo is not asked: after a reconfigure with a job it
// goes on showing "mixed" when the job has ended and slurmctld has the node as idle.
func (m *h100) registers() {
	var state string
	await.Until(m.t, node+" is idle", func() bool {
		state = m.run("scontrol", "show", "node", node)
		return strings.Contains(state, " State=IDLE ") && strings.Contains(state, " Gres="+gres+"\n")
	}, func() string { return state + m.journal("slurmctld", "slurmd") })
}

// looks looks at what Slurm, quoin job and quoin doctor said, and starts a job that stays.
func (m *h100) looks(out string) {
	t := m.t
	t.Helper()
	t.Log(out)
	for _, want := range []string{" Level=0 LinkSpeed=0 Nodes=node-[1-2]\n", " Level=0 LinkSpeed=0 Nodes=node-[3-4]\n", " Level=1 ", "\nok       hook         /usr/lib/quoin/quoin-hook runs\n", "\nok       cluster      there is none to look at"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "fatal ") {
			t.Errorf("quoin doctor: %s", line)
		}
	}
	m.job = strings.TrimSpace(m.run("sbatch", "--parsable", "--chdir=/tmp", "--gres=gpu:2", "--wrap", "exec sleep 3600"))
	await.Until(t, "the job has its labels", func() bool { return m.labels() })
}

// labels reports whether the job has a record, and whether the files of its GPUs, and no other, name it.
// Slurm's first two GPUs are the device files 0 and 1, which NVML counts as 3 and 2.
func (m *h100) labels() bool {
	for gpu := range 8 {
		text := strings.TrimSpace(m.read(filepath.Join(mapping, fmt.Sprint(gpu))))
		if is := gpu == 2 || gpu == 3; is && text != m.job || !is && text != "" {
			return false
		}
	}
	return m.read(m.record()) != ""
}

func (m *h100) record() string { return "run/quoin/jobs/" + m.job + ".json" }

// runsOn restarts the agent, kills it, and upgrades the package. The job keeps its labels.
func (m *h100) runsOn() {
	t := m.t
	t.Helper()
	agent, publisher := m.process(agentUnit), m.process(publisherUnit)
	m.run("systemctl", "restart", agentUnit)
	agent = m.replaced(agentUnit, agent)
	m.run("sh", "-c", "kill -KILL "+agent)
	agent = m.replaced(agentUnit, agent)
	if got := strings.TrimSpace(m.run("systemctl", "show", "-P", "NRestarts", agentUnit)); got != "1" {
		t.Errorf("systemd has restarted the agent %s times, want 1", got)
	}
	config := m.read("etc/quoin/quoin.yaml")
	m.run("sh", "-c", "dpkg -i /root/quoin_*.deb")
	m.replaced(agentUnit, agent)
	m.replaced(publisherUnit, publisher)
	if got := m.read("etc/quoin/quoin.yaml"); got == "" || got != config {
		t.Errorf("after an upgrade the configuration is %q", got)
	}
	if !m.labels() {
		t.Error("after restarts and an upgrade the job has lost its labels")
	}
}

// purged looks at what the removal of the package leaves, while a job runs.
func (m *h100) purged() {
	t := m.t
	t.Helper()
	for _, unit := range []string{agentUnit, publisherUnit} {
		if pid := m.process(unit); pid != "" {
			t.Errorf("after the removal, %s runs as %s", unit, pid)
		}
	}
	for path, stays := range map[string]bool{"usr/bin/quoin": false, "usr/lib/quoin": false, "usr/lib/systemd/system/" + agentUnit: false,
		"etc/systemd/system/multi-user.target.wants/" + agentUnit: false, "etc/systemd/system/multi-user.target.wants/" + publisherUnit: false,
		"etc/quoin/quoin.yaml": true, published: true, m.record(): true} {
		if _, err := os.Lstat(filepath.Join("/proc", m.pid, "root", path)); (err == nil) != stays {
			t.Errorf("after the removal, %s: %v", path, err)
		}
	}
	if out := strings.TrimSpace(m.run("systemctl", "is-system-running")); out != "running" {
		t.Errorf("after the removal the system is %s", out)
	}
}

// gone takes the shared directory away. The job has gone on, and ends. Slurm starts again without Quoin: it
// has its tree and its GPUs, and the next job runs.
func (m *h100) gone() {
	t := m.t
	t.Helper()
	m.run("rm", "-r", "/shared/quoin")
	if state := strings.TrimSpace(m.run("squeue", "-h", "-j", m.job, "-o", "%T")); state != "RUNNING" {
		t.Errorf("the job is %s", state)
	}
	m.run("scancel", m.job)
	m.registers()
	m.run("systemctl", "restart", "slurmctld", "slurmd")
	m.registers()
	if out := m.run("scontrol", "show", "topology"); !strings.Contains(out, "Nodes=node-[1-2]\n") {
		t.Errorf("without Quoin Slurm's topology is\n%s", out)
	}
	m.run("srun", "--chdir=/tmp", "--gres=gpu:8", "true")
}
