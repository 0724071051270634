package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Decision is one choice of a plan that differs from the published one. Partitions, slurm.conf
// or jobs rely on the published choice, so people may want to look at the change first.
type Decision struct {
	// Kind is one CamelCase word: the reason that people read while the decision waits.
	Kind string
	// Subject is what the choice is about, such as the name of a topology.
	Subject string
	// From is the published choice, and To the plan's. They name no nodes, so that a node
	// that comes or goes makes no other decision.
	From, To string
}

// The kinds of decisions.
const (
	BaseSizeChange = "BaseSizeChange"
	KindChange     = "KindChange"
	RootsJoin      = "RootsJoin"
	// TopologiesChange: a published block topology goes. A topology whose name is the kind alone, such as nvl, gives way
	// to all topologies of the plan. Any other topology gives way to the topologies that get its blocks.
	TopologiesChange = "TopologiesChange"
	TopologyInUse    = "TopologyInUse"
	// BlockOverfull and Repartitioned are also the reasons of nodes that stay meanwhile.
	BlockOverfull = "BlockOverfull"
	Repartitioned = "Repartitioned"
)

// ReasonHeld is why a node has no place: the decision that would give it one waits.
const ReasonHeld = "DecisionHeld"

// Digest names the decision: 16 hexadecimal digits.
func (d *Decision) Digest() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{d.Kind, d.Subject, d.From, d.To}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Choice is a decision that a plan met, and what it means for people.
type Choice struct {
	Decision
	Message string
	// Becomes are the block topologies, with their nodes, that a change of topologies would give.
	Becomes []topology.Topology
	// Waits: nobody has approved the decision, so the plan has the published choice.
	Waits bool
}

// follow notes a decision where the choice is made. It returns nil if the plan takes the choice, and else
// the decision that waits: then the published choice stays.
func (p *Policy) follow(c Choice) (waits *Decision) {
	if !slices.ContainsFunc(p.met, func(m Choice) bool { return m.Kind == c.Kind && m.Subject == c.Subject }) {
		c.Waits = p.Waits != nil && p.Waits(c.Decision)
		p.met = append(p.met, c)
	}
	return p.keeps(c.Kind, c.Subject)
}

// keeps returns the decision of a kind about a subject that waits, or nil.
func (p *Policy) keeps(kind, subject string) *Decision {
	at := slices.IndexFunc(p.met, func(c Choice) bool { return c.Waits && c.Kind == kind && c.Subject == subject })
	if at < 0 {
		return nil
	}
	return &p.met[at].Decision
}
