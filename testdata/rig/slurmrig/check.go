package slurmrig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Checker asks the real slurmctld of one release about configuration files, one
// call after another, in namespaces that stay. Several checkers work beside
// each other.
type Checker struct {
	cluster *Cluster
	count   atomic.Int64
}

// NewChecker returns a checker that works in dir.
func NewChecker(ctx context.Context, r Release, dir string) (*Checker, error) {
	if err := Build(ctx, r); err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start checker: %w", err)
	}
	defer read.Close()
	c := &Checker{cluster: &Cluster{Dir: dir, release: r, keep: write}}
	if out, err := runScript(ctx, read, nil, "up", dir, "-r", r.Debian, "-d", "namespace"); err != nil {
		c.cluster.Stop()
		return nil, fmt.Errorf("start checker: %w\n%s", err, out)
	}
	return c, nil
}

// Close ends the checker's namespaces.
func (c *Checker) Close() { c.cluster.Stop() }

// Run runs a client command, such as scontrol show hostnames, without a
// slurmctld.
func (c *Checker) Run(ctx context.Context, args ...string) (string, error) {
	if err := c.files("client", map[string]string{"slurm.conf": "NodeName=n1 NodeAddr=127.0.0.1\nPartitionName=main Nodes=ALL\n"}); err != nil {
		return "", err
	}
	return c.cluster.Run(ctx, append([]string{"env", "SLURM_CONF=/rig/client/slurm.conf"}, args...)...)
}

// files writes a configuration directory into the rig.
func (c *Checker) files(name string, files map[string]string) error {
	dir := filepath.Join(c.cluster.Dir, ".rig", name)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		return err
	}
	key, err := os.ReadFile(filepath.Join(c.cluster.Dir, "slurm.key"))
	if err != nil {
		return err
	}
	base, err := os.ReadFile(filepath.Join(c.cluster.Dir, ".rig/base.conf"))
	if err != nil {
		return err
	}
	own := strings.NewReplacer("StateSaveLocation=/rig/state", "StateSaveLocation=/rig/"+name+"/state",
		"SlurmctldLogFile=/rig/log/slurmctld.log\n", "", "SlurmctldPidFile=/rig/run/slurmctld.pid", "SlurmctldPidFile=/rig/"+name+"/pid").Replace(string(base))
	all := map[string]string{"slurm.key": string(key), "cgroup.conf": "CgroupPlugin=disabled\n"}
	maps.Copy(all, files)
	all["slurm.conf"] = own + files["slurm.conf"]
	for n, text := range all {
		if err := os.WriteFile(filepath.Join(dir, n), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// verdictTime bounds how long a slurmctld may take to say yes or no.
const verdictTime = 3 * time.Minute

// Check starts slurmctld on the files (slurm.conf without the rig's own lines,
// topology.conf and so on), waits for its verdict and ends it. fatal says that
// it did not start; lines are its errors and warnings.
func (c *Checker) Check(ctx context.Context, files map[string]string) (fatal bool, lines []string, err error) {
	name := fmt.Sprintf("check%d", c.count.Add(1))
	if err := c.files(name, files); err != nil {
		return false, nil, fmt.Errorf("check: %w", err)
	}
	defer os.RemoveAll(filepath.Join(c.cluster.Dir, ".rig", name)) //nolint:errcheck // the caller removes the folder
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	// slurmctld, which leaves no core file in the chroot, is a child of nsenter, in its process group.
	cmd := exec.CommandContext(ctx, "prlimit", "--core=0", "nsenter", "-t", c.cluster.PID(), "-m", "-u", "-i", "-n", "-p", "--", "chroot", c.cluster.release.Root(),
		"/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "slurmctld", "-D", "-c", "-f", "/rig/"+name+"/slurm.conf")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return false, nil, fmt.Errorf("check: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return false, nil, fmt.Errorf("check: %w", err)
	}
	started, lines := verdict(stderr)
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	waited := cmd.Wait()
	if ctx.Err() != nil {
		return false, lines, fmt.Errorf("check: no verdict within %s: %s", verdictTime, strings.Join(lines, "\n"))
	}
	var exit *exec.ExitError
	if !started && !errors.As(waited, &exit) {
		return false, lines, fmt.Errorf("check: slurmctld ended without a verdict: %w: %s", waited, strings.Join(lines, "\n"))
	}
	return !started, lines, nil
}

// verdict reads slurmctld's log until it runs or the log ends.
func verdict(r io.Reader) (started bool, lines []string) {
	for s := bufio.NewScanner(r); s.Scan(); {
		line := s.Text()
		for _, word := range []string{"fatal", "error:", "warning:"} {
			if strings.Contains(line, word) {
				lines = append(lines, line)
				break
			}
		}
		if strings.Contains(line, "Running as primary controller") {
			return true, lines
		}
	}
	return false, lines
}
