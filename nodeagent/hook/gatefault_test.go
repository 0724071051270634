package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/test/rig/logtext"
	"github.com/quoin-hpc/quoin/topology"
)

// TestGateHolds puts a job back into the queue, or warns where that cannot be.
func TestGateHolds(t *testing.T) {
	for _, tt := range []struct{ name, script, het, word, said string }{
		{"held", "exit 0", "", "hold", `message="its entry is not ready; the job is held in the queue until scontrol release 7"\n$`},
		{"a component", "exit 0", "5", "hold", `until scontrol release 5"`},
		{"an interactive job", "echo Only batch jobs >&2; exit 1", "", "warn", `the job cannot be held and goes on: .*requeuehold 7: exit status 1: Only batch jobs"\n$`},
		{"no scontrol", "", "", "warn", `cannot be held and goes on: hook.json names no scontrol"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.inventory("0", "1")
			asked := filepath.Join(t.TempDir(), "asked")
			command := writeScript(t, fmt.Sprintf("if [ $1 = show ]; then echo JobId=$3 JobName=x 'UserId=u(1)' JobState=RUNNING; exit; fi\necho $* >>%s\n%s\n", asked, tt.script))
			info := fmt.Sprintf(`,"scontrol":%q`, command)
			if tt.script == "" {
				info = ""
			}
			text := fmt.Sprintf(`{"apiVersion":%q,"kind":"HookConfig","mappingDir":%q,"gate":{"wait":"100ms","policy":"hold"}%s}`, topology.APIVersion, p.mapping, info)
			if err := os.WriteFile(filepath.Join(p.run, rundir.HookConfigFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p.both(false)
			code, said, _ := p.pass(tt.word, append([]string{"SLURM_HET_JOB_ID=" + tt.het}, wide...))
			if code != 0 || !regexp.MustCompile(tt.said).MatchString(said) {
				t.Errorf("exit %d, said %q, want %s", code, said, tt.said)
			}
			want := ""
			if tt.script != "" {
				want = "requeuehold " + map[bool]string{true: tt.het, false: "7"}[tt.het != ""] + "\n"
			}
			if got, _ := os.ReadFile(asked); string(got) != want {
				t.Errorf("scontrol was asked for %q, want %q", got, want)
			}
		})
	}
}

// TestGateFaults has the gate itself break: the policy alone may fail a job.
func TestGateFaults(t *testing.T) {
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	for _, tt := range []struct {
		name, said string
		wait       rundir.Duration
		breaks     func(stop func())
	}{
		{"panics", "no such luck; this is a bug in quoin-hook", second, func(func()) { panic("no such luck") }},
		{"hangs", "gate: not done in time; the job goes on", second, func(func()) { <-held; runtime.Goexit() }},
		{"hangs and is told to stop", "gate: not done in time; the job goes on", 600 * second, func(stop func()) { stop(); <-held; runtime.Goexit() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.gate(rundir.Gate{Wait: tt.wait, Policy: rundir.GateFail}, "")
			p.both(false)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var labelled atomic.Bool
			env := func(key string) string {
				if key == "SLURM_JOB_NUM_NODES" && mappedIs(p, "7\n") { // the gate asks for it after the label is written
					labelled.Store(true)
					tt.breaks(stop)
				}
				return map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_JOB_NUM_NODES": "2", "SLURMD_NODENAME": "n1"}[key]
			}
			var said logtext.Text // the hook may write after it has come back
			before := time.Now()
			code := run(ctx, []string{"prolog", "--run-dir", p.run, "--mapping-dir", p.mapping, "--wait", patience}, env, &said)
			took := time.Since(before)
			if code != 0 || !labelled.Load() || !strings.Contains(said.String(), tt.said) {
				t.Errorf("exit %d after %s, said %q", code, took, said.String())
			}
			p.logged(rundir.GateFault, took)
		})
	}
}

// TestGateStopped tells a hook to stop that waits at the gate.
func TestGateStopped(t *testing.T) {
	p := newPlace(t)
	p.gate(rundir.Gate{Wait: 600 * second, Policy: rundir.GateFail}, "")
	p.both(false)
	opened := p.opens(gate.FileName)
	cmd := p.program("prolog", "7", wide...)
	stderr, err := cmd.StderrPipe()
	began := time.Now()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	waitOpened(t, opened)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(said), "gate: told to stop after") {
		t.Errorf("%v, said %q", err, said)
	}
	p.logged(rundir.GateSignal, time.Since(began))
}

func mappedIs(p *place, want string) bool {
	text, err := os.ReadFile(filepath.Join(p.mapping, "0"))
	return err == nil && string(text) == want
}
