// Package slurmrig runs a real Slurm for tests: Debian's packages in a chroot,
// in namespaces of its own with nothing but loopback. It needs root and Debian's
// package mirrors the first time; the chroots are kept in the user's cache.
// Everything it starts ends with the test process.
package slurmrig

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/testdata/rig/cache"
)

//go:embed slurmrig.sh
var script []byte

// Release is a Slurm release and the Debian release that has it.
type Release struct{ Slurm, Debian string }

// The releases that a rig can run.
var (
	Slurm2605 = Release{"26.05", "forky"}
	Slurm2411 = Release{"24.11", "trixie"}
)

// Releases lists the releases that a rig can run.
func Releases() []Release { return []Release{Slurm2605, Slurm2411} }

// Root is the release's chroot.
func (r Release) Root() string {
	name := "slurm-" + r.Debian
	if r == Slurm2605 { // it has slurmrestd too
		name += "-rest"
	}
	return cache.Path(name)
}

// Build makes the release's chroot, or finds it made. It takes about half a
// minute the first time.
func Build(ctx context.Context, r Release) error {
	if _, err := os.Stat(filepath.Join(r.Root(), "usr/sbin/slurmctld-wlm")); err == nil {
		return nil
	}
	out, err := runScript(ctx, nil, nil, "build", r.Debian)
	if err != nil {
		return fmt.Errorf("build Slurm %s: %w\n%s", r.Slurm, err, out)
	}
	return nil
}

// runScript runs the rig's script.
func runScript(ctx context.Context, keeper *os.File, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", string(script), "slurmrig"}, args...)...)
	cmd.Env = append(append(os.Environ(), "SLURMRIG_BASE="+cache.Path()), env...)
	if keeper != nil {
		cmd.ExtraFiles = []*os.File{keeper}
		cmd.Env = append(cmd.Env, "RIG_KEEPER=1")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // a daemon keeps our pipe
		err = nil
	}
	return out.String(), err
}

// Cluster is a running Slurm.
type Cluster struct {
	// Dir is bound to /etc/slurm; Dir/.rig to /rig.
	Dir     string
	release Release
	keep    *os.File // the namespaces end when it is closed
}

// Config says what a Cluster is made of.
type Config struct {
	// SlurmConf is slurm.conf after the rig's own lines: nodes, partitions,
	// GRES, topology plugin.
	SlurmConf string
	// Files are further files of /etc/slurm; those that end in .sh are programs, and only
	// root reads those that end in .key.
	Files map[string]string
	// Slurmd is the host list of nodes that get a slurmd, "all", or "" for none.
	Slurmd string
	// GPUs is the number of /dev/nvidiaN.
	GPUs int
	// Model is what the driver's files say of each GPU, "" for no such files.
	Model string
}

// Start builds the release if it must and starts slurmctld and the slurmds in
// dir, which is the caller's to remove after Stop.
func Start(ctx context.Context, r Release, dir string, c Config) (*Cluster, error) {
	if err := Build(ctx, r); err != nil {
		return nil, err
	}
	files := map[string]string{"slurm.conf": "Include /rig/base.conf\n" + c.SlurmConf}
	maps.Copy(files, c.Files)
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		} else if strings.HasSuffix(name, ".key") {
			mode = 0o600
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return nil, fmt.Errorf("start Slurm: %w", err)
		}
	}
	slurmd := c.Slurmd
	if slurmd == "" {
		slurmd = "none"
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start Slurm: %w", err)
	}
	defer read.Close()
	cl := &Cluster{Dir: dir, release: r, keep: write}
	out, err := runScript(ctx, read, []string{fmt.Sprintf("GPUS=%d", c.GPUs), "MODEL=" + c.Model}, "up", dir, "-r", r.Debian, "-d", slurmd)
	if err != nil {
		cl.Stop()
		return nil, fmt.Errorf("start Slurm %s: %w\n%s", r.Slurm, err, out)
	}
	return cl, nil
}

// Stop ends everything of the cluster.
func (c *Cluster) Stop() {
	_ = c.keep.Close() // the namespace's init sees it
	for range 3000 {   // a minute
		// A zombie, which somebody else has to reap, has no command line.
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", c.PID())); err != nil || len(line) == 0 || c.PID() == "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// PID is the first process of the cluster, whose namespaces all others have. It is
// empty if the cluster is not up.
func (c *Cluster) PID() string {
	data, err := os.ReadFile(filepath.Join(c.Dir, ".rig/pid"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Run runs a command as root in the rig and returns its output.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "prlimit", append([]string{"--core=0", "nsenter", "-t", c.PID(), "-m", "-u", "-i", "-n", "-p", "--", "chroot", c.release.Root()}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 2 * time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), err
}

// Slurmd starts slurmd with these arguments, which goes into the background. It
// has a /run/slurm of its own.
func (c *Cluster) Slurmd(ctx context.Context, args ...string) error {
	if out, err := runScript(ctx, nil, nil, append([]string{"slurmd", c.Dir}, args...)...); err != nil {
		return fmt.Errorf("start slurmd: %w\n%s", err, out)
	}
	return nil
}

// RESTConf are the lines of slurm.conf that a slurmrestd needs. RESTKey is the file of the
// key of its tokens.
const (
	RESTConf = "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/" + RESTKey + "\n"
	RESTKey  = "jwt.key"
)

// StartREST starts slurmrestd, which only 26.05 has. It returns the path of its socket.
func (c *Cluster) StartREST(ctx context.Context) (socket string, err error) {
	if out, err := runScript(ctx, nil, nil, "restd", c.Dir); err != nil {
		return "", fmt.Errorf("start slurmrestd: %w\n%s", err, out)
	}
	return filepath.Join(c.Dir, ".rig/tmp/restd.sock"), nil
}

// Token writes a token of the user, who may be root, for slurmrestd. It returns the file's
// path.
func (c *Cluster) Token(ctx context.Context, user string) (string, error) {
	name := filepath.Join(c.Dir, user+".token")
	text, err := c.Run(ctx, "scontrol", "token", "lifespan=86400", "username="+user)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	return name, err
}

// Scontrol writes a program that runs the rig's scontrol from outside. It returns its path.
func (c *Cluster) Scontrol() (string, error) {
	name := filepath.Join(c.Dir, "scontrol.sh")
	text := fmt.Sprintf("#!/bin/sh\nexec nsenter -t %s -m -u -i -n -p -- chroot %s /usr/bin/env -i PATH=/usr/bin:/bin LC_ALL=C scontrol \"$@\"\n", c.PID(), c.release.Root())
	return name, os.WriteFile(name, []byte(text), 0o700)
}

// As runs a command as a user, alice or bob.
func (c *Cluster) As(ctx context.Context, user string, args ...string) (string, error) {
	return c.Run(ctx, append([]string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "env", "HOME=/tmp", "USER=" + user}, args...)...)
}

// Log returns a daemon's log: slurmctld, or a node's name.
func (c *Cluster) Log(name string) string {
	data, err := os.ReadFile(filepath.Join(c.Dir, ".rig/log", name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}
