package placement

import (
	"fmt"

	"github.com/quoin-hpc/quoin/topology"
)

// findUnits finds what each node makes a block with: its NVLink domain, or its leaf switch. aliases are the
// values of labels that stand for a clique.
func findUnits(nodes, unnamed []*node, policy *Policy) (aliases map[topology.Clique]topology.Domain, found problems) {
	for _, n := range unnamed {
		n.read(policy)
	}
	for _, n := range nodes {
		n.read(policy)
		found = append(found, n.nameProblems(policy)...)
	}
	if policy.ByLeaf {
		return nil, found
	}
	aliases, inLabels := resolveLabels(nodes)
	return aliases, append(found, inLabels...)
}

// nameProblems returns what the node's facts say is wrong.
func (n *node) nameProblems(policy *Policy) (found problems) {
	if n.Report != nil && n.Fabric.Faulty() && !conditionsAlone[n.Fabric.Reason] {
		found.add(n.Name, n.Fabric.Reason, n.Fabric.Message)
	}
	for _, pr := range n.Problems() {
		found.add(n.Name, pr.Reason, pr.Message)
	}
	switch label := n.Labels.Clique; {
	case policy.ByLeaf: // no NVLink domain is followed
	case n.source == fromNVML && !label.IsZero() && label != n.clique:
		found.add(n.Name, topology.ReasonLabelDiffers, fmt.Sprintf("NVML reports clique %s, the node's label says %s; NVML is followed", n.clique, label))
	case n.reason == ReasonNoDomain && n.source != fromPrevious && n.Labels.NamesDomain() && (label.IsZero() || label != n.Fabric.Clique):
		found.add(n.Name, topology.ReasonLabelDiffers, fmt.Sprintf("NVML reports no NVLink domain between nodes, the node's label says %s; NVML is followed", n.Labels.DomainText()))
	}
	return found
}

// conditionsAlone are faults of GPUs that only the conditions of Nodes name. They have nothing to do with
// the topology.
var conditionsAlone = map[string]bool{topology.ReasonMisconfigured: true, topology.ReasonUnhealthy: true, topology.ReasonLimitedCapacity: true}

// read decides which NVLink domain the node belongs to: NVML first, as the verdict on its fabric
// says, then labels. A domain that labels name by a value of their own is found by resolveLabels.
func (n *node) read(policy *Policy) {
	switch {
	case n.held != "":
		n.stay(Repartitioned, n.held)
	case n.Stays != "":
		n.stay(ReasonStays, n.Stays)
	case n.Gone:
		n.stay(ReasonGone, "the node is gone")
	case policy.ByLeaf:
		n.readLeaf()
	case n.Report != nil && len(n.Report.GPUs) > 0:
		n.readReport()
	case n.Report != nil && len(n.Report.Problems) == 0:
		n.stay(ReasonNoGPUs, "its report has no GPU")
	case n.Labels.NamesDomain():
		n.readLabel()
	case n.Report == nil && !n.ReportUnreadable && !n.Computes() && n.Labels.Product == "" && len(n.Labels.Tiers) == 0:
		n.stay(ReasonNoGPUs, "no report, and no label, ResourceSlice or capacity says that the node has a GPU")
	case n.Report == nil && n.Fabric.IMEX == topology.IMEXNone:
		n.stay(ReasonNoDomain, n.Fabric.Message)
	case n.Report == nil && len(n.Labels.Problems) > 0:
		n.stay(ReasonNoFacts, n.Labels.Problems[0].Message)
	case n.ReportUnreadable:
		n.stay(ReasonNoFacts, "the node's report cannot be read, and no label names its NVLink domain")
	default:
		n.stay(ReasonNoFacts, "no report says the node's NVLink domain, and no label names one")
	}
}

// readLeaf makes the leaf switch that the node names its unit.
func (n *node) readLeaf() {
	switch leaf := n.namedLeaf(); {
	case !n.Computes():
		n.stay(ReasonNoGPUs, "no report and no label says that the node has a GPU")
	case leaf == "":
		n.stay(ReasonNoSwitch, "no report and no label names the leaf switch above it")
	default:
		n.source, n.unit.label.Value = fromSwitch, leaf
	}
}

// readLabel decides by the labels of a node that names an NVLink domain by labels alone.
func (n *node) readLabel() {
	if n.Labels.Clique.IsZero() && n.unused != "" {
		n.stay(ReasonNoFacts, "no report says the node's NVLink domain, and "+n.unused)
		return
	}
	n.source, n.clique = fromLabel, n.Labels.Clique
}

// readReport decides by the verdict on the fabric of the node's GPUs.
func (n *node) readReport() {
	v := &n.Fabric
	none := v.IMEX == topology.IMEXNone && v.Reason != topology.ReasonDomainImplausible
	switch {
	case v.Place == topology.PlaceInClique:
		n.source, n.clique = fromNVML, v.Clique
	case v.Place == topology.PlaceByLabel && n.Labels.NamesDomain():
		n.readLabel()
	case v.Place == topology.PlaceNone && v.Reason == topology.ReasonFabricHealthy:
		n.reason, n.message = ReasonNoDomain, n.endsInside()+": its NVLink domain is this node alone"
	case v.Place == topology.PlaceNone && none:
		n.reason, n.message = ReasonNoDomain, "its GPUs have no multi-node NVLink"
	case v.Place == topology.PlaceNone:
		n.reason, n.message = v.Reason, v.Message
	case none && n.Report.Domain.None: // read before, and not now
		n.stay(ReasonNoDomain, "its GPUs had no multi-node NVLink when they were last read")
	case none:
		n.stay(ReasonNoDomain, n.endsInside())
	case v.Place == topology.PlaceKept:
		n.stay(v.Reason, v.Message)
	case len(n.Report.Problems) > 0:
		n.stay(ReasonNoFacts, n.Report.Problems[0].Message)
	default:
		n.stay(ReasonNoFacts, "its report says nothing of its GPUs' NVLink fabric")
	}
}

// endsInside says that NVLink of the node's product ends in the machine.
func (n *node) endsInside() string {
	return fmt.Sprintf("NVLink of %s ends in the machine", n.Product())
}
