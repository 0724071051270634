package imex

import "github.com/quoin-hpc/quoin/topology"

// The reasons of verdicts. topology.Reasons explains them, and the message of a verdict says more.
const (
	ReasonReady             = "Ready"
	ReasonNoMultiNodeNVLink = "NoMultiNodeNVLink"
	// ReasonNoDriver is no node's problem: the site may run IMEX otherwise, and single machines have a clique too.
	ReasonNoDriver  = "NoDriver"
	ReasonNotWanted = "NotWanted"

	// The reasons of a node that is not ready.

	ReasonDomainProblem  = "DomainProblem" // Domain.Problem says why
	ReasonUnknown        = "Unknown"
	ReasonFabricNotReady = topology.ReasonFabricNotReady
	ReasonConflict       = "Conflict"
	ReasonWrongClaim     = "WrongClaim"
	ReasonNotClaimed     = "NotClaimed"
	ReasonNotRegistered  = "NotRegistered"
	ReasonNotReady       = "NotReady"

	// What the gate says of the IMEX connections between the nodes of a job.

	ReasonPeersNotConnected = "PeersNotConnected"
	ReasonPeersUnknown      = "PeersUnknown"
)

// What may be wrong with a domain: the reasons of Domain.Problem and Domain.Note.
const (
	NoDomain       = "NoDomain"
	DomainDiffers  = "DomainDiffers"
	DomainDeleting = "DomainDeleting"
	// DomainOutdated is a note: the daemons run another image, other feature gates or another
	// limit than the driver's controller would give them now.
	DomainOutdated = "DomainOutdated"
)
