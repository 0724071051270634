package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// bootScript boots the Debian in folder $1, in a control group $2 of its own, and ends it when
// standard input ends. That happens also if the test is killed.
const bootScript = `
groups() { for g in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do if [ -e "$g/cgroup.procs" ]; then echo "$g"; fi; done; }
for g in $(groups); do mkdir "$g/$2" && echo $$ >"$g/$2/cgroup.procs"; done
systemd-nspawn --quiet --boot --register=no --keep-unit --private-network --console=pipe --machine="$2" -D "$1" </dev/null &
read -r _
kill $!
wait $!
for g in $(groups); do echo $$ >"$g/cgroup.procs"; find "$g/$2" -depth -type d -exec rmdir {} + ; done
`

// debian is a bare Debian that has booted: systemd is its process 1.
type debian struct {
	t    *testing.T
	root string
	pid  string // of its process 1 on this machine
}

// boot boots the Debian in a folder.
func boot(t *testing.T, root string) *debian {
	t.Helper()
	log := &strings.Builder{}
	cmd := exec.Command("sh", "-c", bootScript, "sh", root, fmt.Sprintf("quoin-deb-%d", os.Getpid())) //nolint:noctx // the cleanup ends it
	cmd.Stdout, cmd.Stderr = log, log
	hold, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
			t.Errorf("end systemd: %v\n%s", err, log)
		}
	})
	d := &debian{t: t, root: root}
	await.Until(t, "systemd runs as process 1", func() bool {
		d.pid = childOf(childOf(strconv.Itoa(cmd.Process.Pid)))
		if d.pid == "" {
			return false
		}
		out, err := d.command("systemctl", "is-system-running").CombinedOutput()
		return err == nil && strings.TrimSpace(string(out)) == "running"
	})
	// nspawn mounts a boot id of its own, which units with a /proc of their own do not see.
	d.run("sh", "-ec", "while umount /proc/sys/kernel/random/boot_id 2>/dev/null; do :; done")
	return d
}

// childOf returns the first child of a process, or "".
func childOf(pid string) string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
		return fields[0]
	}
	return ""
}

func (d *debian) command(args ...string) *exec.Cmd {
	return exec.CommandContext(d.t.Context(), "nsenter", append([]string{"-t", d.pid, "-a", "--"}, args...)...)
}

// run runs a program in the Debian.
func (d *debian) run(args ...string) string {
	d.t.Helper()
	return ran(d.t, d.command(args...))
}

// read returns a file of the Debian, or "". Its /run is in memory.
func (d *debian) read(name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", d.pid, "root", name))
	return string(text)
}

// process returns the main process of a unit that is active, or "".
func (d *debian) process(unit string) string {
	out, _ := d.command("systemctl", "show", "-P", "MainPID", unit).Output()
	state, _ := d.command("systemctl", "is-active", unit).Output()
	if pid := strings.TrimSpace(string(out)); pid != "0" && strings.TrimSpace(string(state)) == "active" {
		return pid
	}
	return ""
}

// replaced waits until a unit is active with another main process than before, and returns it.
func (d *debian) replaced(unit, before string) string {
	d.t.Helper()
	var pid string
	await.Until(d.t, unit+" has another process", func() bool {
		pid = d.process(unit)
		return pid != "" && pid != before
	}, func() string { return d.run("journalctl", "--no-pager", "-n", "30", "-u", unit) })
	return pid
}

// status returns a line of /proc/PID/status of a process in the Debian.
func (d *debian) status(pid, key string) string {
	for line := range strings.Lines(d.read("proc/" + pid + "/status")) {
		if value, is := strings.CutPrefix(line, key+":"); is {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	command(t, "install", "-D", "--mode=644", from, to)
}
