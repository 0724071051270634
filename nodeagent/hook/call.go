package hook

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

const (
	// reserve is the time that is kept for what has to be done if the lock could not
	// be taken.
	reserve = time.Second
	// stopGrace is how long the work may go on after a signal. slurmd kills the hook
	// some seconds later.
	stopGrace = 250 * time.Millisecond
	// lastGrace bounds what is written when the time is over.
	lastGrace = 100 * time.Millisecond
)

// hook is one call.
type hook struct {
	env    environment
	stderr io.Writer
	runDir rundir.Dir
	boot   string // empty if it is not known
	start  time.Time
	wait   time.Duration // the longest that the call may take, without the gate

	slurmdStart func() uint64
	lookUp      lookUp

	mu sync.Mutex // guards writes to the fields below
	// labels are what this call's settings name, and kept is where a copy of the inventory is. No record
	// of a job names others: whoever writes such a file must not choose where root writes.
	labels   dcgm.Labels
	kept     dcgm.Folder
	scontrol string // of the gate that holds jobs
	gate     *rundir.Gate
	call     rundir.Call
	released bool // an Epilog has nothing left to release
	over     bool // the work is no longer waited for
}

// loadConfig reads how the site wants the hook. mappingDir is the command line's word.
func (h *hook) loadConfig(mappingDir string) {
	c, err := h.runDir.ReadHookConfig()
	if err != nil {
		h.fail(rundir.CallConfig, "%v; the defaults are used for what cannot be read", err)
	}
	if c == nil {
		c = &rundir.HookConfig{MappingDir: dcgm.DefaultMappingDir}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scontrol, h.gate = c.Scontrol, c.Gate
	h.labels, h.kept = dcgm.Open(cmp.Or(mappingDir, c.MappingDir))
}

// await does work, and waits for its end: as long as the limit allows, and after a signal for stopGrace. It
// returns why it no longer waits, empty if the work is done. A panic of the work must not fail the job, so
// panicked takes the panic.
func await(ctx context.Context, limit time.Duration, work func(), panicked func(why any)) (word string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if why := recover(); why != nil {
				panicked(why)
			}
		}()
		work()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	word = rundir.CallTimeout
	for stop := ctx.Done(); ; {
		select {
		case <-done:
			return ""
		case <-stop:
			word, stop = rundir.CallSignal, nil
			timer.Reset(stopGrace)
		case <-timer.C:
			select {
			case <-done: // this process may have slept past both
				return ""
			default:
				return word
			}
		}
	}
}

// within calls do, and waits for its end at most so long. It reports whether do has ended.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// giveUp stops waiting for the work. Each step of the work leaves whole files.
func (h *hook) giveUp(word string) {
	h.mu.Lock()
	released, call := h.released, h.call
	h.over, h.call.Error = true, word
	h.mu.Unlock()
	if call.Hook == "epilog" && !released && call.Job != "" {
		_ = h.runDir.End(h.mark()) // without a mark the agent notices the end
	}
	reason := "not done in time"
	if word == rundir.CallSignal {
		reason = "told to stop"
	}
	fmt.Fprintf(h.stderr, "quoin-hook: job %s: %s after %s; the job goes on\n", call.Job, reason, time.Since(h.start).Round(time.Millisecond))
}

// lastTime is the rest of the call's time, or a moment if there is none. A call on a
// slow disk is to be logged too, because it is the one that people look for. The
// gate's word is to be printed on a busy node too.
func (h *hook) lastTime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return lastGrace
	}
	return max(lastGrace, h.wait-time.Since(h.start)+time.Duration(h.call.GateNs))
}

// log leaves the call for the agent to count. Without a run directory there is no
// agent.
func (h *hook) log() {
	h.mu.Lock()
	call := h.call
	h.mu.Unlock()
	call.Ns = int64(time.Since(h.start)) - call.GateNs
	_ = h.runDir.AppendCall(call) // not worth a message for each job
}

// say prints a line, unless the work is no longer waited for. Nobody waits for the lock
// while stderr hangs.
func (h *hook) say(format string, args ...any) {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if !over {
		fmt.Fprintf(h.stderr, "quoin-hook: "+format+"\n", args...)
	}
}

// fail prints what went wrong. The first failure of a call is counted.
func (h *hook) fail(word, format string, args ...any) {
	h.mu.Lock()
	if h.call.Error == "" && !h.over {
		h.call.Error = word
	}
	job := h.call.Job
	h.mu.Unlock()
	if job != "" {
		format = "job " + job + ": " + format
	}
	h.say(format, args...)
}

func (h *hook) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// left is the time that may still be waited.
func (h *hook) left() time.Duration { return h.wait - min(reserve, h.wait/4) - time.Since(h.start) }

// mark is the mark of this run's end.
func (h *hook) mark() rundir.Summary {
	return rundir.MarkOf(h.env.identity(), h.env.run(), h.env.endTime(), h.env.exitCode())
}
