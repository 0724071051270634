package slurmrig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Node is a slurmd that has files of its own where another node has others, because
// all nodes of a rig share one file system. Its processes are in a PID namespace of their own.
type Node struct {
	Cluster *Cluster
	Name    string
	// Mounts say what the node sees where: FROM:TO, both paths of the rig, or
	// tmpfs:TO for an empty folder.
	Mounts []string

	off   chan struct{} // closed when all processes of the node have ended; nil if the node is off
	init  int           // process 1 of them
	keep  io.Closer     // they end when it is closed, or when this process ends
	group *os.File      // the control group in which they begin, if the rig has any
}

// Start starts the node's slurmd with further arguments, which goes into the background, with a
// /run/slurm of its own. Unlike Cluster.Slurmd it does not wait until the slurmd has started.
func (n *Node) Start(ctx context.Context, args ...string) error {
	_, err := n.run(n.Cluster.slurmd(ctx, n.Name, args...), ownRun)
	return err
}

// Run runs a program of the rig on the node.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	return n.run(n.Cluster.command(ctx, args...))
}

func (n *Node) run(cmd *exec.Cmd, mounts ...string) (string, error) {
	if err := n.on(); err != nil {
		return "", err
	}
	if n.group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(n.group.Fd())
	}
	mounts = slices.Concat([]string{"/rig/proc." + n.Name + ":/proc"}, mounts, n.Mounts)
	return output(cmd, func() error {
		return n.Cluster.inside(allNamespaces, func() error {
			if err := unix.Chroot(n.Cluster.release.Root()); err != nil {
				return fmt.Errorf("enter rig: %w", err)
			}
			return n.start(cmd, mounts)
		})
	})
}

// StartOutside starts a program of this machine as a process of the node. It has this machine's files and
// network, and further mounts as a Node has, FROM:TO with this machine's paths. A FROM of "proc" is the
// node's proc file system.
func (n *Node) StartOutside(cmd *exec.Cmd, mounts ...string) error {
	if err := n.on(); err != nil {
		return err
	}
	own := slices.Clone(mounts)
	for i, m := range own {
		if to, is := strings.CutPrefix(m, "proc:"); is {
			own[i] = n.proc() + ":" + to
		}
	}
	return n.Cluster.inside(unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() error { return n.start(cmd, own) })
}

// start starts a command in the node's PID namespace, from a thread in the rig.
func (n *Node) start(cmd *exec.Cmd, mounts []string) error {
	handle, err := unix.PidfdOpen(n.init, 0)
	if err != nil {
		return fmt.Errorf("enter node %s: %w", n.Name, err)
	}
	defer unix.Close(handle) //nolint:errcheck // nothing was written
	if err := unix.Setns(handle, unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter node %s: %w", n.Name, err)
	}
	if err := mountOwn(mounts); err != nil {
		return err
	}
	return cmd.Start()
}

// proc is where the rig has the node's proc file system.
func (n *Node) proc() string { return filepath.Join(n.Cluster.release.Root(), "rig/proc."+n.Name) }

// on starts process 1 of the node, unless it is there.
func (n *Node) on() error {
	if n.off != nil {
		return nil
	}
	power := exec.Command("unshare", "--pid", "--fork", "--kill-child", "bash", "-c", nodeScript, n.proc()) //nolint:noctx // PowerOff or the rig's end ends it
	power.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	group := ""
	if g := n.Cluster.groups; g != nil {
		group = filepath.Join(g.dir, "first."+n.Name)
		power.Args = append(power.Args, group)
	}
	var err error
	if n.keep, err = power.StdinPipe(); err != nil {
		return err
	}
	said, err := power.StdoutPipe()
	if err != nil {
		return err
	}
	if err := n.Cluster.inside(allNamespaces, power.Start); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	if _, err = bufio.NewReader(said).ReadString('\n'); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	off := make(chan struct{})
	n.off = off
	go func() {
		defer close(off)
		_ = power.Wait() // the rig ends after it
	}()
	driver := mount{from: filepath.Join(n.Cluster.release.Root(), "proc/driver"), to: filepath.Join(n.proc(), "driver")} // see makeModel
	if err := n.Cluster.inside(unix.CLONE_NEWNS, driver.mount); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", power.Process.Pid))
	if err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	if n.init, err = strconv.Atoi(strings.TrimSpace(string(children))); err == nil && group != "" {
		n.group, err = os.Open(filepath.Join("/proc", n.Cluster.PID(), "root", group))
	}
	return err
}

// nodeScript is process 1 of a node, as initScript is of the rig. A slurmd manages no control group that has
// processes of others, so each node has one of its own.
const nodeScript = `mkdir -p "$0" && mount -t proc proc "$0" && { [ -z "$1" ] || { mkdir -p "$1" && echo 0 >"$1/cgroup.procs"; }; } && echo up && read -r _`

// KillSlurmd kills the node's slurmd and nothing of its jobs. It may be dead
// already.
func (n *Node) KillSlurmd() error {
	for end := time.Now().Add(killTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if left, err := n.Kill("slurmd"); err != nil || left == 0 {
			return err
		}
	}
	return fmt.Errorf("slurmd of node %s lives on", n.Name)
}

// PowerOff kills every process of the node, as a power loss does. What they have
// written stays, and their control groups go.
func (n *Node) PowerOff() error {
	_ = syscall.Kill(n.init, syscall.SIGKILL) // all others end with it
	<-n.off
	_ = n.keep.Close()
	if n.off = nil; n.Cluster.groups == nil {
		return nil
	}
	_, err := n.Cluster.Run(context.Background(), "bash", "-c", removeGroups, "bash", n.Cluster.groups.scope(n.Name))
	return err
}

// Kill kills the node's processes of a name, and returns how many it found.
func (n *Node) Kill(name string) (int, error) {
	found, err := processes(n.init, func(comm string) bool { return comm == name })
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return len(found), err
}

const killTime = 2 * time.Minute

// processes returns the processes of a PID namespace, all but the first.
func processes(init int, which func(comm string) bool) ([]int, error) {
	first := strconv.Itoa(init)
	own, err := os.Readlink(filepath.Join("/proc", first, "ns/pid"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || e.Name() == first {
			continue
		}
		// What ends meanwhile has nothing to be read any more.
		dir := filepath.Join("/proc", e.Name())
		if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || namespace != own {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && which(strings.TrimSpace(string(comm))) {
			out = append(out, pid)
		}
	}
	return out, nil
}
