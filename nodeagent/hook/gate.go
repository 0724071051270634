package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	// gatePoll is the time between two looks at a shut gate.
	gatePoll = 50 * time.Millisecond
	// holdTimeout bounds each call of scontrol. It may be longer than what
	// every job waits for, because this job is not to run.
	holdTimeout = 5 * time.Second
	// holdPause follows a hold: slurmctld answers before it tells the job's nodes. If the
	// Prolog ended in between, slurmd would start the job's script.
	holdPause = time.Second
	// maxGateMessage bounds what is printed of a gate's message, and maxQuoted a list, in bytes.
	maxGateMessage = 500
	maxQuoted      = 200
	// gateGrace is what the gate may take beyond its wait.
	gateGrace = time.Second
)

// passage is what came of the gate: one of rundir's words, and a line to print if
// there is one.
type passage struct{ word, said string }

// gateWait holds a Prolog back until IMEX is ready on its node.
type gateWait struct {
	rundir.Gate
	h *hook
	// scontrol holds a job, empty if there is none.
	scontrol string
	start    time.Time
	now      *gate.State // what the gate's file said last
	peers    gate.Peers  // by compare
	// addresses are the addresses of the job's nodes. They are nil before the hook has looked them up.
	addresses gate.Addresses
}

// passGate makes a job across nodes wait for the gate and returns the exit status: 1
// if the site wants jobs refused and IMEX is not ready, else 0, whatever happens. It
// comes last, because nothing else may wait for it.
func (h *hook) passGate(ctx context.Context) int {
	h.mu.Lock()
	wanted, program, call := h.gate, h.scontrol, h.call
	h.mu.Unlock()
	if wanted == nil || call.Hook != "prolog" || call.Job == "" || ctx.Err() != nil {
		return 0
	}
	g := &gateWait{Gate: *wanted, h: h, scontrol: program, start: time.Now()}
	g.Wait = cmp.Or(g.Wait, rundir.Duration(rundir.DefaultGateWait))
	p := g.bounded(ctx)
	if p.word != "" {
		h.set(func() { h.call.Gate, h.call.GateNs = p.word, int64(time.Since(g.start)) })
	}
	if p.said != "" {
		within(h.lastTime(), func() { fmt.Fprintln(h.stderr, "quoin-hook:", p.said) })
	}
	if p.word == rundir.GateFail {
		return 1
	}
	return 0
}

// bounded passes the gate. It also returns if the gate hangs or panics.
func (g *gateWait) bounded(ctx context.Context) (p passage) {
	limit := time.Duration(g.Wait) + lookUpWait + gateGrace
	if g.Policy == rundir.GateHold {
		limit += 2*holdTimeout + time.Second + holdPause
	}
	var passed passage
	word := await(ctx, limit, func() { passed = g.pass(ctx) }, func(why any) {
		passed = g.goesOn(rundir.GateFault, fmt.Sprintf("%v; this is a bug in quoin-hook, please report it\n%s", why, debug.Stack()))
	})
	if word != "" {
		return g.goesOn(rundir.GateFault, "not done in time")
	}
	return passed
}

// pass waits for the gate to open, if the job needs an open gate.
func (g *gateWait) pass(ctx context.Context) passage {
	if !g.needed() {
		return passage{}
	}
	end := time.NewTimer(time.Duration(g.Wait))
	defer end.Stop()
	for open := rundir.GateReady; ; open = rundir.GateWaited {
		if p, unknown := g.look(); unknown {
			return p
		}
		if g.now.Clique == "" {
			return passage{}
		}
		if g.peers = g.compare(ctx); g.now.Ready && !g.peers.Apart {
			return g.opened(open)
		}
		select {
		case <-ctx.Done():
			return g.goesOn(rundir.GateSignal, "told to stop after "+g.waited().String())
		case <-end.C:
			return g.end(ctx)
		case <-time.After(gatePoll):
		}
	}
}

// compare compares the gate with the job's nodes. If a peer that is not connected has no name,
// the addresses of the job's nodes may tell, and are looked up once.
func (g *gateWait) compare(ctx context.Context) gate.Peers {
	if g.now.Ready && len(g.now.Peers) == 0 && g.now.PeersUnknown == "" {
		return gate.Peers{} // nothing to compare
	}
	node, nodeList := g.h.env("SLURMD_NODENAME"), g.h.env("SLURM_JOB_NODELIST")
	peers := g.now.PeersOf(node, nodeList, g.addresses)
	if len(peers.Unnamed) > 0 && g.addresses == nil {
		g.addresses = addressesOf(ctx, g.h.lookUp, peers.Unknown)
		peers = g.now.PeersOf(node, nodeList, g.addresses)
	}
	return peers
}

// opened is about an open gate. The job goes on, with a line if this node may lack a connection
// to a node of the job. The list of a component lacks the nodes of the job's other components.
func (g *gateWait) opened(open string) passage {
	component := g.h.env("SLURM_HET_JOB_ID") != ""
	var to, why string
	switch {
	case len(g.peers.Unknown) > 0:
		to = topology.Cut(hostlist.Compress(g.peers.Unknown), maxQuoted)
	case component && (len(g.now.Peers) > 0 || g.now.PeersUnknown != ""):
		to = "the nodes of the job's other components"
	default:
		return passage{word: open}
	}
	switch {
	case g.now.PeersUnknown != "":
		why = g.now.PeersUnknown
	case len(g.peers.Unknown) == 0:
		why = "it has " + topology.Cut(imex.PeersText(g.now.Peers), maxQuoted)
	case len(g.peers.Unnamed) > 0:
		why = "the names in Slurm are not known of these peers: " + topology.Cut(strings.Join(g.peers.Unnamed, ", "), maxQuoted) + ". What to do: let quoin imex nodes-config --dir write the names beside nodes_config.cfg"
	default:
		why = "nvidia-imex-ctl -N does not say it"
	}
	return passage{rundir.GateUnknown, g.lineOf(imex.ReasonPeersUnknown, g.waited(), nil, "whether this node is connected to "+to+" is not known: "+why+"; the job goes on")}
}

// end is the end of the wait in front of a shut gate. All nodes that are to join the
// clique have joined by now. The list of a component lacks the nodes of the job's other components.
func (g *gateWait) end(ctx context.Context) passage {
	switch {
	case g.peers.Alone && g.h.env("SLURM_HET_JOB_ID") == "":
		return passage{word: rundir.GateAlone}
	case g.peers.Others || g.Policy != rundir.GateFail && g.Policy != rundir.GateHold:
		return g.shut(ctx)
	}
	return passage{rundir.GateWarn, g.line(g.waited(), "whether another node of the job is in its clique is not known, so the job goes on")}
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

// look reads the gate. If the gate does not say how things are now, look returns what
// becomes of the job.
func (g *gateWait) look() (p passage, unknown bool) {
	now, at, err := gate.Read(string(g.h.runDir))
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = fmt.Sprintf("%v: is the agent on this node?", err)
	case err != nil:
		why = err.Error()
	case !rundir.SameBoot(now.BootID, g.h.boot):
		why = gate.FileName + " is of another boot"
	case time.Since(at).Abs() <= gate.Stale && now.Reason == imex.ReasonUnknown:
		why = now.Message
	case time.Since(at).Abs() <= gate.Stale:
		g.now = now
		return passage{}, false
	case now.NeedsNone(): // the hardware does not change within a boot
		return passage{}, true
	default:
		why = fmt.Sprintf("%s was last written at %s: is the agent alive?", gate.FileName, at.Format(time.RFC3339))
	}
	return g.goesOn(rundir.GateStale, why), true
}

func (g *gateWait) waited() time.Duration { return time.Since(g.start).Round(100 * time.Millisecond) }

// goesOn lets the job go on if the gate does not say whether IMEX is ready.
func (g *gateWait) goesOn(word, why string) passage {
	return passage{word, fmt.Sprintf("job %s: gate: %s; the job goes on without waiting for IMEX", g.h.env("SLURM_JOB_ID"), why)}
}

// shut does what the policy says with a job whose wait was in vain.
func (g *gateWait) shut(ctx context.Context) passage {
	waited := g.waited()
	switch g.Policy {
	case rundir.GateFail:
		return passage{rundir.GateFail, g.line(waited, "the job is refused")}
	case rundir.GateHold:
		job, err := g.requeue(ctx)
		if err == nil {
			pause(ctx, holdPause)
			return passage{rundir.GateHold, g.line(waited, "the job is held in the queue until scontrol release "+job)}
		}
		return passage{rundir.GateWarn, g.line(waited, fmt.Sprintf("the job cannot be held and goes on: %v", err))}
	}
	return passage{rundir.GateWarn, g.line(waited, "the job goes on")}
}

// pause waits, unless the call ends before.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// requeue puts the job back into the queue, held, and returns the id that scontrol
// releases it by.
func (g *gateWait) requeue(ctx context.Context) (job string, err error) {
	if g.scontrol == "" {
		return "", errors.New("hook.json names no scontrol")
	}
	// Only a heterogeneous job as a whole can be put back.
	job = cmp.Or(g.h.env("SLURM_HET_JOB_ID"), g.h.env("SLURM_JOB_ID"))
	if err := dcgm.CheckJobID(job); err != nil {
		return "", err
	}
	if pause(ctx, spread(g.h.env("SLURM_JOB_NUM_NODES"))); ctx.Err() != nil {
		return "", ctx.Err()
	}
	return job, scontrol{g.scontrol, holdTimeout}.requeueHold(ctx, job, g.h.env("SLURM_CONF"))
}

// line is why the gate is shut, in a form that programs can read.
func (g *gateWait) line(waited time.Duration, outcome string) string {
	reason := cmp.Or(g.now.Reason, imex.ReasonNotReady)
	if g.now.Ready {
		reason = imex.ReasonPeersNotConnected
	}
	return g.lineOf(reason, waited, g.peers.Missing, outcome)
}

func (g *gateWait) lineOf(reason string, waited time.Duration, missing []string, outcome string) string {
	text := g.now.Message
	if g.now.Remedy != "" {
		text += ". What to do: " + g.now.Remedy
	}
	if text != "" {
		outcome = topology.Cut(text, maxGateMessage) + "; " + outcome
	}
	return fmt.Sprintf("gate job=%s node=%s reason=%s waited=%s missing=%s message=%q",
		g.h.env("SLURM_JOB_ID"), cmp.Or(g.h.env("SLURMD_NODENAME"), g.now.Node), reason, waited,
		strings.Join(missing, ","), outcome)
}
