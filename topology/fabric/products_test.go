package fabric

import (
	"fmt"
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestBounds finds the chip in the product as reports, labels and slices spell it. The site goes before what Quoin
// knows, and a chip that Quoin does not know may have a name of any length.
func TestBounds(t *testing.T) {
	site := Bounds{"GB200": 144, "VR200": 144, "RUBIN2000": 576, "H200": 256}
	for product, want := range map[string]string{
		"NVIDIA H100 80GB HBM3":                        "H100 0 true",
		"NVIDIA-H100-80GB-HBM3":                        "H100 0 true",
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb":            "H100 0 true",
		"nvidia_a100-sxm4-80gb":                        "A100 0 true",
		"Tesla V100-SXM2-32GB":                         "V100 0 true",
		"NVIDIA B200":                                  "B200 0 true",
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX 0 true",
		"NVIDIA GH200 480GB":                           "GH200 256 true",
		"NVIDIA-GB200":                                 "GB200 144 true",
		"NVIDIA VR200 NVL144":                          "VR200 144 true",
		"nvidia-rubin2000":                             "RUBIN2000 576 true",
		"NVIDIA H200":                                  "H200 256 true",
		"NVIDIA XX1":                                   " 0 false",
		"":                                             " 0 false",
	} {
		chip, gpus, known := site.Of(product)
		if got := fmt.Sprint(chip, " ", gpus, " ", known); got != want {
			t.Errorf("%q: %s, want %s", product, got, want)
		}
	}
	if _, gpus, known := Bounds(nil).Of("NVIDIA GB200"); gpus != 72 || !known {
		t.Errorf("GB200: %d, %t, want 72", gpus, known)
	}
}

// TestEndsInside takes the GPUs' own word first, and then that of the product and of labels.
func TestEndsInside(t *testing.T) {
	gpu := func(product string, f topology.Fabric) *topology.Node {
		return &topology.Node{GPUs: []topology.GPU{{Product: product, Fabric: f}}}
	}
	problems := func(reasons ...string) (found []topology.Finding) {
		for _, reason := range reasons {
			found = append(found, topology.Finding{Reason: reason, Message: "a label says " + reason})
		}
		return found
	}
	completed := topology.Fabric{State: topology.FabricCompleted, ClusterUUID: topology.UUID{1}}
	for name, tt := range map[string]struct {
		facts topology.Facts
		want  bool
	}{
		"nothing is known":                                {topology.Facts{}, false},
		"a label names an HGX product":                    {topology.Facts{Labels: topology.Labels{Product: "NVIDIA-H100-80GB-HBM3"}}, true},
		"a label names a product of racks":                {topology.Facts{Labels: topology.Labels{Product: "NVIDIA-GB200"}}, false},
		"a label says that there is none":                 {topology.Facts{Labels: topology.Labels{Problems: problems(topology.ReasonLabelWithoutDomain)}}, true},
		"so it says of a product of racks":                {topology.Facts{Labels: topology.Labels{Product: "NVIDIA-GB200", Problems: problems(topology.ReasonLabelWithoutDomain)}}, false},
		"and of one that the site says is of racks":       {topology.Facts{Labels: topology.Labels{Product: "NVIDIA-VR200", Problems: problems(topology.ReasonLabelWithoutDomain)}}, false},
		"a label that nobody can read":                    {topology.Facts{Labels: topology.Labels{Problems: problems(topology.ReasonCliqueMalformed)}}, false},
		"one says none, and nobody can read the clique's": {topology.Facts{Labels: topology.Labels{Problems: problems(topology.ReasonCliqueMalformed, topology.ReasonLabelWithoutDomain)}}, false},
		"ResourceSlices name an HGX product":              {topology.Facts{Slices: gpu("NVIDIA H100 80GB HBM3", topology.Fabric{})}, true},
		"GPUs without a fabric":                           {topology.Facts{Report: gpu("NVIDIA XX1", topology.Fabric{State: topology.FabricNotSupported})}, true},
		"an HGX machine that is a domain itself":          {topology.Facts{Report: gpu("NVIDIA B200", completed)}, true},
		"a tray of a rack":                                {topology.Facts{Report: gpu("NVIDIA GB200", completed)}, false},
		"a tray whose fabric is not up":                   {topology.Facts{Report: gpu("NVIDIA GB200", topology.Fabric{State: topology.FabricInProgress})}, false},
	} {
		facts := []topology.Facts{tt.facts}
		(&Site{Bounds: Bounds{"VR200": 144}}).Judge(facts)
		if got := facts[0].Fabric.IMEX == topology.IMEXNone; got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
