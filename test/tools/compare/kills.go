package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/exporter"
	"github.com/quoin-hpc/quoin/test/rig/loopback"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/process"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

const (
	gpus       = 8
	jobsAtOnce = 4 // with two GPUs each
	// nodesAtOnce are many because most of a round is waiting for the agent.
	nodesAtOnce = 20
	// jobTime is how long jobs run beside an agent: it looks every ten seconds, and has seen them.
	jobTime = 12 * time.Second
	// repairTime is how long after a killed Epilog a label may still be there and be counted as
	// right: an agent repairs within a minute. Nothing repairs what a script leaves.
	repairTime = time.Minute
)

// bash is what common scripts do in Prolog and Epilog: a file for each GPU, written in place and
// removed. It is written from the description of such scripts, and has none of their texts.
const bash = `#!/bin/bash
verb=$1 dir=$2
IFS=, read -ra gpus <<<"$SLURM_JOB_GPUS"
for gpu in "${gpus[@]}"; do
  if [ "$verb" = prolog ]; then printf '%s\n' "$SLURM_JOB_ID" >"$dir/$gpu"; else rm -f "$dir/$gpu"; fi
done
`

// node is a machine with a job mapping directory, which a hook writes.
type node struct {
	dir     nodedir.Dir
	command []string // the hook without its verb
	repairs bool     // an agent runs
	next    int
	killing *sync.Mutex              // of all nodes
	killed  *atomic.Int64            // hooks of all nodes
	took    map[string]time.Duration // by hooks of these jobs, by verb
}

func (n *node) path(name string) string { return filepath.Join(string(n.dir), name) }

// kills kills hooks at random moments, and counts the kills that leave a wrong label on a GPU. It
// also counts the scrapes that fail while hooks run, and times a Prolog.
func kills(ctx context.Context, o options) (figures []figure, err error) {
	script := filepath.Join(o.dir, "hook.sh")
	if err := os.WriteFile(script, []byte(bash), 0o755); err != nil { //nolint:gosec // a program
		return nil, err
	}
	hook, err := programs.Build(ctx, programs.Hook)
	if err != nil {
		return nil, err
	}
	for _, of := range []struct {
		name    string
		repairs bool
		nodes   int
	}{{"quoin-hook beside its agent", true, nodesAtOnce}, {"a bash script", false, 1}} {
		var nodes []*node
		var killing sync.Mutex
		var killed atomic.Int64
		for i := range of.nodes {
			dir, err := nodedir.Make(filepath.Join(o.dir, fmt.Sprintf("node-%t-%d", of.repairs, i)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.name, err)
			}
			n := &node{dir: dir, repairs: of.repairs, killing: &killing, killed: &killed}
			n.command = []string{"/bin/bash", script, "VERB", dir.Mapping()}
			if of.repairs {
				n.command = []string{hook, "VERB", "--run-dir", dir.Run()}
			}
			stop, err := n.start(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.name, err)
			}
			defer stop()
			nodes = append(nodes, n)
		}
		whole, err := nodes[0].timed(ctx, gpus)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		looks, failed, err := nodes[0].scrapes(ctx, o.kills)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		wrong, longest, err := killAll(ctx, nodes, int64(o.kills))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.name, err)
		}
		figures = append(figures,
			figure{fmt.Sprintf("%s: kills -9 that leave a wrong label, of %d", of.name, killed.Load()), fmt.Sprint(wrong)},
			figure{fmt.Sprintf("  scrapes that fail by the exporter's rules, of %d while %d jobs start and end", looks, o.kills), fmt.Sprint(failed)},
			figure{fmt.Sprintf("  a Prolog of a job with %d GPUs", gpus), fmt.Sprintf("%.1f ms", float64(whole["prolog"].Microseconds())/1000)})
		if of.repairs {
			figures = append(figures, figure{"  the agent had removed the labels of the last killed Epilog after", fmt.Sprintf("%.0f s", longest.Seconds())})
		}
	}
	return figures, nil
}

// killAll kills this many hooks or a few more, on all nodes at once.
func killAll(ctx context.Context, nodes []*node, want int64) (wrong int, longest time.Duration, err error) {
	type result struct {
		wrong   int
		longest time.Duration
		err     error
	}
	results := make(chan result)
	for _, n := range nodes {
		go func() {
			var r result
			n.took, r.err = n.timed(ctx, gpus/jobsAtOnce)
			for r.err == nil && n.killed.Load() < want {
				wrong, repaired, err := n.round(ctx)
				r = result{r.wrong + wrong, max(r.longest, repaired), err}
			}
			results <- r
		}()
	}
	for range nodes {
		r := <-results
		wrong, longest, err = wrong+r.wrong, max(longest, r.longest), errors.Join(err, r.err)
	}
	return wrong, longest, err
}

// start makes the node's files, and starts its agent if it has one.
func (n *node) start(ctx context.Context) (stop func(), err error) {
	if err := n.prepare(); err != nil {
		return nil, err
	}
	if n.repairs {
		return n.startAgent(ctx)
	}
	return func() {}, nil
}

// scrapes reads the mapping as the exporter does while jobs start and end.
func (n *node) scrapes(ctx context.Context, jobs int) (looks, failed int, err error) {
	ended := make(chan error)
	go func() {
		var err error
		for i := 0; i < jobs && err == nil; i++ {
			n.next++
			for _, verb := range []string{"prolog", "epilog"} {
				err = errors.Join(err, n.call(ctx, verb, fmt.Sprint(n.next), []string{"0", "1", "2", "3"}, 0))
			}
		}
		ended <- err
	}()
	for ; ; looks++ {
		select {
		case err := <-ended:
			return looks, failed, err
		default:
		}
		if _, err := exporter.Jobs(n.dir.Mapping()); err != nil {
			failed++
		}
	}
}

// prepare writes Slurm's configuration, the simulated machine, and its first processes.
func (n *node) prepare() error {
	for _, dir := range []string{n.path("store"), n.path("conf-cache")} {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // read by others
			return err
		}
	}
	for name, text := range map[string]string{
		n.path("conf-cache/slurm.conf"): "PrologFlags=Alloc,Contain\n",
		n.path("conf-cache/gres.conf"):  "Name=gpu File=/dev/nvidia[0-7]\n",
		n.path("site.yaml"):             "groups: [{racks: 1, nodes: 1, node: \"n{node}\", gpus: {count: 8, product: NVIDIA H100 80GB HBM3, memoryMiB: 81559}}]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return errors.Join(nodedir.Process{PID: 1, Name: "systemd"}.Put(n.proc()), nodedir.Process{PID: 8, Parent: 1, Name: "slurmd", Start: 1}.Put(n.proc()))
}

// proc is the node's proc file system.
func (n *node) proc() string { return filepath.Join(n.dir.Root(), "proc") }

// startAgent starts quoin agent on the simulated machine, and returns what ends it.
func (n *node) startAgent(ctx context.Context) (stop func(), err error) {
	quoin, err := programs.Build(ctx, programs.Quoin)
	if err != nil {
		return nil, err
	}
	args := append([]string{"agent", "--simulate", n.path("site.yaml"), "--node", "n1", "--listen", loopback.Address(9835), "--store", n.path("store"),
		"--set", "agent.healthListen=" + loopback.Address(9837)}, n.dir.Settings()...)
	agent, err := process.Start(exec.CommandContext(ctx, quoin, args...), n.path("agent.log"))
	if err != nil {
		return nil, err
	}
	err = agent.Ready(ctx, func(context.Context) error {
		_, err := os.Stat(filepath.Join(n.dir.Run(), "inventory.json"))
		return err
	})
	if err != nil {
		agent.Stop()
		return nil, err
	}
	return agent.Stop, nil
}

// call runs the hook of a job, and kills it after a time if it has not ended. Zero lets it end.
func (n *node) call(ctx context.Context, verb, job string, of []string, kill time.Duration) error {
	args := slices.Clone(n.command)
	args[slices.Index(args, "VERB")] = verb
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"SLURM_JOB_ID=" + job, "SLURM_JOB_GPUS=" + strings.Join(of, ","), "SLURM_JOB_START_TIME=1790000000", "SLURM_JOB_END_TIME=2000000000", "SLURM_JOB_USER=alice",
		"SLURM_CLUSTER_NAME=c1", "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n1", "SLURM_JOB_NUM_NODES=1", "SLURM_CONF=" + n.path("conf-cache/slurm.conf"), "PATH=/usr/bin:/bin"}
	if kill == 0 {
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s of job %s: %w", verb, job, err)
		}
		return nil
	}
	n.killing.Lock() // one at a time, and without a sleep, which would last too long
	defer n.killing.Unlock()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it has started
	if err := cmd.Start(); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < kill; {
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	err := cmd.Wait()
	if status, is := cmd.ProcessState.Sys().(syscall.WaitStatus); is && status.Signaled() && status.Signal() == syscall.SIGKILL {
		n.killed.Add(1)
		return nil
	}
	return err
}

// timed returns how long Prologs and Epilogs take of a job with some GPUs.
func (n *node) timed(ctx context.Context, gpus int) (map[string]time.Duration, error) {
	var of []string
	for i := range gpus {
		of = append(of, fmt.Sprint(i))
	}
	took, medians := map[string][]time.Duration{}, map[string]time.Duration{}
	for range 21 {
		n.next++
		for _, verb := range []string{"prolog", "epilog"} {
			began := time.Now()
			if err := n.call(ctx, verb, fmt.Sprint(n.next), of, 0); err != nil {
				return nil, err
			}
			took[verb] = append(took[verb], time.Since(began))
			medians[verb] = median(took[verb])
		}
	}
	return medians, nil
}

// moment is a random one while a hook runs.
func moment(took time.Duration) time.Duration { return 1 + rand.N(took) } //nolint:gosec // no secret

// round runs four jobs. The Prolog of each is killed: Slurm then runs the job's Epilog, and starts
// the job again. Then the Epilog of each is killed, which nobody runs again. round counts the jobs
// with a wrong label while they run. It counts jobs that have ended and still have a label a minute later.
func (n *node) round(ctx context.Context) (wrong int, repaired time.Duration, err error) {
	jobs := map[string][]string{}
	for i := range jobsAtOnce {
		n.next++
		jobs[fmt.Sprint(n.next)] = []string{fmt.Sprint(2 * i), fmt.Sprint(2*i + 1)}
	}
	for job, of := range jobs {
		if err := n.call(ctx, "prolog", job, of, moment(n.took["prolog"])); err != nil {
			return 0, 0, err
		}
		for _, verb := range []string{"epilog", "prolog"} {
			if err := n.call(ctx, verb, job, of, 0); err != nil {
				return 0, 0, err
			}
		}
		if err := n.starts(job); err != nil {
			return 0, 0, err
		}
	}
	if n.repairs {
		time.Sleep(jobTime)
	}
	if wrong, err = n.wrong(jobs, jobs); err != nil {
		return 0, 0, err
	}
	for job, of := range jobs {
		if err := os.RemoveAll(filepath.Join(n.proc(), "10"+job)); err != nil { // its step
			return 0, 0, err
		}
		if err := n.call(ctx, "epilog", job, of, moment(n.took["epilog"])); err != nil {
			return 0, 0, err
		}
	}
	for ended := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left, err := n.wrong(jobs, nil)
		if repaired = time.Since(ended); err != nil || left == 0 || !n.repairs || repaired > repairTime {
			return wrong + left, repaired, err
		}
	}
}

// starts starts the external step of a job.
func (n *node) starts(job string) error {
	pid, err := strconv.Atoi("10" + job)
	if err != nil {
		return err
	}
	return nodedir.Step(pid, job+".extern").Put(n.proc())
}

// wrong counts the jobs with a wrong label on a GPU: the label names another job than the one that holds the GPU.
func (n *node) wrong(jobs, holding map[string][]string) (wrong int, err error) {
	labels := map[string][]string{}
	for i := range gpus {
		text, err := os.ReadFile(filepath.Join(n.dir.Mapping(), fmt.Sprint(i)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		labels[fmt.Sprint(i)] = strings.Fields(string(text))
	}
	for job, of := range jobs {
		var want []string
		if holding[job] != nil {
			want = []string{job}
		}
		if slices.ContainsFunc(of, func(gpu string) bool { return !slices.Equal(labels[gpu], want) }) {
			wrong++
		}
	}
	return wrong, nil
}
