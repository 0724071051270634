package show

import (
	"fmt"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// FilesResult says what lint found of files without a slurm.conf.
func FilesResult(release slurmconf.Release, found []topology.Finding) *Result {
	r := &Result{Findings: found}
	switch Code(found) {
	case Differs:
		r.Summary = []string{fmt.Sprintf("Slurm %s does not take the files", release)}
	case NotKnown:
		r.Summary = []string{fmt.Sprintf("nothing that was judged keeps Slurm %s from the files", release)}
	default:
		r.Summary = []string{fmt.Sprintf("Slurm %s can read the files; give --slurm-conf to say whether it does, and to compare their nodes", release)}
	}
	return r
}

// ConfResult says what lint found of a slurm.conf with the files. nodes is the number of nodes in
// slurm.conf. Warnings do not count as a difference.
func ConfResult(name string, nodes int, found []topology.Finding) *Result {
	r := &Result{Findings: found}
	with := fmt.Sprintf("with %d nodes", nodes)
	if nodes == 0 {
		with = "with 0 nodes compared, because it lists none"
	}
	switch Code(found) {
	case Differs:
		r.Summary = []string{name + " does not take the files"}
	case NotKnown:
		r.Summary = []string{fmt.Sprintf("nothing that was judged keeps %s from the files, %s", name, with)}
	default:
		r.Summary = []string{fmt.Sprintf("%s takes the files, %s", name, with)}
	}
	return r
}
