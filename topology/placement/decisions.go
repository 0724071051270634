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
	// Kind is one CamelCase word: the reason of a hold.
	Kind string
	// Subject is what the choice is about, such as the name of a topology.
	Subject string
	// From is the published choice, and To the plan's. They name no nodes, so that a node
	// that comes or goes makes no other decision.
	From, To string
}

// TopologiesChange is the kind of decision by which a published block topology gives way to
// others.
const TopologiesChange = "TopologiesChange"

// RootsJoin is the kind of decision by which published roots are put below one switch that no
// label names.
const RootsJoin = "RootsJoin"

// ReasonHeld is why a node has no place: the decision that would give it one is held.
const ReasonHeld = "DecisionHeld"

// Digest names the decision: 16 hexadecimal digits.
func (d *Decision) Digest() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{d.Kind, d.Subject, d.From, d.To}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Divisions returns a decision for each published block topology that the plan no longer has.
// A whole topology, such as nvl, gives way to all of the plan's, and another one to those that
// have its blocks. old may be nil.
func Divisions(old, plan *topology.Plan) []Decision {
	var out []Decision
	own := plan.BlockTopologies()
	for _, name := range plan.LostTopologies(old) {
		d := Decision{Kind: TopologiesChange, Subject: name, From: name}
		had := make(map[string]bool)
		for _, t := range old.BlockTopologies() {
			for i := range t.Blocks {
				had[t.Blocks[i].Name] = had[t.Blocks[i].Name] || t.Name == name
			}
		}
		var to []string
		for i := range own {
			if name == topology.BlockFamily(name) || slices.ContainsFunc(own[i].Blocks, func(b topology.Block) bool { return had[b.Name] }) {
				to = append(to, own[i].Name)
			}
		}
		slices.Sort(to)
		d.To = strings.Join(to, ", ")
		out = append(out, d)
	}
	return out
}

// Joins returns a decision for each switch of the plan that joins several published roots,
// though no label names it above them. old may be nil.
func Joins(old, plan *topology.Plan) []Decision {
	if old == nil {
		return nil
	}
	oldAbove, above := topology.ParentsOf(old.Switches()), topology.ParentsOf(plan.Switches())
	published := make(map[string]bool)
	for _, s := range old.Switches() {
		published[s.Name] = true
	}
	joins := make(map[string][]string) // root -> published roots
	for _, s := range plan.Switches() {
		if !published[s.Name] || above[s.Name] != "" && !s.Joined {
			continue
		}
		was, now := s.Name, s.Name
		for tier := 0; oldAbove[was] != "" && tier < topology.MaxTiers; tier++ {
			was = oldAbove[was]
		}
		if s.Joined {
			now = above[s.Name]
		}
		if !slices.Contains(joins[now], was) {
			joins[now] = append(joins[now], was)
		}
	}
	var out []Decision
	for _, s := range plan.Switches() {
		if len(joins[s.Name]) > 1 {
			out = append(out, Decision{Kind: RootsJoin, Subject: s.Name, From: "several root switches", To: s.Name})
		}
	}
	return out
}

// keeps returns the decision of a kind about a subject that keeps the published answer, or nil.
func (p *Policy) keeps(kind, subject string) *Decision {
	at := slices.IndexFunc(p.Keep, func(d Decision) bool { return d.Kind == kind && d.Subject == subject })
	if at < 0 {
		return nil
	}
	return &p.Keep[at]
}
