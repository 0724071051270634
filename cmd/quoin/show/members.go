package show

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/topology"
)

// MembersResult names the nodes that are no members of the IMEX domain, and what is wrong with the
// domain.
func MembersResult(seen *imex.Observation) *Result {
	r := &Result{Kind: "IMEXCheckResult"}
	verdicts := imex.Judge(seen)
	if p := seen.Domain.Problem; p.Reason != "" {
		for _, v := range verdicts {
			if v.Reason == imex.ReasonDomainProblem { // a node needs the domain
				p.Severity = topology.Fatal
			}
		}
		r.Found(p)
	}
	if note := seen.Domain.Note; note.Reason != "" {
		r.Found(note)
	}
	if seen.Why != "" {
		r.Summary = append(r.Summary, fmt.Sprintf("imex.join is auto, here %s: %s", seen.Join, seen.Why))
	}
	addMembership(r, verdicts)
	return r
}

// addMembership adds the nodes with a problem or a note.
func addMembership(r *Result, verdicts map[string]imex.Verdict) {
	ready, not, unknown := 0, 0, 0
	for _, node := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[node]
		if v.Ready() {
			ready++
		}
		f := v.Finding
		switch f.Severity {
		case topology.Fatal:
			not++
		case topology.Unknown:
			unknown++
		}
		if f.Severity != topology.OK && f.Reason != imex.ReasonDomainProblem { // which has a line of its own
			r.Found(f)
		}
	}
	summary := fmt.Sprintf("same: all %d nodes that need it are members of the IMEX domain", ready)
	switch {
	case not > 0:
		summary = fmt.Sprintf("differs: %d of %d nodes are no members of the IMEX domain", not, not+ready+unknown)
	case unknown > 0:
		summary = fmt.Sprintf("%d of %d nodes are members of the IMEX domain", ready, ready+unknown)
	case ready == 0:
		summary = "same: no node needs the IMEX domain"
	}
	r.Summary = append(r.Summary, summary)
}
