package show

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// LintResult says what lint found of the files that were read, which may be none, by the rules of a release. conf is the
// slurm.conf that they must go with, or empty. nodes is the number of nodes in slurm.conf. gpus says how many nodes have
// the GPUs that slurm.conf counts, and other are GRES that are not judged. Warnings do not count as a difference.
func LintResult(conf, release string, names []string, nodes int, gpus string, other []string, found []topology.Finding) *Result {
	files := and(names)
	what := strings.TrimSuffix(strings.TrimPrefix(files+" with "+conf, " with "), " with ") + " (" + release + ")"
	goes, why := "go", ""
	if len(names) == 1 {
		goes = "goes"
	}
	if nodes == 0 {
		why = ", because it lists none"
	}
	said := ""
	switch code := Code(found); {
	case code == Differs:
		said = "Slurm does not take " + what
	case code == NotKnown:
		said = "nothing that was judged speaks against " + what
	case conf == "":
		said = fmt.Sprintf("Slurm can read %s; give --slurm-conf to say whether it does, and to compare nodes", what)
	case len(names) == 0:
		said = what + " needs no topology file and no gres.conf; its other settings are not judged"
	default:
		said = fmt.Sprintf("%s %s with %s (%s), nodes compared: %d%s; its other settings are not judged", files, goes, conf, release, nodes, why)
	}
	if gpus != "" {
		said += "; " + gpus
	}
	if len(other) > 0 {
		said += "; other GRES than gpu are not judged: " + and(other)
	}
	return &Result{Kind: "LintResult", Findings: found, Summary: []string{said}}
}

// and lists names in a sentence.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
