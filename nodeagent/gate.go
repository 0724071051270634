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
	log        *slog.Logger
	reports    <-chan *topology.Node
	open       *prometheus.GaugeVec

	// Only the goroutine of Run uses these.
	report *topology.Node // the last one, nil before the first
	logged string
	labels [2]string // clique and reason of the series that is set
}

// NewGate returns the gate of a node in a boot, which may be empty. It takes the node's
// good reports. Nothing is read or written before Run.
func NewGate(node, boot string, runDir rundir.Dir, members NodeMembership, reports <-chan *topology.Node, reg prometheus.Registerer, log *slog.Logger) *Gate {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_imex_ready",
		Help: "1 if jobs across nodes may use IMEX on this node, 0 if not, with the reason; absent without multi-node NVLink or if it is not known."}, []string{"clique", "reason"})
	reg.MustRegister(open)
	return &Gate{node: node, boot: boot, runDir: runDir, members: members, log: log, reports: reports, open: open}
}

// Run keeps the file up to date until ctx ends. Then the file grows stale.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(gateEvery)
	defer ticker.Stop()
	for {
		g.update()
		select {
		case <-ctx.Done():
			return nil
		case g.report = <-g.reports:
			g.members.SetClique(imex.NodeOf(g.node, g.report).Clique)
		case <-g.members.Changes():
		case <-ticker.C:
		}
	}
}

// update writes the file and sets the series. If the state is not known, the file
// grows stale and jobs go on.
func (g *Gate) update() {
	state, err := g.state()
	if err == nil && state != nil {
		err = gate.Write(string(g.runDir), *state)
	}
	g.setSeries(state, err)
	var line string
	switch {
	case err != nil:
		line = err.Error()
	case state != nil:
		line = fmt.Sprintf("%s, ready %t", state.Reason, state.Ready)
	}
	if line == g.logged {
		return
	}
	g.logged = line
	if err != nil {
		g.log.Warn("IMEX gate is not kept, so that jobs across nodes pass it", "err", err)
	} else {
		g.log.Info("IMEX gate of jobs across nodes", "clique", state.Clique, "ready", state.Ready, "reason", state.Reason, "message", state.Message)
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
	if report.Domain.None { // whatever else is known
		state.Reason, state.Message = imex.ReasonNoMultiNodeNVLink, "NVLink connects none of the node's GPUs to another node"
		return state, nil
	}
	seen, err := g.members.Snapshot()
	if err != nil {
		return nil, err
	}
	node := imex.NodeOf(g.node, report)
	node.CliqueLabel, node.DomainLabel = seen.Nodes[g.node].CliqueLabel, seen.Nodes[g.node].DomainLabel
	seen.Nodes = map[string]imex.Node{g.node: node}
	return state, judgeGate(state, seen, &node)
}

// errNoCliques: the driver's feature ComputeDomainCliques is off, so that entries are
// in the domain's status, which agents do not read. With the feature a daemon is ready
// only once it has its entry in a clique.
var errNoCliques = errors.New("the IMEX daemon is ready, and the cluster has no ComputeDomainClique: the driver's feature ComputeDomainCliques seems to be off")

// judgeGate sets the state of a node, which is the only one of seen.
func judgeGate(state *gate.State, seen *imex.Observation, node *imex.Node) error {
	verdict := imex.Judge(seen)[node.Name]
	if verdict.Reason == imex.ReasonNoEntry && len(seen.Cliques) == 0 && node.Local != nil && node.Local.DaemonState == imex.DaemonReady {
		return errNoCliques
	}
	state.Ready, state.Reason, state.Message = verdict.Ready(), verdict.Reason, verdict.Message
	if verdict.Remedy != "" {
		state.Message += ". " + verdict.Remedy
	}
	if !verdict.Ready() && !verdict.Problem() || seen.Join == imex.JoinSlurmd && node.DomainLabel == "" {
		return nil // nothing to wait for: with join slurmd a node without the label has no worker pod
	}
	if state.Clique = node.CliqueID(); state.Clique == "" {
		return errors.New(state.Message) // nobody can tell whether there is something to wait for
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
