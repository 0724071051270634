package placement

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// source says where a node's block is known from.
type source uint8

// The sources of a block. NVML goes before labels.
const (
	unknown source = iota
	fromNVML
	fromLabel
	fromSwitch // the leaf switch, if blocks are made by leaf
	fromPrevious
)

func (s source) String() string { return [...]string{"", "nvml", "label", "switch", "previous"}[s] }

// verdict says why a node has no block, or stays in its published one.
type verdict struct{ reason, message string }

// reading is what the facts of one node say of its block.
type reading struct {
	verdict
	// clique is zero if no clique is known. If a label names the domain by a value
	// of its own, source is fromLabel all the same.
	clique topology.Clique
	source source
	// keep: the node stays in its published block if it has one.
	keep    bool
	hasGPUs bool
}

// readings are beside the site's facts.
type readings []reading

// readNodes finds the NVLink domain that the facts of every node name, or why they
// name none, and what the facts say is wrong.
func readNodes(s *site) (readings, problems) {
	read := make(readings, len(s.facts))
	found := problems(topology.MixedCliques(s.facts))
	for i, f := range s.facts {
		v := &f.Fabric
		r := s.readDomain(f)
		if held, ok := s.heldBack[i]; ok {
			r = keptReading(held.reason, held.message)
		}
		if f.Report != nil && v.Faulty() && !conditionsAlone[v.Reason] {
			found.add(f.Name, v.Reason, v.Message)
		}
		r.hasGPUs = f.Computes()
		read[i] = r
		for _, pr := range f.Problems() {
			found.add(f.Name, pr.Reason, pr.Message)
		}
		switch {
		case s.policy.ByLeaf: // no NVLink domain is followed
		case r.source == fromNVML && !f.Labels.Clique.IsZero() && f.Labels.Clique != r.clique:
			found.add(f.Name, ReasonCliqueDiffers, fmt.Sprintf("NVML reports clique %s, the node's label says %s; NVML is followed", r.clique, f.Labels.Clique))
		case r.reason == ReasonNoDomain && !r.keep && f.Labels.NamesDomain() && (f.Labels.Clique.IsZero() || f.Labels.Clique != v.Clique):
			found.add(f.Name, ReasonDomainDiffers, fmt.Sprintf("NVML reports no NVLink domain between nodes, the node's label says %s; NVML is followed", f.Labels.DomainText()))
		}
	}
	return read, found
}

// conditionsAlone are faults of GPUs that only the conditions of Nodes name. They have nothing to do with
// the topology.
var conditionsAlone = map[string]bool{topology.ReasonMisconfigured: true, topology.ReasonUnhealthy: true, topology.ReasonLimitedCapacity: true}

// readDomain decides which NVLink domain the node belongs to: NVML first, as the verdict on its fabric
// says, then labels. A domain that labels name by a value of their own is found by resolveLabels.
func (s *site) readDomain(f *topology.Facts) reading {
	switch {
	case f.Stays != "":
		return keptReading(ReasonStays, f.Stays)
	case f.Gone:
		return keptReading(ReasonGone, "the node is gone")
	case f.Report != nil && len(f.Report.GPUs) > 0:
		return s.readReport(f)
	case f.Report != nil && len(f.Report.Problems) == 0:
		return keptReading(ReasonNoGPUs, "its report has no GPU")
	case f.Labels.NamesDomain():
		return s.readLabel(f)
	case f.Report == nil && !f.ReportUnreadable && !f.Computes() && f.Labels.Product == "" && len(f.Labels.Tiers) == 0:
		return keptReading(ReasonNoGPUs, "no report, and no label, ResourceSlice or capacity says that the node has a GPU")
	case f.Report == nil && f.Fabric.IMEX == topology.IMEXNone:
		return keptReading(ReasonNoDomain, f.Fabric.Message)
	case f.Report == nil && len(f.Labels.Problems) > 0:
		return keptReading(ReasonNoFacts, f.Labels.Problems[0].Message)
	case f.ReportUnreadable:
		return keptReading(ReasonNoFacts, "the node's report cannot be read, and no label names its NVLink domain")
	}
	return keptReading(ReasonNoFacts, "no report says the node's NVLink domain, and no label names one")
}

// readLabel decides by the labels of a node that names an NVLink domain by labels alone.
func (s *site) readLabel(f *topology.Facts) reading {
	if f.Labels.Clique.IsZero() && s.labelOf(f).Key == "" {
		return keptReading(ReasonNoFacts, fmt.Sprintf("no report says the node's NVLink domain, and its label %s is not used, because more nodes have label %s", f.Labels.Domains[0].Key, s.domainLabel))
	}
	return reading{source: fromLabel, clique: f.Labels.Clique}
}

// endsInside says that NVLink of a node's product ends in the machine.
func endsInside(f *topology.Facts) string {
	return fmt.Sprintf("NVLink of %s ends in the machine", f.Product())
}

// keptReading is the reading of a node that stays in its published block.
func keptReading(reason, message string) reading {
	return reading{verdict: verdict{reason: reason, message: message}, keep: true}
}

// readReport decides by the verdict on the fabric of the node's GPUs.
func (s *site) readReport(f *topology.Facts) reading {
	v := &f.Fabric
	none := v.IMEX == topology.IMEXNone && v.Reason != topology.ReasonDomainImplausible
	switch {
	case v.Place == topology.PlaceInClique:
		return reading{source: fromNVML, clique: v.Clique}
	case v.Place == topology.PlaceByLabel && f.Labels.NamesDomain():
		return s.readLabel(f)
	case v.Place == topology.PlaceNone && v.Reason == topology.ReasonFabricHealthy:
		return reading{verdict: verdict{reason: ReasonNoDomain, message: endsInside(f) + ": its NVLink domain is this node alone"}}
	case v.Place == topology.PlaceNone && none:
		return reading{verdict: verdict{reason: ReasonNoDomain, message: "its GPUs have no multi-node NVLink"}}
	case v.Place == topology.PlaceNone:
		return reading{verdict: verdict{reason: v.Reason, message: v.Message}}
	case none && f.Report.Domain.None: // read before, and not now
		return keptReading(ReasonNoDomain, "its GPUs had no multi-node NVLink when they were last read")
	case none:
		return keptReading(ReasonNoDomain, endsInside(f))
	case v.Place == topology.PlaceKept:
		return keptReading(v.Reason, v.Message)
	case len(f.Report.Problems) > 0:
		return keptReading(ReasonNoFacts, f.Report.Problems[0].Message)
	}
	return keptReading(ReasonNoFacts, "its report says nothing of its GPUs' NVLink fabric")
}
