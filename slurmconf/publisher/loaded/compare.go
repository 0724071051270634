package loaded

import (
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld/client"
	"github.com/quoin-hpc/quoin/topology"
)

// Wanted are the places of nodes in a set of files for Slurm.
type Wanted struct{ in Input }

// ReadWanted reads files that name their nodes: topology.yaml or topology.conf.
func ReadWanted(files map[string]string) (*Wanted, error) {
	plan, err := plandoc.FromFiles(files)
	if err != nil {
		return nil, err
	}
	w := &Wanted{Input{Doc: plandoc.New("", ""), Published: topology.SpecsOf(plan.Topologies), Nodes: map[string]*inputs.Node{}}}
	w.in.Doc.Add(plandoc.Revision{Plan: *plan})
	w.in.Planned = w.in.Published
	for name := range w.in.Published {
		w.in.Nodes[name] = &inputs.Node{Name: name}
	}
	return w, nil
}

// Nodes is how many nodes the files have.
func (w *Wanted) Nodes() int { return len(w.in.Nodes) }

// Topologies are the names of the topologies in the files.
func (w *Wanted) Topologies() (names []string) {
	for i := range w.in.Doc.Current.Plan.Topologies {
		names = append(names, w.in.Doc.Current.Plan.Topologies[i].Name)
	}
	return names
}

// Question asks for what Compare compares.
func (w *Wanted) Question() client.Question {
	return client.Question{Loaded: true, Topologies: topologies(&w.in), Nodes: true}
}

// Compare returns the nodes that Slurm does not have as the files do, and the names in the files, by the names in
// Slurm, of blocks and leaves with other names. Their nodes are in place. The topologies of both are compared by name.
func (w *Wanted) Compare(slurm *slurmctld.State) (elsewhere []Node, otherNames map[string]string) {
	state, otherNames := *slurm, map[string]string{}
	state.Topologies = slices.Clone(slurm.Topologies)
	for _, t := range w.in.Doc.Current.Plan.Topologies {
		for i := range state.Topologies {
			if shown := &state.Topologies[i]; shown.Name == t.Name {
				others := slurmctld.OtherNames(*shown, t)
				*shown = slurmctld.Renamed(*shown, others)
				maps.Copy(otherNames, others)
			}
		}
	}
	return NewView(&w.in, &state).Pending(), otherNames
}
