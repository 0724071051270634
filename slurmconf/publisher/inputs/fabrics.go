package inputs

import (
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// FabricMaps begins an entry of fabricFiles that selects ConfigMaps by their labels.
const FabricMaps = "configmaps:"

// ReasonFabricUnread names a text of a fabric that cannot be read.
const ReasonFabricUnread = "FabricTextUnread"

// FabricText is one text of a fabric.
type FabricText struct {
	// Name is the path of the file, or the entry of fabricFiles.
	Name string
	// Fabric is the last text that could be read. It is nil if none could.
	Fabric *switches.Fabric
	// Problem is why the text that is there now cannot be read.
	Problem string
}

// FabricsOf returns the texts of the fabrics of the publication, in the order of its fabricFiles.
func (r *Rules) FabricsOf(snap *Snapshot) (out []FabricText) {
	for _, entry := range r.config.FabricFiles {
		out = append(out, snap.Fabrics[entry]...)
	}
	return out
}

// addFabrics adds the texts of the publication, and says which cannot be read.
func (in *Inputs) addFabrics(r *Rules, snap *Snapshot) {
	in.Fabrics = r.FabricsOf(snap)
	for _, text := range in.Fabrics {
		if text.Problem == "" {
			continue
		}
		stays := "nodes that only this text has stay below their published switches"
		if text.Fabric != nil {
			stays = "the last text that could be read counts"
		}
		in.Problems = append(in.Problems, topology.Finding{Severity: topology.Unknown, Reason: ReasonFabricUnread, Message: text.Name + ": " + text.Problem + "; " + stays})
	}
}
