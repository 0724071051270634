package topology

import "testing"

func TestEndsInside(t *testing.T) {
	for product, want := range map[string]bool{
		"NVIDIA H100 80GB HBM3":                        true,
		"NVIDIA-H100-80GB-HBM3":                        true,
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb":            true,
		"NVIDIA-A100-SXM4-80GB":                        true,
		"A100-SXM4-40GB":                               true,
		"Tesla V100-SXM2-32GB":                         true,
		"NVIDIA B200":                                  true,
		"NVIDIA-B300-SXM6-AC":                          true,
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": true,
		"NVIDIA-GB200":                                 false,
		"NVIDIA GB300":                                 false,
		"NVIDIA GH200 480GB":                           false,
		"NVIDIA-VR200":                                 false,
		"":                                             false,
	} {
		if got := EndsInside(product); got != want {
			t.Errorf("%q: %t", product, got)
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
		"nothing is known":                       {Facts{}, false},
		"a label names an HGX product":           {Facts{Labels: Labels{Product: "NVIDIA-H100-80GB-HBM3"}}, true},
		"a label names a product of racks":       {Facts{Labels: Labels{Product: "NVIDIA-GB200"}}, false},
		"GPUs without a fabric":                  {Facts{Report: gpu("NVIDIA XX1", Fabric{State: FabricNotSupported})}, true},
		"an HGX machine that is a domain itself": {Facts{Report: gpu("NVIDIA B200", Fabric{State: FabricCompleted, ClusterUUID: UUID{1}})}, true},
		"a tray of a rack":                       {Facts{Report: gpu("NVIDIA GB200", Fabric{State: FabricCompleted, ClusterUUID: UUID{1}})}, false},
		"a tray whose fabric is not up":          {Facts{Report: gpu("NVIDIA GB200", Fabric{State: FabricInProgress})}, false},
	} {
		if got := tt.facts.EndsInside(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
