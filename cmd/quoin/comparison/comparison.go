// Package comparison is what quoin check says: where Slurm or the members of the IMEX domain
// differ from what is wanted. It reads no files.
package comparison

import (
	"fmt"
	"io"
	"strings"

	"github.com/quoin-hpc/quoin/cmd/quoin/show"
	"github.com/quoin-hpc/quoin/slurmconf/slurmctld"
	"github.com/quoin-hpc/quoin/topology"
)

// Result is the document of quoin check.
type Result struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Differs is what the exit status 1 says.
	Differs  bool         `json:"differs"`
	Summary  []string     `json:"summary"`
	Findings []show.Group `json:"findings"`

	found []topology.Finding
}

// Add joins the result of one comparison with those before it.
func (r *Result) Add(one *Result) {
	r.Differs = r.Differs || one.Differs
	r.Summary = append(r.Summary, one.Summary...)
	r.Found(one.found...)
}

// Found adds findings.
func (r *Result) Found(findings ...topology.Finding) { r.found = append(r.found, findings...) }

// Print prints findings and then the summary.
func (r *Result) Print(w io.Writer) {
	show.Print(w, "", r.found)
	fmt.Fprintln(w, strings.Join(r.Summary, "\n"))
}

// JSON prints the document.
func (r *Result) JSON(w io.Writer) error {
	r.APIVersion, r.Kind, r.Findings = topology.APIVersion, "CheckResult", show.Groups(r.found)
	return show.JSON(w, r)
}

// OfShown says where scontrol show topology shows something else than the plan, which has so
// many nodes.
func OfShown(differences []slurmctld.Difference, nodes int) *Result {
	switch {
	case len(differences) == 0 && nodes == 0:
		return &Result{Summary: []string{"same: Slurm has the blocks and switches of the plan, which names no nodes; to compare nodes too, give --nodes in place of --plan"}}
	case len(differences) == 0:
		return &Result{Summary: []string{fmt.Sprintf("same: Slurm has all %d nodes where the plan has them", nodes)}}
	}
	r := &Result{Differs: true}
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

// OfConf says what lint found of a slurm.conf, which has so many nodes, and the files. Warnings
// are no difference.
func OfConf(name string, nodes int, found []topology.Finding) *Result {
	r := &Result{found: found, Differs: topology.Has(found, topology.Fatal)}
	r.Summary = []string{fmt.Sprintf("%s takes the files, with %d nodes", name, nodes)}
	if r.Differs {
		r.Summary = []string{name + " does not take the files"}
	}
	return r
}
