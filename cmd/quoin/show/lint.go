package show

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// FilesResult says what lint found of files without a slurm.conf. names are the files that were read,
// and release is the one by whose rules. other are GRES that are not judged.
func FilesResult(names []string, release string, other []string, found []topology.Finding) *Result {
	r := &Result{Findings: found}
	files := and(names)
	switch Code(found) {
	case Differs:
		r.Summary = []string{fmt.Sprintf("Slurm does not take %s (%s)", files, release)}
	case NotKnown:
		r.Summary = []string{fmt.Sprintf("nothing that was judged keeps Slurm from %s (%s)", files, release)}
	default:
		r.Summary = []string{fmt.Sprintf("Slurm can read %s (%s); give --slurm-conf to say whether it does, and to compare nodes", files, release)}
	}
	r.addMore("", other)
	return r
}

// ConfResult says what lint found of a slurm.conf with the files that were read, which may be none.
// nodes is the number of nodes in slurm.conf. gpus says how many of them have the GPUs that slurm.conf counts, and
// other are GRES that are not judged. Warnings do not count as a difference.
func ConfResult(conf, release string, names []string, nodes int, gpus string, other []string, found []topology.Finding) *Result {
	r := &Result{Findings: found}
	files, against := and(names), fmt.Sprintf("%s (%s)", conf, release)
	if len(names) > 0 {
		against = files + " with " + against
	}
	goes, why := "go", ""
	if len(names) == 1 {
		goes = "goes"
	}
	if nodes == 0 {
		why = ", because it lists none"
	}
	switch code := Code(found); {
	case code == Differs:
		r.Summary = []string{"Slurm does not take " + against}
	case code == NotKnown:
		r.Summary = []string{"nothing that was judged speaks against " + against}
	case len(names) == 0:
		r.Summary = []string{fmt.Sprintf("%s (%s) needs no topology file and no gres.conf; its other settings are not judged", conf, release)}
	default:
		r.Summary = []string{fmt.Sprintf("%s %s with %s (%s), nodes compared: %d%s; its other settings are not judged", files, goes, conf, release, nodes, why)}
	}
	r.addMore(gpus, other)
	return r
}

// addMore says at the end of the last line which nodes' GPUs agree, and which GRES are not judged.
func (r *Result) addMore(gpus string, other []string) {
	last := &r.Summary[len(r.Summary)-1]
	if gpus != "" {
		*last += "; " + gpus
	}
	if len(other) > 0 {
		*last += "; other GRES than gpu are not judged: " + and(other)
	}
}

// and lists names in a sentence.
func and(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
