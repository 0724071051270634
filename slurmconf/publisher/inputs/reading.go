package inputs

import (
	"fmt"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Reading returns the part of the facts that decides a place, as text.
func Reading(f *topology.Facts) string {
	var b strings.Builder
	fmt.Fprintln(&b, f.Labels.Clique, f.Labels.Domains, f.Tiers(), f.Labels.MoreTiers, f.Report != nil, f.ReportUnreadable, f.GPUCount() > 0)
	if f.Report != nil {
		fmt.Fprintln(&b, f.Report.Domain, f.Report.DomainChanged)
		var last topology.Fabric
		for i := range f.Report.GPUs {
			fabric := f.Report.GPUs[i].Fabric
			fabric.Health = ""
			if i == 0 || fabric != last {
				fmt.Fprintln(&b, fabric.ClusterUUID, fabric.CliqueID, fabric.State, fabric.Status)
			}
			last = fabric
		}
	}
	return b.String()
}
