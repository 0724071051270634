package imex

// The reasons of verdicts. The message of a verdict says more.
const (
	// ReasonReady: jobs across nodes may use IMEX here.
	ReasonReady = "Ready"
	// ReasonNoMultiNodeNVLink: NVLink does not leave the node.
	ReasonNoMultiNodeNVLink = "NoMultiNodeNVLink"
	// ReasonNoDriver: NVIDIA's DRA driver starts no IMEX daemons. This is no node's problem:
	// the site may run IMEX otherwise, and single machines have a clique too.
	ReasonNoDriver = "NoDriver"
	// ReasonNotWanted: nodes join no domain, or worker pods are to claim and the node has none.
	ReasonNotWanted = "NotWanted"
)

// The reasons of a node that is not ready.
const (
	// ReasonDomainProblem: the domain cannot be joined. Domain.Problem says why.
	ReasonDomainProblem = "DomainProblem"
	// ReasonUnknown: nothing names the node's clique.
	ReasonUnknown = "Unknown"
	// ReasonFabricNotReady: the GPUs have not registered with the fabric, or the loaded
	// NVIDIA driver has no channels.
	ReasonFabricNotReady = "FabricNotReady"
	// ReasonConflict: what cannot be together is. Two nodes have one index or address, a
	// clique has nodes of two domains, or a service of the host runs beside a daemon.
	ReasonConflict = "Conflict"
	// ReasonWrongClaim: a claim is of another pod, domain or namespace than it is to be.
	ReasonWrongClaim = "WrongClaim"
	// ReasonNotClaimed: no pod holds the node's channel.
	ReasonNotClaimed = "NotClaimed"
	// ReasonNotRegistered: the node has no entry in its clique.
	ReasonNotRegistered = "NotRegistered"
	// ReasonNotReady: the node's entry or its daemon is not ready.
	ReasonNotReady = "NotReady"
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
