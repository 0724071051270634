package slurmrig

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/quoin-hpc/quoin/test/rig/process"
)

// The lines of slurm.conf and of cgroup.conf with and without control groups. Slurm is told of no
// constraint, because a kernel whose controllers are in hierarchies of version 1 has none of them
// in version 2.
const (
	trackByProc   = "ProctrackType=proctrack/linuxproc"
	trackByGroups = "ProctrackType=proctrack/cgroup"
	noGroups      = "CgroupPlugin=disabled\n"
	withGroups    = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n" // no systemd runs in the rig
)

// groupRoot is where control groups are mounted in the chroot.
const groupRoot = "/sys/fs/cgroup"

// onlyUnified is the source of a library that a slurmd loads before all others.
//
//go:embed unified.c
var onlyUnified string

// removeGroups is a script that removes the control group $1 and all below it. A group is busy for a
// moment after its last process.
const removeGroups = `for _ in {1..200}; do [ -d "$1" ] || exit 0; find "$1" -depth -type d -exec rmdir {} +; sleep 0.05; done; exit 1`

// groups are the rig's control groups of version 2. All are below one group of the machine.
type groups struct {
	dir   string   // the path of this group in the rig's namespaces, outside the chroot
	first *os.File // the group below it in which the first process and the slurmds begin
}

// openGroups mounts the control groups into the chroot, and makes the rig's own. The first process
// begins there, because slurmds make their groups beside that of process 1.
func (c *Cluster) openGroups(ctx context.Context) error {
	gcc := exec.CommandContext(ctx, "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o", c.path("unified.so"), "-x", "c", "-")
	gcc.Stdin = strings.NewReader(onlyUnified)
	if _, err := process.Output(gcc); err != nil {
		return fmt.Errorf("build unified.so: %w", err)
	}
	root := c.release.Root() + groupRoot
	if err := (mount{from: "cgroup2", to: root, kind: "cgroup2"}).mount(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(root, "quoin-slurm-")
	if err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	first := filepath.Join(dir, "first")
	if err := os.Mkdir(first, 0o755); err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	f, err := os.Open(first)
	if err != nil {
		return fmt.Errorf("make control group: %w", err)
	}
	c.groups = &groups{dir: dir, first: f}
	c.groups.enter(c.init)
	c.init.Args = append(c.init.Args, dir)
	return nil
}

// enter lets a program begin in the rig's control groups.
func (g *groups) enter(cmd *exec.Cmd) {
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.first.Fd())
}

// scope is the path in the chroot of the control group in which a node's slurmd keeps its jobs.
func (g *groups) scope(node string) string {
	return filepath.Join(groupRoot, filepath.Base(g.dir), "system.slice", node+"_slurmstepd.scope")
}
