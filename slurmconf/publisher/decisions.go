package publisher

import (
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology/placement"
)

// everyDecision waits, because nobody has approved any.
func everyDecision(placement.Decision) bool { return true }

// waiting returns the choices that wait for people, and what each means.
func (m *Rendered) waiting() (out []placement.Choice) {
	for _, c := range m.found.Choices {
		if !c.Waits {
			continue
		}
		if c.Kind == placement.TopologiesChange {
			c.Message = slurmconf.TopologyGoes(c.Subject, c.To, c.Becomes)
		}
		out = append(out, c)
	}
	return out
}

// keptKind returns the publication with the published kind of its topology, if a decision about that waits.
func keptKind(p *publication.Cluster, choices []placement.Choice) *publication.Cluster {
	at := slices.IndexFunc(choices, func(c placement.Choice) bool {
		return c.Waits && (c.Kind == placement.KindChange || c.Kind == placement.TopologyInUse)
	})
	if at < 0 {
		return p
	}
	kept := *p
	kept.Topology = choices[at].From
	return &kept
}
