package page

import (
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/topology"
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
	states := make(map[string]fit.State, len(s.Plan.Nodes))
	for i := range s.Plan.Nodes {
		name := s.Plan.Nodes[i].SlurmName
		says := s.Said[name]
		state := fit.State{Use: fit.Unavailable}
		if says.Slurm == "" {
			says.Slurm = "not in Slurm"
		} else {
			state = fit.StateOf(strings.Split(says.Slurm, "+")...)
		}
		states[name] = state
		says.Use = state.Use.String()
		s.Said[name] = says
	}
	s.Segments = nil
	for _, t := range s.Plan.BlockTopologies() {
		if len(t.Sizes) > 0 {
			s.Segments = append(s.Segments, segmentsIn(&t, states)...)
		}
	}
}

func segmentsIn(t *topology.Topology, states map[string]fit.State) (out []picture.Segments) {
	site := fit.Site{Sizes: t.Sizes, Blocks: t.Blocks, State: func(node string) fit.State {
		state, known := states[node]
		if !known {
			state.Use = fit.Unavailable
		}
		return state
	}}
	for _, row := range site.Segments(&fit.Request{}, fit.Sizes...) {
		out = append(out, picture.Segments{Topology: t.Name, Size: row.Size, Now: row.Now, All: row.All, Taken: taken(&site, row)})
	}
	return out
}

// taken is how many free nodes of each block the segments of a row take.
func taken(site *fit.Site, row fit.Row) map[string]int {
	out := map[string]int{}
	if row.Now == 0 {
		return out
	}
	if row.Size <= site.Sizes[0] { // each segment is in one block, and no block disturbs another
		for i := range site.Blocks {
			free := 0
			for _, node := range site.Blocks[i].Nodes {
				if site.State(node).Use == fit.Free {
					free++
				}
			}
			if n := free / row.Size * row.Size; n > 0 {
				out[site.Blocks[i].Name] = n
			}
		}
		return out
	}
	place := site.Answer(&fit.Request{Job: fit.Job{Nodes: row.Now * row.Size, Segment: row.Size}}).Place
	for _, segment := range place.Segments {
		for _, t := range segment {
			out[site.Blocks[t.Block].Name] += t.Nodes
		}
	}
	return out
}
