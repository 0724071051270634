package placement

import "github.com/quoin-hpc/quoin/topology"

// source says where the node's NVLink domain is known from.
type source string

// The sources of a placement, in the order of precedence.
const (
	fromNVML     source = "nvml"
	fromLabel    source = "label"
	fromPrevious source = "previous"
)

// domain is the decision on one node's NVLink domain before blocks are made.
type domain struct {
	clique topology.Clique
	source source
	// keep is reading.keep.
	keep            bool
	reason, message string
}

// The reasons of placements and problems.
const (
	ReasonPlaced           = "Placed"
	ReasonNoGPUs           = "NoGPUs"
	ReasonNoFacts          = "NoFacts"
	ReasonNoDomain         = "NoNVLinkDomain"
	ReasonFabricInProgress = "FabricInProgress"
	ReasonFabricFailed     = "FabricFailed"
	ReasonTwoCliques       = "TwoCliques"
	ReasonSmallDomain      = "SmallDomain"
	ReasonBelowBase        = "BelowBaseBlockSize"
	ReasonAboveBase        = "AboveBaseBlockSize"
	ReasonGone             = "NodeGone"
	ReasonStays            = "Stays"
	ReasonKeptGone         = "KeptForBlockSize"
	ReasonForgottenInUse   = "ForgottenBlockInUse"
	ReasonCliqueDiffers    = "CliqueLabelDiffers"
	ReasonDomainDiffers    = "DomainLabelDiffers"
	ReasonDomainConflict   = "DomainLabelConflict"
	// ReasonUnconfirmed is of a published node whose GPUs name another clique or
	// none, which no second reading of its boot confirms.
	ReasonUnconfirmed  = "DomainUnconfirmed"
	ReasonTierConflict = "TierConflict"
	ReasonTiersMissing = "TierLabelsMissing"
)

// domain decides which NVLink domain the node belongs to: NVML first, then
// labels.
func decideDomain(f *topology.Facts) domain {
	switch {
	case f.Stays != "":
		return domain{keep: true, reason: ReasonStays, message: f.Stays}
	case f.Gone:
		return domain{keep: true, reason: ReasonGone, message: "the node is gone"}
	case f.Report != nil && len(f.Report.GPUs) > 0:
		return reportedDomain(f)
	case f.Report != nil && len(f.Report.Problems) == 0:
		return domain{keep: true, reason: ReasonNoGPUs, message: "its report has no GPU"}
	case f.Labels.NamesDomain():
		return labelledDomain(&f.Labels)
	case f.Report == nil && f.GPUCount() == 0 && f.Labels.Product == "" && len(f.Labels.Tiers) == 0:
		return domain{keep: true, reason: ReasonNoGPUs, message: "no report, and no label, ResourceSlice or capacity says that the node has a GPU"}
	case f.Report == nil && len(f.Labels.Problems) > 0:
		return domain{keep: true, reason: ReasonNoDomain, message: f.Labels.Problems[0].Message}
	}
	return domain{keep: true, reason: ReasonNoFacts, message: "no report says the node's NVLink domain, and no label names one"}
}

// labelled is the decision where labels name the domain: the clique, for that is
// what NVML would say, or none yet where they name it by a value of their own.
func labelledDomain(l *topology.Labels) domain {
	return domain{clique: l.Clique, source: fromLabel}
}

// reportedDomain decides by what NVML reported of the node's GPUs. Only a fabric
// that is not supported, or completed without a cluster, says that there is no
// domain; one that is absent says nothing.
func reportedDomain(f *topology.Facts) domain {
	var clique topology.Clique
	var waiting, failed *topology.GPU
	unread := false
	for i := range f.Report.GPUs {
		g := &f.Report.GPUs[i]
		if c, ok := g.Fabric.Clique(); ok {
			if !clique.IsZero() && c != clique {
				return domain{keep: true, reason: ReasonTwoCliques,
					message: "its GPUs report two NVLink domains, " + clique.String() + " and " + c.String()}
			}
			clique = c
			continue
		}
		switch g.Fabric.State {
		case topology.FabricInProgress, topology.FabricNotStarted:
			waiting = g
		case topology.FabricCompleted:
			if g.Fabric.Status != "" {
				failed = g
			}
		case topology.FabricNotSupported:
		default:
			unread = true
		}
	}
	switch {
	case !clique.IsZero():
		return domain{clique: clique, source: fromNVML}
	case waiting != nil:
		return domain{keep: true, reason: ReasonFabricInProgress, message: "GPU " + waiting.UUID + " has not completed its fabric registration"}
	case failed != nil:
		return domain{keep: true, reason: ReasonFabricFailed, message: "fabric registration of GPU " + failed.UUID + " ended with " + failed.Fabric.Status}
	case unread && f.Labels.NamesDomain():
		return labelledDomain(&f.Labels)
	case unread && len(f.Report.Problems) > 0:
		return domain{keep: true, reason: ReasonNoFacts, message: f.Report.Problems[0].Message}
	case unread:
		return domain{keep: true, reason: ReasonNoDomain, message: "its report says nothing of its GPUs' NVLink fabric"}
	}
	return domain{reason: ReasonNoDomain, message: "its GPUs have no multi-node NVLink"}
}
