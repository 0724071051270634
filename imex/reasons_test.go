package imex

import (
	"slices"

	"github.com/quoin-hpc/quoin/topology"
)

// knownWords returns the reasons of verdicts: the words of the table about IMEX, without those about a domain and about a
// job's peers, and the one that the fabric has too.
func knownWords() []string {
	known := []string{ReasonFabricNotReady}
	for _, c := range topology.Reasons {
		if !slices.ContainsFunc(c.Words, func(w topology.Word) bool { return w.Reason == ReasonReady }) {
			continue
		}
		for _, w := range c.Words {
			if !slices.Contains([]string{NoDomain, DomainDiffers, DomainDeleting, DomainOutdated, ReasonPeersNotConnected, ReasonPeersUnknown}, w.Reason) {
				known = append(known, w.Reason)
			}
		}
	}
	return known
}
