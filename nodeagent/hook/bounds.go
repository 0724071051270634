package hook

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

const (
	// reserve is the time that is kept for what has to be done if the lock could not
	// be taken.
	reserve = 250 * time.Millisecond
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
	wait   time.Duration // 0: as configured

	mu       sync.Mutex // guards stderr and writes to the fields below
	mapping  string     // where the labels are
	jobInfo  *rundir.JobInfo
	gate     *rundir.Gate
	call     rundir.Call
	released bool // an Epilog has nothing left to release
	over     bool // the work is no longer waited for
}

// bounded does the work of the call. It returns when its time is over, also if the
// work hangs.
func (h *hook) bounded(ctx context.Context) {
	done, limit := make(chan struct{}), make(chan time.Duration, 2)
	limit <- cmp.Or(h.wait, rundir.DefaultWait)
	go func() {
		defer close(done)
		defer h.recover()
		c := h.loadConfig()
		limit <- h.wait
		(&job{hook: h, summaryDir: c.SummaryDir}).work(ctx)
	}()
	h.await(ctx, done, limit)
}

// await waits for the work as long as it may take.
func (h *hook) await(ctx context.Context, done <-chan struct{}, limit <-chan time.Duration) {
	reason, word := "not done in time", rundir.CallTimeout
	timer := time.NewTimer(<-limit)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		select {
		case <-done:
			return
		case wait := <-limit:
			timer.Reset(wait - time.Since(h.start))
		case <-stop:
			stop, limit = nil, nil
			reason, word = "told to stop", rundir.CallSignal
			timer.Reset(stopGrace)
		case <-timer.C:
			within(lastGrace, func() { h.giveUp(reason, word) })
			return
		}
	}
}

// giveUp stops waiting for the work. Each step of the work leaves whole files.
func (h *hook) giveUp(reason, word string) {
	h.mu.Lock()
	released, id, mark := h.released, h.call.Job, h.mark()
	h.over = true
	h.call.Error = word
	fmt.Fprintf(h.stderr, "quoin-hook: job %s: %s after %s; the job goes on\n", id, reason, time.Since(h.start).Round(time.Millisecond))
	h.mu.Unlock()
	if h.call.Hook == "epilog" && !released && id != "" {
		_ = h.runDir.Releases().Write(mark) // without a mark the agent notices the end
	}
}

// recover turns a panic into a message: a panic must not fail the job.
func (h *hook) recover() {
	if r := recover(); r != nil {
		h.fail(rundir.CallPanic, "%v; this is a bug in quoin-hook, please report it; the job goes on\n%s", r, debug.Stack())
	}
}

// within runs do and stops waiting for it after a time.
func within(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// logTime is the rest of the call's time, or a moment if there is none. A call on a
// slow disk is to be logged too, because it is the one that people look for.
func (h *hook) logTime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over { // the work may still set h.wait
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

func (h *hook) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
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
