package comparison

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// OfMembers names the nodes that are no members of the IMEX domain, and what is wrong with the
// domain.
func OfMembers(seen *imex.Observation) *Result {
	r := &Result{}
	if p := seen.Domain.Problem; p.Reason != "" {
		r.Found(topology.Finding{Severity: topology.Fatal, Reason: p.Reason, Message: p.Message, Remedy: seen.Domain.Remedy()})
	}
	if note := seen.Domain.Note; note.Reason != "" {
		r.Found(topology.Finding{Reason: note.Reason, Message: note.Message})
	}
	if seen.Why != "" {
		r.Summary = append(r.Summary, fmt.Sprintf("imex.join is auto, here %s: %s", seen.Join, seen.Why))
	}
	r.addMembership(imex.Judge(seen))
	return r
}

// addMembership adds the nodes with a problem or a note. The result differs if there is a
// problem.
func (r *Result) addMembership(verdicts map[string]imex.Verdict) {
	ready, not := 0, 0
	for _, node := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[node]
		if v.Ready() {
			ready++
		}
		f := v.Finding()
		if f.Severity == topology.Fatal {
			not++
		}
		if f.Severity != topology.OK && f.Reason != imex.ReasonDomainProblem { // which has a line of its own
			r.Found(f)
		}
	}
	r.Differs = not > 0
	summary := fmt.Sprintf("same: all %d nodes that need it are members of the IMEX domain", ready)
	switch {
	case not > 0:
		summary = fmt.Sprintf("differs: %d of %d nodes are no members of the IMEX domain", not, not+ready)
	case ready == 0:
		summary = "same: no node needs the IMEX domain"
	}
	r.Summary = append(r.Summary, summary)
}
