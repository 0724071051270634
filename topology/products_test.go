package topology

import (
	"fmt"
	"testing"
)

func TestLargestDomain(t *testing.T) {
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3":                        "H100 0 true",
		"NVIDIA-H100-80GB-HBM3":                        "H100 0 true",
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb":            "H100 0 true",
		"nvidia_a100-sxm4-80gb":                        "A100 0 true",
		"Tesla V100-SXM2-32GB":                         "V100 0 true",
		"NVIDIA B200":                                  "B200 0 true",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX 0 true",
		"NVIDIA-GB200":                                 "GB200 72 true",
		"NVIDIA GH200 480GB":                           "GH200 256 true",
		"NVIDIA VR200":                                 " 0 false",
		"":                                             " 0 false",
	} {
		chip, gpus, known := LargestDomain(product)
		if got := fmt.Sprint(chip, " ", gpus, " ", known); got != want {
			t.Errorf("%q: %s, want %s", product, got, want)
		}
	}
}

// TestFactsEndInside takes the GPUs' own word first, and then that of the product.
func TestFactsEndInside(t *testing.T) {
	gpu := func(product string, f Fabric) *Node { return &Node{GPUs: []GPU{{Product: product, Fabric: f}}} }
	for name, tt := range map[string]struct {
		facts Facts
		want  bool
	}{
		"nothing is known":                                {Facts{}, false},
		"a label names an HGX product":                    {Facts{Labels: Labels{Product: "NVIDIA-H100-80GB-HBM3"}}, true},
		"a label names a product of racks":                {Facts{Labels: Labels{Product: "NVIDIA-GB200"}}, false},
		"a label says that there is none":                 {Facts{Labels: Labels{Problems: []Finding{{Reason: ReasonCliqueWithoutDomain}}}}, true},
		"so it says of a product of racks":                {Facts{Labels: Labels{Product: "NVIDIA-GB200", Problems: []Finding{{Reason: ReasonCliqueWithoutDomain}}}}, false},
		"a label that nobody can read":                    {Facts{Labels: Labels{Problems: []Finding{{Reason: "CliqueLabelMalformed"}}}}, false},
		"one says none, and nobody can read the clique's": {Facts{Labels: Labels{Problems: []Finding{{Reason: ReasonCliqueMalformed}, {Reason: ReasonDomainWithoutDomain}}}}, false},
		"ResourceSlices name an HGX product":              {Facts{Slices: gpu("NVIDIA H100 80GB HBM3", Fabric{})}, true},
		"GPUs without a fabric":                           {Facts{Report: gpu("NVIDIA XX1", Fabric{State: FabricNotSupported})}, true},
		"an HGX machine that is a domain itself":          {Facts{Report: gpu("NVIDIA B200", Fabric{State: FabricCompleted, ClusterUUID: UUID{1}})}, true},
		"a tray of a rack":                                {Facts{Report: gpu("NVIDIA GB200", Fabric{State: FabricCompleted, ClusterUUID: UUID{1}})}, false},
		"a tray whose fabric is not up":                   {Facts{Report: gpu("NVIDIA GB200", Fabric{State: FabricInProgress})}, false},
	} {
		if got := tt.facts.EndsInside(nil); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
