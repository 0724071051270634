package topology

// What a node's NVLink fabric is. Package fabric judges it.
const (
	ReasonFabricHealthy    = "FabricHealthy"
	ReasonNoFabric         = "NoFabric"
	ReasonFabricUnread     = "FabricUnread"
	ReasonFabricInProgress = "FabricInProgress"
	// ReasonFabricNotReady: the GPUs have not registered for long, or their registration failed. If NVLink
	// ends in the machine, two causes look alike, and the verdict is unknown.
	ReasonFabricNotReady    = "FabricNotReady"
	ReasonFabricMissing     = "FabricMissing"
	ReasonDomainImplausible = "DomainImplausible"
	ReasonTwoCliques        = "TwoCliques"
	ReasonGPUOutsideClique  = "GPUOutsideClique"
	ReasonMisconfigured     = "FabricMisconfigured"
	ReasonUnhealthy         = "FabricUnhealthy"
	ReasonLinksDown         = "LinksDown"
	ReasonLimitedCapacity   = "FabricLimitedCapacity"
)

// FabricPlace is what a verdict means for a node's place.
type FabricPlace uint8

// The places.
const (
	// PlaceByLabel: the GPUs say nothing, so that labels count. Without any the node stays in its block.
	PlaceByLabel FabricPlace = iota
	// PlaceInClique: the node belongs to the block of the verdict's clique. Some rows of the table
	// have it although no GPU may have joined: then the verdict is PlaceKept.
	PlaceInClique
	// PlaceKept: the node stays in its block. It joins none.
	PlaceKept
	// PlaceNone: the node is in no block of an NVLink domain.
	PlaceNone
)

// FabricIMEX is what a verdict means for IMEX, and so for the gate.
type FabricIMEX uint8

// What IMEX needs.
const (
	// IMEXUnknown: nobody knows whether jobs need IMEX.
	IMEXUnknown FabricIMEX = iota
	// IMEXNone: NVLink joins the node with no other node.
	IMEXNone
	// IMEXWanted: jobs across nodes need IMEX in the verdict's clique.
	IMEXWanted
	// IMEXNotReady: jobs across nodes need a fabric that is not there.
	IMEXNotReady
)

// FabricVerdict says what the NVLink fabric of a node is, and what that means. Copies share the finding, so
// nobody changes it.
type FabricVerdict struct {
	*Finding
	Place FabricPlace
	IMEX  FabricIMEX
	// Clique is the one that the GPUs report. The node belongs to it if the verdict says so.
	Clique Clique
	// MaxNodes is how many nodes like this one NVLink joins at most. It is 0 if that is not known.
	MaxNodes int
}

// Faulty reports whether something is wrong with the fabric.
func (v *FabricVerdict) Faulty() bool { return v.Severity == Warning || v.Severity == Fatal }

// Asks reports whether somebody has to look at the fabric: it is faulty, or it could not be judged and there is
// something to do.
func (v *FabricVerdict) Asks() bool { return v.Severity != OK && v.Remedy != "" }
