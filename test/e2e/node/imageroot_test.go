//go:build cgo

package node_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/boxrig/images"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/need"
	fake "github.com/quoin-hpc/quoin/test/rig/nvml"
	"github.com/quoin-hpc/quoin/test/rig/programs"
	"github.com/quoin-hpc/quoin/test/rig/put"
)

// inRoot runs a program in a root that it cannot write, with /proc and /dev, and with this machine's files below /mnt. So it runs as in
// a container.
const inRoot = `set -e
mkdir -p "$1/mnt"
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --bind / "$1/mnt"
mount -o remount,bind,ro "$1"
exec chroot "$@"`

// TestImageRoot asks a daemon of NVIDIA's DRA driver in the root of Quoin's image. nvidia-imex-ctl is there as NVIDIA's container toolkit
// gives it to a container: alone.
func TestImageRoot(t *testing.T) {
	t.Parallel()
	need.Rig(t, "base of Quoin's image", images.Base)
	base, err := images.Base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", base, "-C", root, "--exclude=./dev/*").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, path := range map[string]string{programs.Quoin: "usr/bin/quoin", programs.IMEX: "usr/bin/nvidia-imex-ctl"} {
		if err := programs.Put(t.Context(), name, filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	m := newIMEXMachine(t, "235 nvidia-caps-imex-channels\n")
	put.File(t, filepath.Join(m.cgroups, "system.slice/nvidia-imex.service/cgroup.events"), "populated 0\n", 0o600)
	address := loopback.Address(50005)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	config := "var/lib/kubelet/plugins/compute-domain.nvidia.com/domains/6c1f/imexd.cfg"
	m.put(config, "LOG_FILE_NAME=\nIMEX_NODE_CONFIG_FILE=/imexd/nodes.cfg\nIMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP="+host+"\nIMEX_CMD_PORT="+port+"\n", 0o600)
	m.startDaemon(m.path(config), address)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-c", inRoot, "sh", root}, args...)...)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", fake.Variable + "=/mnt" + m.File}
		out, _ := cmd.CombinedOutput() // it says what is wrong
		return string(out)
	}
	discover := func(what, want string) {
		t.Helper()
		out := run("/usr/bin/quoin", "discover", "--node", "n1", "--set", "agent.nvmlLibrary=/mnt"+fake.Library(t, 580), "--set", "agent.hostRoot=/mnt"+m.Root())
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", what, want, out)
		}
	}
	discover("as shipped", "daemon READY, domain -\n")

	// The configuration that NVIDIA's package installs has its log in /var/log.
	m.put("config.cfg", "LOG_FILE_NAME=/var/log/nvidia-imex.log\nIMEX_CMD_ENABLED=1\nIMEX_CMD_BIND_INTERFACE_IP="+host+"\nIMEX_CMD_PORT="+port+"\n", 0o600)
	if got := run("/usr/bin/nvidia-imex-ctl", "-c", "/mnt"+m.path("config.cfg"), "-q"); got != "READY\n" {
		t.Errorf("by NVIDIA's own configuration: %q", got)
	}

	libraries, err := filepath.Glob(filepath.Join(root, "lib/*/libz.so.1*"))
	if err != nil || len(libraries) == 0 {
		t.Fatalf("libz is not in the image: %v", err)
	}
	for _, path := range libraries {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	discover("without libz", "-q of the daemon at "+address+": exit status 127: /usr/bin/nvidia-imex-ctl: error while loading shared libraries: libz.so.1")
}

// startDaemon starts the stand-in of nvidia-imex, and waits until it takes questions.
func (m *imexMachine) startDaemon(config, address string) {
	m.t.Helper()
	program := filepath.Join(m.t.TempDir(), "nvidia-imex")
	if err := programs.Put(m.t.Context(), programs.IMEX, program); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), program, "-c", config)
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Wait() // the end of the test's context kills it
	})
	await.Until(m.t, "the daemon takes questions", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, out.String)
}
