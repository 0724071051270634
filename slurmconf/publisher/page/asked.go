package page

import (
	"context"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/fit"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/occupancy"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/picture"
)

// Asked shows what a Keeper knows of each Slurm. While somebody looks, Slurm is asked as often as the
// Keeper allows.
type Asked struct {
	// Wait waits for Slurm's answer, for who looks once.
	Wait   bool
	keeper *occupancy.Keeper
}

// NewAsked returns what the Keeper knows.
func NewAsked(k *occupancy.Keeper) *Asked { return &Asked{keeper: k} }

// Seen implements Live.
func (a *Asked) Seen(ctx context.Context, publication string, published []topology.Topology) occupancy.View {
	a.keeper.Set(publication, published)
	if a.Wait {
		return a.keeper.Fresher(ctx, publication)
	}
	defer a.keeper.Soon(publication)
	return a.keeper.View(publication)
}

// drawn is a job as the page shows it.
func drawn(j *occupancy.Job) (picture.Job, bool) {
	nodes, err := hostlist.Expand(j.Nodes)
	if err != nil {
		return picture.Job{}, false // Slurm's own list
	}
	out := picture.Job{ID: j.ID, Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, Nodes: nodes, GPUs: make(map[string]string, len(j.GPUs)), Segment: j.Segment}
	if j.Array != "" {
		out.ID = j.Array
	}
	addGPUs(out.GPUs, nodes, j.GPUs)
	var words []string
	for i := range j.Judgements {
		of := &j.Judgements[i]
		if of.Unit == fit.UnitBlock && out.Blocks == 0 {
			out.Blocks, out.Fewest = len(of.Names), of.Fewest
		}
		if of.Split > 0 || of.Fewest < len(of.Names) {
			words = append(words, of.Words())
		}
	}
	out.Note = strings.Join(words, "; ")
	return out, true
}

// JobGPUs implements Jobs.
func (a *Asked) JobGPUs(ctx context.Context, publication, id string) (map[string]string, error) {
	list, gpus, err := a.keeper.JobGPUs(ctx, publication, id)
	if err != nil {
		return nil, err
	}
	nodes, err := hostlist.Expand(list)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(nodes))
	addGPUs(out, nodes, gpus)
	return out, nil
}

// addGPUs adds the indices of the GPUs of each node.
func addGPUs(to map[string]string, nodes, all []string) {
	for i, gres := range all[:min(len(all), len(nodes))] {
		if gpus := indicesOf(gres); gpus != "" {
			to[nodes[i]] = gpus
		}
	}
}

// indicesOf are the indices of GPUs in Slurm's words, such as gpu:gb200:4(IDX:0-3).
func indicesOf(gres string) string {
	var all []string
	for {
		_, rest, found := strings.Cut(gres, "(IDX:")
		if !found {
			return strings.Join(all, ",")
		}
		var indices string
		indices, gres, _ = strings.Cut(rest, ")")
		all = append(all, indices)
	}
}
