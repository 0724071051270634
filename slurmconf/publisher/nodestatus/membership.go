package nodestatus

import (
	"context"
	"log/slog"
	"strings"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// Membership keeps the domain that nodes join, and sees who has.
type Membership interface {
	// Changes gets a value after a change; several changes may give one.
	Changes() <-chan struct{}
	// Ensure creates the configured domain if it can, and returns all but the nodes. An error
	// says why nothing is known yet, and a change tells when to try again.
	Ensure(ctx context.Context) (*imex.Observation, error)
	// Record records an event of the domain.
	Record(d *imex.Domain, warning bool, reason, message string)
}

// Members returns what is seen of the nodes themselves. fabrics are beside the nodes.
func Members(snap *inputs.Snapshot, fabrics []topology.FabricVerdict) map[string]imex.Node {
	out := make(map[string]imex.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		report := snap.Reports[n.Name]
		m := imex.NodeOf(n.Name, report, &fabrics[i])
		m.GPUs = m.GPUs || n.GPUs > 0 || n.Labels[nodelabels.Count] != ""
		m.CliqueLabel, m.DomainLabel = n.Labels[topology.CliqueLabel], n.Labels[imex.DomainLabel]
		m.Lost = n.Lost
		// A node without any facts is not judged, unless it is a member.
		m.GPUs = m.GPUs && (report != nil || m.CliqueLabel != "" || m.DomainLabel != "")
		out[n.Name] = m
	}
	return out
}

// membership judges the nodes' membership in the IMEX domain.
type membership struct {
	source  Membership // nil if there is no domain to keep
	metrics *Metrics
	log     *slog.Logger
	said    [2]topology.Finding // of the domain, the last problem and note
	why     string              // nodes join as they do, if imex.join is auto
	unknown again.Once          // why membership is not known
}

// reconcile returns the verdicts by node, or nil while they are not known. A change tells
// when they are.
func (m *membership) reconcile(ctx context.Context, snap *inputs.Snapshot, fabrics []topology.FabricVerdict) map[string]imex.Verdict {
	if m.source == nil {
		return nil
	}
	seen, err := m.source.Ensure(ctx)
	if err != nil {
		if ctx.Err() == nil && m.unknown.IsNew(err.Error()) {
			m.log.Warn("membership in the IMEX domain is not known", "err", err)
		}
		return nil
	}
	m.unknown.Forget()
	m.sayDomain(&seen.Domain)
	if m.why != seen.Why {
		m.why = seen.Why
		m.log.Info("imex.join is auto", "join", seen.Join, "why", seen.Why)
	}
	seen.Nodes = Members(snap, fabrics)
	verdicts := imex.Judge(seen)
	m.metrics.setMembership(&seen.Domain, verdicts)
	return verdicts
}

// sayDomain says once what is wrong with the domain or to be done about it, and once that it is
// over: in the log and as an event. That there is no driver is no fault.
func (m *membership) sayDomain(d *imex.Domain) {
	for i, now := range [...]topology.Finding{d.Problem, d.Note} {
		was := m.said[i]
		m.said[i] = now
		switch {
		case was == now:
		case now.Reason == "":
			m.log.Info("ComputeDomain no longer has a problem", "namespace", d.Namespace, "name", d.Name, "uid", d.UID, "reason", was.Reason)
			if was.Reason != imex.ReasonNoDriver {
				m.source.Record(d, false, was.Reason, "this is over")
			}
		case now.Reason == imex.ReasonNoDriver:
			m.log.Info("no ComputeDomain is kept", "reason", now.Reason, "message", now.Message)
		default:
			m.log.Warn("ComputeDomain has a problem", "namespace", d.Namespace, "name", d.Name, "reason", now.Reason, "message", now.Message, "remedy", now.Remedy)
			m.source.Record(d, true, now.Reason, strings.TrimSuffix(now.Message+". "+now.Remedy, ". "))
		}
	}
}
