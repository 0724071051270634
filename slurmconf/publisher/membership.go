package publisher

import (
	"context"
	"fmt"
	"time"

	"github.com/quoin-hpc/quoin/imex"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// ConditionIMEX is true on nodes with multi-node NVLink on which jobs across nodes
// cannot use IMEX.
const ConditionIMEX = "QuoinImexNotReady"

// Membership keeps the domain that nodes join, and sees who has.
type Membership interface {
	// Changes gets a value after a change; several changes may give one.
	Changes() <-chan struct{}
	// Ensure creates the configured domain if it can. After an error a change tells when
	// to try again.
	Ensure(ctx context.Context) (imex.Domain, error)
	// Snapshot returns all but the nodes. An error says why nothing is known yet, and
	// a change when it is.
	Snapshot() (*imex.Observation, error)
}

// memberChanges is nil, which never wakes, without a membership.
func (c *nodeConditions) memberChanges() <-chan struct{} {
	if c.membership == nil {
		return nil
	}
	return c.membership.Changes()
}

// judge returns the verdicts on the nodes' membership, or nil while they are not known. A
// change tells when they are.
func (p *Publisher) judge(ctx context.Context, snap *inputs.Snapshot) map[string]imex.Verdict {
	c := &p.conditions
	if c.membership == nil {
		return nil
	}
	domain, err := c.membership.Ensure(ctx)
	var seen *imex.Observation
	if err == nil {
		p.sayDomain(&domain)
		seen, err = c.membership.Snapshot()
	}
	if err != nil {
		if ctx.Err() == nil && c.unseen.IsNew(err.Error()) {
			p.log.Warn("membership in the IMEX domain is not known", "err", err)
		}
		return nil
	}
	c.unseen.Forget()
	seen.Domain = domain // which may have been made just now, or not, for a reason
	seen.Nodes = Members(snap, seen.Workers)
	verdicts := imex.Judge(seen)
	p.metrics.setMembership(&domain, verdicts)
	p.keepUnplaced(ctx, imex.JudgeUnplaced(seen), time.Now())
	return verdicts
}

// sayDomain logs a problem of the domain once, and its end once.
func (p *Publisher) sayDomain(d *imex.Domain) {
	was, is := p.conditions.domain, d.Problem
	if was == is {
		return
	}
	p.conditions.domain = is
	if is.Reason == "" {
		p.log.Info("ComputeDomain is as configured", "namespace", d.Namespace, "name", d.Name, "uid", d.UID)
		return
	}
	p.log.Warn("ComputeDomain has a problem", "namespace", d.Namespace, "name", d.Name, "reason", is.Reason, "message", is.Message)
}

// membershipCondition turns a verdict into a condition. The message of a ready node
// leaves out its peers, because otherwise one change would be written to a whole clique.
// It leaves out the domain's status too, which lags behind.
func membershipCondition(v imex.Verdict) inputs.Condition {
	c := inputs.Condition{Type: ConditionIMEX, True: v.Problem(), Reason: v.Reason, Message: v.Message}
	switch {
	case v.Ready() && (v.Note == "" || v.Note == imex.NotePeersNotReady || v.Note == imex.NoteStatusDiffers):
		c.Message = "jobs across nodes may use IMEX here"
	case v.Remedy != "":
		c.Message = fmt.Sprintf("%s. %s", v.Message, v.Remedy)
	}
	c.Message = shorten(c.Message)
	return c
}
