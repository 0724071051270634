package show

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/loaded"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

const (
	checkKind         = "CheckResult"
	reasonNotCompared = "NotCompared"
)

// notCompared is the finding if the files name no nodes.
var notCompared = topology.Finding{Severity: topology.Unknown, Reason: reasonNotCompared,
	Message: "the files name no nodes, so it is not known whether Slurm has each node in its place", Remedy: "give --nodes in place of the files"}

// LoadedResult names the nodes that Slurm has in another place than the files. The state answers the
// files' question.
func LoadedResult(wanted *loaded.Wanted, state *slurmctld.State) *Result {
	r := &Result{Kind: checkKind, Summary: []string{compared(wanted.Topologies())}}
	elsewhere, otherNames := wanted.Compare(state)
	for _, n := range elsewhere {
		r.Found(topology.Finding{Subject: topology.Subject{Node: n.Name}, Severity: topology.Fatal, Reason: slurmctld.ReasonDiffers, Message: n.Why})
	}
	for _, d := range slurmctld.SameGroups(otherNames) {
		r.Found(d.Finding())
	}
	switch {
	case len(elsewhere) > 0:
		r.Summary = append(r.Summary, fmt.Sprintf("differs: %d of %d nodes are not in Slurm as in the plan", len(elsewhere), wanted.Nodes()))
	case len(otherNames) > 0:
		r.Summary = append(r.Summary, fmt.Sprintf("differs: Slurm has all %d nodes in the same groups as the plan, but the groups have other names", wanted.Nodes()))
	case wanted.Nodes() == 0:
		r.Found(notCompared)
	case state.Topologies == nil:
		r.Found(topology.Finding{Severity: topology.Unknown, Reason: reasonNotCompared, Message: "slurmrestd does not show where nodes are, only Topology= that a node has of its own", Remedy: "set slurm.scontrol, or give --topology"})
		r.Summary = append(r.Summary, fmt.Sprintf("same, as far as slurmrestd shows: none of the %d nodes is elsewhere by its own Topology=", wanted.Nodes()))
	default:
		r.Summary = append(r.Summary, fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", wanted.Nodes()))
	}
	return r
}

// ShownResult says what differs between the output of scontrol show topology and a topology of the
// plan. nodes is the number of nodes that it has, and others are the plan's other topologies.
func ShownResult(differences []slurmctld.Difference, nodes int, name string, others []string) *Result {
	r := &Result{Kind: checkKind, Summary: []string{compared([]string{name})}}
	if len(others) > 0 {
		r.Summary[0] += fmt.Sprintf("; not %s: scontrol show topology NAME | quoin check --topology - --topology-name NAME", strings.Join(others, ", "))
	}
	units := 0
	for _, d := range differences {
		if d.Node == "" {
			units++
		}
		r.Found(d.Finding())
	}
	switch {
	case len(differences) == 0 && nodes == 0:
		r.Summary = append(r.Summary, "same: Slurm has the blocks and switches of the plan")
		r.Found(notCompared)
	case len(differences) == 0:
		r.Summary = append(r.Summary, fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", nodes))
	default:
		r.Summary = append(r.Summary, fmt.Sprintf("differs: %d of %d nodes; %d blocks, switches or sizes", len(differences)-units, nodes, units))
	}
	return r
}

// compared names the topologies that were compared. Slurm calls the one of topology.conf default.
func compared(names []string) string { return "compared: topology " + strings.Join(names, ", ") }
