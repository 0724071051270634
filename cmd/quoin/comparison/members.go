package comparison

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/imex"
)

// OfMembers names the nodes that are no members of the IMEX domain, and what is wrong with the
// domain.
func OfMembers(seen *imex.Observation) *Result {
	r := &Result{}
	if p := seen.Domain.Problem; p.Reason != "" {
		r.remark(p.Reason, p.Message, seen.Domain.Remedy())
	}
	if note := seen.Domain.Note; note.Reason != "" {
		r.remark(note.Reason, note.Message, "")
	}
	if seen.Why != "" {
		r.Summary = append(r.Summary, fmt.Sprintf("imex.join is auto, here %s: %s", seen.Join, seen.Why))
	}
	r.addMembership(imex.Judge(seen))
	return r
}

func (r *Result) remark(reason, message, advice string, nodes ...string) {
	r.Findings = append(r.Findings, findings.Finding{Nodes: nodes, Remark: findings.Remark{Reason: reason, Message: message, Advice: advice}})
}

// addMembership adds the nodes with a problem or a note. The result differs if there is a
// problem.
func (r *Result) addMembership(verdicts map[string]imex.Verdict) {
	ready, not := 0, 0
	for _, node := range slices.Sorted(maps.Keys(verdicts)) {
		v := verdicts[node]
		switch {
		case v.Reason == imex.ReasonDomainProblem: // which has a line of its own
			not++
			continue
		case v.Problem():
			not++
		case !v.Ready():
			continue
		default:
			ready++
			if v.Remedy == "" {
				continue
			}
		}
		r.remark(v.Reason, v.Message, v.Remedy, node)
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
