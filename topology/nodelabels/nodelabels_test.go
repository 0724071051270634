package nodelabels_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodelabels"
)

func TestRead(t *testing.T) {
	cluster := topology.UUID{0x8a, 0x61, 0xc3, 0x02, 15: 1}
	clique := cluster.String() + ".32766"
	tests := []struct {
		name   string
		labels map[string]string
		want   topology.Labels
		reason string // of the only problem
	}{
		{"nothing", nil, topology.Labels{}, ""},
		{"all", map[string]string{topology.CliqueLabel: clique, nodelabels.Product: "NVIDIA-GB200", nodelabels.Count: "4",
			nodelabels.DefaultTiers[0]: "leaf", nodelabels.DefaultTiers[1]: "spine"},
			topology.Labels{Clique: topology.Clique{ClusterUUID: cluster, ID: 32766}, Product: "NVIDIA GB200", GPUs: 4, Tiers: []string{"leaf", "spine"}}, ""},
		{"a gap in the tiers", map[string]string{nodelabels.DefaultTiers[0]: "leaf", nodelabels.DefaultTiers[2]: "core"}, topology.Labels{Tiers: []string{"leaf", "", "core"}}, ""},
		{"no leaf", map[string]string{nodelabels.DefaultTiers[1]: "spine", nodelabels.DefaultTiers[2]: "none"}, topology.Labels{Tiers: []string{"", "spine"}}, ""},
		{"present without a count", map[string]string{nodelabels.Present: "true"}, topology.Labels{GPUs: 1}, ""},
		{"MIG product", map[string]string{nodelabels.Product: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb-SHARED"}, topology.Labels{Product: "NVIDIA A100 SXM4 80GB", MIG: true}, ""},
		{"MIG instances of several profiles", map[string]string{nodelabels.Count: "8", "nvidia.com/mig-1g.10gb.count": "16", "nvidia.com/mig-3g.40gb.count": "0"}, topology.Labels{GPUs: 8, MIG: true}, ""},
		{"no MIG instance of a profile", map[string]string{nodelabels.Count: "8", "nvidia.com/mig-1g.10gb.count": "0", "nvidia.com/mig.strategy": "mixed"}, topology.Labels{GPUs: 8}, ""},
		{"the operator's strategy without MIG", map[string]string{nodelabels.Count: "8", "nvidia.com/mig.strategy": "single", "nvidia.com/mig.capable": "true"}, topology.Labels{GPUs: 8}, ""},
		{"N/A", map[string]string{topology.CliqueLabel: "N/A.N/A"}, topology.Labels{}, "LabelWithoutDomain"},
		{"N/A in brackets", map[string]string{topology.CliqueLabel: "[N/A].[N/A]"}, topology.Labels{}, "LabelWithoutDomain"},
		{"N/A as a label may hold it", map[string]string{topology.CliqueLabel: "N_A.N_A"}, topology.Labels{}, "LabelWithoutDomain"},
		{"zero UUID", map[string]string{topology.CliqueLabel: topology.UUID{}.String() + ".0"}, topology.Labels{}, "LabelWithoutDomain"},
		{"half a clique", map[string]string{topology.CliqueLabel: cluster.String()}, topology.Labels{}, "CliqueLabelMalformed"},
		{"clique too large", map[string]string{topology.CliqueLabel: cluster.String() + ".4294967296"}, topology.Labels{}, "CliqueLabelMalformed"},
		{"clique with a zero before", map[string]string{topology.CliqueLabel: cluster.String() + ".01"}, topology.Labels{}, "CliqueLabelMalformed"},
		{"as many GPUs as are believed", map[string]string{nodelabels.Count: "1024"}, topology.Labels{GPUs: 1024}, ""},
		{"more", map[string]string{nodelabels.Count: "1025"}, topology.Labels{}, "CountLabelMalformed"},
		{"count in words", map[string]string{nodelabels.Count: "four"}, topology.Labels{}, "CountLabelMalformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := nodelabels.Read(tt.labels, nodelabels.Keys{Tiers: nodelabels.DefaultTiers})
			problems := got.Problems
			got.Problems = nil
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (len(problems) > 0) != (tt.reason != "") || len(problems) > 0 && problems[0].Reason != tt.reason {
				t.Errorf("problems %v, want %q", problems, tt.reason)
			}
		})
	}
}
