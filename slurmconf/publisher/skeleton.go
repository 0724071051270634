package publisher

import (
	"fmt"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/published"
)

// Skeleton returns the topology file of m without nodes, for nodes that register
// dynamically.
func (m *Rendered) Skeleton(p *publication.Cluster) (*Rendered, error) {
	if !p.Release.DynamicTopology() {
		return nil, fmt.Errorf("skeleton: nodes of Slurm %s cannot join a topology when they register: want 25.05 or newer", p.SlurmVersion)
	}
	topologies, err := slurmconf.FromPlan(m.Plan, p.Choice())
	if err != nil {
		return nil, err
	}
	for i := range topologies {
		if topologies[i], err = slurmconf.Skeleton(topologies[i]); err != nil {
			return nil, fmt.Errorf("skeleton: %w", err)
		}
	}
	s := &Rendered{Plan: m.Plan, Files: map[string]string{}, Specs: m.Specs, LeftOut: m.LeftOut, Problems: m.Problems}
	if err := s.render(p, topologies); err != nil {
		return nil, err
	}
	s.Digest = published.Digest(s.Files)
	s.check(p, topologies)
	s.Findings = slices.DeleteFunc(s.Findings, func(f lint.Finding) bool { return f.Rule == "NoNodes" }) // it is meant to be so
	return s, nil
}
