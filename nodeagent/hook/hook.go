// Package hook is what Slurm's Prolog and Epilog run on every node of a job. It
// writes which job holds which GPU for DCGM Exporter, and releases the GPUs.
//
// It needs the run directory, and the gres.conf of slurmd unless slurmd names GPUs by UUID. It needs
// no daemon, network or PATH; only a gate whose peers have no names asks for addresses. Every wait is
// bounded. It fails no job, unless the site has turned on a gate that does.
package hook

import (
	"cmp"
	"context"
	"io"
	"runtime/debug"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// Options are one call of the hook.
type Options struct {
	// Verb is prolog or epilog.
	Verb   string
	RunDir rundir.Dir
	// BootID is the node's boot, empty if it is not known.
	BootID string
	// SlurmdStart returns when this slurmd began, 0 if it is not known.
	SlurmdStart func() uint64
	// MappingDir is as configured if empty.
	MappingDir string
	// Wait is the longest that the call may take, without the gate. 0: rundir.DefaultWait.
	Wait time.Duration
	// Env is the environment that Slurm gives.
	Env    func(string) string
	Stderr io.Writer
	// LookUp returns the addresses of a name; nil asks what the machine's own programs ask (getent). A
	// job across nodes needs it if a peer of this node's IMEX service is not connected and has no name.
	LookUp func(ctx context.Context, name string) []string
}

// Run makes one call and returns the exit status: 0 whatever happens, except 1 if
// the gate refuses the job.
func Run(ctx context.Context, o Options) int {
	h := &hook{env: o.Env, stderr: o.Stderr, start: time.Now(), runDir: o.RunDir, boot: o.BootID, slurmdStart: o.SlurmdStart, lookUp: o.LookUp, wait: cmp.Or(o.Wait, rundir.DefaultWait)}
	if h.lookUp == nil {
		h.lookUp = resolver
	}
	h.call = rundir.Call{Hook: o.Verb, Start: h.start.UnixNano()}
	if id := o.Env("SLURM_JOB_ID"); dcgm.CheckJobID(id) == nil {
		h.call.Job = id
	}
	h.stderr = bounded{h.stderr}
	word := await(ctx, h.wait, func() {
		h.loadConfig(o.MappingDir)
		(&job{hook: h}).work(ctx)
	}, func(why any) {
		h.fail(rundir.CallPanic, "%v; this is a bug in quoin-hook, please report it; the job goes on\n%s", why, debug.Stack())
	})
	if word != "" {
		within(lastGrace, func() { h.giveUp(word) })
	}
	code := h.passGate(ctx)
	within(h.lastTime(), h.log)
	return code
}

// work does what the call is for.
func (h *job) work(ctx context.Context) {
	if err := dcgm.CheckJobID(h.env("SLURM_JOB_ID")); err != nil {
		h.fail(rundir.CallEnvironment, "%v", err)
		return
	}
	if h.call.Hook == "epilog" {
		h.epilog(ctx)
	} else if h.needsProlog() {
		h.prolog(ctx)
	}
}
