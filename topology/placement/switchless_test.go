package placement_test

import (
	"strings"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
	fabrics "github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/placement"
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
		policy placement.Policy
		facts  []topology.Facts
		want   string // how the message begins and ends
	}{
		{"labels of the product", placement.Policy{}, []topology.Facts{{Labels: ends}, {Labels: ends}, {}}, "NVLink ends in the machine (2 nodes)...or set flatTopology: true if all nodes are equally near"},
		{"the site says that the product ends in the machine", placement.Policy{MaxDomainGPUs: fabrics.Bounds{"GB200": 0}}, []topology.Facts{{Labels: topology.Labels{GPUs: 4, Product: "NVIDIA GB200"}}}, "NVLink ends in the machine (1 node)...near"},
		{"the site says that the product joins machines", placement.Policy{MaxDomainGPUs: fabrics.Bounds{"H100": 256}}, []topology.Facts{{Labels: ends}}, ""},
		{"a machine that is a domain by itself", placement.Policy{}, []topology.Facts{{Report: &alone}}, "NVLink ends in the machine (1 node)...near"},
		{"GPUs that have no domain", placement.Policy{}, []topology.Facts{{Report: &none}}, "NVLink ends in the machine (1 node)...near"},
		{"topology.conf", placement.Policy{OneTopology: true}, []topology.Facts{{Labels: ends}}, "NVLink ends in the machine (1 node)...or leave TopologyPlugin out of slurm.conf if all nodes are equally near: Slurm then needs no topology file"},
		{"leaf switches are wanted", placement.Policy{ByLeaf: true}, []topology.Facts{{Labels: rack}, {Labels: rack}}, "blocksBy: leaf makes a block of each leaf switch (2 nodes)...near"},
		{"a tree is wanted", placement.Policy{TreeOnly: true}, []topology.Facts{{Labels: rack}, {Labels: rack}, {Labels: ends}}, "topology: tree publishes switches alone (3 nodes)...near"},
		{"flat is wanted", placement.Policy{Flat: true}, []topology.Facts{{Labels: ends}}, ""},
		{"a switch is known", placement.Policy{}, []topology.Facts{{Labels: switched}, {Labels: ends}}, ""},
		{"a block is known", placement.Policy{}, []topology.Facts{{Labels: rack}, {Labels: rack}, {Labels: ends}}, ""},
		{"nothing is known", placement.Policy{}, []topology.Facts{{Labels: topology.Labels{GPUs: 8}}, {Labels: malformed}}, ""},
		{"no GPU", placement.Policy{}, []topology.Facts{{}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.facts {
				tt.facts[i].Name = string(rune('a' + i))
				tt.facts[i].SlurmName = tt.facts[i].Name
			}
			got := strings.Join(saidOf(mustPlan(t, tt.facts, nil, tt.policy), placement.ReasonSwitchesUnknown), "")
			if !like(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
