package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

const (
	// gatePoll is the time between two looks at a shut gate.
	gatePoll = 50 * time.Millisecond
	// holdTimeout bounds each of two calls of scontrol. It may be longer than what
	// every job waits for, because this job is not to run.
	holdTimeout = 5 * time.Second
	// gateGrace is what the gate may take beyond its wait.
	gateGrace = time.Second
)

// passage is what came of the gate: one of rundir's words, and a line to print if
// there is one.
type passage struct{ word, said string }

// gateWait holds a Prolog back until IMEX is ready on its node.
type gateWait struct {
	rundir.Gate
	h     *hook
	info  *rundir.JobInfo
	start time.Time
	path  string
	seen  os.FileInfo // the gate's file as last read, and what was in it
	now   *gate.State
	peers gate.Peers // of a gate that is shut
}

// passGate makes a job across nodes wait for the gate and returns the exit status: 1
// if the site wants jobs refused and IMEX is not ready, else 0, whatever happens. It
// comes last, because nothing else may wait for it.
func (h *hook) passGate(ctx context.Context) int {
	asked := make(chan gateWait, 1)
	within(lastGrace, func() { // a write to a stderr that hangs never gives the lock back
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.gate != nil && h.call.Hook == "prolog" && h.call.Job != "" {
			asked <- gateWait{Gate: *h.gate, info: h.jobInfo}
		}
	})
	var wants gateWait
	select {
	case wants = <-asked:
	default:
		return 0
	}
	if ctx.Err() != nil {
		return 0
	}
	g := &gateWait{Gate: wants.Gate, h: h, info: wants.info, start: time.Now(), path: filepath.Join(string(h.runDir), gate.FileName)}
	if g.Wait == 0 {
		g.Wait = rundir.Duration(rundir.DefaultGateWait)
	}
	p := g.bounded(ctx)
	if p.word == "" {
		return 0
	}
	within(lastGrace, func() {
		h.set(func() { h.call.Gate, h.call.GateNs = p.word, int64(time.Since(g.start)) })
	})
	if p.said != "" {
		within(lastGrace, func() { h.set(func() { fmt.Fprintln(h.stderr, "quoin-hook:", p.said) }) })
	}
	if p.word == rundir.GateFail {
		return 1
	}
	return 0
}

// bounded passes the gate. It also returns if the gate hangs or panics.
func (g *gateWait) bounded(ctx context.Context) passage {
	done := make(chan passage, 1)
	limit := time.Duration(g.Wait) + gateGrace
	if g.Policy == rundir.GateHold {
		limit += 2*holdTimeout + time.Second
	}
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- g.goesOn(rundir.GateFault, fmt.Sprintf("%v; this is a bug in quoin-hook, please report it\n%s", r, debug.Stack()))
			}
		}()
		done <- g.pass(ctx)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for stop := ctx.Done(); ; {
		select {
		case p := <-done:
			return p
		case <-stop:
			stop = nil
			timer.Reset(stopGrace)
		case <-timer.C:
			return g.goesOn(rundir.GateFault, "not done in time")
		}
	}
}

// pass waits for the gate to open, if the job needs an open gate.
func (g *gateWait) pass(ctx context.Context) passage {
	if !g.needed() {
		return passage{}
	}
	end := time.NewTimer(time.Duration(g.Wait))
	defer end.Stop()
	for open := rundir.GateReady; ; open = rundir.GateWaited {
		if p, stale := g.look(); stale {
			return p
		}
		switch {
		case g.now.Clique == "":
			return passage{}
		case g.now.Ready:
			return passage{word: open}
		}
		select {
		case <-ctx.Done():
			return g.goesOn(rundir.GateSignal, "told to stop after "+g.waited().String())
		case <-end.C:
			if g.peers.Alone { // not before, because another may be about to join
				return passage{word: rundir.GateAlone}
			}
			return g.shut(ctx)
		case <-time.After(gatePoll):
		}
	}
}

// needed says whether the job uses GPUs of several nodes. For a component of one
// node of a heterogeneous job it lowers the policy to a warning: whether the other
// components need this node is not known.
func (g *gateWait) needed() bool {
	nodes, err := strconv.ParseUint(g.h.env("SLURM_JOB_NUM_NODES"), 10, 32)
	if err != nil || !g.h.env.hasGPUs() {
		return false
	}
	if nodes >= 2 {
		return true
	}
	g.Policy = rundir.GateWarn
	return g.h.env("SLURM_HET_JOB_ID") != ""
}

// look reads the gate if its file has changed. If the file does not say how things
// are now, look returns what becomes of the job.
func (g *gateWait) look() (p passage, stale bool) {
	info, err := os.Stat(g.path)
	if err != nil {
		return g.goesOn(rundir.GateStale, fmt.Sprintf("%v: is the agent on this node?", err)), true
	}
	if time.Since(info.ModTime()).Abs() > gate.Stale {
		if g.read() == nil && g.now.NeedsNone() {
			return passage{}, true // the hardware does not change within a boot
		}
		return g.goesOn(rundir.GateStale, fmt.Sprintf("%s was last written at %s: is the agent alive?", g.path, info.ModTime().Format(time.RFC3339))), true
	}
	if g.seen != nil && os.SameFile(g.seen, info) && g.seen.ModTime().Equal(info.ModTime()) {
		return passage{}, false
	}
	if err := g.read(); err != nil {
		return g.goesOn(rundir.GateStale, err.Error()), true
	}
	g.seen = info
	return passage{}, false
}

// read reads the gate's file.
func (g *gateWait) read() error {
	now, _, err := gate.Read(string(g.h.runDir))
	if err != nil {
		return err
	}
	if !rundir.SameBoot(now.BootID, g.h.boot) {
		return fmt.Errorf("%s is of another boot", g.path)
	}
	g.now = now
	if now.Clique != "" && !now.Ready {
		g.peers = now.Peers(g.h.env("SLURMD_NODENAME"), g.h.env("SLURM_JOB_NODELIST"))
		// A component's list lacks the other components' nodes.
		g.peers.Alone = g.peers.Alone && g.h.env("SLURM_HET_JOB_ID") == ""
	}
	return nil
}

func (g *gateWait) waited() time.Duration { return time.Since(g.start).Round(100 * time.Millisecond) }

// goesOn lets the job go on if the gate does not say whether IMEX is ready.
func (g *gateWait) goesOn(word, why string) passage {
	return passage{word, fmt.Sprintf("job %s: gate: %s; the job goes on without waiting for IMEX", g.h.env("SLURM_JOB_ID"), why)}
}
