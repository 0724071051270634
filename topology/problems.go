package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// RowsPendingProblem says that memory rows of a GPU wait until a reset remaps them.
func RowsPendingProblem(uuid string) Finding {
	return problem(ReasonMemoryErrors, "GPU "+uuid+" has memory rows that wait to be remapped")
}

// UncorrectedECCProblem says that a GPU has had uncorrected ECC errors since the driver was loaded. The message does not
// count the errors, because each new error would then change the report.
func UncorrectedECCProblem(uuid string) Finding {
	return problem(ReasonMemoryErrors, "GPU "+uuid+" has had uncorrected ECC errors since the driver was loaded")
}

// GPULostProblem says that the driver has a GPU on PCI that NVML does not show.
func GPULostProblem(address string) Finding {
	return problem(ReasonGPULost, "the driver has a GPU at PCI address "+address+" that NVML does not show")
}

// problem returns a problem of a report. Its message ends with the remedy of the reason word, because a report has no
// room for a remedy of its own.
func problem(reason, what string) Finding {
	return Finding{Reason: reason, Message: what + ": " + Explain(reason).Remedy}
}

// Problems returns the problems of the node's labels and of its report.
func (f *Facts) Problems() []Finding {
	found := slices.Clone(f.Labels.Problems)
	if f.Report == nil {
		return found
	}
	for _, p := range f.Report.Problems {
		found = append(found, p.Reported())
	}
	return found
}

// MixedCliques returns a problem of each node whose GPUs are of another product than those
// of most nodes in its clique.
func MixedCliques(facts []Facts) []Finding {
	first := make(map[Clique]string)
	mixed := make(map[Clique]map[string]int) // nodes by product
	for i := range facts {
		c, product := facts[i].cliqueAndProduct()
		switch {
		case product == "" || product == first[c]:
		case first[c] == "":
			first[c] = product
		default:
			mixed[c] = make(map[string]int)
		}
	}
	if len(mixed) == 0 {
		return nil
	}
	for i := range facts {
		if c, product := facts[i].cliqueAndProduct(); product != "" && mixed[c] != nil {
			mixed[c][product]++
		}
	}
	var found []Finding
	for i := range facts {
		c, product := facts[i].cliqueAndProduct()
		counts := mixed[c]
		if product == "" || counts == nil {
			continue
		}
		most := slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return cmp.Compare(counts[a], counts[b]) })
		if product != most {
			found = append(found, Finding{Subject: Subject{Node: facts[i].Name}, Reason: ReasonProductsDiffer,
				Message: fmt.Sprintf("its GPUs are %s, and those of most other nodes in clique %s are %s", product, c, most)})
		}
	}
	return found
}

// cliqueAndProduct returns the clique and product of the node's first GPU. The product is
// empty unless both are known.
func (f *Facts) cliqueAndProduct() (c Clique, product string) {
	if f.Report == nil || len(f.Report.GPUs) == 0 {
		return c, ""
	}
	g := &f.Report.GPUs[0]
	if clique, ok := g.Fabric.Clique(); ok && g.Product != "" {
		return clique, g.Product
	}
	return c, ""
}
