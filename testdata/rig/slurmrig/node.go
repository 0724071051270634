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

	init *exec.Cmd // process 1 of the node, nil if the node is off
	keep io.Closer // the node's processes end when it is closed, or when this process ends
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
	mountLater(cmd, "proc:/proc")
	return output(cmd, func() error {
		return n.Cluster.inside(allNamespaces, func() error {
			if err := unix.Chroot(n.Cluster.release.Root()); err != nil {
				return fmt.Errorf("enter rig: %w", err)
			}
			return n.start(cmd, append(mounts, n.Mounts...))
		})
	})
}

// StartOutside starts a program of this machine as a process of the node. It has this machine's files and
// network, and further mounts as a Node has, FROM:TO with this machine's paths. A FROM of "proc" is
// the node's proc file system, and mounts after it may be below it.
func (n *Node) StartOutside(cmd *exec.Cmd, mounts ...string) error {
	if err := n.on(); err != nil {
		return err
	}
	proc := slices.IndexFunc(mounts, func(m string) bool { return strings.HasPrefix(m, "proc:") })
	mountLater(cmd, mounts[proc:]...)
	return n.Cluster.inside(unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() error { return n.start(cmd, mounts[:proc]) })
}

// start starts a command in the node's PID namespace, from a thread in the rig.
func (n *Node) start(cmd *exec.Cmd, mounts []string) error {
	if err := enter(n.init, unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter node %s: %w", n.Name, err)
	}
	if err := mountOwn(mounts); err != nil {
		return err
	}
	return cmd.Start()
}

// mountLater lets a command mount FROM on TO before it becomes its program: only a process of a PID
// namespace can mount the proc of that.
func mountLater(cmd *exec.Cmd, mounts ...string) {
	script := "set -e\n"
	for _, m := range mounts {
		if from, to, _ := strings.Cut(m, ":"); from == "proc" {
			script += "mkdir -p " + to + "; mount -t proc proc " + to + "\n"
		} else {
			script += "mount --bind " + from + " " + to + "\n"
		}
	}
	cmd.Args = append([]string{"bash", "-c", script + `exec -a "$1" "$0" "${@:2}"`, cmd.Path}, cmd.Args...)
	cmd.Path = "/bin/bash"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Unshareflags |= unix.CLONE_NEWNS
}

// on starts process 1 of the node, unless it is there.
func (n *Node) on() error {
	if n.init != nil {
		return nil
	}
	c := n.Cluster
	n.init = c.command(context.Background(), "bash", "-c", "echo up && read -r _") // PowerOff, or the rig's end, ends it
	n.init.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	if c.groups != nil {
		c.groups.enter(n.init)
	}
	var err error
	if n.keep, err = n.init.StdinPipe(); err != nil {
		return err
	}
	said, err := n.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.start(n.init, nil); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	if _, err = bufio.NewReader(said).ReadString('\n'); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	return nil
}

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
	_ = n.init.Process.Kill() // all others end with it
	_ = n.init.Wait()
	_ = n.keep.Close()
	if n.init = nil; n.Cluster.groups == nil {
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
func processes(init *exec.Cmd, which func(comm string) bool) ([]int, error) {
	first := strconv.Itoa(init.Process.Pid)
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
