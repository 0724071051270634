package imex

// The reasons of verdicts that are no problem.
const (
	ReasonReady = "Ready"
	// ReasonNoMultiNodeNVLink is of a node whose GPUs end inside it.
	ReasonNoMultiNodeNVLink = "NoMultiNodeNVLink"
	// ReasonNotWanted is where nodes join no domain by the configuration.
	ReasonNotWanted = "NotWanted"
	// ReasonNoWorkerPod is of a node without a worker pod, where those claim.
	ReasonNoWorkerPod = "NoWorkerPod"
)

// The reasons of a domain that cannot be joined, of Domain.Problem too.
const (
	ReasonNoDomain = "NoDomain"
	// ReasonNoCRD is of a cluster without NVIDIA's driver, and no node's problem: the
	// site may run IMEX otherwise, and single machines have a clique too.
	ReasonNoCRD           = "NoComputeDomainCRD"
	ReasonDomainDiffers   = "DomainDiffers"
	ReasonDomainForbidden = "DomainForbidden"
	ReasonDomainDeleting  = "DomainDeleting"
)

// The reasons of a node that is not ready, the most fundamental first: of what is
// wrong with a node, the first is its verdict.
const (
	// ReasonFabricUnknown is of a node of which nothing says what clique it is in.
	ReasonFabricUnknown = "FabricUnknown"
	// ReasonClaimConflict is of a node with two claims, of which one waits for ever.
	ReasonClaimConflict = "ClaimConflict"
	// ReasonOtherDomain is of a node whose label or claim is of another domain.
	ReasonOtherDomain = "OtherDomain"
	// ReasonClaimNamespace is of a claim in another namespace than its domain's.
	ReasonClaimNamespace = "ClaimInOtherNamespace"
	// ReasonClaimedByOther is of a claim of a pod that is not to have one.
	ReasonClaimedByOther = "ClaimedByOther"
	ReasonHostService    = "HostService"
	ReasonNoChannelMajor = "NoChannelMajor"
	// ReasonNoChannels is of a machine without device files of channels, where jobs
	// use those.
	ReasonNoChannels = "NoChannels"
	ReasonClaimWaits = "ClaimWaits"
	// ReasonNoNode is of a claim whose pod can run on one node alone, which is not
	// known.
	ReasonNoNode = "NoNode"
	// ReasonClaimUnused is of a claim that no pod holds.
	ReasonClaimUnused = "ClaimUnused"
	ReasonNotClaimed  = "NotClaimed"
	// ReasonNotPrepared is of a node without the label that starts the daemon.
	ReasonNotPrepared = "NodeLabelMissing"
	// ReasonTwoDomains is of a clique with nodes of two domains.
	ReasonTwoDomains = "TwoDomainsInClique"
	// ReasonCliqueFull is of a clique of more than MaxCliqueNodes nodes.
	ReasonCliqueFull = "TooManyNodesInClique"
	// ReasonNoFabricSeen is of a node that has a clique which the driver missed.
	ReasonNoFabricSeen = "CliqueMissedByDriver"
	// ReasonCliqueDiffers is of a node that joined under the clique of its label,
	// which is not NVML's.
	ReasonCliqueDiffers = "CliqueLabelDiffers"
	// ReasonStaleEntry is of a node with an entry under another clique than its own.
	ReasonStaleEntry       = "StaleEntry"
	ReasonNoEntry          = "NoEntry"
	ReasonDuplicateIndex   = "DuplicateIndex"
	ReasonDuplicateAddress = "DuplicateAddress"
	// ReasonEntryBehind is of a daemon that is ready while its entry is not.
	ReasonEntryBehind = "EntryBehind"
	ReasonNotReady    = "NotReady"
	// ReasonDaemonNotReady is of a daemon that is not ready while its entry is.
	ReasonDaemonNotReady = "DaemonNotReady"
)

// The notes of a node that is ready: what is wrong beside it. StaleEntry and
// CliqueLabelDiffers are others.
const (
	// NoteNodeLost is of a node that Kubernetes hears nothing from: nobody takes its
	// entry away.
	NoteNodeLost = "NodeLost"
	// NotePeersNotReady is of a clique of which other nodes are not ready.
	NotePeersNotReady = "PeersNotReady"
	// NoteStatusDiffers is of a domain's status that says something else.
	NoteStatusDiffers = "StatusDiffers"
	// NoteDomainNotUp is of a daemon that is ready and does not reach all others.
	NoteDomainNotUp = "DomainNotUp"
)
