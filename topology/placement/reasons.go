package placement

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
	// ReasonUnconfirmed: the GPUs of a published node name another clique or none,
	// and no second reading of this boot confirms it.
	ReasonUnconfirmed  = "DomainUnconfirmed"
	ReasonTierConflict = "TierConflict"
	ReasonTiersMissing = "TierLabelsMissing"
	ReasonParentsMixed = "ParentDomainsMixed"
	ReasonAboveParent  = "AboveParentBlocks"
	ReasonNoParent     = "NoParentDomain"
)
