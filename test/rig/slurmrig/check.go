package slurmrig

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Checker asks the real daemons and clients of one release about configuration files, one
// call after another, in namespaces that stay. Several checkers work beside
// each other.
type Checker struct {
	cluster *Cluster
	count   atomic.Int64
}

// checkerGPUs is the number of /dev/nvidiaN that a checker has.
const checkerGPUs = 4

// clientConf is for commands that ask no slurmctld.
const clientConf = "NodeName=n1 NodeAddr=127.0.0.1\nPartitionName=main Nodes=ALL\n"

// NewChecker returns a checker that works in dir.
func NewChecker(ctx context.Context, r Release, dir string) (*Checker, error) {
	cluster, err := startEmpty(ctx, r, dir, Config{Files: map[string]string{"slurm.conf": "Include /rig/base.conf\n" + clientConf}, GPUs: checkerGPUs})
	if err != nil {
		return nil, err
	}
	return &Checker{cluster: cluster}, nil
}

// Close ends the checker's namespaces.
func (c *Checker) Close() { c.cluster.Stop() }

// Run runs a client command, such as scontrol show hostnames, without a
// slurmctld.
func (c *Checker) Run(ctx context.Context, args ...string) (string, error) {
	return c.cluster.Run(ctx, args...)
}

// fewThreads spares slurmctld the start of dozens of threads, a fifth of its time until the
// verdict.
const fewThreads = "SlurmctldParameters=conmgr_threads=4\n"

// verdictTime bounds how long a daemon may take to say yes or no.
const verdictTime = 3 * time.Minute

// Check starts slurmctld on the files (slurm.conf without the rig's own lines,
// topology.conf and so on), waits for its verdict and ends it. fatal says that
// it did not start; lines are its errors and warnings.
func (c *Checker) Check(ctx context.Context, files map[string]string) (fatal bool, lines []string, err error) {
	return c.check(ctx, files, func(func(...string) *exec.Cmd) error { return nil })
}

// Topology returns what scontrol show topology says of the files, which slurmctld must take.
func (c *Checker) Topology(ctx context.Context, files map[string]string) (shown string, err error) {
	fatal, lines, err := c.check(ctx, files, func(command func(...string) *exec.Cmd) error {
		shown, err = c.cluster.run(command("scontrol", "show", "topology"), nil)
		return err
	})
	if err == nil && fatal {
		err = fmt.Errorf("slurmctld does not start: %s", strings.Join(lines, "\n"))
	}
	return shown, err
}

// GRES runs slurmd -G: a node's slurmd reads its GRES from the files. fatal is true if slurmd
// refuses the files. lines are its errors and warnings.
func (c *Checker) GRES(ctx context.Context, node string, files map[string]string) (fatal bool, lines []string, err error) {
	err = c.with(ctx, files, func(ctx context.Context, command func(...string) *exec.Cmd) error {
		out, err := c.cluster.run(command("slurmd", "-N", node, "-G"), nil)
		lines = complaints(out)
		if exit := (*exec.ExitError)(nil); ctx.Err() == nil && errors.As(err, &exit) {
			fatal, err = true, nil
		}
		return err
	})
	return fatal, lines, err
}

// Judged is what slurmctld, and one node's slurmd, make of a configuration.
type Judged struct {
	// Refused says that slurmctld does not start, or waits for a file that is not there:
	// after a minute it ends.
	Refused bool
	// Lines are slurmctld's errors and warnings, and those of slurmd.
	Lines []string
	// Topology is what scontrol shows of the default topology.
	Topology string
	// Node is what scontrol shows of the node when it has registered, or its slurmd has ended
	// or waits for a file.
	Node string
}

// waitsWords are what Slurm says while it waits for a file that is not there.
const waitsWords = "retrying in 1sec up to 60sec"

// Judge starts slurmctld on the files, and the slurmd of a node if there is a name, with further
// arguments.
func (c *Checker) Judge(ctx context.Context, files map[string]string, node string, args ...string) (j Judged, err error) {
	err = c.with(ctx, files, func(ctx context.Context, command func(...string) *exec.Cmd) error {
		said, end, err := c.daemon(command("slurmctld", "-D"), nil, runsWords, waitsWords)
		if err != nil {
			return err
		}
		defer end() //nolint:errcheck // it is killed
		j.Refused, j.Lines = !strings.Contains(said(), runsWords), complaints(said())
		if j.Refused {
			return nil
		}
		if j.Topology, err = c.cluster.run(command("scontrol", "show", "topology"), nil); err != nil || node == "" {
			return err
		}
		of, stop, err := c.daemon(command(append([]string{"slurmd", "-D", "-N", node}, args...)...), []string{ownRun}, "slurmd started on", waitsWords)
		if err != nil {
			return err
		}
		defer stop() //nolint:errcheck // it is killed
		for ctx.Err() == nil {
			j.Node, err = c.cluster.run(command("scontrol", "show", "node", node, "-o"), nil)
			if err != nil && !strings.Contains(err.Error(), "not found") { // it registers itself
				return err
			}
			log := of()
			if registered.MatchString(j.Node) || strings.Contains(log, "fatal:") || strings.Contains(log, waitsWords) {
				j.Lines = append(complaints(said()), complaints(log)...)
				return nil
			}
			time.Sleep(20 * time.Millisecond)
		}
		return ctx.Err()
	})
	return j, err
}

// registered matches a node that slurmctld has judged: it is idle, or it is drained.
var registered = regexp.MustCompile(`State=(IDLE(\+DYNAMIC_NORM)? |\S*(DRAIN|INVAL))`)

// daemon starts a daemon, and returns when it says one of some words, or ends. said returns all that it has
// said so far. end ends it, and returns how it has ended.
func (c *Checker) daemon(cmd *exec.Cmd, mounts []string, words ...string) (said func() string, end func() error, err error) {
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := c.cluster.start(cmd, mounts); err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex
	var text strings.Builder
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		once := sync.OnceFunc(func() { close(ready) })
		defer once()
		for s := bufio.NewScanner(stderr); s.Scan(); {
			mu.Lock()
			text.WriteString(s.Text() + "\n")
			mu.Unlock()
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s.Text(), word) }) {
				once()
			}
		}
	}()
	<-ready
	said = func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
	end = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		<-done
		return cmd.Wait()
	}
	return said, end, nil
}

// with writes the files as a configuration of their own, and calls f. The commands that f makes
// read this configuration.
func (c *Checker) with(ctx context.Context, files map[string]string, f func(ctx context.Context, command func(...string) *exec.Cmd) error) error {
	name := fmt.Sprintf("check%d", c.count.Add(1))
	defer os.RemoveAll(c.cluster.path(name)) //nolint:errcheck // the caller removes the folder
	if err := c.write(name, files); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	err := f(ctx, func(args ...string) *exec.Cmd {
		cmd := c.cluster.command(ctx, args...)
		cmd.Env = append(cmd.Env, "SLURM_CONF=/rig/"+name+"/slurm.conf")
		return cmd
	})
	if ctx.Err() != nil {
		return fmt.Errorf("check: no verdict: %w", errors.Join(ctx.Err(), err))
	}
	return err
}

// write writes a configuration into the rig. Its daemons have a state of their own, and log to
// stderr.
func (c *Checker) write(name string, files map[string]string) error {
	dir := c.cluster.path(name)
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		return err
	}
	key := make([]byte, 64)
	_, _ = rand.Read(key)
	all := map[string]string{"slurm.key": string(key), "cgroup.conf": noGroups}
	maps.Copy(all, files)
	own := strings.NewReplacer("=/rig/state", "=/rig/"+name+"/state", "SlurmctldLogFile=/rig/log/slurmctld.log\n", "", "SlurmdLogFile=/rig/log/%n.log\n", "")
	all["slurm.conf"] = own.Replace(baseConf) + fewThreads + files["slurm.conf"]
	return writeFiles(dir, all)
}

// check starts slurmctld on the files, calls then if it runs, and ends it.
func (c *Checker) check(ctx context.Context, files map[string]string, then func(command func(...string) *exec.Cmd) error) (fatal bool, lines []string, err error) {
	err = c.with(ctx, files, func(ctx context.Context, command func(...string) *exec.Cmd) error {
		said, end, err := c.daemon(command("slurmctld", "-D"), nil, runsWords)
		if err != nil {
			return err
		}
		log, _, started := strings.Cut(said(), runsWords)
		lines = complaints(log)
		if started {
			err = then(command)
		}
		ended := end()
		fatal = !started
		if exit := (*exec.ExitError)(nil); fatal && (ctx.Err() != nil || !errors.As(ended, &exit)) {
			return fmt.Errorf("slurmctld ended without a verdict: %w: %s", ended, log)
		}
		return err
	})
	return fatal && err == nil, lines, err
}
