package nodelabels_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/fabric"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
	"github.com/quoin-hpc/quoin/topology/placement"
)

var auto = nodelabels.Keys{Domains: []string{nodelabels.Auto}, Tiers: []string{nodelabels.Auto}}

const cliqueA = "8a61c302-0000-4000-8000-000000000001.7"

func TestReadNeighbours(t *testing.T) {
	tests := []struct {
		name   string
		labels string // key=value, one after the other
		domain string // clique, or key=value of the first
		source string
		tiers  string
	}{
		{"Topograph", "accelerator.topograph.run/domain=x3e4f1a2b3c4d5e6f accelerator.topograph.run/sub-domain=s1 fabric.topograph.run/tier-0=leaf fabric.topograph.run/tier-1=spine fabric.topograph.run/tier-2=core fabric.topograph.run/tier-3=top",
			"accelerator.topograph.run/domain=x3e4f1a2b3c4d5e6f", "Topograph", "leaf spine core top"},
		{"Topograph with cliques", "accelerator.topograph.run/domain=" + cliqueA, cliqueA, "", ""},
		{"Topograph before 1.0", "network.topology.nvidia.com/accelerator=nvl1 network.topology.nvidia.com/leaf=s1 network.topology.nvidia.com/spine=s2 network.topology.nvidia.com/core=s3",
			"network.topology.nvidia.com/accelerator=nvl1", "Topograph before 1.0", "s1 s2 s3"},
		{"Soperator", "topology.nebius.com/tier-0=nvl topology.nebius.com/tier-1=leaf topology.nebius.com/tier-2=spine", "topology.nebius.com/tier-0=nvl", "Soperator", "leaf spine"},
		{"Soperator without NVLink", "topology.nebius.com/tier-1=leaf", "", "Soperator", "leaf"},
		{"CoreWeave counts in each fabric", "ds.coreweave.com/nvlink.domain=DH4-016-US-EAST-02A backend.coreweave.cloud/fabric=f backend.coreweave.cloud/superpod=2 backend.coreweave.cloud/leafgroup=1",
			"ds.coreweave.com/nvlink.domain=DH4-016-US-EAST-02A", "CoreWeave (backend)", "f/2/1 f/2 f"},
		{"CoreWeave RoCE", "backend.coreweave.cloud/fabric=f backend.coreweave.cloud/leafgroup=1", "", "CoreWeave (backend)", "f/1 f"},
		{"CoreWeave without a fabric", "backend.coreweave.cloud/fabric= backend.coreweave.cloud/leafgroup=1", "", "", ""},
		{"CoreWeave InfiniBand", "ib.coreweave.cloud/fabric=f ib.coreweave.cloud/superpod=2 ib.coreweave.cloud/leafgroup=0", "", "CoreWeave (InfiniBand)", "f/2/0 f/2 f"},
		{"Google", "cloud.google.com/gce-topology-block=b cloud.google.com/gce-topology-subblock=s cloud.google.com/gce-topology-host=h", "", "Google Cloud", "s b"},
		{"AWS, three layers", "topology.k8s.aws/network-node-layer-1=top topology.k8s.aws/network-node-layer-2=mid topology.k8s.aws/network-node-layer-3=near topology.k8s.aws/ultraserver-id=u",
			"topology.k8s.aws/ultraserver-id=u", "AWS", "near mid top"},
		{"AWS, four layers", "topology.k8s.aws/network-node-layer-1=a topology.k8s.aws/network-node-layer-2=b topology.k8s.aws/network-node-layer-3=c topology.k8s.aws/network-node-layer-4=d", "", "AWS", "d c b a"},
		{"Oracle", "oci.oraclecloud.com/rdma.hpc_island_id=i oci.oraclecloud.com/rdma.network_block_id=n oci.oraclecloud.com/rdma.local_block_id=l oci.oraclecloud.com/host.gpu_memory_fabric_id=m",
			"oci.oraclecloud.com/host.gpu_memory_fabric_id=m", "Oracle Cloud", "l n i"},
		{"Nscale", "topology.nks.nscale.com/accelerator-domain=d", "topology.nks.nscale.com/accelerator-domain=d", "", ""},
		{"Crusoe counts in each partition", "crusoe.ai/ib.partition.id=i crusoe.ai/pod.id=p", "", "Crusoe", "i/p i"},
		{"Crusoe without a partition", "crusoe.ai/pod.id=p", "", "", ""},
		{"Soperator, and a tier is missing", "topology.nebius.com/tier-1=leaf topology.nebius.com/tier-3=core topology.nebius.com/tier-4=none", "", "Soperator", "leaf  core"},
		{"Soperator, and the leaf is missing", "topology.nebius.com/tier-2=spine topology.nebius.com/tier-3=core", "", "Soperator", " spine core"},
		{"the clique goes before all", "nvidia.com/gpu.clique=" + cliqueA + " topology.nebius.com/tier-0=x", cliqueA, "", ""},
		{"two of them", "fabric.topograph.run/tier-0=l topology.nebius.com/tier-1=m topology.nebius.com/tier-0=x accelerator.topograph.run/domain=y", "accelerator.topograph.run/domain=y", "Topograph", "l"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := nodelabels.Read(parse(tt.labels), auto)
			domain := ""
			switch {
			case !got.Clique.IsZero():
				domain = got.Clique.String()
			case len(got.Domains) > 0:
				domain = got.Domains[0].String()
			}
			if domain != tt.domain || got.TierSource.Name != tt.source || strings.Join(got.Tiers, " ") != tt.tiers || len(got.Problems) > 0 {
				t.Errorf("%+v, want domain %q, tiers %q of %q", got, tt.domain, tt.tiers, tt.source)
			}
			watched := auto.Labels()
			for key := range parse(tt.labels) {
				if !strings.HasSuffix(key, "-host") && !strings.HasSuffix(key, "/sub-domain") && !slices.Contains(watched, key) {
					t.Errorf("%s is not among the labels to watch", key)
				}
			}
		})
	}
}

func parse(text string) map[string]string {
	labels := map[string]string{}
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

func TestReadNoDomain(t *testing.T) {
	for _, value := range []string{"N/A", "n_a", "[N/A].[N/A]", "N_A.N_A", "none", "Unknown", "null", "not-available", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000.3"} {
		got := nodelabels.Read(map[string]string{"topology.nebius.com/tier-0": value, "topology.nebius.com/tier-1": strings.TrimSuffix(value, ".3")}, auto)
		if got.NamesDomain() || len(got.Problems) != 1 || got.Problems[0].Reason != "LabelWithoutDomain" || len(got.Tiers) > 0 {
			t.Errorf("%q: %+v", value, got)
		}
	}
	for _, value := range []string{"0", "n1", "NA-1", "nvl", "unknown-rack-1", "00000000-0000-0000-0000-000000000001"} {
		if got := nodelabels.Read(map[string]string{"topology.nebius.com/tier-0": value}, auto); len(got.Domains) != 1 || len(got.Problems) > 0 {
			t.Errorf("%q: %+v", value, got)
		}
	}
	if got := nodelabels.Read(map[string]string{"topology.nebius.com/tier-0": ""}, auto); got.NamesDomain() || len(got.Problems) > 0 {
		t.Errorf("an empty value: %+v", got)
	}
}

func TestReadConfigured(t *testing.T) {
	labels := parse("my.site/rack=r7 my.site/leaf=l topology.nebius.com/tier-0=x fabric.topograph.run/tier-0=f nvidia.com/gpu.clique=" + cliqueA +
		" accelerator.topograph.run/domain=8a61c302-0000-4000-8000-000000000001.8")
	for _, tt := range []struct {
		keys    nodelabels.Keys
		domains string
		tiers   []string
		reason  string
	}{
		{nodelabels.Keys{}, "", nil, ""},
		{nodelabels.Keys{Domains: []string{"my.site/rack"}, Tiers: []string{"my.site/leaf"}}, "my.site/rack=r7", []string{"l"}, ""},
		{nodelabels.Keys{Domains: []string{"my.site/rack", "auto"}, Tiers: auto.Tiers}, "my.site/rack=r7 topology.nebius.com/tier-0=x", []string{"f"}, "LabelDiffers"},
		{nodelabels.Keys{Domains: []string{"topology.nebius.com/tier-0", "my.site/rack", "topology.nebius.com/tier-0"}}, "topology.nebius.com/tier-0=x my.site/rack=r7", nil, ""},
	} {
		got := nodelabels.Read(labels, tt.keys)
		var domains []string
		for _, d := range got.Domains {
			domains = append(domains, d.String())
		}
		if strings.Join(domains, " ") != tt.domains || !slices.Equal(got.Tiers, tt.tiers) || got.Clique.String() != cliqueA {
			t.Errorf("%+v: %+v", tt.keys, got)
		}
		if (len(got.Problems) > 0) != (tt.reason != "") || len(got.Problems) > 0 && got.Problems[0].Reason != tt.reason {
			t.Errorf("%+v: problems %v, want %q", tt.keys, got.Problems, tt.reason)
		}
	}
}

func TestReadCounts(t *testing.T) {
	for labels, want := range map[string]int{
		"nvidia.com/gpu.count=4 gpu.nvidia.com/count=8":          4,
		"gpu.nvidia.com/count=8":                                 8,
		"nvidia.com/gpu=true":                                    1,
		"nvidia.com/gpu=false":                                   0,
		"cloud.google.com/gke-accelerator=nvidia-h100-mega-80gb": 1,
		"cloud.google.com/gke-accelerator=nvidia-tesla-t4 cloud.google.com/gke-accelerator-count=2":   2,
		"cloud.google.com/gke-tpu-accelerator=tpu-v6e-slice cloud.google.com/gke-accelerator-count=4": 0,
	} {
		if got := nodelabels.Read(parse(labels), nodelabels.Keys{}).GPUs; got != want {
			t.Errorf("%s: %d GPUs, want %d", labels, got, want)
		}
	}
}

// FuzzRead reads any values. What comes out can be planned, and no value that stands for no
// domain becomes a domain.
func FuzzRead(f *testing.F) {
	f.Add(cliqueA, "N/A", "leaf", "spine")
	f.Add("", cliqueA, "0", "0")
	f.Add("x", "00000000-0000-0000-0000-000000000000.1", "none", "f/1")
	f.Fuzz(func(t *testing.T, clique, domain, tier, upper string) {
		labels := map[string]string{topology.CliqueLabel: clique, "topology.nebius.com/tier-0": domain, "ds.coreweave.com/nvlink.domain": tier,
			"backend.coreweave.cloud/leafgroup": tier, "backend.coreweave.cloud/fabric": upper, nodelabels.DefaultTiers[0]: upper, nodelabels.Count: "4"}
		got := nodelabels.Read(labels, auto)
		if diff := cmp.Diff(got, nodelabels.Read(labels, auto)); diff != "" {
			t.Fatal(diff)
		}
		for _, d := range got.Domains {
			if d.Value == "" || strings.EqualFold(d.Value, "n/a") {
				t.Errorf("%v is a domain", d)
			}
		}
		facts := []topology.Facts{{Name: "a", SlurmName: "a", Labels: got}, {Name: "b", SlurmName: "b", Labels: got}}
		new(fabric.Site).Judge(facts)
		plan, _, err := placement.MakePlan(placement.Observed{Facts: facts}, placement.Previous{}, placement.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Blocks()) == 1 != got.NamesDomain() {
			t.Errorf("blocks %v of %+v", plan.Blocks(), got)
		}
		for _, b := range plan.Blocks() {
			if topology.SlurmName(b.Name) != b.Name {
				t.Errorf("block %q", b.Name)
			}
		}
		for _, s := range plan.Switches() {
			if topology.SlurmName(s.Name) != s.Name {
				t.Errorf("switch %q", s.Name)
			}
		}
	})
}
