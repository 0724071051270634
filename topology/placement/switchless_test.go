package placement

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
)

// TestSwitchesUnknown says what is missing on a site without any place, and not where that is not known.
func TestSwitchesUnknown(t *testing.T) {
	clique := topology.Clique{ClusterUUID: topology.UUID{1}, ID: 1}
	ends := topology.Labels{GPUs: 8, Product: "NVIDIA H100 80GB HBM3"}
	rack := topology.Labels{GPUs: 4, Product: "NVIDIA GB200", Clique: clique}
	malformed := topology.Labels{GPUs: 4, Product: "NVIDIA GB200", Problems: []topology.Finding{{Reason: "CliqueLabelMalformed", Message: "no clique"}}}
	switched := ends
	switched.Tiers = []string{"leaf-1"}
	alone := topology.Node{Name: "n", GPUs: []topology.GPU{{UUID: "GPU-1", Product: "NVIDIA H100 80GB HBM3", Fabric: topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{7}}}}}
	none := topology.Node{Name: "n", GPUs: []topology.GPU{{UUID: "GPU-1", Product: "NVIDIA XX1", Fabric: topology.Fabric{State: topology.FabricNotSupported}}}}
	for _, tt := range []struct {
		name   string
		policy Policy
		facts  []topology.Facts
		want   string // how the message begins and ends
	}{
		{"labels of the product", Policy{}, []topology.Facts{{Labels: ends}, {Labels: ends}, {}}, "NVLink ends in the machine (2 nodes)...or set flatTopology: true if all nodes are equally near"},
		{"the site says that the product ends in the machine", Policy{MaxDomainGPUs: fabric.Bounds{"GB200": 0}}, []topology.Facts{{Labels: topology.Labels{GPUs: 4, Product: "NVIDIA GB200"}}}, "NVLink ends in the machine (1 node)...near"},
		{"the site says that the product joins machines", Policy{MaxDomainGPUs: fabric.Bounds{"H100": 256}}, []topology.Facts{{Labels: ends}}, ""},
		{"a machine that is a domain by itself", Policy{}, []topology.Facts{{Report: &alone}}, "NVLink ends in the machine (1 node)...near"},
		{"GPUs that have no domain", Policy{}, []topology.Facts{{Report: &none}}, "NVLink ends in the machine (1 node)...near"},
		{"topology.conf", Policy{OneTopology: true}, []topology.Facts{{Labels: ends}}, "NVLink ends in the machine (1 node)...or leave TopologyPlugin out of slurm.conf if all nodes are equally near: Slurm then needs no topology file"},
		{"leaf switches are wanted", Policy{ByLeaf: true}, []topology.Facts{{Labels: rack}, {Labels: rack}}, "blocksBy: leaf makes a block of each leaf switch (2 nodes)...near"},
		{"a tree is wanted", Policy{TreeOnly: true}, []topology.Facts{{Labels: rack}, {Labels: rack}, {Labels: ends}}, "topology: tree publishes switches alone (3 nodes)...near"},
		{"flat is wanted", Policy{Flat: true}, []topology.Facts{{Labels: ends}}, ""},
		{"a switch is known", Policy{}, []topology.Facts{{Labels: switched}, {Labels: ends}}, ""},
		{"a block is known", Policy{}, []topology.Facts{{Labels: rack}, {Labels: rack}, {Labels: ends}}, ""},
		{"nothing is known", Policy{}, []topology.Facts{{Labels: topology.Labels{GPUs: 8}}, {Labels: malformed}}, ""},
		{"no GPU", Policy{}, []topology.Facts{{}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.facts {
				tt.facts[i].Name = string(rune('a' + i))
				tt.facts[i].SlurmName = tt.facts[i].Name
			}
			(&fabric.Site{Bounds: tt.policy.MaxDomainGPUs}).Judge(tt.facts)
			plan, _, err := MakePlan(Observed{Facts: tt.facts}, Previous{}, tt.policy)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, p := range plan.Problems {
				if p.Reason == ReasonSwitchesUnknown {
					got += p.Message
				}
			}
			begins, ends, _ := strings.Cut(tt.want, "...")
			if tt.want == "" && got != "" || !strings.HasPrefix(got, begins) || !strings.HasSuffix(got, ends) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
