package hook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// memoryDir is a directory in memory, as the run directory is on a node, where
// there is one.
func memoryDir(t testing.TB) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "quoin-hook-"); err == nil { //nolint:usetesting // it would be on a disk
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// modelJob is what the reference knows of a job: sure is what it holds, perhaps
// what it may still be labelled with after a kill.
type modelJob struct {
	id            string
	started       int
	gpus, perhaps []string
	sure          bool
}

// model is the reference beside one node's directories.
type model struct {
	t       testing.TB
	rand    *rand.Rand
	hook    string // the program, for calls that are killed
	mapping string
	run     string
	jobs    []*modelJob
	clock   int
	took    time.Duration // of a call of the program
	marks   *atomic.Int32 // of Epilogs that found the lock held
	steps   []string
}

func newModel(t testing.TB, seed uint64, dir, hook string, took time.Duration, marks *atomic.Int32) *model {
	m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), hook: hook, took: took, marks: marks, mapping: filepath.Join(dir, "map"), clock: 1000}
	m.run = filepath.Join(dir, "run")
	if err := rundir.Dir(m.run).WriteHookConfig(rundir.HookConfig{MappingDir: m.mapping}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"7", "8", "9", "10"} {
		m.jobs = append(m.jobs, &modelJob{id: id})
	}
	return m
}

func (m *model) env(j *modelJob, started int, gpus []string) map[string]string {
	return map[string]string{"SLURM_JOB_ID": j.id, "SLURM_CLUSTER_NAME": "a", "SLURMD_NODENAME": "n1",
		"SLURM_JOB_GPUS": strings.Join(gpus, ","), "SLURM_JOB_START_TIME": fmt.Sprint(started)}
}

// call runs the hook to its end, in this process. The hook gives up no work, because that
// work would go on here beside the next steps.
func (m *model) call(verb string, j *modelJob, started int, gpus []string) {
	env := m.env(j, started, gpus)
	var said strings.Builder
	if code := run(context.Background(), []string{verb, "--run-dir", m.run, "--wait", "5m"}, func(k string) string { return env[k] }, &said); code != 0 || strings.Contains(said.String(), "panic") {
		m.t.Errorf("exit %d: %s", code, said.String())
	}
}

// process is the hook as a program.
func (m *model) process(verb string, j *modelJob, started int, gpus []string, flags ...string) *exec.Cmd {
	cmd := exec.Command(m.hook, append([]string{verb, "--run-dir", m.run}, flags...)...)
	cmd.Env = []string{"SLURM_CONF=" + configlessConf}
	for k, v := range m.env(j, started, gpus) {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// kill runs the hook and kills it somewhere.
func (m *model) kill(verb string, j *modelJob, started int, gpus []string) {
	cmd := m.process(verb, j, started, gpus)
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	time.Sleep(time.Duration(m.rand.Float64() * 1.2 * float64(m.took)))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func (m *model) someGPUs() []string {
	var gpus []string
	for g := range 4 {
		if m.rand.IntN(2) == 0 {
			gpus = append(gpus, fmt.Sprint(g))
		}
	}
	return gpus
}

// step does one thing that happens to a node, and keeps the reference in step.
func (m *model) step() {
	j := m.jobs[m.rand.IntN(len(m.jobs))]
	what := m.rand.IntN(21)
	m.clock++
	gpus := m.someGPUs()
	name := "job " + j.id
	switch {
	case what < 7: // starts, or starts again though no Epilog came
		m.did("start of %s on %v", name, gpus)
		_, old, err := rundir.Dir(m.run).FindRecord(rundir.JobIdentity{JobID: j.id, Cluster: "a", Node: "n1"})
		if err != nil {
			panic(err)
		}
		m.call("prolog", j, m.clock, gpus)
		j.started, j.gpus, j.sure = m.clock, gpus, true
		if len(gpus) > 0 || old != nil { // else it is none of the hook's business
			j.perhaps = nil
		}
	case what < 9:
		m.did("killed start of %s on %v", name, gpus)
		m.kill("prolog", j, m.clock, gpus)
		j.started, j.perhaps, j.gpus, j.sure = m.clock, union(union(j.perhaps, j.gpus), gpus), nil, false
	case what < 14:
		m.did("end of %s", name)
		m.call("epilog", j, j.started, j.gpus)
		j.gpus, j.perhaps, j.sure = nil, nil, false
	case what < 16:
		m.did("killed end of %s", name)
		m.kill("epilog", j, j.started, j.gpus)
		j.gpus, j.perhaps, j.sure = nil, union(j.perhaps, j.gpus), false
	case what < 17 && j.sure:
		m.did("late end of an earlier run of %s", name)
		m.call("epilog", j, j.started-1, m.someGPUs())
	case what < 18:
		m.did("end of %s without the lock", name)
		m.endWithoutLock(j)
	case what < 19:
		m.reboot(m.rand.IntN(2) == 0)
	case what < 20 && len(gpus) > 0:
		m.did("start of %s on %v without the lock, and agent", name, gpus)
		m.startWithoutLock(j, gpus)
	default:
		m.did("agent")
		m.sweep()
	}
}

func (m *model) did(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// startWithoutLock has a Prolog that finds the lock held: the agent labels the run
// by its record, where no earlier run's is in its place.
func (m *model) startWithoutLock(j *modelJob, gpus []string) {
	key, old, err := rundir.Dir(m.run).FindRecord(rundir.JobIdentity{JobID: j.id, Cluster: "a", Node: "n1"})
	if err != nil {
		panic(err)
	}
	m.callWithoutLock("prolog", j, m.clock, gpus)
	if r, err := rundir.Dir(m.run).ReadRecord(key); old != nil || r == nil || err != nil {
		j.started, j.perhaps, j.gpus, j.sure = m.clock, union(union(j.perhaps, j.gpus), gpus), nil, false
		return
	}
	j.started, j.gpus, j.sure = m.clock, gpus, true
	m.sweep()
}

// callWithoutLock runs the hook while the lock is held. The hook is a process, so that
// nothing of the call goes on after it has given up.
func (m *model) callWithoutLock(verb string, j *modelJob, started int, gpus []string) {
	unlock, err := rundir.Dir(m.run).Lock(context.Background(), time.Minute)
	if err != nil {
		panic(err)
	}
	defer unlock()
	cmd := m.process(verb, j, started, gpus, "--wait", "10ms")
	if err := cmd.Run(); err != nil {
		m.t.Errorf("%s without the lock: %v", verb, err)
	}
}

// endWithoutLock has an Epilog that finds the lock held, and leaves a mark. The next hook
// of the run directory finishes the release; here that hook is of a job without GPUs. On a busy machine
// the time of the Epilog may be over before it leaves the mark: then the agent notices the
// end.
func (m *model) endWithoutLock(j *modelJob) {
	m.callWithoutLock("epilog", j, j.started, j.gpus)
	marks, err := rundir.Dir(m.run).Marks()
	if err != nil {
		panic(err)
	}
	m.call("epilog", &modelJob{id: "99"}, m.clock, nil)
	if slices.ContainsFunc(marks, func(m rundir.Summary) bool { return m.Record.JobID == j.id }) {
		m.marks.Add(1)
		j.gpus, j.perhaps, j.sure = nil, nil, false
	} else {
		j.gpus, j.perhaps, j.sure = nil, union(j.perhaps, j.gpus), false
	}
}

// reboot ends all jobs; the run directory is in memory, or is not.
func (m *model) reboot(kept bool) {
	m.did("reboot, run directory kept: %t", kept)
	if !kept {
		config, _ := rundir.Dir(m.run).ReadHookConfig()
		if err := os.RemoveAll(m.run); err != nil {
			panic(err)
		}
		if err := rundir.Dir(m.run).WriteHookConfig(*config); err != nil {
			panic(err)
		}
	}
	records, _ := rundir.Dir(m.run).ReadRecords()
	for key, r := range records {
		r.BootID = "another"
		if err := rundir.Dir(m.run).WriteRecord(key, r); err != nil {
			panic(err)
		}
	}
	marker := filepath.Join(m.mapping, ".quoin/boot")
	if _, err := os.Stat(marker); err == nil {
		if err := os.WriteFile(marker, []byte("another\n"), 0o600); err != nil {
			panic(err)
		}
	}
	for _, j := range m.jobs {
		j.perhaps, j.gpus, j.sure = union(j.perhaps, j.gpus), nil, false
	}
}

// sweep does in the plainest way what the agent does: what is dead goes.
func (m *model) sweep() {
	mapping := dcgm.Mapping{Dir: m.mapping}
	if _, err := mapping.Sweep(testBoot, true); err != nil {
		panic(err)
	}
	records, failed := rundir.Dir(m.run).ReadRecords()
	if len(failed) > 0 {
		panic(failed)
	}
	for key, r := range records {
		if slices.ContainsFunc(m.jobs, func(j *modelJob) bool { return j.sure && j.id == r.JobID }) {
			if err := mapping.Set(r.JobID, r.GPUs); err != nil {
				panic(err)
			}
			continue
		}
		_ = mapping.Clear(r.JobID, union(r.GPUs, r.Leaving))
		_ = rundir.Dir(m.run).RemoveRecord(key)
	}
	for _, j := range m.jobs {
		j.perhaps = nil
	}
}
