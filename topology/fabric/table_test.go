package fabric

import (
	"testing"

	"github.com/quoin-hpc/quoin/topology"
)

// TestFabricTableEnds holds for the whole table that a fine verdict has a witness or an end: it has nothing to
// do, or another row takes over once the site has waited. GPUs that are not registered are fine without an
// end only if something says that Fabric Manager gives out partitions.
func TestFabricTableEnds(t *testing.T) {
	type verdict struct{ reason, remedy string }
	reached := map[verdict]bool{}
	clique := topology.Clique{ClusterUUID: topology.UUID{1}, ID: 1}
	fabrics := []topology.Fabric{{}, {State: topology.FabricNotSupported}, {State: topology.FabricNotStarted}, {State: topology.FabricInProgress}, {State: topology.FabricCompleted, Status: "ERROR_UNKNOWN"}, {State: topology.FabricCompleted, ClusterUUID: clique.ClusterUUID, CliqueID: clique.ID}}
	for _, product := range []string{"NVIDIA H100 80GB HBM3", "NVIDIA GB200", "NVIDIA XX1"} {
		for _, mode := range []*int{nil, new(0), new(1)} {
			for _, before := range []topology.Clique{{}, clique} {
				for _, said := range []bool{false, true} {
					for _, a := range fabrics {
						for _, b := range fabrics {
							site, node := Site{Partitions: said}, &topology.Node{Name: "n", FabricMode: mode, Domain: topology.NVLinkDomain{Clique: before}, GPUs: []topology.GPU{{Product: product, Fabric: a}, {Product: product, Fabric: b}}}
							at := site.Alone(node)
							if at.Severity != topology.OK {
								continue
							}
							reached[verdict{at.Reason, at.Remedy}] = true
							waits, stuck := site.Registers(node)
							site.Since = map[string]string{"": "2026-11-26 16:10 UTC"} // Alone knows no name
							then := site.Alone(node)
							switch {
							case (at.Remedy != "") != waits || stuck:
								t.Errorf("%s, %v and %v, FABRIC_MODE %v: waits %t, stuck %t, and it is %s; %s", product, a.State, b.State, mode, waits, stuck, at.Reason, at.Remedy)
							case waits && !then.Asks():
								t.Errorf("%s, %v and %v: %s never ends", product, a.State, b.State, at.Reason)
							case !waits && then.Severity != topology.OK:
								t.Errorf("%s, %v and %v: %s becomes %s", product, a.State, b.State, at.Reason, then.Reason)
							}
							registers := a.State == topology.FabricInProgress || a.State == topology.FabricNotStarted || b.State == topology.FabricInProgress || b.State == topology.FabricNotStarted
							if registers && !waits && !said && (mode == nil || *mode == 0) && (before.IsZero() || mode != nil) {
								t.Errorf("%s, %v and %v: %s without a witness", product, a.State, b.State, at.Reason)
							}
						}
					}
				}
			}
		}
	}
	for i := range table {
		if r := &table[i]; r.severity == topology.OK && !reached[verdict{r.reason, r.remedy}] {
			t.Errorf("row %d, %s; %s, was not reached", i, r.reason, r.remedy)
		}
	}
}
