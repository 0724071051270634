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
	// reserve is what is kept of the time for what follows a lock that was not
	// to be had.
	reserve = 250 * time.Millisecond
	// stopGrace is how long the work may go on after a signal: slurmd kills the
	// hook some seconds later.
	stopGrace = 250 * time.Millisecond
	// lastGrace bounds what is written when the time is over.
	lastGrace = 100 * time.Millisecond
)

// hook is one call.
type hook struct {
	env        func(string) string
	stderr     io.Writer
	runDir     string
	summaryDir string
	start      time.Time
	wait       time.Duration // 0: as configured
	ended      []rundir.Summary

	mu       sync.Mutex // guards the writing of the following, and stderr
	mapping  string     // where the labels are
	jobInfo  *rundir.JobInfo
	gate     *rundir.Gate
	call     rundir.Call
	released bool // an Epilog has nothing left to release
	over     bool // nobody waits for the work any more
}

// bounded does the work of the call, and comes back when its time is over
// whether the work is done or hangs.
func (h *hook) bounded(ctx context.Context) {
	done, limit := make(chan struct{}), make(chan time.Duration, 2)
	limit <- cmp.Or(h.wait, rundir.DefaultWait)
	go func() {
		defer close(done)
		defer h.recover()
		h.settle()
		limit <- h.wait
		h.work(ctx)
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

// giveUp leaves the work where it is; each of its steps is whole.
func (h *hook) giveUp(reason, word string) {
	h.mu.Lock()
	released, id, mark := h.released, h.call.Job, h.mark()
	h.over = true
	h.call.Error = word
	fmt.Fprintf(h.stderr, "quoin-hook: job %s: %s after %s; the job goes on\n", id, reason, time.Since(h.start).Round(time.Millisecond))
	h.mu.Unlock()
	if h.call.Hook == "epilog" && !released && id != "" {
		_ = rundir.WriteRelease(h.runDir, mark) // without it the agent finds out
	}
}

// recover turns a panic into a message: a job must not die of it.
func (h *hook) recover() {
	if r := recover(); r != nil {
		h.fail(rundir.CallPanic, "%v; this is a fault of quoin-hook's, please report it; the job goes on\n%s", r, debug.Stack())
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

// logTime is what the call has left of its time, so that a disk on which calls are
// slow does not hide those that were; a moment when nothing is.
func (h *hook) logTime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over { // the work may still set h.wait
		return lastGrace
	}
	return max(lastGrace, h.wait-time.Since(h.start)+time.Duration(h.call.GateNs))
}

// log leaves the call for the agent to count. Where no run directory is, no agent
// is.
func (h *hook) log() {
	h.mu.Lock()
	call := h.call
	h.mu.Unlock()
	call.Ns = int64(time.Since(h.start)) - call.GateNs
	_ = rundir.AppendCall(h.runDir, call) // a count is not worth a message at each job
}

func (h *hook) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		fmt.Fprintf(h.stderr, "quoin-hook: "+format+"\n", args...)
	}
}

// fail says what went wrong and counts it, the first of a call.
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

// left is the time that is left for waiting.
func (h *hook) left() time.Duration { return h.wait - min(reserve, h.wait/4) - time.Since(h.start) }
