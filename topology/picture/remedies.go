package picture

import "github.com/quoin-hpc/quoin/topology"

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
	for reason := range here {
		if remedy := topology.Explain(reason).Remedy; here[reason] && remedy != "" {
			out[reason] = remedy
		}
	}
	return out
}
