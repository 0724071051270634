package inputs

import (
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/switches"
)

// FabricMaps begins an entry of fabricFiles that selects ConfigMaps by their labels.
const FabricMaps = "configmaps:"

// ReasonFabricUnread names a text of a fabric that cannot be read, or that has lines that cannot.
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

// TakeFabrics takes the texts of the publication's fabrics. It says which cannot be read, and which have
// lines that cannot.
func (in *Inputs) TakeFabrics(texts []FabricText) {
	in.Fabrics = texts
	for _, text := range texts {
		found := topology.Finding{Severity: topology.Unknown, Reason: ReasonFabricUnread, Message: text.Name + ": " + text.Problem}
		switch {
		case text.Problem != "" && text.Fabric != nil:
			found.Message += "; the last text that could be read counts"
		case text.Problem != "":
			found.Message += "; nodes that only this text has stay below their published switches"
		case text.Fabric.LeftOut() != "":
			found.Severity = topology.Warning
			found.Message += text.Fabric.LeftOut() + "; the cables in the other lines count, and what did not answer ibnetdiscover is missing"
		default:
			continue
		}
		in.Problems = append(in.Problems, found)
	}
}
