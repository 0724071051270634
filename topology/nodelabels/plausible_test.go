package nodelabels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

// TestImpossibleDomains has labels name NVLink domains of more GPUs than the product's NVLink joins. Half
// of the nodes have no name in Slurm.
func TestImpossibleDomains(t *testing.T) {
	subblock := nodelabels.Keys{Domains: []string{"cloud.google.com/gce-topology-subblock"}}
	for _, tt := range []struct {
		name   string
		nodes  int
		labels string
		keys   nodelabels.Keys
		report *topology.Node
		want   string // of the problem; empty: the domain stays
	}{
		{"a rack of GB200", 18, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto, nil, ""},
		{"A4X", 18, "cloud.google.com/gke-accelerator=nvidia-gb200 cloud.google.com/gke-accelerator-count=4 cloud.google.com/gce-topology-subblock=r", auto, nil, ""},
		{"A4X Max", 18, "cloud.google.com/gke-accelerator=nvidia-gb300 cloud.google.com/gke-accelerator-count=4 cloud.google.com/gce-topology-subblock=r", auto, nil, ""},
		{"as many as NVLink joins", 18, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto, nil, ""},
		{"500 GB200 nodes", 500, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto, nil,
			"label topology.nebius.com/tier-0: r is on 500 nodes with 2000 GPUs, and NVLink joins 72 GPUs of GB200 at most: it is no NVLink domain"},
		{"500 GB200 nodes of one clique", 500, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 nvidia.com/gpu.clique=" + cliqueA, auto, nil,
			"label nvidia.com/gpu.clique: " + cliqueA + " is on 500 nodes with 2000 GPUs, and NVLink joins 72 GPUs of GB200 at most: it is no NVLink domain"},
		{"HGX with a subblock that a site took for a domain", 12, "cloud.google.com/gke-accelerator=nvidia-h100-mega-80gb cloud.google.com/gce-topology-subblock=r", subblock, nil,
			"label cloud.google.com/gce-topology-subblock: r is on 12 nodes, and NVLink of H100 ends in the machine: it is no NVLink domain"},
		{"500 GB200 nodes by a label that the site has configured", 500, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 cloud.google.com/gce-topology-subblock=r", subblock, nil, ""},
		{"one HGX", 1, "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3 nvidia.com/gpu.clique=" + cliqueA, auto, nil, ""},
		{"two B200 machines on CoreWeave", 2, "gpu.nvidia.com/model=B200 gpu.nvidia.com/count=8 ds.coreweave.com/nvlink.domain=r", auto, nil,
			"label ds.coreweave.com/nvlink.domain: r is on 2 nodes, and NVLink of B200 ends in the machine: it is no NVLink domain"},
		{"a product that nobody knows", 500, "nvidia.com/gpu.product=NVIDIA-XQ900 nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto, nil, ""},
		{"no product", 500, "nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto, nil, ""},
		{"NVML confirms a domain", 500, "nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.count=4 topology.nebius.com/tier-0=r", auto,
			&topology.Node{GPUs: []topology.GPU{{Product: "NVIDIA GB200", Fabric: topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{1}}}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			facts := make([]topology.Facts, tt.nodes)
			for i := range facts {
				facts[i] = topology.Facts{Name: fmt.Sprint("n", i), Labels: nodelabels.Read(parse(tt.labels), tt.keys), Report: tt.report}
			}
			(&fabric.Site{DomainLabels: tt.keys.Domains}).Judge(facts[:tt.nodes/2], facts[tt.nodes/2:])
			for i := range facts {
				var problems []string
				for _, p := range facts[i].Labels.Problems {
					problems = append(problems, p.Message)
				}
				if diff := cmp.Diff(tt.want, strings.Join(problems, "\n")); diff != "" || facts[i].Labels.NamesDomain() != (tt.want == "") {
					t.Fatalf("%+v (-want +got):\n%s", facts[i].Labels, diff)
				}
			}
		})
	}
}

// TestNoDomain reads words for none. They are a problem unless the machine has none.
func TestNoDomain(t *testing.T) {
	for labels, problems := range map[string]int{
		"node.kubernetes.io/instance-type=BM.GPU.H100.8 oci.oraclecloud.com/host.gpu_memory_fabric_id=no-imds-data":  0,
		"node.kubernetes.io/instance-type=BM.GPU.GB200.4 oci.oraclecloud.com/host.gpu_memory_fabric_id=no-imds-data": 1,
		"oci.oraclecloud.com/host.gpu_memory_fabric_id=no-imds-data":                                                 1,
		"nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3 nvidia.com/gpu.clique=N_A.N_A":                                 0,
		"nvidia.com/gpu.product=NVIDIA-GB200 nvidia.com/gpu.clique=N_A.N_A":                                          1,
		"node.kubernetes.io/instance-type=Standard_L4s_v2 topology.nebius.com/tier-0=none":                           1,
		"node.kubernetes.io/instance-type=VM.Standard.A2.Flex topology.nebius.com/tier-0=none":                       1, // of no GPU
		"node.kubernetes.io/instance-type=Standard_A2_v2 topology.nebius.com/tier-0=none":                            1,
	} {
		if l := nodelabels.Read(parse(labels), auto); l.NamesDomain() || len(l.Problems) != problems {
			t.Errorf("%s: %+v, want %d problems", labels, l, problems)
		}
	}
}

// TestSubblockOfHGX holds that Google's label is no NVLink domain of machines whose NVLink ends in
// the machine.
func TestSubblockOfHGX(t *testing.T) {
	for _, accelerator := range []string{"nvidia-h100-mega-80gb", "nvidia-b200", "nvidia-tesla-t4", "nvidia-of-tomorrow"} {
		if l := nodelabels.Read(parse("cloud.google.com/gke-accelerator="+accelerator+" cloud.google.com/gce-topology-subblock=s"), auto); l.NamesDomain() || len(l.Problems) > 0 {
			t.Errorf("%s: %+v", accelerator, l)
		}
	}
}
