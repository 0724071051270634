package slurmrig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/testdata/rig/programs"
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

// BuildAsNode puts the program into the rig that gives a node its own files.
func (c *Cluster) BuildAsNode(ctx context.Context) error {
	return programs.Put(ctx, programs.AsNode, filepath.Join(c.Dir, ".rig/asnode"))
}

// Start starts the node's slurmd, which goes into the background, with a
// /run/slurm of its own, as Cluster.Slurmd does.
func (n *Node) Start(ctx context.Context) error {
	_, err := n.run(ctx, []string{"tmpfs:/run/slurm"}, "/usr/sbin/slurmd", "-N", n.Name)
	return err
}

// Run runs a program of the rig, by its path, on the node.
func (n *Node) Run(ctx context.Context, args ...string) (string, error) {
	return n.run(ctx, nil, args...)
}

func (n *Node) run(ctx context.Context, mounts []string, args ...string) (string, error) {
	mark := filepath.Join(n.Cluster.Dir, ".rig/node."+n.Name)
	if err := os.WriteFile(mark, []byte(n.Name), 0o644); err != nil { //nolint:gosec // no secret
		return "", err
	}
	all := append([]string{"/rig/asnode", "/rig/node." + n.Name + ":/rig/node"}, append(mounts, n.Mounts...)...)
	return n.Cluster.Run(ctx, append(append(all, "--"), args...)...)
}

// KillSlurmd kills the node's slurmd and nothing of its jobs. It may be dead
// already.
func (n *Node) KillSlurmd() error {
	return n.kill(func(comm string) bool { return comm == "slurmd" })
}

// PowerOff kills every process of the node, as a power loss does. What they have
// written stays.
func (n *Node) PowerOff() error { return n.kill(func(string) bool { return true }) }

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
	rig, err := os.Readlink(filepath.Join("/proc", n.Cluster.PID(), "ns/pid"))
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
		if err != nil {
			continue
		}
		// What ends meanwhile has nothing to be read any more.
		dir := filepath.Join("/proc", e.Name())
		if namespace, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || namespace != rig {
			continue
		}
		if mark, err := os.ReadFile(filepath.Join(dir, "root/rig/node")); err != nil || string(mark) != n.Name {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && which(strings.TrimSpace(string(comm))) {
			out = append(out, pid)
		}
	}
	return out, nil
}
