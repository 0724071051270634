package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/test/rig/await"
	"github.com/quoin-hpc/quoin/test/rig/nodedir"
	"github.com/quoin-hpc/quoin/test/rig/programs"
)

// hookedNode is a node with an agent, the hook, and the processes of slurmd and of jobs' steps.
type hookedNode struct {
	*agentProcess
	*nodedir.Traces
	quoin, hook, maps, root, conf string

	mu   sync.Mutex
	held map[string][]string // GPUs by job, of jobs that have their labels
}

func newHookedNode(t *testing.T) *hookedNode {
	t.Helper()
	p := newAgentProcess(t)
	n := &hookedNode{agentProcess: p, quoin: programs.QuoinTest(t), hook: filepath.Join(p.dir, "quoin-hook"), maps: p.node.Mapping(),
		root: p.node.Root(), held: map[string][]string{}, Traces: nodedir.NewTraces(t, p.node.Root())}
	p.change("")
	programs.PutTest(t, p.dir, programs.Hook)
	n.conf = nodedir.SlurmConf(t, "Name=gpu File=/dev/nvidia[0-7]\n")
	n.Process(nodedir.Process{PID: 8, Parent: 1, Name: "slurmd", Start: 1}) // which has no Prolog running when it is looked
	return n
}

func (n *hookedNode) boot(id string) {
	if err := os.WriteFile(filepath.Join(n.root, "proc/sys/kernel/random/boot_id"), []byte(id), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *hookedNode) run(name ...string) string {
	return filepath.Join(append([]string{n.dir, "run"}, name...)...)
}

// startAgent starts the agent anew.
func (n *hookedNode) startAgent() {
	cmd := exec.Command(n.quoin, append([]string{"agent", "--simulate", n.simulate, "--node", "n1", "--listen", n.address, "--times", "read: 1s",
		"--times", "sample: 100ms", "--times", "sweep: 1s", "--store", n.dir}, n.node.Settings()...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	n.start(cmd)
}

func (n *hookedNode) killAgent() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// call calls the hook, and kills it after a time; zero lets it end.
func (n *hookedNode) call(verb, job string, gpus []string, kill time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.hook, verb, "--run-dir", n.run())
	cmd.Env = []string{"SLURM_JOB_ID=" + job, "SLURM_JOB_GPUS=" + strings.Join(gpus, ","), "SLURM_JOB_START_TIME=1790000000", "SLURM_JOB_USER=alice",
		"SLURM_CLUSTER_NAME=c1", "SLURMD_NODENAME=n1", "SLURM_JOB_NODELIST=n1", "SLURM_CONF=" + n.conf, "SLURM_JOB_END_TIME=2000000000"}
	if err := cmd.Start(); err != nil {
		n.t.Error(err)
		return
	}
	if kill > 0 {
		time.Sleep(kill)
		_ = cmd.Process.Kill()
	}
	if err := cmd.Wait(); err != nil && kill == 0 {
		n.t.Errorf("%s of job %s: %v", verb, job, err)
	}
}

// lines returns the jobs of each GPU's file.
func (n *hookedNode) lines() map[string][]string {
	out := map[string][]string{}
	for i := range 4 {
		text, _ := os.ReadFile(filepath.Join(n.maps, fmt.Sprint(i)))
		out[fmt.Sprint(i)] = strings.Fields(string(text))
	}
	return out
}

// missing names a label that a job has lost of those that have them.
func (n *hookedNode) missing() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines()
	for job, gpus := range n.held {
		for _, gpu := range gpus {
			if !slices.Contains(lines[gpu], job) {
				return fmt.Sprintf("GPU %s has lost job %s: %v", gpu, job, lines)
			}
		}
	}
	return ""
}

// wrong compares all lines with the jobs that live.
func (n *hookedNode) wrong(living map[string][]string) string {
	want := map[string][]string{}
	for job, gpus := range living {
		for _, gpu := range gpus {
			want[gpu] = append(want[gpu], job)
		}
	}
	got := n.lines()
	for i := range 4 {
		gpu := fmt.Sprint(i)
		slices.Sort(want[gpu])
		slices.Sort(got[gpu])
		if !slices.Equal(want[gpu], got[gpu]) {
			return fmt.Sprintf("GPU %s has %v, want %v", gpu, got[gpu], want[gpu])
		}
	}
	return ""
}

// TestAgentKilled kills the agent and hooks at random points, a hundred times. No
// job that lives loses a label, and in the end no label is wrong; nor after a
// power loss.
func TestAgentKilled(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // a test
	n := newHookedNode(t)
	n.startAgent()
	n.until("the inventory", n.hasInventory)
	watched := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		looks := 0
		for ; ctx.Err() == nil; looks++ {
			if m := n.missing(); m != "" {
				t.Error(m)
				break
			}
			time.Sleep(time.Millisecond)
		}
		watched <- looks
	}()
	living := map[string][]string{}
	for i := range rounds {
		n.chaos(random, fmt.Sprint(1000+i), living)
		if t.Failed() {
			break
		}
	}
	cancel()
	t.Logf("%d looks at the labels", <-watched)
	n.settled(t, living)
	n.powerLoss(t)
}

// chaos is one round: a job starts, others end, hooks and the agent are killed.
func (n *hookedNode) chaos(random *rand.Rand, job string, living map[string][]string) {
	kill := func(often int) time.Duration {
		if random.IntN(often) > 0 {
			return 0
		}
		return time.Duration(1 + random.Int64N(int64(4*time.Millisecond)))
	}
	var wg sync.WaitGroup
	if random.IntN(2) == 0 {
		wg.Go(func() { n.killAgent() })
	}
	gpus := [][]string{{"0"}, {"1", "2"}, {"0", "1", "2", "3"}, {"3"}}[random.IntN(4)]
	killed := kill(4)
	n.call("prolog", job, gpus, killed)
	if _, err := os.Stat(n.run("jobs", job+".json")); err == nil { // else it was killed before it could say anything
		n.Step(job + ".extern")
		living[job] = gpus
	}
	if killed == 0 {
		n.mu.Lock()
		n.held[job] = gpus
		n.mu.Unlock()
	}
	wg.Wait()
	if n.cmd.ProcessState != nil {
		n.startAgent()
	}
	time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
	for old := range living {
		if len(living) < 6 && random.IntN(3) > 0 {
			continue
		}
		delete(living, old)
		n.mu.Lock()
		delete(n.held, old)
		n.mu.Unlock()
		n.StepEnds(old + ".extern")
		if random.IntN(5) > 0 { // else its Epilog is lost
			n.call("epilog", old, nil, kill(3))
		}
	}
}

// settled waits until all labels are right, which takes a minute at most, and then
// compares the series with the jobs.
func (n *hookedNode) settled(t *testing.T, living map[string][]string) {
	t.Helper()
	await.Until(t, "labels that are right", func() bool { return n.wrong(living) == "" }, func() string { return n.wrong(living) })
	n.until("the series of the living jobs only", func() bool {
		_, text := n.get("/metrics")
		got, want := map[string]int{}, map[string]int{}
		for line := range strings.Lines(text) {
			if _, rest, ok := strings.Cut(line, `,job_id="`); ok && strings.HasPrefix(line, "quoin_gpu_job_info{") {
				job, _, _ := strings.Cut(rest, `"`)
				got[job]++
			}
		}
		for job, gpus := range living {
			want[job] = len(gpus)
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	})
}

// powerLoss ends all at once, with jobs running, and boots.
func (n *hookedNode) powerLoss(t *testing.T) {
	t.Helper()
	for _, job := range []string{"5001", "5002"} {
		n.call("prolog", job, []string{"0", "3"}, 0)
		n.Step(job + ".extern")
	}
	n.killAgent()
	n.EndSteps()
	n.boot("00000000-0000-0000-0000-000000000001\n")
	n.startAgent()
	n.until("no label is left", func() bool { return n.wrong(nil) == "" })
	n.until("no record is left", func() bool {
		left, err := filepath.Glob(n.run("jobs", "*.json"))
		return err == nil && len(left) == 0
	})
	n.until("at least the 4 lines of the last two jobs are counted", func() bool { return n.metric(`quoin_agent_sweep_released_total{reason="boot"}`) >= 4 })
}
