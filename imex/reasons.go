package imex

// The reasons of verdicts that are no problem.
const (
	ReasonReady = "Ready"
	// ReasonNoMultiNodeNVLink: NVLink does not leave the node.
	ReasonNoMultiNodeNVLink = "NoMultiNodeNVLink"
	// ReasonNotWanted: the configuration says that nodes join no domain.
	ReasonNotWanted = "NotWanted"
	// ReasonNoWorkerPod: worker pods are to claim, and the node has none.
	ReasonNoWorkerPod = "NoWorkerPod"
)

// The reasons of a domain that cannot be joined. Domain.Problem has them too.
const (
	ReasonNoDomain = "NoDomain"
	// ReasonNoDriver: NVIDIA's DRA driver starts no IMEX daemons. This is no node's problem:
	// the site may run IMEX otherwise, and single machines have a clique too.
	ReasonNoDriver        = "NoDriver"
	ReasonDomainDiffers   = "DomainDiffers"
	ReasonDomainForbidden = "DomainForbidden"
	ReasonDomainDeleting  = "DomainDeleting"
)

// The reasons of a node that is not ready, the most fundamental first. The first one
// that holds is the node's verdict.
const (
	// ReasonFabricUnknown: neither NVML nor a label names the node's clique.
	ReasonFabricUnknown = "FabricUnknown"
	// ReasonClaimConflict: two pods claim the node's channel, and one waits for ever.
	ReasonClaimConflict = "ClaimConflict"
	// ReasonOtherDomain: the node's label or claim names another domain.
	ReasonOtherDomain = "OtherDomain"
	// ReasonClaimNamespace: the claim is not in its domain's namespace.
	ReasonClaimNamespace = "ClaimInOtherNamespace"
	// ReasonClaimedByOther: a pod that is not to claim has the channel.
	ReasonClaimedByOther = "ClaimedByOther"
	ReasonHostService    = "HostService"
	ReasonNoChannelMajor = "NoChannelMajor"
	// ReasonNoChannels: jobs use the machine's device files of channels, and it has none.
	ReasonNoChannels = "NoChannels"
	ReasonClaimWaits = "ClaimWaits"
	// ReasonNoNode: the claim's pod can run on one node only, which is not known.
	ReasonNoNode = "NoNode"
	// ReasonClaimUnused: the claim is allocated, and no pod holds it.
	ReasonClaimUnused = "ClaimUnused"
	ReasonNotClaimed  = "NotClaimed"
	// ReasonNotPrepared: the node lacks the label that starts the daemon.
	ReasonNotPrepared = "NodeLabelMissing"
	// ReasonTwoDomains: the clique has nodes of two domains.
	ReasonTwoDomains = "TwoDomainsInClique"
	// ReasonCliqueFull: the clique has more than MaxCliqueNodes nodes.
	ReasonCliqueFull = "TooManyNodesInClique"
	// ReasonNoFabricSeen: the driver lists the node without its clique.
	ReasonNoFabricSeen = "CliqueMissedByDriver"
	// ReasonCliqueDiffers: the node's label names another clique than NVML does.
	ReasonCliqueDiffers = "CliqueLabelDiffers"
	// ReasonStaleEntry: the node has an entry in a clique that it has left.
	ReasonStaleEntry       = "StaleEntry"
	ReasonNoEntry          = "NoEntry"
	ReasonDuplicateIndex   = "DuplicateIndex"
	ReasonDuplicateAddress = "DuplicateAddress"
	// ReasonEntryBehind: the daemon is ready, and the entry is not.
	ReasonEntryBehind = "EntryBehind"
	ReasonNotReady    = "NotReady"
	// ReasonDaemonNotReady: the entry is ready, and the daemon is not.
	ReasonDaemonNotReady = "DaemonNotReady"
)

// The notes of a node that is ready. StaleEntry and CliqueLabelDiffers are notes too.
const (
	// NoteNodeLost: Kubernetes hears nothing from the node, and its entry stays.
	NoteNodeLost = "NodeLost"
	// NotePeersNotReady: other nodes of the clique are not ready.
	NotePeersNotReady = "PeersNotReady"
	// NoteStatusDiffers: the domain's status differs from the node's entry.
	NoteStatusDiffers = "StatusDiffers"
	// NoteDomainNotUp: the node's daemon is ready and does not reach all others.
	NoteDomainNotUp = "DomainNotUp"
)
