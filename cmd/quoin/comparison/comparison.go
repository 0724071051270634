// Package comparison is what quoin check, lint and imex check say: where Slurm or the members of
// the IMEX domain differ from what is wanted. It reads no files.
package comparison

import (
	"fmt"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// The reasons of what is not compared.
const (
	ReasonNodesNotCompared = "NodesNotCompared"
	ReasonTopologyNotShown = "TopologyNotShown"
)

// OfShown says where scontrol show topology shows something else than the plan, which has so
// many nodes.
func OfShown(differences []slurmctld.Difference, nodes int) *show.Result {
	switch {
	case len(differences) == 0 && nodes == 0:
		return &show.Result{Summary: []string{"same: Slurm has the blocks and switches of the plan"}, Findings: []topology.Finding{{
			Severity: topology.Unknown, Reason: ReasonNodesNotCompared, Message: "the files name no nodes, so nobody knows whether Slurm has each node in its place", Remedy: "give --nodes in place of --files, or ask Slurm"}}}
	case len(differences) == 0:
		return &show.Result{Summary: []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", nodes)}}
	}
	r := &show.Result{}
	units := 0
	for _, d := range differences {
		if d.Node == "" {
			units++
		}
		r.Found(d.Finding())
	}
	r.Summary = []string{fmt.Sprintf("differs: %d of %d nodes; %d blocks, switches or sizes", len(differences)-units, nodes, units)}
	return r
}

// OfFiles says what lint found of files without a slurm.conf.
func OfFiles(release slurmconf.Release, found []topology.Finding) *show.Result {
	r := &show.Result{Findings: found}
	switch show.Code(found) {
	case show.Differs:
		r.Summary = []string{fmt.Sprintf("Slurm %s does not take the files", release)}
	case show.NotKnown:
		r.Summary = []string{fmt.Sprintf("nothing that was judged keeps Slurm %s from the files", release)}
	default:
		r.Summary = []string{fmt.Sprintf("Slurm %s reads the files; give --slurm-conf to compare their nodes with slurm.conf", release)}
	}
	return r
}

// OfConf says what lint found of a slurm.conf, which has so many nodes, and the files. Warnings
// are no difference.
func OfConf(name string, nodes int, found []topology.Finding) *show.Result {
	r := &show.Result{Findings: found}
	switch show.Code(found) {
	case show.Differs:
		r.Summary = []string{name + " does not take the files"}
	case show.NotKnown:
		r.Summary = []string{fmt.Sprintf("nothing that was judged keeps %s, with %d nodes, from the files", name, nodes)}
	default:
		r.Summary = []string{fmt.Sprintf("%s takes the files, with %d nodes", name, nodes)}
	}
	return r
}
