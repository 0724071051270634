// Package machine makes machines out of namespaces for tests: each has processes, mounts,
// devices, control groups and a network of its own, and this machine's /usr. It needs root
// and control groups of version 1. A machine leaves nothing when it ends, and ends with the
// test process, also when that is killed.
package machine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// Machine is one that runs.
type Machine struct {
	Name string
	dir  string // of this machine; logs are beside it
	pid  string
	keep *exec.Cmd
	hold io.Closer // the machine ends when it is closed
}

// Start makes a machine in a new folder below dir. It sees the folders of shows under their
// own names.
func Start(ctx context.Context, dir, name string, shows ...string) (*Machine, error) {
	if err := check(); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	program, err := programs.Build(ctx, programs.Keep)
	if err != nil {
		return nil, err
	}
	m := &Machine{Name: name, dir: filepath.Join(dir, name)}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	log, err := os.Create(m.logPath("machine"))
	if err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	defer log.Close()
	m.keep = exec.Command(program, append([]string{m.dir, name}, shows...)...) //nolint:noctx // Stop ends it
	m.keep.Dir, m.keep.Stderr = "/", log
	m.keep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if m.hold, err = m.keep.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	said, err := m.keep.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	if err := m.keep.Start(); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", name, err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		m.Stop()
		return nil, fmt.Errorf("start machine %s: %w: %s", name, err, m.Log("machine"))
	}
	m.pid, _, _ = strings.Cut(line, " ")
	return m, nil
}

// check says what this machine lacks.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("it takes root's rights")
	}
	var info syscall.Statfs_t
	if err := syscall.Statfs("/sys/fs/cgroup", &info); err != nil {
		return fmt.Errorf("read /sys/fs/cgroup: %w", err)
	}
	if info.Type == unix.CGROUP2_SUPER_MAGIC {
		return errors.New("this machine has control groups of version 2; the box runs with version 1 only (systemd.unified_cgroup_hierarchy=0)")
	}
	for _, name := range []string{"nsenter", "ip", "runc", "iptables", "conntrack"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("there is no %s: run testdata/setup.sh box", name)
		}
	}
	return nil
}

// Stop ends everything of the machine and removes what it has left.
func (m *Machine) Stop() {
	_ = m.hold.Close()
	_ = m.keep.Wait()
}

// Path is where a file of the machine is on this one. Files below /run and /dev are not.
func (m *Machine) Path(name string) string { return filepath.Join(m.dir, "root", name) }

// WriteFile writes a file of the machine.
func (m *Machine) WriteFile(name, text string) error {
	path := m.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// enter puts a program into the machine's control groups, where nsenter leaves it out.
const enter = `for f in /sys/fs/cgroup/*/cgroup.procs; do echo 0 >"$f" || exit; done; exec "$@"`

func (m *Machine) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{"-t", m.pid, "-m", "-u", "-i", "-n", "-p", "-C", "--", "/bin/sh", "-c", enter, m.Name}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}
	return cmd
}

// Network returns a program of this machine, with its files, on the network of the other.
func (m *Machine) Network(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"-t", m.pid, "-n", "--"}, args...)...)
}

// Run runs a program on the machine and returns its output.
func (m *Machine) Run(ctx context.Context, args ...string) (string, error) {
	cmd := m.command(ctx, args)
	cmd.WaitDelay = 2 * time.Second
	return process.Output(cmd)
}

// Daemon starts a program that runs until the machine ends. Its output is a log.
func (m *Machine) Daemon(ctx context.Context, name string, args ...string) error {
	log, err := os.OpenFile(m.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	cmd := m.command(context.WithoutCancel(ctx), args)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

func (m *Machine) logPath(name string) string { return m.dir + "." + name + ".log" }

// Log returns the end of a daemon's log.
func (m *Machine) Log(name string) string {
	data, err := os.ReadFile(m.logPath(name))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}

// Dial connects from within the machine's network.
func (m *Machine) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	there, err := os.Open("/proc/" + m.pid + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	runtime.LockOSThread()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
	// The thread goes on. Its end would kill the processes that it has started, because
	// rigs start theirs with Pdeathsig.
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back) // locked for good: no other goroutine may run there
	}
	runtime.UnlockOSThread()
	return conn, err
}

// Link lays a cable to another machine's bridge.
func (m *Machine) Link(ctx context.Context, other *Machine, bridge string) error {
	cable := "to-" + m.Name
	if _, err := process.Output(exec.CommandContext(ctx, "ip", "link", "add", cable, "netns", other.pid, "type", "veth", "peer", "name", "eth0", "netns", m.pid)); err != nil {
		return fmt.Errorf("link %s to %s: %w", m.Name, other.Name, err)
	}
	_, err := other.Run(ctx, "ip", "link", "set", cable, "master", bridge, "up")
	return err
}

// Memory returns the bytes that the machine's processes have, without files in the
// kernel's cache.
func (m *Machine) Memory(ctx context.Context) (int64, error) {
	out, err := m.Run(ctx, "cat", "/sys/fs/cgroup/memory/memory.stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(line, "total_rss "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("memory.stat has no total_rss")
}
