// Package tree makes the switch tree from the network tiers that nodes name.
//
// [Make] settles on one source of tiers, builds the tree and keeps what was published.
// The package is pure.
package tree

// The problems of tiers.
const (
	ReasonTierConflict = "TierConflict"
	ReasonTiersMissing = "TierLabelsMissing"
)
