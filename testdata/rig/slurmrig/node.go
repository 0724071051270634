package slurmrig

import (
	"context"
	"fmt"
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

// Node is a slurmd that has files of its own where another node has others, for
// all nodes of a rig share one file system.
type Node struct {
	Cluster *Cluster
	Name    string
	// Mounts say what the node sees where: FROM:TO, both paths of the rig, or
	// tmpfs:TO for an empty folder.
	Mounts []string
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
	mark := n.Cluster.path("node." + n.Name)
	if err := os.WriteFile(mark, []byte(n.Name), 0o644); err != nil { //nolint:gosec // no secret
		return "", err
	}
	mounts = slices.Concat([]string{"/rig/node." + n.Name + ":/rig/node"}, mounts, n.Mounts)
	return n.Cluster.run(cmd, mounts)
}

// StartOutside starts a program of this machine beside the nodes. It has this machine's files and
// network, and further mounts as a Node has, FROM:TO with this machine's paths. Its processes are
// the rig's, and end with them. A FROM of "proc" is the rig's proc file system, and one of "cgroup"
// has its control groups.
func (c *Cluster) StartOutside(cmd *exec.Cmd, mounts ...string) error {
	return c.inside(unix.CLONE_NEWNS|unix.CLONE_NEWPID, func() error {
		own := slices.Clone(mounts)
		for i, m := range own {
			switch from, to, _ := strings.Cut(m, ":"); from {
			case "proc":
				own[i] = filepath.Join(c.release.Root(), "proc") + ":" + to
			case "cgroup":
				own[i] = c.groups.dir + ":" + to
			}
		}
		if err := mountOwn(own); err != nil {
			return err
		}
		return cmd.Start()
	})
}

// KillSlurmd kills the node's slurmd and nothing of its jobs. It may be dead
// already.
func (n *Node) KillSlurmd() error {
	return n.kill(func(comm string) bool { return comm == "slurmd" })
}

// PowerOff kills every process of the node, as a power loss does. What they have
// written stays, and their control groups go.
func (n *Node) PowerOff() error {
	if err := n.kill(func(string) bool { return true }); err != nil || n.Cluster.groups == nil {
		return err
	}
	_, err := n.Cluster.Run(context.Background(), "bash", "-c", removeGroups, "bash", n.Cluster.groups.scope(n.Name))
	return err
}

// Kill kills the node's processes of a name, and returns how many it found.
func (n *Node) Kill(name string) (int, error) {
	found, err := n.processes(func(comm string) bool { return comm == name })
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	return len(found), err
}

const killTime = 2 * time.Minute

// kill kills until none is left: a process can fork before it dies.
func (n *Node) kill(which func(comm string) bool) error {
	for end := time.Now().Add(killTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left, err := n.processes(which)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return fmt.Errorf("processes of node %s live on", n.Name)
}

// processes returns the node's: those in the rig that see its mark.
func (n *Node) processes(which func(comm string) bool) ([]int, error) {
	all, err := n.Cluster.processes(which)
	return slices.DeleteFunc(all, func(pid int) bool {
		mark, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "root/rig/node"))
		return err != nil || string(mark) != n.Name
	}), err
}

// processes returns the processes of the rig, all but the first.
func (c *Cluster) processes(which func(comm string) bool) ([]int, error) {
	rig, err := os.Readlink(filepath.Join("/proc", c.PID(), "ns/pid"))
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
		if err != nil || e.Name() == c.PID() {
			continue
		}
		// What ends meanwhile has nothing to be read any more.
		dir := filepath.Join("/proc", e.Name())
		if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || namespace != rig {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && which(strings.TrimSpace(string(comm))) {
			out = append(out, pid)
		}
	}
	return out, nil
}
