// Package slurmrig runs a real Slurm for tests: Debian's packages in a chroot,
// in namespaces of its own with nothing but loopback. It needs root, Debian's
// package mirrors the first time, and gcc for slurmds with control groups. The
// chroots are kept in the user's cache. Everything it starts ends with the test
// process.
package slurmrig

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quoin-hpc/quoin/test/rig/cache"
)

//go:embed build.sh
var buildScript string

// Release is a Slurm release and the Debian release that has it.
type Release struct{ Slurm, Debian string }

// The releases that a rig can run.
var (
	Slurm2605 = Release{"26.05", "forky"}
	Slurm2411 = Release{"24.11", "trixie"}
)

// Releases lists the releases that a rig can run.
func Releases() []Release { return []Release{Slurm2605, Slurm2411} }

// folder is the name of the release's chroot in the cache, and more are packages that it has beside
// Slurm's daemons and commands.
func (r Release) folder() (name, more string) {
	if r == Slurm2605 {
		return "slurm-" + r.Debian + "-rest", ",slurmrestd,slurm-wlm-jwt-plugin"
	}
	return "slurm-" + r.Debian, ""
}

// Root is the release's chroot.
func (r Release) Root() string {
	name, _ := r.folder()
	return cache.Path(name)
}

// Build returns the release's chroot, and makes it when it is not there. It takes about half a
// minute the first time.
func (r Release) Build(ctx context.Context) (string, error) {
	name, more := r.folder()
	return cache.Folder(name, func(staging string) error {
		if out, err := exec.CommandContext(ctx, "bash", "-c", buildScript, "build.sh", staging, r.Debian, more).CombinedOutput(); err != nil {
			return fmt.Errorf("build Slurm %s: %w\n%s", r.Slurm, err, out)
		}
		return nil
	})
}

// Cluster is a running Slurm.
type Cluster struct {
	// Dir is bound to /etc/slurm; Dir/.rig to /rig.
	Dir     string
	release Release
	init    *exec.Cmd // the first process of the namespaces
	keep    io.Closer // they end when it is closed, or when this process ends
	groups  *groups   // nil for slurmds without control groups
}

// path is a file of the rig's own folder.
func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, ".rig", name) }

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
	// ControlGroups gives the slurmds control groups of version 2.
	ControlGroups bool
}

// Start builds the release if it must and starts slurmctld and the slurmds in
// dir, which is the caller's to remove after Stop.
func Start(ctx context.Context, r Release, dir string, conf Config) (*Cluster, error) {
	files := map[string]string{"slurm.conf": "Include /rig/base.conf\n" + conf.SlurmConf}
	maps.Copy(files, conf.Files)
	conf.Files = files
	c, err := startEmpty(ctx, r, dir, conf)
	if err != nil {
		return nil, err
	}
	if err = c.startSlurmctld(ctx); err == nil {
		err = c.startSlurmds(ctx, conf.Slurmd)
	}
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("start Slurm %s: %w", r.Slurm, err)
	}
	return c, nil
}

// startEmpty makes a rig without a daemon. The files have a slurm.conf.
func startEmpty(ctx context.Context, r Release, dir string, conf Config) (*Cluster, error) {
	if _, err := r.Build(ctx); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("start Slurm: %w", err)
	}
	c := &Cluster{Dir: dir, release: r}
	if err := c.write(conf); err != nil {
		return nil, fmt.Errorf("start Slurm: %w", err)
	}
	if err := c.open(ctx, conf); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start Slurm %s: %w", r.Slurm, err)
	}
	return c, nil
}

// write writes the files of the configuration, and the rig's own folder.
func (c *Cluster) write(conf Config) error {
	if err := os.RemoveAll(c.path("")); err != nil { // of a rig before
		return err
	}
	for _, folder := range []string{"state", "spool", "log", "run", "tmp"} {
		if err := os.MkdirAll(c.path(folder), 0o755); err != nil {
			return err
		}
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	all := map[string]string{"slurm.key": string(key), "cgroup.conf": noGroups, ".rig/base.conf": baseConf, ".rig/hosts": "127.0.0.1 localhost ctl\n"}
	if conf.ControlGroups {
		all["cgroup.conf"], all[".rig/base.conf"] = withGroups, strings.ReplaceAll(baseConf, trackByProc, trackByGroups)
	}
	maps.Copy(all, conf.Files)
	return errors.Join(writeFiles(c.Dir, all), os.Chmod(c.path("tmp"), 0o777|os.ModeSticky))
}

// writeFiles writes files of a configuration: some are programs, some are secret.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		} else if strings.HasSuffix(name, ".key") {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// baseConf are the lines of slurm.conf that a rig without control groups needs. It has no
// accounting.
const baseConf = `ClusterName=rig
SlurmctldHost=ctl(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/rig/state
SlurmdSpoolDir=/rig/spool/%n
SlurmctldPidFile=/rig/run/slurmctld.pid
SlurmdPidFile=/rig/run/slurmd.%n.pid
SlurmctldLogFile=/rig/log/slurmctld.log
SlurmdLogFile=/rig/log/%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
` + trackByProc + `
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
SlurmctldTimeout=30
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
MailProg=/bin/true
`

// upTime bounds how long a daemon may take to answer.
const upTime = 3 * time.Minute

// runsWords are of slurmctld's log, shortly before it answers.
const runsWords = "Running as primary controller"

// startSlurmctld starts slurmctld, which goes into the background, and waits until it answers.
func (c *Cluster) startSlurmctld(ctx context.Context) error {
	out, err := c.Run(ctx, "slurmctld")
	for end := time.Now().Add(upTime); err == nil; time.Sleep(10 * time.Millisecond) {
		if strings.Contains(c.Log("slurmctld"), runsWords) {
			if said, _ := c.Run(ctx, "scontrol", "ping"); strings.Contains(said, "UP") {
				return nil
			}
		}
		if err = ctx.Err(); err == nil && (!c.lives("slurmctld") || time.Now().After(end)) {
			err = errors.New("slurmctld is not up")
		}
	}
	return fmt.Errorf("%w\n%s\n%s", err, out, strings.Join(complaints(c.Log("slurmctld")), "\n"))
}

// lives reports whether the rig has a process of that name.
func (c *Cluster) lives(name string) bool {
	names, _ := filepath.Glob(filepath.Join("/proc", c.PID(), "root", c.release.Root(), "proc/[0-9]*/comm"))
	return slices.ContainsFunc(names, func(path string) bool {
		comm, _ := os.ReadFile(path) // it may have ended
		return strings.TrimSpace(string(comm)) == name
	})
}

// complaints are the lines of a log that say what is wrong. That there is no state yet is not.
func complaints(log string) (lines []string) {
	for line := range strings.Lines(log) {
		state := strings.Contains(line, "_state") || strings.Contains(line, "state file") || strings.Contains(line, "NOTE: Trying")
		if strings.Contains(line, "fatal") || strings.Contains(line, "warning") || strings.Contains(line, "error") && !state {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// startSlurmds starts the slurmds of a host list, or of "all" nodes.
func (c *Cluster) startSlurmds(ctx context.Context, hosts string) error {
	if hosts == "" {
		return nil
	}
	ask := []string{"scontrol", "show", "hostnames", hosts}
	if hosts == "all" {
		ask = []string{"sinfo", "-h", "-N", "-o", "%N"} // a line for each partition
	}
	out, err := c.Run(ctx, ask...)
	if err != nil {
		return err
	}
	nodes := strings.Fields(out)
	slices.Sort(nodes)
	for _, node := range slices.Compact(nodes) {
		if err := c.Slurmd(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything of the cluster.
func (c *Cluster) Stop() {
	if c.init.Process != nil {
		c.kill(func(string) bool { return true }, 0)
	}
	if c.keep != nil {
		_ = c.keep.Close()
	}
	if c.init.Process != nil {
		_ = c.init.Wait() // it ends after all others
	}
	if c.groups != nil {
		_ = c.groups.first.Close()
	}
}

// Kill kills the processes of a name, one after the other, with a moment for what waits for each.
func (c *Cluster) Kill(name string) {
	c.kill(func(comm string) bool { return comm == name }, 30*time.Millisecond)
}

// kill kills processes of the rig, one after the other: the threads of many daemons that end at
// once keep the machine from all else. What has been started meanwhile lives on.
func (c *Cluster) kill(which func(comm string) bool, pause time.Duration) {
	found, _ := processes(c.init.Process.Pid, which) // Stop ends them all the same
	for _, pid := range found {
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		_ = unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0)
		for err = unix.EINTR; errors.Is(err, unix.EINTR); { // until it has ended
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, int(killTime.Milliseconds()))
		}
		_ = unix.Close(process)
		time.Sleep(pause)
	}
}

// PID is the first process of the cluster, whose namespaces all others have.
func (c *Cluster) PID() string { return strconv.Itoa(c.init.Process.Pid) }

// Run runs a command as root in the rig and returns its output. Its folder is the rig's /tmp.
func (c *Cluster) Run(ctx context.Context, args ...string) (string, error) {
	return c.run(c.command(ctx, args...), nil)
}

// As runs a command as a user, alice or bob.
func (c *Cluster) As(ctx context.Context, user string, args ...string) (string, error) {
	cmd := c.command(ctx, args...)
	become(cmd, user)
	return c.run(cmd, nil)
}

// users are the users of the chroot. Each has a group of the same number.
var users = map[string]uint32{"alice": 2001, "bob": 2002, "nobody": 65534}

func become(cmd *exec.Cmd, user string) {
	id, is := users[user]
	if !is {
		cmd.Err = fmt.Errorf("no user %s in the rig", user)
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id, Gid: id}
	cmd.Env = append(cmd.Env, "USER="+user)
}

// command is a command of the rig as root. It ends with all processes of its group when the
// context does.
func (c *Cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.release.program(args[0]), args[1:]...)
	cmd.Args[0] = args[0]
	cmd.Dir = "/tmp" // batch jobs leave files there
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = 2 * time.Second
	if err := leaveNoCore(); err != nil {
		cmd.Err = err
	}
	return cmd
}

// leaveNoCore has nothing that this process starts leave its memory in a file: some inputs crash
// a daemon.
var leaveNoCore = sync.OnceValue(func() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) })

// program is the path of a program of the chroot. A link of it leads elsewhere outside.
func (r Release) program(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	path := filepath.Join("/usr/sbin", name)
	if _, err := os.Lstat(filepath.Join(r.Root(), path)); err == nil {
		return path
	}
	return filepath.Join("/usr/bin", name)
}

// run runs a command of the rig and returns its output.
func (c *Cluster) run(cmd *exec.Cmd, mounts []string) (string, error) {
	return output(cmd, func() error { return c.start(cmd, mounts) })
}

// output returns what a command prints that start has started.
func output(cmd *exec.Cmd, start func() error) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := start()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
	return out.String(), err
}

// ownRun gives every slurmd a /run/slurm of its own, as on a node of its own: two that start at
// once take each other's sack.socket, and one dies of it.
const ownRun = "tmpfs:/run/slurm"

// slurmd is the command of a node's slurmd.
func (c *Cluster) slurmd(ctx context.Context, node string, args ...string) *exec.Cmd {
	cmd := c.command(ctx, append([]string{"slurmd", "-N", node}, args...)...)
	if c.groups != nil {
		c.groups.enter(cmd)
		cmd.Env = append(cmd.Env, "LD_PRELOAD=/rig/unified.so")
	}
	return cmd
}

// Slurmd starts the node's slurmd, with further arguments. It goes into the background and has a
// /run/slurm of its own. Slurmd returns when it has started or has said that it can't, so that of
// many only one starts at a time.
func (c *Cluster) Slurmd(ctx context.Context, node string, args ...string) error {
	before, _ := os.ReadFile(c.logPath(node)) // of a slurmd before
	out, err := c.run(c.slurmd(ctx, node, args...), []string{ownRun})
	for end := time.Now().Add(upTime); err == nil; time.Sleep(10 * time.Millisecond) {
		log, _ := os.ReadFile(c.logPath(node)) // there may be none yet
		if said := string(log[min(len(before), len(log)):]); strings.Contains(said, "slurmd started on") || strings.Contains(said, "fatal:") {
			return nil
		}
		if err = ctx.Err(); err == nil && time.Now().After(end) {
			err = fmt.Errorf("slurmd of %s has not started\n%s\n%s", node, out, log)
		}
	}
	return err
}

// RESTConf are the lines of slurm.conf that a slurmrestd needs. RESTKey is the file of the
// key of its tokens.
const (
	RESTConf = "AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/" + RESTKey + "\n"
	RESTKey  = "jwt.key"
)

// StartREST starts slurmrestd, which only 26.05 has. It returns the path of its socket.
func (c *Cluster) StartREST(ctx context.Context) (socket string, err error) {
	log, err := os.Create(c.path("log/restd.log"))
	if err != nil {
		return "", fmt.Errorf("start slurmrestd: %w", err)
	}
	defer log.Close()
	cmd := c.command(context.WithoutCancel(ctx), "slurmrestd", "-a", "rest_auth/jwt", "unix:/tmp/restd.sock")
	cmd.Stdout, cmd.Stderr = log, log
	become(cmd, "nobody") // it runs neither as root nor as SlurmUser
	cmd.Env = append(cmd.Env, "SLURM_JWT=daemon")
	if err := c.start(cmd, nil); err != nil {
		return "", fmt.Errorf("start slurmrestd: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	socket = c.path("tmp/restd.sock")
	for end := time.After(upTime); ; {
		if _, err := os.Stat(socket); err == nil {
			return socket, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case err = <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		case <-end:
			err = errors.New("it has no socket")
		}
		return "", fmt.Errorf("start slurmrestd: %w\n%s", err, c.Log("restd"))
	}
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

func (c *Cluster) logPath(name string) string { return c.path("log/" + name + ".log") }

// Log returns a daemon's log: slurmctld, or a node's name.
func (c *Cluster) Log(name string) string {
	data, err := os.ReadFile(c.logPath(name))
	if err != nil {
		return err.Error()
	}
	return string(data)
}
