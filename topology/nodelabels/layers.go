package nodelabels

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// AWS counts its network layers from the top, and machines are connected below
// the third or, some, below the fourth (EC2 User Guide, "How Amazon EC2 topology
// works"). In Slurm a switch has nodes or switches, not both.
const (
	sourceAWS = "AWS"
	awsLayers = 4
	awsInner  = "-layer3"
)

// Level lets AWS's switches of the third layer be two where some machines are
// connected to them and others below: a leaf, and above it one with a name of its
// own. So all machines are in one tree, and every leaf keeps its name. It does so
// where there are machines of both kinds, and goes on to where the published
// switches are so. inner are the names of published switches that have switches
// below them. facts are not changed.
func Level(facts []topology.Facts, inner []string) []topology.Facts {
	short, long := false, false
	for i := range facts {
		short = short || awsDepth(&facts[i].Labels) == awsLayers-1
		long = long || awsDepth(&facts[i].Labels) == awsLayers
	}
	if !short && !long || short != long && !slices.ContainsFunc(inner, isLevelled) {
		return facts
	}
	out := slices.Clone(facts)
	for i := range out {
		l := &out[i].Labels
		if l.TierSource.Name == sourceAWS {
			l.Tiers = level(l.Tiers)
		}
		l.MoreTiers = slices.Clone(l.MoreTiers)
		for k := range l.MoreTiers {
			if l.MoreTiers[k].Name == sourceAWS {
				l.MoreTiers[k].Tiers = level(l.MoreTiers[k].Tiers)
			}
		}
	}
	return out
}

// awsDepth returns how many of AWS's layers labels name.
func awsDepth(l *topology.Labels) int {
	if l.TierSource.Name == sourceAWS {
		return len(l.Tiers)
	}
	for i := range l.MoreTiers {
		if l.MoreTiers[i].Name == sourceAWS {
			return len(l.MoreTiers[i].Tiers)
		}
	}
	return 0
}

// level returns the switches above a node with the inner one of the third layer.
func level(tiers []string) []string {
	switch {
	case len(tiers) == awsLayers-1:
		return slices.Concat(tiers[:1], []string{tiers[0] + awsInner}, tiers[1:])
	case len(tiers) == awsLayers && !strings.HasSuffix(tiers[1], awsInner):
		return slices.Concat(tiers[:1], []string{tiers[1] + awsInner}, tiers[2:])
	}
	return tiers
}

// isLevelled reports whether Level has named a switch that has others below it.
func isLevelled(name string) bool { return strings.HasSuffix(name, awsInner) }
