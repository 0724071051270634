package page

import (
	"cmp"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// Count says of each node what a job can do with it, by Slurm's words for its state, and counts
// the free segments. If Slurm told the state of some nodes, the others are not in Slurm. If it
// told nothing, nothing is said.
func Count(s *picture.Site) {
	known := false
	for _, says := range s.Said {
		known = known || says.Slurm != ""
	}
	if !known {
		return
	}
	state := fit.StatesOf(func(name string) string { return s.Said[name].Slurm })
	for i := range s.Plan.Nodes {
		name := s.Plan.Nodes[i].SlurmName
		says := s.Said[name]
		says.Slurm, says.Use = cmp.Or(says.Slurm, "not in Slurm"), state(name).Use.String()
		s.Said[name] = says
	}
	s.Segments = nil
	for _, t := range s.Plan.BlockTopologies() {
		if len(t.Sizes) == 0 {
			continue
		}
		site := fit.NewSite(&t, 0, state)
		for _, row := range site.Free(fit.Sizes...) {
			taken := map[string]int{}
			for i, nodes := range row.Taken {
				if nodes > 0 {
					taken[site.Blocks[i].Name] = nodes
				}
			}
			s.Segments = append(s.Segments, picture.Segments{Topology: t.Name, Size: row.Size, Now: row.Now, All: row.All, Taken: taken})
		}
	}
}
