package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-hpc/quoin/dcgm"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// gateEvery is how often the gate is confirmed while nothing changes: three are
// missed before it is stale.
const gateEvery = imex.GateStale / 4

// NodeMembership sees one node's membership in the IMEX domain.
type NodeMembership interface {
	// Changes gets a value after a change; several changes may give one.
	Changes() <-chan struct{}
	// Snapshot returns what is seen of the node. An error says why nothing is known
	// yet.
	Snapshot() (*imex.Seen, error)
	// SetClique says in which clique NVML sees the node, empty for none.
	SetClique(id string)
}

// Gate keeps the file by which the hook knows whether jobs across nodes may use IMEX
// here.
type Gate struct {
	node, runDir string
	members      NodeMembership
	log          *slog.Logger
	wake         chan struct{}
	open         *prometheus.GaugeVec

	mu     sync.Mutex
	report *topology.Node

	// What follows is of the goroutine of Run alone.
	said  string
	shown [2]string // clique and reason of the series
}

// NewGate returns the gate of a node. Nothing is read or written before Run.
func NewGate(node, runDir string, members NodeMembership, reg prometheus.Registerer, log *slog.Logger) *Gate {
	open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "quoin_agent_imex_ready",
		Help: "1 where jobs across nodes may use IMEX on this node, 0 where not, with the reason; absent where there is no multi-node NVLink or nobody knows."}, []string{"clique", "reason"})
	reg.MustRegister(open)
	return &Gate{node: node, runDir: runDir, members: members, log: log, wake: make(chan struct{}, 1), open: open}
}

// Observe tells the gate of the node's last good report.
func (g *Gate) Observe(n *topology.Node) {
	g.mu.Lock()
	g.report = n
	g.mu.Unlock()
	g.members.SetClique(imex.NodeOf(g.node, n).Clique)
	notify(g.wake)
}

// Run keeps the file until ctx ends. What is left of it goes stale.
func (g *Gate) Run(ctx context.Context) error {
	ticker := time.NewTicker(gateEvery)
	defer ticker.Stop()
	for {
		g.keep()
		select {
		case <-ctx.Done():
			return nil
		case <-g.wake:
		case <-g.members.Changes():
		case <-ticker.C:
		}
	}
}

// keep writes what is known now. While nothing is, the file goes stale, and jobs
// go on.
func (g *Gate) keep() {
	gate, err := g.now()
	if err == nil && gate != nil {
		err = imex.WriteGate(g.runDir, *gate)
	}
	g.show(gate, err)
	said := ""
	switch {
	case err != nil:
		said = err.Error()
	case gate != nil:
		said = fmt.Sprintf("%s, ready %t", gate.Reason, gate.Ready)
	}
	if said == g.said {
		return
	}
	g.said = said
	if err != nil {
		g.log.Warn("gate of jobs across nodes is not kept, and lets them pass", "err", err)
	} else {
		g.log.Info("gate of jobs across nodes", "clique", gate.Clique, "ready", gate.Ready, "reason", gate.Reason, "message", gate.Message)
	}
}

// show brings the series up to the gate, and leaves one that stays as it is.
func (g *Gate) show(gate *imex.Gate, err error) {
	var is [2]string
	if err == nil && gate != nil && gate.Clique != "" {
		is = [2]string{gate.Clique, gate.Reason}
	}
	if is != g.shown {
		g.shown = is
		g.open.Reset()
	}
	if is[0] != "" {
		g.open.WithLabelValues(is[:]...).Set(float64(index(gate.Ready)))
	}
}

// errNoCliques is of a driver without the feature ComputeDomainCliques, with which a
// daemon is ready only once it has its entry in a clique. Without it entries are in the
// domain's status, which agents do not read.
var errNoCliques = errors.New("the IMEX daemon is ready, and there is no ComputeDomainClique in the cluster: the driver's feature ComputeDomainCliques seems to be off")

// now is the gate as of now, nil before there is a report.
func (g *Gate) now() (*imex.Gate, error) {
	g.mu.Lock()
	report := g.report
	g.mu.Unlock()
	if report == nil {
		return nil, nil
	}
	gate := &imex.Gate{Node: g.node, BootID: dcgm.BootID()}
	if report.Domain.None {
		gate.Reason, gate.Message = imex.ReasonNoMultiNodeNVLink, "NVLink joins none of the node's GPUs with another node's"
		return gate, nil
	}
	seen, err := g.members.Snapshot()
	if err != nil {
		return nil, err
	}
	node := imex.NodeOf(g.node, report)
	node.CliqueLabel, node.DomainLabel = seen.Nodes[g.node].CliqueLabel, seen.Nodes[g.node].DomainLabel
	if seen.Nodes == nil {
		seen.Nodes = make(map[string]imex.Node)
	}
	seen.Nodes[g.node] = node
	verdict := imex.Judge(seen)[g.node]
	if verdict.Reason == imex.ReasonNoEntry && len(seen.Cliques) == 0 && node.Local != nil && node.Local.DaemonState == imex.DaemonReady {
		return nil, errNoCliques
	}
	gate.Ready, gate.Reason, gate.Message = verdict.Ready(), verdict.Reason, verdict.Message
	if verdict.Remedy != "" {
		gate.Message += ". " + verdict.Remedy
	}
	if !verdict.Ready() && !verdict.Problem() || seen.Join == imex.JoinSlurmd && node.DomainLabel == "" {
		return gate, nil // nothing to wait for: where worker pods claim, none is here without the label
	}
	if gate.Clique = node.CliqueID(); gate.Clique == "" {
		return nil, errors.New(gate.Message) // and so nobody can say whether there is
	}
	for _, c := range seen.Cliques {
		if c.ID != gate.Clique || c.Domain != node.DomainLabel {
			continue
		}
		for _, m := range c.Daemons {
			gate.Members = append(gate.Members, imex.GateMember{Node: m.Node, Ready: m.Ready})
		}
	}
	return gate, nil
}
