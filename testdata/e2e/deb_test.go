package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/cmd/version"
	"github.com/quoin-hpc/quoin/testdata/rig/await"
)

// maxDeb is the most bytes of a Debian package.
const maxDeb = 15_000_000

// debian is a bare Debian in a folder.
type debian struct {
	t    *testing.T
	root string
}

// run runs a program in the Debian.
func (d *debian) run(args ...string) string {
	d.t.Helper()
	out, err := exec.CommandContext(d.t.Context(), "chroot", append([]string{d.root}, args...)...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// exec returns the command of a unit's ExecStart, and its user.
func (d *debian) unit(name string) (args []string, user string) {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.root, "usr/lib/systemd/system", name))
	if err != nil {
		d.t.Fatal(err)
	}
	user = "root"
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "ExecStart="); is {
			args = strings.Fields(value)
		}
		if value, is := strings.CutPrefix(line, "User="); is {
			user = strings.TrimSpace(value)
		}
	}
	return args, user
}

// TestBoxPackage makes the Debian packages, installs one on a bare Debian, runs what the units
// run, and removes it.
func TestBoxPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a Debian")
	}
	var made [2]map[string][]byte
	var dir string
	for i := range made {
		dir = t.TempDir()
		cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-deb", "-out", dir)
		cmd.Dir = "../../manifests/image"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		made[i] = map[string][]byte{}
		for _, arch := range []string{"amd64", "arm64"} {
			data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("quoin_%s_%s.deb", version.Number, arch)))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes", arch, len(data))
			if len(data) > maxDeb {
				t.Errorf("%s has %d bytes, want at most %d", arch, len(data), maxDeb)
			}
			made[i][arch] = data
		}
	}
	for arch := range made[0] {
		if !bytes.Equal(made[0][arch], made[1][arch]) {
			t.Errorf("%s: made twice, other bytes", arch)
		}
	}
	d := &debian{t, filepath.Join(t.TempDir(), "root")}
	if out, err := exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--variant=apt", "--include=systemd", "bookworm", d.root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(d.root, "quoin.deb"), made[0]["amd64"], 0o600); err != nil {
		t.Fatal(err)
	}
	d.run("dpkg", "-i", "/quoin.deb")
	for _, unit := range []string{"quoin-agent.service", "quoin-publisher.service"} {
		if out := d.run("systemd-analyze", "verify", "/usr/lib/systemd/system/"+unit); out != "" {
			t.Errorf("%s: %s", unit, out)
		}
	}
	if out := d.run("quoin", "version"); !strings.Contains(out, version.Number) {
		t.Errorf("version: %s", out)
	}
	d.works()
	d.run("dpkg", "-i", "/quoin.deb") // an upgrade
	if _, err := os.Stat(filepath.Join(d.root, "etc/quoin/quoin.yaml")); err != nil {
		t.Errorf("after an upgrade: %v", err)
	}
	d.run("dpkg", "--purge", "quoin")
	for path, stays := range map[string]bool{"usr/bin/quoin": false, "usr/lib/quoin": false, "usr/lib/systemd/system/quoin-agent.service": false, "etc/quoin/quoin.yaml": true, "shared/quoin/published": true} {
		if _, err := os.Stat(filepath.Join(d.root, path)); (err == nil) != stays {
			t.Errorf("after the removal, %s: %v", path, err)
		}
	}
}

// works runs what the units run, with the configuration of the example and a simulated node,
// until the files for Slurm are there, and the hook as slurmd runs it.
func (d *debian) works() {
	t := d.t
	t.Helper()
	d.run("sh", "-ec", "mkdir -p /etc/quoin /shared/quoin && cp /usr/share/doc/quoin/examples/quoin.yaml /etc/quoin/ && chown quoin: /shared/quoin && mount -t proc proc /proc")
	t.Cleanup(func() { _ = exec.Command("umount", filepath.Join(d.root, "proc")).Run() })
	agent := []string{"quoin-agent.service", "--simulate", "gb300-nvl72", "--listen", "", "--node"}
	for _, more := range [][]string{append(slices.Clone(agent), "gb300-r1t01"),
		append(slices.Clone(agent), "gb300-r1t02", "--set", "agent.runDir=/run/second", "--set", "agent.mappingDir=none"),
		{"quoin-publisher.service", "--listen", "", "--set", "publications.firstWait=1s", "--set", "publications.settle=1s"}} {
		unit, more := more[0], more[1:]
		args, user := d.unit(unit)
		cmd := exec.CommandContext(t.Context(), "chroot", append([]string{"--userspec=" + user, d.root}, append(args, more...)...)...)
		log := &bytes.Buffer{}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil || t.Failed() {
				t.Errorf("%s: %v\n%s", unit, err, log)
			}
		}()
	}
	published := filepath.Join(d.root, "shared/quoin/published/slurm/quoin-slurm/topology.yaml")
	await.Until(t, "the topology is published", func() bool {
		text, err := os.ReadFile(published)
		return err == nil && strings.Contains(string(text), "gb300-r1t[01-02]")
	})
	d.run("env", "-i", "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2", "SLURM_JOB_USER=alice", "SLURM_JOB_UID=1000", "SLURMD_NODENAME=gb300-r1t01", "/usr/lib/quoin/prolog")
	if text, err := os.ReadFile(filepath.Join(d.root, "var/lib/dcgm-exporter/job-mapping/2")); err != nil || strings.TrimSpace(string(text)) != "4711" {
		t.Errorf("mapping of GPU 2: %q, %v", text, err)
	}
	d.run("env", "-i", "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2", "SLURM_JOB_USER=alice", "SLURM_JOB_UID=1000", "SLURMD_NODENAME=gb300-r1t01", "/usr/lib/quoin/epilog")
}
