package nodelabels

import (
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// AWS counts its network layers from the top. Most machines are below the third
// layer, some below the fourth (EC2 User Guide, "How Amazon EC2 topology works").
// In Slurm a switch has nodes or switches, not both.
const (
	sourceAWS = "AWS"
	awsLayers = 4
	awsInner  = "-layer3"
)

// Level makes two switches of each AWS switch of the third layer: a leaf, and above
// it a switch with a name of its own. So machines below the third and below the
// fourth layer are in one tree, and every leaf keeps its name. Level does this if
// there are machines of both kinds, or if the published switches are so already.
// inner are the names of published switches with switches below them. The facts are
// not changed: changed ones are copies.
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

// awsDepth returns how many of AWS's layers the labels name.
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

// level returns the switches above a node with the inner one of the third layer, if labels
// name that layer.
func level(tiers []string) []string {
	switch {
	case len(tiers) < awsLayers-1 || tiers[len(tiers)-awsLayers+1] == "":
	case len(tiers) == awsLayers-1:
		return slices.Concat(tiers[:1], []string{tiers[0] + awsInner}, tiers[1:])
	case len(tiers) == awsLayers && !strings.HasSuffix(tiers[1], awsInner):
		return slices.Concat(tiers[:1], []string{tiers[1] + awsInner}, tiers[2:])
	}
	return tiers
}

// isLevelled reports whether Level has made the name of a switch.
func isLevelled(name string) bool { return strings.HasSuffix(name, awsInner) }
