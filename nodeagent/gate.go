package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/gate"
	"github.com/quoin-hpc/quoin/nodeagent/rundir"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/topology"
)

// gateEvery is how often an unchanged gate is confirmed. Three confirmations may be
// missed before the gate is stale.
const gateEvery = gate.Stale / 4

// NodeMembership observes one node's membership in the IMEX domain.
type NodeMembership interface {
	// Changes gets a value after a change; several changes may give one.
	Changes() <-chan struct{}
	// Snapshot returns what is seen of the node. An error says why nothing is known
	// yet.
	Snapshot() (*imex.Observation, error)
	// SetClique says in which clique NVML sees the node, empty for none.
	SetClique(id string)
}

// Gate keeps the file by which the hook knows whether jobs across nodes may use IMEX
// here.
type Gate struct {
	node, boot string
	runDir     rundir.Dir
	members    NodeMembership
	fabric     func(*topology.Node) topology.FabricVerdict
	log        *again.Log
	reports    <-chan *topology.Node
	open       *prometheus.GaugeVec

	// Only the goroutine of Run uses these.
	report *topology.Node // the last one, nil before the first
	behind time.Time      // since when only the entry is behind its daemon; zero if it is not
	lost   time.Time      // since when the state is not known; zero if it is
	said   again.Once     // the state of which the log has a line
	labels [2]string      // clique and reason of the series that is set
}

// NewGate returns the gate of a node in a boot, which may be empty. It takes the node's
// good reports, and judges the fabric by them. Nothing is read or written before Run.
func NewGate(node, boot string, runDir rundir.Dir, members NodeMembership, fabric func(*topology.Node) topology.FabricVerdict, reports <-chan *topology.Node, reg prometheus.Registerer, log *slog.Logger) *Gate {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_imex_ready",
		Help: "1 if jobs across nodes may use IMEX on this node, 0 if not. Absent without multi-node NVLink, or if not known."}, []string{"clique", "reason"})
	reg.MustRegister(open)
	return &Gate{node: node, boot: boot, runDir: runDir, members: members, fabric: fabric, log: again.NewLog(log), reports: reports, open: open}
}

// Run keeps the file up to date until ctx ends. Then the file grows stale.
func (g *Gate) Run(ctx context.Context) error {
	for {
		g.update()
		select {
		case <-ctx.Done():
			return nil
		case g.report = <-g.reports:
			fabric := g.fabric(g.report)
			g.members.SetClique(imex.NodeOf(g.node, g.report, &fabric).Clique)
		case <-g.members.Changes():
		case <-time.After(g.pause()):
		}
	}
}

// behindFor is how long the daemon says READY before a gate opens whose entry does not:
// the entry follows the daemon within seconds while the API server takes it. Without an entry the
// gate stays shut, because the clique's other daemons do not know this one.
const behindFor = 10 * time.Second

// lostFor is how long the state is not known before the file says so. An agent that starts
// needs a moment to read it.
const lostFor = 10 * time.Second

// pause is the time until the gate is confirmed, opened or given up.
func (g *Gate) pause() time.Duration {
	wait := gateEvery
	for _, until := range []time.Time{g.behind.Add(behindFor), g.lost.Add(lostFor)} {
		if left := time.Until(until); left > 0 {
			wait = min(wait, left)
		}
	}
	return wait
}

// update writes the file and sets the series. If the state is not known for a while, the
// file says so and jobs go on.
func (g *Gate) update() {
	state, err := g.state()
	switch {
	case err == nil:
		g.lost = time.Time{}
		if state != nil {
			err = gate.Write(string(g.runDir), *state)
		}
	case g.lost.IsZero():
		g.lost = time.Now()
	case time.Since(g.lost) >= lostFor:
		err = errors.Join(err, gate.Write(string(g.runDir), gate.State{Node: g.node, BootID: g.boot, Reason: imex.ReasonUnknown, Message: err.Error()}))
	}
	g.setSeries(state, err)
	g.log.Note("IMEX gate: jobs across nodes do not wait for IMEX", err)
	if err == nil && state != nil && g.said.IsNew(fmt.Sprintf("%s, ready %t", state.Reason, state.Ready)) {
		g.log.Info("IMEX gate of jobs across nodes", "clique", state.Clique, "ready", state.Ready, "reason", state.Reason, "message", state.Message, "remedy", state.Remedy)
	}
}

// setSeries sets the series of the state, and removes the one of another reason.
func (g *Gate) setSeries(state *gate.State, err error) {
	var labels [2]string
	if err == nil && state != nil && state.Clique != "" {
		labels = [2]string{state.Clique, state.Reason}
	}
	if labels != g.labels {
		g.labels = labels
		g.open.Reset()
	}
	if labels[0] != "" {
		open := 0.0
		if state.Ready {
			open = 1
		}
		g.open.WithLabelValues(labels[:]...).Set(open)
	}
}

// state returns the gate's present state, nil before the first report.
func (g *Gate) state() (*gate.State, error) {
	report := g.report
	if report == nil {
		return nil, nil
	}
	state := &gate.State{Node: g.node, BootID: g.boot}
	fabric := g.fabric(report)
	if fabric.IMEX == topology.IMEXNone { // whatever else is known
		state.Reason, state.Message = imex.ReasonNoMultiNodeNVLink, "NVLink connects none of the node's GPUs to another node"
		return state, nil
	}
	seen, err := g.members.Snapshot()
	if err != nil {
		return nil, err
	}
	node := imex.NodeOf(g.node, report, &fabric)
	node.CliqueLabel, node.DomainLabel = seen.Nodes[g.node].CliqueLabel, seen.Nodes[g.node].DomainLabel
	seen.Nodes = map[string]imex.Node{g.node: node}
	err = judgeGate(state, seen, &node)
	switch {
	case err != nil || state.Reason != imex.ReasonNotReady || seen.Join == imex.JoinHost || node.DaemonState() != imex.DaemonReady:
		g.behind = time.Time{}
	case g.behind.IsZero():
		g.behind = time.Now()
	case time.Since(g.behind) >= behindFor:
		state.Ready = true
	}
	return state, err
}

// errNoCliques: if the driver's feature ComputeDomainCliques is off, entries are in the
// domain's status, which agents do not read. Only a daemon that says something else than
// READY shuts the gate then.
var errNoCliques = errors.New("the cluster has no ComputeDomainClique, and the IMEX daemon does not say that it is not ready: the driver's feature ComputeDomainCliques may be off")

// peersUnknown is what a gate says if the host's own service does not tell its peers.
const peersUnknown = "nvidia-imex-ctl -N gives no answer on this node (the problem ImexUnreadable of its report says why)"

// cliqueUnknown stands for the clique of a node that should be in one, if nobody knows in which.
const cliqueUnknown = "unknown"

// judgeGate sets the state of a node, which is the only one of seen.
func judgeGate(state *gate.State, seen *imex.Observation, node *imex.Node) error {
	verdict := imex.Judge(seen)[node.Name]
	if verdict.Reason == imex.ReasonNotRegistered && node.DomainLabel != "" && len(seen.Cliques) == 0 && (node.DaemonState() == "" || node.DaemonState() == imex.DaemonReady) {
		return errNoCliques
	}
	if verdict.Reason == imex.ReasonUnknown {
		return errors.New(verdict.Message)
	}
	state.Ready, state.Reason, state.Message, state.Remedy = verdict.Ready(), verdict.Reason, verdict.Message, verdict.Remedy
	if seen.Join == imex.JoinHost && node.Local != nil {
		state.Peers = node.Local.Peers
		if state.Ready && node.Local.DomainState == "" {
			state.PeersUnknown = peersUnknown
		}
	}
	if !verdict.Ready() && !verdict.Problem() || seen.Join == imex.JoinSlurmd && node.DomainLabel == "" {
		return nil // nothing to wait for: with join slurmd a node without the label has no worker pod
	}
	if state.Clique = node.CliqueID(); state.Clique == "" {
		if node.Fabric != imex.FabricNotReady {
			return errors.New(state.Message) // nobody can tell whether there is something to wait for
		}
		state.Clique = cliqueUnknown
	}
	for _, c := range seen.Cliques {
		if c.ID != state.Clique || c.Domain != node.DomainLabel {
			continue
		}
		for _, m := range c.Daemons {
			state.Members = append(state.Members, gate.Member{Node: m.Node, Ready: m.Ready})
		}
	}
	return nil
}
