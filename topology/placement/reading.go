package placement

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// settleUnits finds what each node makes a block with: its NVLink domain, or its leaf switch. aliases are the
// values of labels that stand for a clique.
func settleUnits(nodes, unnamed []*node, policy *Policy) (aliases map[topology.Clique]topology.Domain, found problems) {
	found = topology.MixedCliques(factsOf(nodes))
	for _, n := range unnamed {
		n.reading = n.readDomain()
	}
	for _, n := range nodes {
		n.unit, n.block, n.reading = unit{}, nil, n.readDomain()
		found = append(found, n.problems(policy)...)
	}
	if policy.ByLeaf {
		leafUnits(nodes)
		return nil, found
	}
	aliases, inLabels := resolveLabels(nodes)
	return aliases, append(found, inLabels...)
}

// problems returns what the node's facts say is wrong.
func (n *node) problems(policy *Policy) (found problems) {
	if n.Report != nil && n.Fabric.Faulty() && !conditionsAlone[n.Fabric.Reason] {
		found.add(n.Name, n.Fabric.Reason, n.Fabric.Message)
	}
	for _, pr := range n.Problems() {
		found.add(n.Name, pr.Reason, pr.Message)
	}
	switch label := n.Labels.Clique; {
	case policy.ByLeaf: // no NVLink domain is followed
	case n.source == fromNVML && !label.IsZero() && label != n.clique:
		found.add(n.Name, ReasonCliqueDiffers, fmt.Sprintf("NVML reports clique %s, the node's label says %s; NVML is followed", n.clique, label))
	case n.reason == ReasonNoDomain && n.source != fromPrevious && n.Labels.NamesDomain() && (label.IsZero() || label != n.Fabric.Clique):
		found.add(n.Name, ReasonDomainDiffers, fmt.Sprintf("NVML reports no NVLink domain between nodes, the node's label says %s; NVML is followed", n.Labels.DomainText()))
	}
	return found
}

// conditionsAlone are faults of GPUs that only the conditions of Nodes name. They have nothing to do with
// the topology.
var conditionsAlone = map[string]bool{topology.ReasonMisconfigured: true, topology.ReasonUnhealthy: true, topology.ReasonLimitedCapacity: true}

// readDomain decides which NVLink domain the node belongs to: NVML first, as the verdict on its fabric
// says, then labels. A domain that labels name by a value of their own is found by resolveLabels.
func (n *node) readDomain() reading {
	switch {
	case n.held != "":
		return stays(Repartitioned, n.held)
	case n.Stays != "":
		return stays(ReasonStays, n.Stays)
	case n.Gone:
		return stays(ReasonGone, "the node is gone")
	case n.Report != nil && len(n.Report.GPUs) > 0:
		return n.readReport()
	case n.Report != nil && len(n.Report.Problems) == 0:
		return stays(ReasonNoGPUs, "its report has no GPU")
	case n.Labels.NamesDomain():
		return n.readLabel()
	case n.Report == nil && !n.ReportUnreadable && !n.Computes() && n.Labels.Product == "" && len(n.Labels.Tiers) == 0:
		return stays(ReasonNoGPUs, "no report, and no label, ResourceSlice or capacity says that the node has a GPU")
	case n.Report == nil && n.Fabric.IMEX == topology.IMEXNone:
		return stays(ReasonNoDomain, n.Fabric.Message)
	case n.Report == nil && len(n.Labels.Problems) > 0:
		return stays(ReasonNoFacts, n.Labels.Problems[0].Message)
	case n.ReportUnreadable:
		return stays(ReasonNoFacts, "the node's report cannot be read, and no label names its NVLink domain")
	}
	return stays(ReasonNoFacts, "no report says the node's NVLink domain, and no label names one")
}

// readLabel decides by the labels of a node that names an NVLink domain by labels alone.
func (n *node) readLabel() reading {
	if n.Labels.Clique.IsZero() && n.unused != "" {
		return stays(ReasonNoFacts, "no report says the node's NVLink domain, and "+n.unused)
	}
	return reading{source: fromLabel, clique: n.Labels.Clique}
}

// endsInside says that NVLink of the node's product ends in the machine.
func (n *node) endsInside() string {
	return fmt.Sprintf("NVLink of %s ends in the machine", n.Product())
}

// stays is the reading of a node that stays in its published block, if it has one. It joins no other.
func stays(reason, message string) reading {
	return reading{source: fromPrevious, reason: reason, message: message}
}

// readReport decides by the verdict on the fabric of the node's GPUs.
func (n *node) readReport() reading {
	v := &n.Fabric
	none := v.IMEX == topology.IMEXNone && v.Reason != topology.ReasonDomainImplausible
	switch {
	case v.Place == topology.PlaceInClique:
		return reading{source: fromNVML, clique: v.Clique}
	case v.Place == topology.PlaceByLabel && n.Labels.NamesDomain():
		return n.readLabel()
	case v.Place == topology.PlaceNone && v.Reason == topology.ReasonFabricHealthy:
		return reading{reason: ReasonNoDomain, message: n.endsInside() + ": its NVLink domain is this node alone"}
	case v.Place == topology.PlaceNone && none:
		return reading{reason: ReasonNoDomain, message: "its GPUs have no multi-node NVLink"}
	case v.Place == topology.PlaceNone:
		return reading{reason: v.Reason, message: v.Message}
	case none && n.Report.Domain.None: // read before, and not now
		return stays(ReasonNoDomain, "its GPUs had no multi-node NVLink when they were last read")
	case none:
		return stays(ReasonNoDomain, n.endsInside())
	case v.Place == topology.PlaceKept:
		return stays(v.Reason, v.Message)
	case len(n.Report.Problems) > 0:
		return stays(ReasonNoFacts, n.Report.Problems[0].Message)
	}
	return stays(ReasonNoFacts, "its report says nothing of its GPUs' NVLink fabric")
}

// leafUnits makes the nodes below each leaf switch a unit.
func leafUnits(nodes []*node) {
	for _, n := range nodes {
		switch {
		case n.Stays != "" || n.Gone:
		case !n.Computes():
			n.reading = stays(ReasonNoGPUs, "no report and no label says that the node has a GPU")
		case n.namedLeaf() == "":
			n.reading = stays(ReasonTiersMissing, "no report and no label names the leaf switch above it")
		default:
			n.reading, n.unit.label.Value = reading{source: fromSwitch}, n.namedLeaf()
		}
	}
}
