package topology

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFindings finds hardware that does not fit together.
func TestFindings(t *testing.T) {
	rack := Fabric{ClusterUUID: UUID{1}, CliqueID: 3, State: FabricCompleted}
	node := func(name, product string, fabrics ...Fabric) Facts {
		f := Facts{Name: name, Report: &Node{Name: name}}
		for i, fabric := range fabrics {
			f.Report.GPUs = append(f.Report.GPUs, GPU{Index: i, UUID: "GPU-" + string(rune('a'+i)), Product: product, Fabric: fabric})
		}
		return f
	}
	alone := Fabric{State: FabricCompleted}
	for name, tt := range map[string]struct {
		facts []Facts
		want  []string
	}{
		"all in one":          {[]Facts{node("n1", "GB200", rack, rack), node("n2", "GB200", rack, rack), {Name: "n3"}, node("n4", "GB200")}, nil},
		"none has a clique":   {[]Facts{node("n1", "H100", alone, alone), node("n2", "L40S", Fabric{State: FabricNotSupported})}, nil},
		"one still registers": {[]Facts{node("n1", "GB200", rack, Fabric{State: FabricInProgress})}, nil},
		"one has failed":      {[]Facts{node("n1", "GB200", rack, Fabric{State: FabricCompleted, Status: "UNKNOWN"})}, nil},
		"two products": {[]Facts{node("n1", "GB200", rack), node("n2", "GB300", rack), node("n3", "GB200", rack), node("n4", "", rack)},
			[]string{"n2: ProductsDiffer: its GPUs are GB300, and those of most other nodes in clique 01000000-0000-0000-0000-000000000000.3 are GB200"}},
		"as many of both": {[]Facts{node("n1", "GB300", rack), node("n2", "GB200", rack)},
			[]string{"n1: ProductsDiffer: its GPUs are GB300, and those of most other nodes in clique 01000000-0000-0000-0000-000000000000.3 are GB200"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for i := range tt.facts {
				for _, p := range tt.facts[i].Problems() {
					p.Node = tt.facts[i].Name
					got = append(got, p.String())
				}
			}
			for _, p := range MixedCliques(tt.facts) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), strings.Join(got, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
