package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
)

// maxGateMessage bounds what is printed of a gate's message, in bytes.
const maxGateMessage = 500

// shut does what the policy says with a job whose wait was in vain.
func (g *gateWait) shut(ctx context.Context) passage {
	waited := g.waited()
	switch g.Policy {
	case rundir.GateFail:
		return passage{rundir.GateFail, g.line(waited, "the job is refused")}
	case rundir.GateHold:
		job, err := g.requeue(ctx)
		if err == nil {
			return passage{rundir.GateHold, g.line(waited, "the job is held in the queue until scontrol release "+job)}
		}
		return passage{rundir.GateWarn, g.line(waited, fmt.Sprintf("the job cannot be held and goes on: %v", err))}
	}
	return passage{rundir.GateWarn, g.line(waited, "the job goes on")}
}

// requeue puts the job back into the queue, held, and returns the id that scontrol
// releases it by.
func (g *gateWait) requeue(ctx context.Context) (job string, err error) {
	if g.info == nil {
		return "", errors.New("hook.json has no jobInfo.command")
	}
	// Only a heterogeneous job as a whole can be put back.
	job = cmp.Or(g.h.env("SLURM_HET_JOB_ID"), g.h.env("SLURM_JOB_ID"))
	if err := dcgm.CheckJobID(job); err != nil {
		return "", err
	}
	select {
	case <-time.After(spread(g.h.env("SLURM_JOB_NUM_NODES"))):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	info := scontrol(*g.info)
	info.Timeout = rundir.Duration(holdTimeout)
	return job, info.requeueHold(ctx, job, g.h.env("SLURM_CONF"))
}

// line is why the gate is shut, in a form that programs can read.
func (g *gateWait) line(waited time.Duration, outcome string) string {
	var parts []string
	if text := g.now.Message; text != "" {
		parts = append(parts, strings.ToValidUTF8(text[:min(len(text), maxGateMessage)], ""))
	}
	if !g.peers.Known {
		parts = append(parts, fmt.Sprintf("%d of the %d members of its clique are not ready", g.peers.NotReady, len(g.now.Members)))
	}
	return fmt.Sprintf("gate job=%s node=%s reason=%s waited=%s missing=%s message=%q",
		g.h.env("SLURM_JOB_ID"), cmp.Or(g.h.env("SLURMD_NODENAME"), g.now.Node), cmp.Or(g.now.Reason, "NotReady"), waited,
		strings.Join(g.peers.Missing, ","), strings.Join(append(parts, outcome), "; "))
}
