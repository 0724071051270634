package picture

import (
	_ "embed" // what to do for each reason
	"strings"
)

// remedyText is made by go generate from the tables of the documentation.
//
//go:embed remedies.txt
var remedyText string

// remediesOf returns what to do for the reasons of a site: of its plan, its reports, its verdicts
// and what is held. A reason that needs no work has none.
func remediesOf(s *Site) map[string]string {
	here := map[string]bool{}
	for i := range s.Plan.Problems {
		here[s.Plan.Problems[i].Reason] = true
	}
	for i := range s.Plan.Nodes {
		here[s.Plan.Nodes[i].Reason] = true
	}
	for i := range s.Facts {
		if r := s.Facts[i].Report; r != nil {
			for k := range r.Problems {
				here[r.Problems[k].Reason] = true
			}
		}
	}
	for _, says := range s.Said {
		for _, v := range []*Verdict{&says.IMEX, &says.Drift, &says.Fabric} {
			here[v.Reason] = here[v.Reason] || v.Wrong
		}
	}
	if s.Held != nil {
		for i := range s.Held.Holds {
			here[s.Held.Holds[i].Reason] = true
		}
	}
	out := map[string]string{}
	for line := range strings.Lines(remedyText) {
		if reason, remedy, _ := strings.Cut(strings.TrimSpace(line), "\t"); here[reason] {
			out[reason] = remedy
		}
	}
	return out
}
