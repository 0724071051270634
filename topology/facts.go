package topology

import (
	"cmp"
	"strings"
)

// Labels are what a node's Kubernetes labels say of its hardware, for nodes
// without a report and as a witness beside one.
type Labels struct {
	// Clique is the NVLink domain, zero when no label names one as NVML does.
	Clique Clique
	// Domains are the NVLink domain as other labels name it, each by a value of
	// its own, in their order of precedence.
	Domains []Domain
	// Tiers are network switches above the node, nearest first, and TierSource
	// whose labels name them; MoreTiers are those of labels that come after.
	Tiers      []string
	TierSource TierSource
	MoreTiers  []SourceTiers
	// Product and GPUs describe the GPUs where labels count them.
	Product  string
	GPUs     int
	Problems []Problem
}

// Domain is an NVLink domain that a label names by a value that says nothing
// but which nodes are together.
type Domain struct{ Key, Value string }

// IsZero reports whether d names no domain.
func (d Domain) IsZero() bool { return d == Domain{} }

// String returns "key=value".
func (d Domain) String() string { return d.Key + "=" + d.Value }

// Compare orders domains by key, then by value.
func (d Domain) Compare(e Domain) int {
	return cmp.Or(strings.Compare(d.Key, e.Key), strings.Compare(d.Value, e.Value))
}

// TierSource is whose labels name switches. Of two the one of lower rank comes
// first.
type TierSource struct {
	Rank int
	Name string
}

// SourceTiers are the switches above a node, nearest first, by one source.
type SourceTiers struct {
	TierSource
	Tiers []string
}

// NamesDomain reports whether a label names an NVLink domain.
func (l *Labels) NamesDomain() bool { return !l.Clique.IsZero() || len(l.Domains) > 0 }

// domain returns the NVLink domain that labels name, in words.
func (l *Labels) domain() string {
	if !l.Clique.IsZero() {
		return "clique " + l.Clique.String()
	}
	return l.Domains[0].String()
}

// Facts are all that is known of one node when a plan is made.
type Facts struct {
	// Name is the Kubernetes node's (or host's) name, SlurmName its NodeName.
	Name, SlurmName string
	// Report is nil when the node has not sent one.
	Report *Node
	Labels Labels
	// Slices is what Kubernetes' ResourceSlices list of the node's GPUs, nil where
	// there are none. It counts where neither report nor labels say it.
	Slices *Node
	// Capacity is how many GPUs the kubelet offers. It counts where nothing else
	// says that there are any.
	Capacity int
	// Gone says that the node's object has gone a short while ago: it stays
	// where it was published.
	Gone bool
	// ReportUnreadable says that the node has sent a report that cannot be read,
	// such as one of another version.
	ReportUnreadable bool
	// Stays is why the node stays where it was published whatever the other facts
	// say, empty where they are followed.
	Stays string
}

// GPUCount returns how many GPUs the node has, by report, else by labels, else by
// slices, else by capacity.
func (f *Facts) GPUCount() int {
	switch {
	case f.Report != nil:
		return len(f.Report.GPUs)
	case f.Labels.GPUs > 0:
		return f.Labels.GPUs
	case f.Slices != nil && len(f.Slices.GPUs) > 0:
		return len(f.Slices.GPUs)
	}
	return f.Capacity
}

// Listed returns f with the GPUs that slices list for those of a report, where
// there is none and the slices say of each what a report would.
func (f *Facts) Listed() *Facts {
	if f.Report != nil || f.Slices == nil || len(f.Slices.GPUs) == 0 || len(f.Slices.Problems) > 0 {
		return f
	}
	for i := range f.Slices.GPUs {
		if g := &f.Slices.GPUs[i]; g.Minor == nil || g.Product == "" {
			return f
		}
	}
	listed := *f
	listed.Report = f.Slices
	return &listed
}

// Tiers returns the switches above the node, nearest first: by report, else by
// labels. Those of a node that stays do not count.
func (f *Facts) Tiers() []string {
	if f.Stays != "" {
		return nil
	}
	if f.reportsTiers() {
		return f.Report.Tiers
	}
	return f.Labels.Tiers
}

func (f *Facts) reportsTiers() bool { return f.Report != nil && len(f.Report.Tiers) > 0 }

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
	clique Clique
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
	ReasonUnconfirmed = "DomainUnconfirmed"
	// ReasonUnsettled is of a report whose facts are those of a reading before, for
	// the machine changed all the time while it was read.
	ReasonUnsettled    = "FactsUnsettled"
	ReasonTierConflict = "TierConflict"
	ReasonTiersMissing = "TierLabelsMissing"
)

// domain decides which NVLink domain the node belongs to: NVML first, then
// labels.
func (f *Facts) domain() domain {
	switch {
	case f.Stays != "":
		return domain{keep: true, reason: ReasonStays, message: f.Stays}
	case f.Gone:
		return domain{keep: true, reason: ReasonGone, message: "the node is gone"}
	case f.Report != nil && len(f.Report.GPUs) > 0:
		return f.reportedDomain()
	case f.Report != nil && len(f.Report.Problems) == 0:
		return domain{keep: true, reason: ReasonNoGPUs, message: "its report has no GPU"}
	case f.Labels.NamesDomain():
		return f.Labels.labelled()
	case f.Report == nil && f.GPUCount() == 0 && f.Labels.Product == "" && len(f.Labels.Tiers) == 0:
		return domain{keep: true, reason: ReasonNoGPUs, message: "no report, and no label, ResourceSlice or capacity says that the node has a GPU"}
	case f.Report == nil && len(f.Labels.Problems) > 0:
		return domain{keep: true, reason: ReasonNoDomain, message: f.Labels.Problems[0].Message}
	}
	return domain{keep: true, reason: ReasonNoFacts, message: "no report says the node's NVLink domain, and no label names one"}
}

// labelled is the decision where labels name the domain: the clique, for that is
// what NVML would say, or none yet where they name it by a value of their own.
func (l *Labels) labelled() domain {
	return domain{clique: l.Clique, source: fromLabel}
}

// reportedDomain decides by what NVML reported of the node's GPUs. Only a fabric
// that is not supported, or completed without a cluster, says that there is no
// domain; one that is absent says nothing.
func (f *Facts) reportedDomain() domain {
	var clique Clique
	var waiting, failed *GPU
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
		case FabricInProgress, FabricNotStarted:
			waiting = g
		case FabricCompleted:
			if g.Fabric.Status != "" {
				failed = g
			}
		case FabricNotSupported:
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
		return f.Labels.labelled()
	case unread && len(f.Report.Problems) > 0:
		return domain{keep: true, reason: ReasonNoFacts, message: f.Report.Problems[0].Message}
	case unread:
		return domain{keep: true, reason: ReasonNoDomain, message: "its report says nothing of its GPUs' NVLink fabric"}
	}
	return domain{reason: ReasonNoDomain, message: "its GPUs have no multi-node NVLink"}
}
