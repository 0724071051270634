package comparison

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quoin-hpc/quoin/cmd/quoin/findings"
	"github.com/quoin-hpc/quoin/imex"
)

// OfMembers names the nodes that are no members of the IMEX domain, and what is wrong with the
// domain and with claims.
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
	conflicts := r.addUnplaced(imex.JudgeUnplaced(seen))
	r.addMembership(imex.Judge(seen), conflicts)
	return r
}

func (r *Result) remark(reason, message, advice string, nodes ...string) {
	r.Findings = append(r.Findings, findings.Finding{Nodes: nodes, Remark: findings.Remark{Reason: reason, Message: message, Advice: advice}})
}

// addUnplaced adds the claims that no node has, and returns how many of them are there
// by mistake. Other claims may get a node in a moment.
func (r *Result) addUnplaced(all []imex.Unplaced) (conflicts int) {
	for _, u := range all {
		if u.Reason == imex.ReasonWrongClaim && u.Owner != imex.OwnerOther {
			conflicts += u.Claims
		}
		r.remark(u.Reason, u.Message, u.Remedy)
	}
	return conflicts
}

// addMembership adds the nodes with a problem or a note. The result differs if there is a
// problem, or a conflict of claims that no node has.
func (r *Result) addMembership(verdicts map[string]imex.Verdict, conflicts int) {
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
	r.Differs = not > 0 || conflicts > 0
	summary := fmt.Sprintf("same: all %d nodes that need it are members of the IMEX domain", ready)
	switch {
	case not > 0:
		summary = fmt.Sprintf("differs: %d of %d nodes are no members of the IMEX domain", not, not+ready)
	case conflicts > 0:
		summary = fmt.Sprintf("differs: %d claims wait in conflict with others, beside %d nodes that are members of the IMEX domain", conflicts, ready)
	case ready == 0:
		summary = "same: no node needs the IMEX domain"
	}
	r.Summary = append(r.Summary, summary)
}
